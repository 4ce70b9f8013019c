/* SPDX-License-Identifier: BSD-3-Clause */
/* Allreduce over many equal nodes, by a model: how long each way takes, and what no way can be faster than. All pure. */
#ifndef SHUNT_TOPO_NODES_H
#define SHUNT_TOPO_NODES_H

#include <stdbool.h>
#include <stdint.h>

#define SHUNT_CLUSTER_NODES 65536

struct shunt_cluster {
    int nodes, gpus, nics; /* GPUs and NICs of each node */
    double nic, gpu;       /* MB/s that a NIC, and a GPU to the others of its node, carry in one direction */
};

/* X(id, word, what): in all but the first the GPUs of a node act together before and after. A rail: the n-th GPU of each node. */
#define SHUNT_WIDE_WAYS(X)                                                                                  \
    X(FLAT, "flat", "rings through all GPUs, one for each NIC")                                             \
    X(RING, "ring", "each GPU adds a slice of its node's, which goes around a ring of its rail")            \
    X(GROUPS, "groups", "the same, and the slices are cut up among groups of nodes, and put together again") \
    X(TREE, "tree", "the same, and the slices go up and down two trees, in pieces")                         \
    X(LEADERS, "leaders", "one GPU of each node gets the node's sum, which goes up and down a tree")        \
    X(DOUBLING, "doubling", "all GPUs get the node's sum, and pairs of nodes exchange sums, ever farther")  \
    X(SPREAD, "spread", "the same with many nodes in one hop, each GPU of a node with some of them")

enum shunt_wide {
#define X(id, word, text) SHUNT_WIDE_##id,
    SHUNT_WIDE_WAYS(X)
#undef X
    SHUNT_NWIDE
};

const char *shunt_wide_word(enum shunt_wide way);
const char *shunt_wide_text(enum shunt_wide way);

/* Microseconds of an Allreduce of `bytes`, by all GPUs of two nodes or more. */
double shunt_wide_time(const struct shunt_cluster *cluster, enum shunt_wide way, double bytes);

/* The fastest. */
enum shunt_wide shunt_wide_plan(const struct shunt_cluster *cluster, double bytes);

/* With how many nodes at once each node exchanges in a hop of SPREAD, itself counted. */
int shunt_wide_radix(const struct shunt_cluster *cluster, double bytes);

/*
 * Microseconds that no way can be below. Latency: a number of one GPU has come to all others, whoever passes it on when;
 * bandwidth: all bytes have crossed the NICs, and the ports of the GPUs. Both with the start of one kernel.
 */
double shunt_wide_latency_bound(const struct shunt_cluster *cluster);
double shunt_wide_bandwidth_bound(const struct shunt_cluster *cluster, double bytes);

/* Why the plan is more than SHUNT_WIDE_FAR times above the larger of the bounds; NULL: it is not. */
#define SHUNT_WIDE_FAR 1.3
const char *shunt_wide_why(const struct shunt_cluster *cluster, double bytes);

#endif
