/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long collectives take, by a model of a start, a time for each hop, and the bytes over the width of what they cross.
 * NVLinks that join two GPUs directly are busy side by side; what goes through a switch or over PCIe leaves a GPU by one
 * port, and all that goes from one half of the GPUs to the other NUMA node shares the link between them. What links take says
 * model.c; estimates compare ways, they promise nothing.
 */
#include "topo/graph.h"

#include <math.h>

#define STAGED_US    25.0 /* two copies, and a call of the host MPI */
#define COPY_MB_S    20000.0
#define HOST_MB_S    8000.0 /* the host MPI, which copies and adds in host memory */

/* The slowest hop that there is. */
static struct shunt_link_cost hop_of(const struct shunt_topo *topo, const struct shunt_topo_limits *limits)
{
    struct shunt_link_cost slowest = { 0, 0, 0 };
    const char *why;

    for (int i = 0; i < topo->n; i++) {
        for (int j = 0; j < i; j++) {
            enum shunt_via via = shunt_topo_via(topo, limits, i, j, &why);
            const struct shunt_link_cost *hop =
                shunt_link_cost(via == SHUNT_VIA_SHM ? (int)SHUNT_LINK_BY_HOST : topo->links[i][j].kind);
            slowest = hop->fenced > slowest.fenced ? *hop : slowest;
        }
    }
    return slowest;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static bool all_reach(const struct shunt_topo *topo, const struct shunt_topo_limits *limits)
{
    const char *why;

    for (int i = 0; i < topo->n; i++)
        for (int j = 0; j < i; j++)
            if (shunt_topo_via(topo, limits, i, j, &why) > SHUNT_VIA_SHM)
                return false;
    return true;
}

/* Microseconds in which each has sent `bytes` to each other. */
static double exchange(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, double bytes)
{
    double slowest = 0, across = 0; /* pairs on two NUMA nodes */

    for (int i = 0; i < topo->n; i++) {
        double port = 0, beside = 0;
        for (int j = 0; j < topo->n; j++) {
            if (i == j)
                continue;
            double time = bytes / shunt_topo_width(topo, limits, i, j);
            if (topo->links[i][j].kind == SHUNT_LINK_NVL && !topo->switched)
                beside = larger(beside, time);
            else
                port += time;
            if (topo->links[i][j].kind == SHUNT_LINK_SYS && j < i)
                across += time;
        }
        slowest = larger(slowest, larger(port, beside));
    }
    return larger(slowest, across);
}

/* MB/s at which slices go around all rings together. */
static double around(const struct shunt_ring *rings, int n_rings)
{
    double width = 0;

    for (int r = 0; r < n_rings; r++)
        width += rings[r].width * (rings[r].both ? 2.0 : 1.0);
    return width;
}

/* Levels of a tree of n points. */
static int levels(int n)
{
    int count = 0;

    while (1 << count < n)
        count++;
    return count;
}

double shunt_topo_estimate(const struct shunt_topo *topo, const struct shunt_topo_limits *limits,
                           const struct shunt_ring *rings, int n_rings, enum shunt_algo_name name, uint64_t bytes)
{
    const double n = topo->n, b = (double)bytes;
    const struct shunt_link_cost hop = hop_of(topo, limits);

    if (topo->n < 2)
        return SHUNT_START_US;
    if ((name == SHUNT_NAME_oneshot || name == SHUNT_NAME_twoshot) && !all_reach(topo, limits))
        return INFINITY;
    switch ((int)name) {
    case SHUNT_NAME_oneshot:
        return SHUNT_START_US + hop.flag + exchange(topo, limits, b * 16 / 15); /* flags are a part of what is sent */
    case SHUNT_NAME_twoshot:
        return SHUNT_START_US + 2 * hop.fenced + 2 * exchange(topo, limits, b / n);
    case SHUNT_NAME_ring:
        return SHUNT_START_US + 2 * (n - 1) * hop.fenced + 2 * (n - 1) / n * b / around(rings, n_rings);
    case SHUNT_NAME_tree:
        return SHUNT_START_US + 2 * levels(topo->n) * hop.fenced + 2 * b / around(rings, n_rings);
    case SHUNT_NAME_staged:
        return STAGED_US + 2 * b / COPY_MB_S + 2 * (n - 1) / n * b / HOST_MB_S;
    default:
        return INFINITY;
    }
}

double shunt_topo_estimate_half(const struct shunt_topo *topo, const struct shunt_topo_limits *limits,
                                const struct shunt_ring *rings, int n_rings, enum shunt_algo_name name, uint64_t bytes)
{
    const struct shunt_link_cost hop = hop_of(topo, limits);

    if (topo->n < 2)
        return SHUNT_START_US;
    if (name == SHUNT_NAME_oneshot && all_reach(topo, limits))
        return SHUNT_START_US + hop.fenced + exchange(topo, limits, (double)bytes);
    if (name != SHUNT_NAME_ring)
        return INFINITY;
    return SHUNT_START_US + (topo->n - 1) * hop.fenced + (topo->n - 1) * (double)bytes / around(rings, n_rings);
}
