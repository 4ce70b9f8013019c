/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long an Allreduce takes, by a model of a start, a time for each hop, and the bytes over the width of what they cross.
 * NVLinks that join two GPUs directly are busy side by side; what goes through a switch or over PCIe leaves a GPU by one
 * port. The constants are those of two H200 (doc/results); estimates compare ways, they promise nothing.
 */
#include "topo/graph.h"

#include <math.h>

#define START_US     6.0  /* a kernel: from the call to the end of a message of no bytes, on all */
#define HOP_US       1.5  /* a flag, and what it was waited for */
#define HOP_FENCED   3.0  /* the same with a fence of the system behind the data */
#define HOP_NET_US   8.0
#define STAGED_US    25.0 /* two copies, and a call of the host MPI */
#define COPY_MB_S    20000.0
#define HOST_MB_S    8000.0 /* the host MPI, which copies and adds in host memory */

const char *shunt_model_word(enum shunt_model model)
{
    static const char *const words[] = {
#define X(id, word, text) word,
        SHUNT_MODELS(X)
#undef X
    };
    return words[model];
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
    double slowest = 0;

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
        }
        slowest = larger(slowest, larger(port, beside));
    }
    return slowest;
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

static double hop_of(const struct shunt_topo *topo)
{
    return topo->n_nodes > 1 ? HOP_NET_US : HOP_FENCED;
}

double shunt_topo_estimate(const struct shunt_topo *topo, const struct shunt_topo_limits *limits,
                           const struct shunt_ring *rings, int n_rings, enum shunt_model model, uint64_t bytes)
{
    const double n = topo->n, b = (double)bytes;

    if (topo->n < 2)
        return START_US;
    if (model != SHUNT_MODEL_STAGED && model != SHUNT_MODEL_RING && model != SHUNT_MODEL_TREE && !all_reach(topo, limits))
        return INFINITY;
    switch (model) {
    case SHUNT_MODEL_ONESHOT:
        return START_US + HOP_US + exchange(topo, limits, b * 16 / 15); /* flags are a part of what is sent */
    case SHUNT_MODEL_TWOSHOT:
        return START_US + 2 * HOP_FENCED + 2 * exchange(topo, limits, b / n);
    case SHUNT_MODEL_RING:
        return START_US + 2 * (n - 1) * hop_of(topo) + 2 * (n - 1) / n * b / around(rings, n_rings);
    case SHUNT_MODEL_TREE:
        return START_US + 2 * levels(topo->n) * hop_of(topo) + 2 * b / around(rings, n_rings);
    default:
        return STAGED_US + 2 * b / COPY_MB_S + 2 * (n - 1) / n * b / HOST_MB_S;
    }
}
