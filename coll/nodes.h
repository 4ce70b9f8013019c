/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The nodes of a job: which rank is on which, found out once, by one exchange of all ranks at the start, which also brings
 * everybody's network address; and the same for a communicator, seen as a team of nodes.
 */
#ifndef SHUNT_COLL_NODES_H
#define SHUNT_COLL_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/board.h"
#include "base/identity.h"

/*
 * X(field of struct shunt_conf, its name): settings by which ranks of several nodes choose what they do together, so that all need
 * the same. (How the ranks of one node do their part is that node's affair.)
 */
#define SHUNT_NODE_SETTINGS(X)             \
    X(net_size, "SHUNT_NET_SIZE")          \
    X(stage_chunk, "SHUNT_STAGE_CHUNK")    \
    X(reproducible, "SHUNT_REPRODUCIBLE")

/* What a rank tells all others. Its address follows apart. */
struct shunt_node_record {
#define X(field, name) uint64_t field;
    SHUNT_NODE_SETTINGS(X)
#undef X
    uint64_t node[2];             /* the same on the ranks of a node, and on no others */
    uint64_t machine;             /* the same on the ranks of a machine */
    struct shunt_process process; /* which it is there */
    uint64_t address_bytes;       /* 0: it has no network, or no arena */
};

/* Start the network and fill this rank's record; *address is valid until shunt_nodes_stop. `arena` may be NULL. */
void shunt_nodes_describe(const struct shunt_arena *arena, struct shunt_node_record *record, const void **address);

/*
 * What all `n` ranks have told, by world rank, their addresses one behind the other. If they do not have the same settings there is
 * no network, on no rank, and rank 0 says so.
 */
void shunt_nodes_accept(int n, int self, const struct shunt_node_record *records, const void *addresses);

/* This rank calls nothing any more, but still answers: before GPUs are given back. */
void shunt_nodes_end(void);
void shunt_nodes_stop(void);

/* A communicator over several nodes. Ranks are those of the communicator, nodes count in the order of their first ranks. */
struct shunt_team {
    int n, me;
    int *world;  /* world rank of each rank */
    int *node;   /* of each rank */
    int *place;  /* of each rank, among those of its node */
    int *first;  /* the first rank of each node */
    int *size;   /* ranks of each node */
    int nodes;
    int least, most; /* ranks of the smallest and the largest node */
};

/* SHUNT_PASS: all are on one node, or some rank has no network, or a node has more ranks than a board: the same on all ranks. */
enum shunt_status shunt_team_make(int n, int me, const int *world, struct shunt_team *team);
void shunt_team_drop(struct shunt_team *team);

/* The rank in this place of this node. */
int shunt_team_rank(const struct shunt_team *team, int node, int place);

#endif
