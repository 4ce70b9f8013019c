/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a link takes, for each kind: the constants of the model, and what a table of measurements has put in their place. Those
 * of NVLink and of host memory are from two H200 (doc/results), PCIe is of version 4.0 with 16 lanes but for the last rows.
 */
#include "topo/graph.h"

static struct shunt_link_cost costs[SHUNT_NLINKS + 1] = {
    [SHUNT_LINK_LOC] = { 0, 0, 1000000 },   [SHUNT_LINK_NVL] = { 1.5, 3, 19000 },  [SHUNT_LINK_PIX] = { 2, 4, 24000 },
    [SHUNT_LINK_PXB] = { 2, 4.5, 22000 },   [SHUNT_LINK_PHB] = { 2.5, 5, 18000 },  [SHUNT_LINK_NODE] = { 3, 5, 14000 },
    [SHUNT_LINK_SYS] = { 3.5, 6, 9000 },    [SHUNT_LINK_NET] = { 8, 8, 6000 },     [SHUNT_LINK_UNKNOWN] = { 3.5, 6, 9000 },
    [SHUNT_LINK_BY_HOST] = { 4, 7, 8000 }, /* copied twice, by a CPU's memory */
};

const struct shunt_link_cost *shunt_link_cost(int kind)
{
    return &costs[kind];
}

void shunt_topo_correct(int kind, double flag, double fenced, double width)
{
    costs[kind] = (struct shunt_link_cost){ flag, fenced, (uint32_t)width };
}
