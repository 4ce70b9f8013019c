/* SPDX-License-Identifier: BSD-3-Clause */
/* How long an Allreduce takes over many nodes like this machine: each way, the bounds, and why the best is far from them. */
#include "tools/topo_view.h"
#include "topo/nodes.h"

#define NIC_MB_S 50000.0 /* 400 Gb/s */
#define GPUS     8       /* where the machine has none */
#define GPU_MB_S 370000.0

/* The machine's GPUs and NICs, or what such machines have. */
static struct shunt_cluster make_cluster(const struct topo_view *view, int nodes)
{
    const struct shunt_topo *machine = &view->machine;
    struct shunt_cluster c = {.nodes = nodes, .nic = NIC_MB_S};
    int n = 0, nics = 0;

    for (int i = 0; i < machine->n; i++) /* of several nodes the first */
        n += machine->gpus[i].node == 0;
    for (int i = 0; i < machine->n_nics; i++)
        nics += machine->nics[i].node == 0;
    c.gpus = n ? n : GPUS;
    c.nics = nics ? nics : c.gpus;
    c.gpu = n > 1 ? shunt_topo_width(machine, &view->limits, 0, 1) : GPU_MB_S;
    return c;
}

static void print_size(double bytes)
{
    static const char *const units[] = {"", "k", "m", "g"};
    int unit = 0;

    for (; bytes >= 1024 && unit < 3; unit++)
        bytes /= 1024;
    printf("  %5.0f%-1s", bytes, units[unit]);
}

static void print_row(const struct shunt_cluster *c, double bytes, const char **why)
{
    enum shunt_wide plan = shunt_wide_plan(c, bytes);
    double time = shunt_wide_time(c, plan, bytes), latency = shunt_wide_latency_bound(c);
    double bandwidth = shunt_wide_bandwidth_bound(c, bytes), bound = latency > bandwidth ? latency : bandwidth;

    print_size(bytes);
    for (enum shunt_wide way = 0; way < SHUNT_NWIDE; way++)
        printf(" %9.0f", shunt_wide_time(c, way, bytes));
    printf(" %9.0f %9.0f  %-8s %.1f", latency, bandwidth, shunt_wide_word(plan), time / bound);
    *why = shunt_wide_why(c, bytes);
}

void topo_print_nodes(const struct topo_view *view, int nodes)
{
    struct shunt_cluster c = make_cluster(view, nodes);
    const char *reasons[8], *why;
    int n_reasons = 0;

    printf("\nAllreduce over %d nodes of %d GPU%s, %.0f GB/s to each other, with %d NIC%s of %.0f GB/s, in us by a model\n", c.nodes,
           c.gpus, c.gpus > 1 ? "s" : "", c.gpu / 1000, c.nics, c.nics > 1 ? "s" : "", c.nic / 1000);
    printf("   bytes");
    for (enum shunt_wide way = 0; way < SHUNT_NWIDE; way++)
        printf(" %9s", shunt_wide_word(way));
    printf("   latency bandwidth  best     above\n");
    for (double bytes = 8; bytes <= 1 << 30; bytes *= 8) {
        int reason = 0;
        print_row(&c, bytes, &why);
        if (why) {
            while (reason < n_reasons && reasons[reason] != why)
                reason++;
            if (reason == n_reasons)
                reasons[n_reasons++] = why;
            printf(" (%d)", reason + 1);
        }
        printf("\n");
    }
    for (enum shunt_wide way = 0; way < SHUNT_NWIDE; way++)
        printf("  %-12s %s\n", shunt_wide_word(way), shunt_wide_text(way));
    printf("  %-12s that no way can be below: a number comes from one GPU to all; all bytes cross the NICs and the GPUs' ports\n",
           "bounds");
    printf("  %-12s the best way, in times of the larger bound\n", "above");
    for (int i = 0; i < n_reasons; i++)
        printf("  (%d)          %s\n", i + 1, reasons[i]);
}
