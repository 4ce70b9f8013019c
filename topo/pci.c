/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree of PCI devices, as sysfs shows it: the real path of a device names all bridges above it,
 *
 *     /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:03:00.0
 *                  host bridge  root port   switch: up   and down     the device
 *
 * so how far two devices are from each other follows from their paths. hwloc reads the same files; they are read here
 * directly, so that the engines need no library that the host MPI may have in another version.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/find.h"

static bool path_of(const char *sys, const char *pci, char path[PATH_MAX])
{
    char name[PATH_MAX], normal[16];

    return shunt_pci_normal(pci, normal) &&
           snprintf(name, sizeof name, "%s/bus/pci/devices/%s", sys, normal) < PATH_MAX && realpath(name, path) != NULL;
}

/* The first line of a file of a device; "" if there is none. */
static void read_file(const char *sys, const char *pci, const char *file, char *text, int size)
{
    char name[PATH_MAX], normal[16];
    FILE *f = NULL;

    text[0] = '\0';
    if (shunt_pci_normal(pci, normal) &&
        snprintf(name, sizeof name, "%s/bus/pci/devices/%s/%s", sys, normal, file) < PATH_MAX)
        f = fopen(name, "re");
    if (f == NULL)
        return;
    if (fgets(text, size, f) == NULL)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(f);
}

int shunt_pci_numa(const char *sys, const char *pci)
{
    char text[16];

    read_file(sys, pci, "numa_node", text, sizeof text);
    return *text ? atoi(text) : -1;
}

void shunt_pci_cpus(const char *sys, const char *pci, char *text, int size)
{
    read_file(sys, pci, "local_cpulist", text, size);
}

static int count_parts(const char *path)
{
    int n = 0;

    for (; *path; path++)
        n += path[0] == '/' && path[1] != '\0' && path[1] != '/';
    return n;
}

/* How many characters of the paths are equal parts: up to a slash in both. */
static size_t common(const char *a, const char *b)
{
    size_t equal = 0;

    for (size_t i = 0;; i++) {
        bool ends = (a[i] == '/' || a[i] == '\0') && (b[i] == '/' || b[i] == '\0');
        if (ends)
            equal = i;
        if (a[i] != b[i] || a[i] == '\0')
            return equal;
    }
}

/* Is there a bridge among the first `length` characters, that is, something below the host bridge ("pci0000:00")? */
static bool below_host_bridge(const char *path, size_t length, bool *same_host)
{
    const char *host = strstr(path, "/pci");
    const char *end = host != NULL ? strchr(host + 1, '/') : NULL;

    *same_host = end != NULL && (size_t)(end - path) <= length;
    return *same_host && (size_t)(end - path) < length;
}

enum shunt_link_kind shunt_pci_distance(const char *sys, const char *a, const char *b)
{
    char path_a[PATH_MAX], path_b[PATH_MAX];
    bool same_host;

    if (!path_of(sys, a, path_a) || !path_of(sys, b, path_b))
        return SHUNT_LINK_UNKNOWN;
    if (strcmp(path_a, path_b) == 0)
        return SHUNT_LINK_LOC;
    size_t length = common(path_a, path_b);
    if (below_host_bridge(path_a, length, &same_host)) {
        /* Of one switch: its port down and the device itself are all that is not common. */
        bool one_switch = count_parts(path_a + length) <= 2 && count_parts(path_b + length) <= 2;
        return one_switch ? SHUNT_LINK_PIX : SHUNT_LINK_PXB;
    }
    if (same_host)
        return SHUNT_LINK_PHB;
    int numa = shunt_pci_numa(sys, a);
    bool one_node = numa < 0 || numa == shunt_pci_numa(sys, b); /* a machine with one node may not number it */
    return one_node ? SHUNT_LINK_NODE : SHUNT_LINK_SYS;
}

/* ---- NICs ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct shunt_topo_nic *)a)->name, ((const struct shunt_topo_nic *)b)->name);
}

static void add_nic(const char *sys, const char *name, struct shunt_topo *topo)
{
    struct shunt_topo_nic nic = { .node = 0 };
    char link[PATH_MAX], path[PATH_MAX];

    if (strlen(name) >= sizeof nic.name ||
        snprintf(link, sizeof link, "%s/class/infiniband/%s/device", sys, name) >= PATH_MAX || realpath(link, path) == NULL ||
        !shunt_pci_normal(strrchr(path, '/') + 1, nic.pci))
        return;
    memcpy(nic.name, name, strlen(name) + 1);
    topo->nics[topo->n_nics++] = nic;
}

void shunt_pci_nics(const char *sys, struct shunt_topo *topo)
{
    char folder[PATH_MAX];
    struct dirent *entry;
    DIR *dir = snprintf(folder, sizeof folder, "%s/class/infiniband", sys) < PATH_MAX ? opendir(folder) : NULL;

    topo->n_nics = 0;
    while (dir != NULL && topo->n_nics < SHUNT_TOPO_NICS && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            add_nic(sys, entry->d_name, topo);
    if (dir != NULL)
        closedir(dir);
    qsort(topo->nics, (size_t)topo->n_nics, sizeof topo->nics[0], by_name);
    for (int i = 0; i < topo->n; i++)
        for (int k = 0; k < topo->n_nics; k++)
            topo->nic_links[i][k].kind = (uint8_t)shunt_pci_distance(sys, topo->gpus[i].pci, topo->nics[k].pci);
}
