/* SPDX-License-Identifier: BSD-3-Clause */
/* The described machines of test/machines, for tests. */
#ifndef SHUNT_TEST_UNIT_MACHINES_H
#define SHUNT_TEST_UNIT_MACHINES_H

#include <stdio.h>
#include <stdlib.h>

#include "topo/topo.h"

enum { LEVEL_LOC, LEVEL_NVL, LEVEL_PIX, LEVEL_PXB, LEVEL_PHB, LEVEL_NODE, LEVEL_SYS };

/* Machines, and as how many GPUs and nodes they are meant to be read */
static const struct machine {
    const char *name;
    int n, nodes;
} machines[] = {
    { "h200x2", 2, 1 },     { "dgx-h100", 8, 1 },  { "dgx-a100", 8, 1 }, { "hgx4", 4, 1 },      { "dgx-1v", 8, 1 },
    { "rtx4090x8", 8, 1 },  { "pcie8", 8, 1 },     { "pairs4", 4, 1 },   { "nodes-8-8", 16, 2 }, { "nodes-8x4", 32, 4 }, { "nodes-7-8", 15, 2 },
    { "nodes-1-2", 3, 2 },  { "mig2", 2, 1 },      { "one", 1, 1 },      { "smi-a40", 4, 1 },   { "rtx4090x8-p2p", 8, 1 },
};
enum { MACHINES = sizeof machines / sizeof *machines };

static inline void machine_path(const char *name, char path[512])
{
    const char *top = getenv("srcdir");

    snprintf(path, 512, "%s/test/machines/%s.topo", top != NULL ? top : ".", name);
}

static inline void machine_load(const char *name, struct shunt_topo *topo)
{
    char path[512], error[160] = "";

    machine_path(name, path);
    if (shunt_topo_load(path, topo, error) != SHUNT_OK)
        fail_msg("%s: %s", path, error);
}

#endif
