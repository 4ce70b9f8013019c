/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation over several nodes, as hier.c and hier_node.c share it. */
#ifndef SHUNT_COLL_HIER_INNER_H
#define SHUNT_COLL_HIER_INNER_H

#include "coll/across.h"
#include "coll/algo.h"
#include "coll/consent.h"
#include "coll/hier.h"

#define HIER_LANES       4             /* chunks under way at a time */
#define HIER_SPLIT_BYTES (64 * 1024)   /* of a chunk, from which each rank of a node takes a slice */

struct shunt_hier {
    struct shunt_arena *arena;
    struct shunt_key key;
    struct shunt_team team;
    int node, places, place;            /* this node, its ranks, this rank among them */
    struct shunt_board *board, *inner;  /* of this node's ranks: the communicator's calls; what the node does in them */
    struct shunt_consent *consent;
    int *peers;                         /* world rank of the counterpart on each node; unused where there is none */
    int *friends, nfriends;             /* ranks that this one must hear */
    bool met, deaf;
};

/* A chunk under way. Places are in elements of the vector. */
struct hier_lane {
    uint64_t chunk, at, count;
    bool split;      /* each rank of the node has a slice; else `root` (a place) has all */
    int root;
    uint64_t own_at, own_count; /* what this rank has of it; 0: nothing */
    char *data;      /* that, in host memory */
    bool by_host;    /* the node's sum is in `data` already */
    struct shunt_across across;
};

struct hier_op {
    struct shunt_hier *hier;
    const struct shunt_task *task;
    const struct shunt_progress *outer; /* the caller's */
    struct shunt_progress progress;     /* that, and the network */
    struct shunt_waiter waiter;
    uint64_t count, size, chunk; /* elements, bytes of one, elements of a chunk */
    uint64_t sequence;
    bool failed;
    struct hier_lane lane[HIER_LANES];
};

/* One turn of a wait; false: the operation has failed. */
bool hier_wait(struct hier_op *op);

/* See whether chunks have come further. */
void hier_look(struct hier_op *op);

/* Which part of a chunk is this place's. */
void hier_part_of(const struct hier_op *op, const struct hier_lane *lane, int place, uint64_t *at, uint64_t *count);

/* What is sent of a chunk; phases 0 to 15, of which across.h uses the first three. */
static inline struct shunt_net_tag hier_tag(const struct hier_op *op, const struct hier_lane *lane, unsigned phase)
{
    return (struct shunt_net_tag){
        { op->hier->key.word[0], op->hier->key.word[1], op->sequence, lane->chunk << 16 | phase }
    };
}

/* hier_node.c: add up what the node's ranks have of a chunk, so that each has its part; and spread the parts. False: failed. */
bool hier_gather(struct hier_op *op, struct hier_lane *lane);
bool hier_spread(struct hier_op *op, struct hier_lane *lane);

#endif
