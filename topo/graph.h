/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows from a matrix of links for collectives of all its GPUs: rings, trees, leaders, estimates. All pure. */
#ifndef SHUNT_TOPO_GRAPH_H
#define SHUNT_TOPO_GRAPH_H

#include "base/algos.h"
#include "topo/topo.h"

/* ---- rings (ring.c) ---- */

#define SHUNT_TOPO_RINGS 12
#define SHUNT_TOPO_EXACT 16 /* up to so many GPUs a ring is the best there is, beyond it is a good one */

struct shunt_ring {
    uint8_t order[SHUNT_TOPO_GPUS];
    uint32_t width; /* MB/s in one direction, of its narrowest link */
    uint8_t lanes;  /* NVLinks of each hop that are this ring's; 0: not all hops are NVLinks */
    bool both;      /* the other direction carries as much at the same time, on links of its own */
};

/*
 * The Hamiltonian cycle over n points whose narrowest hop is as wide as can be, and among these one whose widths have the
 * largest sum. width: n * n, symmetric, 0: no link. Always begins at 0. False: there is none, or no memory.
 */
bool shunt_cycle_best(const uint32_t *width, int n, uint8_t *order);

/* Narrowest hop and sum of a cycle. */
uint32_t shunt_cycle_width(const uint32_t *width, int n, const uint8_t *order, uint64_t *sum);

/*
 * Rings over all GPUs: where NVLinks join them directly, as many as there can be without sharing a link; else one. Answers how many,
 * 0 only if there is no memory.
 */
int shunt_topo_rings(const struct shunt_topo *topo, const struct shunt_topo_limits *limits,
                     struct shunt_ring rings[SHUNT_TOPO_RINGS]);

/* ---- trees (tree.c) ---- */

#define SHUNT_TREE_NONE 255

struct shunt_tree {
    uint8_t root;
    uint8_t parent[SHUNT_TOPO_GPUS];
    uint8_t child[SHUNT_TOPO_GPUS][2]; /* NONE: has none. What is below [0] comes before it in `order`, below [1] behind */
};

/*
 * Two binary trees over the n points in `order`, of which each has children in one at most: so if half of the data goes up
 * and down each, all links of all points are busy in both directions. Children are near their parents in `order`.
 */
void shunt_trees_make(const uint8_t *order, int n, struct shunt_tree trees[2]);
int shunt_tree_depth(const struct shunt_tree *tree, int n);

/* The GPU of a node that is nearest to a NIC, the first of such: who speaks for the node. -1: the node has none. */
int shunt_topo_leader(const struct shunt_topo *topo, int node);

/* The NIC that is nearest to a GPU, the first of such that has been given to fewest GPUs before it; -1: there is none. */
int shunt_topo_nic(const struct shunt_topo *topo, int gpu);

/* ---- estimates (estimate.c) ---- */

#define SHUNT_START_US 6.0 /* a kernel: from the call to the end of a message of no bytes, on all */

/*
 * Microseconds of an Allreduce of `bytes` by all GPUs, by the algorithm of a name (oneshot, twoshot, ring, tree, staged);
 * infinite where pairs that it needs do not reach each other, and of other names.
 */
double shunt_topo_estimate(const struct shunt_topo *topo, const struct shunt_topo_limits *limits,
                           const struct shunt_ring *rings, int n_rings, enum shunt_algo_name name, uint64_t bytes);

/* The same of Allgather or Reduce_scatter of blocks of so many bytes, oneshot or around rings. */
double shunt_topo_estimate_half(const struct shunt_topo *topo, const struct shunt_topo_limits *limits,
                                const struct shunt_ring *rings, int n_rings, enum shunt_algo_name name, uint64_t bytes);

#endif
