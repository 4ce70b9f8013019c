/* SPDX-License-Identifier: BSD-3-Clause */
/* Which CPUs are near a GPU, by hwloc. */
#include "config.h"
#include "tools/info_gpu.h"

#include <stdio.h>

#ifdef HAVE_HWLOC
#include <hwloc.h>

/* hwloc's own look at CUDA and NVML would make a context: only PCI is asked for. */
static bool load_topology(hwloc_topology_t *topology)
{
    if (hwloc_topology_init(topology) != 0)
        return false;
#if HWLOC_API_VERSION >= 0x00020100
    static const char *const unwanted[] = {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"};
    for (unsigned i = 0; i < sizeof unwanted / sizeof unwanted[0]; i++)
        hwloc_topology_set_components(*topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
#endif
    hwloc_topology_set_io_types_filter(*topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(*topology) == 0)
        return true;
    hwloc_topology_destroy(*topology);
    return false;
}

void info_cpus_near(const char *bus, char *text, int size)
{
    hwloc_topology_t topology;
    text[0] = '\0';
    if (!bus[0] || !load_topology(&topology))
        return;
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, bus);
    hwloc_obj_t place = device ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;
    char cpus[128], nodes[64];
    if (place && hwloc_bitmap_list_snprintf(cpus, sizeof cpus, place->cpuset) > 0 &&
        hwloc_bitmap_list_snprintf(nodes, sizeof nodes, place->nodeset) > 0)
        snprintf(text, size, "CPUs %s, NUMA node %s", cpus, nodes);
    hwloc_topology_destroy(topology);
}

#else

void info_cpus_near(const char *bus, char *text, int size)
{
    (void)bus;
    (void)size;
    text[0] = '\0';
}

#endif
