/* SPDX-License-Identifier: BSD-3-Clause */
/* Distances, NUMA nodes and NICs from a tree of PCI devices, made here as sysfs shows it; and a node on which nobody tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/conf.h"
#include "topo/find.h"

static char sys[64];
static struct shunt_topo topo, other;

static void run(const char *format, ...)
{
    char command[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command) != 0)
        fail_msg("%s", command);
}

/* A device below these bridges. */
static void device(const char *above, const char *pci, int numa)
{
    run("cd %s && mkdir -p devices/%s/%s bus/pci/devices && ln -s ../../../devices/%s/%s bus/pci/devices/%s", sys, above,
        pci, above, pci, pci);
    run("cd %s/bus/pci/devices/%s && echo %d > numa_node && echo 0-7,16-23 > local_cpulist", sys, pci, numa);
}

/* Two sockets. Behind one port of the first a switch with two GPUs and a NIC, and below that switch another. */
static int make_tree(void **state)
{
    (void)state;
    strcpy(sys, "/tmp/shunt-pci.XXXXXX");
    if (mkdtemp(sys) == NULL)
        return -1;
    device("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", "0000:03:00.0", 0);
    device("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", "0000:04:00.0", 0);
    device("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0", "0000:05:00.0", 0);
    device("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:03.0/0000:06:00.0/0000:07:00.0", "0000:08:00.0", 0);
    device("pci0000:00/0000:00:02.0", "0000:09:00.0", 0);
    device("pci0000:40", "0000:40:05.0", 0);
    device("pci0000:80/0000:80:01.0", "0000:81:00.0", 1);
    device("pci0001:80/0001:80:01.0", "0001:81:00.0", -1);
    run("cd %s && mkdir -p class/infiniband/mlx5_1 class/infiniband/mlx5_0 class/infiniband/lost", sys);
    run("cd %s/class/infiniband && ln -s ../../../bus/pci/devices/0000:05:00.0 mlx5_0/device", sys);
    run("cd %s/class/infiniband && ln -s ../../../bus/pci/devices/0000:81:00.0 mlx5_1/device", sys);
    return 0;
}

static int drop_tree(void **state)
{
    (void)state;
    run("rm -rf %s", sys);
    return 0;
}

static void test_distances(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        enum shunt_link_kind kind;
    } cases[] = {
        { "0000:03:00.0", "0000:03:00.0", SHUNT_LINK_LOC },
        { "0000:03:00.0", "0000:04:00.0", SHUNT_LINK_PIX },
        { "00000000:03:00.0", "0:4:0.0", SHUNT_LINK_PIX },
        { "0000:03:00.0", "0000:08:00.0", SHUNT_LINK_PXB },
        { "0000:03:00.0", "0000:09:00.0", SHUNT_LINK_PHB },
        { "0000:03:00.0", "0000:40:05.0", SHUNT_LINK_NODE },
        { "0000:03:00.0", "0000:81:00.0", SHUNT_LINK_SYS },
        { "0000:81:00.0", "0001:81:00.0", SHUNT_LINK_SYS },
        { "0000:03:00.0", "0000:99:00.0", SHUNT_LINK_UNKNOWN },
        { "0000:03:00.0", "", SHUNT_LINK_UNKNOWN },
        { "../..", "0000:03:00.0", SHUNT_LINK_UNKNOWN },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (shunt_pci_distance(sys, cases[i].a, cases[i].b) != cases[i].kind)
            fail_msg("%s and %s: %s", cases[i].a, cases[i].b,
                     shunt_link_word(shunt_pci_distance(sys, cases[i].a, cases[i].b)));
    }
}

static void test_near(void **state)
{
    (void)state;
    char cpus[64];

    assert_int_equal(shunt_pci_numa(sys, "0000:81:00.0"), 1);
    assert_int_equal(shunt_pci_numa(sys, "0000:99:00.0"), -1);
    shunt_pci_cpus(sys, "0000:81:00.0", cpus, sizeof cpus);
    assert_string_equal(cpus, "0-7,16-23");
    shunt_pci_cpus(sys, "0000:99:00.0", cpus, sizeof cpus);
    assert_string_equal(cpus, "");
}

static void test_nics(void **state)
{
    (void)state;
    memset(&topo, 0, sizeof topo);
    topo.n = 2;
    strcpy(topo.gpus[0].pci, "0000:03:00.0");
    strcpy(topo.gpus[1].pci, "0000:81:00.0");
    shunt_pci_nics(sys, &topo);
    assert_int_equal(topo.n_nics, 2);
    assert_string_equal(topo.nics[0].name, "mlx5_0");
    assert_string_equal(topo.nics[1].pci, "0000:81:00.0");
    assert_int_equal(topo.nic_links[0][0].kind, SHUNT_LINK_PIX);
    assert_int_equal(topo.nic_links[0][1].kind, SHUNT_LINK_SYS);
    shunt_pci_nics("/nonexistent", &topo);
    assert_int_equal(topo.n_nics, 0);
}

/* Described without addresses, as nvidia-smi prints it: the i-th is the i-th. */
static void test_identify(void **state)
{
    (void)state;
    char error[160];

    memset(&topo, 0, sizeof topo);
    topo.n = 2;
    strcpy(topo.gpus[0].uuid, "GPU-a");
    strcpy(topo.gpus[1].uuid, "GPU-b");
    assert_int_equal(shunt_topo_parse("GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n", &other, error), SHUNT_OK);
    shunt_topo_identify(&other, &topo);
    assert_int_equal(shunt_topo_gpu(&other, "GPU-b", NULL), 1);

    assert_int_equal(shunt_topo_parse("GPU0\nGPU0 X\n", &other, error), SHUNT_OK);
    shunt_topo_identify(&other, &topo); /* another machine: nothing is known */
    assert_int_equal(shunt_topo_gpu(&other, "GPU-a", NULL), -1);

    assert_int_equal(shunt_topo_parse("GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\nGPU0: uuid GPU-b\n", &other, error), SHUNT_OK);
    shunt_topo_identify(&other, &topo); /* it says itself which one is which */
    assert_int_equal(shunt_topo_gpu(&other, "GPU-b", NULL), 0);
    assert_int_equal(shunt_topo_gpu(&other, "GPU-a", NULL), -1);
}

/* Where there is no NVML this must do; where there is, too. A file that cannot be used counts as none. */
static void test_this_node(void **state)
{
    (void)state;
    static struct shunt_conf conf;

    shunt_topo_find(&topo);
    assert_in_range(topo.n, 0, SHUNT_TOPO_GPUS);
    assert_int_equal(topo.n_nodes, 1);
    conf = *shunt_conf;
    conf.topo_file = "/nonexistent";
    shunt_conf_use(&conf);
    const struct shunt_topo *machine = shunt_topo_machine();
    assert_non_null(machine);
    assert_int_equal(machine->n, topo.n);
    assert_ptr_equal(machine, shunt_topo_machine());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances), cmocka_unit_test(test_near),      cmocka_unit_test(test_nics),
        cmocka_unit_test(test_identify),  cmocka_unit_test(test_this_node),
    };
    return cmocka_run_group_tests(tests, make_tree, drop_tree);
}
