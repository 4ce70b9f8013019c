/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation over several nodes, as the files hier*.c share it. */
#ifndef SHUNT_COLL_HIER_INNER_H
#define SHUNT_COLL_HIER_INNER_H

#include "coll/algo.h"
#include "coll/consent.h"
#include "coll/hier.h"
#include "cuda/spare.h"

#define HIER_LANES       4           /* chunks under way at a time */
#define HIER_SPLIT_BYTES (64 * 1024) /* of a chunk, from which each rank of a node takes a slice */
#define HIER_NODES       1024        /* at most */
#define HIER_ALIGN       256u        /* of what lies in host memory */

struct shunt_hier {
    struct shunt_arena *arena;
    struct shunt_key key;
    struct shunt_team team;
    int node, places, place;           /* this node, its ranks, this rank among them */
    struct shunt_board *board, *inner; /* of this node's ranks: the communicator's calls; what the node does in them */
    struct shunt_consent *consent;
    int *friends, nfriends;            /* ranks that this one must hear */
    bool met, deaf;
};

/* What a rank does for a chunk, one after the other. */
enum hier_kind {
    HIER_NODE,    /* an ordinary operation of the node's ranks */
    HIER_OUT,     /* bytes from the GPU to host memory */
    HIER_IN,      /* and back */
    HIER_COPY,    /* on the GPU */
    HIER_SEND,    /* begin to send from host memory */
    HIER_RECEIVE, /* or to receive there */
    HIER_TURN,    /* the next chunks may begin: before it nothing waits for another node, and behind it all may */
    HIER_AWAIT,   /* until all has gone and come that has been begun */
    HIER_ADD,     /* combine vectors in host memory */
    HIER_KINDS
};

struct hier_step {
    enum hier_kind kind;
    uint64_t at, bytes; /* in the lane's host memory; of ADD: the result */
    char *device;       /* OUT: from, IN, COPY: to there */
    const char *from;   /* COPY */
    int item;           /* NODE: which task; SEND, RECEIVE: which part; ADD: the first of `n` operands */
    int n;
    int peer;           /* world rank */
    unsigned phase;     /* no two messages of a chunk between two ranks have the same */
};

struct hier_task {
    struct shunt_task task;
    struct shunt_spans spans; /* used if task.spans points here */
};

/* A list that grows. */
struct hier_list {
    void *items;
    int n, room;
};

/* A chunk under way: `count` elements from `at` on, of the vector or of each block. */
struct hier_lane {
    uint64_t chunk, at, count;
    struct hier_list steps, tasks, parts, operands;
    bool turned, broken; /* while steps are written: there is a TURN; there was no memory */
    int next;            /* the step that is next */
    int begun;           /* parts that have been */
    char *host;          /* host memory: of the operation's room, or `own` */
    uint64_t host_bytes; /* wanted */
    bool own;
};

struct hier_op {
    struct shunt_hier *hier;
    const struct shunt_task *task;
    const struct shunt_progress *outer; /* the caller's */
    struct shunt_progress progress;     /* that, and the network */
    struct shunt_waiter waiter;
    uint64_t count, size, chunk; /* elements of the vector or of each block, bytes of one, elements of a chunk */
    uint64_t sequence;
    bool failed;
    struct shunt_spare spare;
    struct hier_lane lane[HIER_LANES];
};

/* A collective over several nodes. */
struct hier_plan {
    void (*write)(struct hier_op *op, struct hier_lane *lane); /* what this rank does for a chunk; NULL: there is none */
    bool slices;  /* of one vector, of which nodes of equal size take a slice each; else blocks, of which each chunk has a piece */
    bool device;  /* it needs memory on the GPU */
    bool pairs;   /* a rank sends to all others */
};

/* hier_vectors.c, hier_blocks.c */
void hier_write_allreduce(struct hier_op *op, struct hier_lane *lane);
void hier_write_reduce(struct hier_op *op, struct hier_lane *lane);
void hier_write_bcast(struct hier_op *op, struct hier_lane *lane);
void hier_write_allgather(struct hier_op *op, struct hier_lane *lane);
void hier_write_reduce_scatter(struct hier_op *op, struct hier_lane *lane);
void hier_write_pairs(struct hier_op *op, struct hier_lane *lane);

/* hier_plans.c */
extern const struct hier_plan hier_plans[SHUNT_NCOLLS];

static inline int hier_world(const struct hier_op *op, int node, int place)
{
    const struct shunt_team *team = &op->hier->team;

    return team->world[shunt_team_rank(team, node, place)];
}

static inline int hier_root_node(const struct hier_op *op)
{
    return op->hier->team.node[op->task->root];
}

static inline int hier_root_place(const struct hier_op *op)
{
    return op->hier->team.place[op->task->root];
}

static inline uint64_t hier_bytes(const struct hier_op *op, const struct hier_lane *lane)
{
    return lane->count * op->size;
}

/* Where this chunk begins in block `block` of a buffer. */
static inline char *hier_place(const struct hier_op *op, const struct hier_lane *lane, const void *buffer, int block)
{
    return (char *)buffer + ((uint64_t)block * op->count + lane->at) * op->size;
}

/* One turn of a wait; false: the operation has failed. */
bool hier_wait(struct hier_op *op);

static inline uint64_t hier_aligned(uint64_t bytes)
{
    return (bytes + HIER_ALIGN - 1) / HIER_ALIGN * HIER_ALIGN;
}

/* hier_steps.c: a step more; and what it is made of. Without memory the lane is broken. */
struct hier_step *hier_step(struct hier_lane *lane, enum hier_kind kind);
struct hier_task *hier_task(struct hier_lane *lane); /* of a new NODE step; for now */
uint64_t hier_room(struct hier_lane *lane, uint64_t bytes); /* places are multiples of HIER_ALIGN */
void hier_send(struct hier_lane *lane, int peer, unsigned phase, uint64_t at, uint64_t bytes);
void hier_receive(struct hier_lane *lane, int peer, unsigned phase, uint64_t at, uint64_t bytes);
void hier_out(struct hier_lane *lane, uint64_t at, const void *device, uint64_t bytes);
void hier_in(struct hier_lane *lane, void *device, uint64_t at, uint64_t bytes);
void hier_turn(struct hier_lane *lane);
void hier_await(struct hier_lane *lane);

/* An ADD to `at` of `count` elements; each of its operands in turn. */
void hier_add(struct hier_lane *lane, uint64_t at, uint64_t count);
void hier_operand(struct hier_lane *lane, uint64_t at);

/* Run it: up to the turn; or to the end. False: failed. */
void hier_lane_clear(struct hier_lane *lane);
bool hier_lane_begin(struct hier_op *op, struct hier_lane *lane);
bool hier_lane_finish(struct hier_op *op, struct hier_lane *lane);

/* As far as it gets without waiting, and without other ranks of the node. */
void hier_lane_look(struct hier_op *op, struct hier_lane *lane);

/* Give back what it has. */
void hier_lane_drop(struct hier_lane *lane);

/* What is sent of a chunk. */
static inline struct shunt_net_tag hier_tag(const struct hier_op *op, const struct hier_lane *lane, unsigned phase)
{
    return (struct shunt_net_tag){
        { op->hier->key.word[0], op->hier->key.word[1], op->sequence, lane->chunk << 20 | phase }
    };
}

enum { HIER_PHASE_NODE = 1 << 16 }; /* phases from here on are those of what a node does without its GPUs */

/* hier_node.c: what the node's ranks do together, the step-th of the chunk. False: failed. */
bool hier_node_run(struct hier_op *op, struct hier_lane *lane, const struct shunt_task *task, int step);

#endif
