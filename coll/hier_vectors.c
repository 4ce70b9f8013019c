/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans of what is one vector over several nodes: Allreduce, Reduce, Bcast. Each rank of a node has a slice, if all nodes have as many
 * ranks, and exchanges it with its counterparts, those in its place on the other nodes; else one rank of each node has all of a
 * chunk, in turns.
 */
#include "base/conf.h"
#include "coll/hier_inner.h"

enum {
    WHOLE_BYTES = 32 * 1024, /* received by each, up to which one hop beats two */
    WHOLE_NODES = 8,         /* up to which a vector goes to all nodes at once; among more by a tree */
    SMALL_ARMS = 4,          /* of a tree for what is small; for what is large, in which NICs count, it has less */
    LARGE_ARMS = 2,
};

/* The part of the chunk that a rank has between its node and its counterparts. */
struct part {
    bool split;
    uint64_t at, count; /* 0: it has none */
};

/* Whose turn it is on a node; of Reduce the root itself has the sum. */
static int turn_on(const struct hier_op *op, const struct hier_lane *lane, int node)
{
    if (op->task->coll == SHUNT_COLL_REDUCE && node == hier_root_node(op))
        return hier_root_place(op);
    return (int)(lane->chunk % (uint64_t)op->hier->team.size[node]);
}

static struct part part_of(const struct hier_op *op, const struct hier_lane *lane)
{
    const struct shunt_hier *h = op->hier;
    const uint64_t places = (uint64_t)h->places;
    struct part part = { .at = lane->at };

    part.split = h->places > 1 && h->team.least == h->team.most && lane->count % places == 0 &&
                 lane->count * op->size >= HIER_SPLIT_BYTES;
    if (part.split) {
        part.count = lane->count / places;
        part.at += (uint64_t)h->place * part.count;
    } else if (turn_on(op, lane, h->node) == h->place) {
        part.count = lane->count;
    }
    return part;
}

static int counterpart(const struct hier_op *op, const struct hier_lane *lane, const struct part *part, int node)
{
    return hier_world(op, node, part->split ? op->hier->place : turn_on(op, lane, node));
}

/* ---- between nodes: vectors ---- */

/* A tree of all nodes, the root's first: the i-th, what is above it, and what is below. */
struct tree {
    int n, root, index, arms;
};

static struct tree tree_of(const struct hier_op *op, int root, uint64_t bytes)
{
    const int n = op->hier->team.nodes;

    return (struct tree){ n, root, (op->hier->node + n - root) % n, bytes <= WHOLE_BYTES ? SMALL_ARMS : LARGE_ARMS };
}

static int node_of(const struct tree *tree, int index)
{
    return (tree->root + index) % tree->n;
}

static int child(const struct tree *tree, int arm)
{
    int index = tree->index * tree->arms + 1 + arm;

    return index < tree->n ? node_of(tree, index) : -1;
}

static int parent(const struct tree *tree)
{
    return tree->index > 0 ? node_of(tree, (tree->index - 1) / tree->arms) : -1;
}

/* Add up to `at` what this node and those below it have there, and hand it on. */
static void go_up(const struct hier_op *op, struct hier_lane *lane, const struct part *part, const struct tree *tree, uint64_t at)
{
    const uint64_t bytes = part->count * op->size;
    uint64_t from[SMALL_ARMS];
    int children = 0;

    for (int arm = 0; arm < tree->arms && child(tree, arm) >= 0; arm++, children++) {
        from[arm] = hier_room(lane, bytes);
        hier_receive(lane, counterpart(op, lane, part, child(tree, arm)), 1, from[arm], bytes);
    }
    hier_await(lane);
    if (children > 0) {
        hier_add(lane, at, part->count);
        hier_operand(lane, at);
        for (int arm = 0; arm < children; arm++)
            hier_operand(lane, from[arm]);
    }
    if (parent(tree) >= 0)
        hier_send(lane, counterpart(op, lane, part, parent(tree)), 1, at, bytes);
}

/* Get it from above, and hand it on. */
static void go_down(const struct hier_op *op, struct hier_lane *lane, const struct part *part, const struct tree *tree, uint64_t at)
{
    const uint64_t bytes = part->count * op->size;

    if (parent(tree) >= 0) {
        hier_await(lane); /* what has gone up from there has gone */
        hier_receive(lane, counterpart(op, lane, part, parent(tree)), 2, at, bytes);
        hier_await(lane);
    }
    for (int arm = 0; arm < tree->arms && child(tree, arm) >= 0; arm++)
        hier_send(lane, counterpart(op, lane, part, child(tree, arm)), 2, at, bytes);
    hier_await(lane);
}

/* The vectors of all others come, one behind the other from `from` on; the sum, in the order of nodes, replaces this node's. */
static void add_all(const struct hier_op *op, struct hier_lane *lane, uint64_t at, uint64_t count, uint64_t from)
{
    const uint64_t bytes = count * op->size;

    hier_await(lane);
    hier_add(lane, at, count);
    for (int node = 0, other = 0; node < op->hier->team.nodes; node++)
        hier_operand(lane, node == op->hier->node ? at : from + (uint64_t)other++ * bytes);
}

/* Room for what all others send, one behind the other. */
static uint64_t expect_all(const struct hier_op *op, struct hier_lane *lane, const struct part *part, unsigned phase,
                           uint64_t bytes)
{
    const uint64_t from = hier_room(lane, bytes * (uint64_t)(op->hier->team.nodes - 1));

    for (int node = 0, other = 0; node < op->hier->team.nodes; node++)
        if (node != op->hier->node)
            hier_receive(lane, counterpart(op, lane, part, node), phase, from + (uint64_t)other++ * bytes, bytes);
    return from;
}

static uint64_t cut(uint64_t count, int n, int i)
{
    return count * (uint64_t)i / (uint64_t)n;
}

/* Everybody sends all to all. */
static void sum_whole(const struct hier_op *op, struct hier_lane *lane, const struct part *part, uint64_t at)
{
    const struct shunt_hier *h = op->hier;
    const uint64_t bytes = part->count * op->size, from = expect_all(op, lane, part, 1, bytes);

    for (int i = 1; i < h->team.nodes; i++)
        hier_send(lane, counterpart(op, lane, part, (h->node + i) % h->team.nodes), 1, at, bytes);
    add_all(op, lane, at, part->count, from);
}

/* Slice j goes to node j, which adds, and sends the sum to all. */
static void sum_slices(const struct hier_op *op, struct hier_lane *lane, const struct part *part, uint64_t at)
{
    const struct shunt_hier *h = op->hier;
    const int n = h->team.nodes;
    const uint64_t mine = cut(part->count, n, h->node), own = cut(part->count, n, h->node + 1) - mine;
    const uint64_t from = expect_all(op, lane, part, 1, own * op->size);

    for (int i = 1; i < n; i++) {
        int node = (h->node + i) % n;
        uint64_t first = cut(part->count, n, node), count = cut(part->count, n, node + 1) - first;
        hier_send(lane, counterpart(op, lane, part, node), 1, at + first * op->size, count * op->size);
    }
    add_all(op, lane, at + mine * op->size, own, from);
    for (int i = 1; i < n; i++) {
        int node = (h->node + i) % n;
        uint64_t first = cut(part->count, n, node), count = cut(part->count, n, node + 1) - first;
        hier_send(lane, counterpart(op, lane, part, node), 2, at + mine * op->size, own * op->size);
        hier_receive(lane, counterpart(op, lane, part, node), 2, at + first * op->size, count * op->size);
    }
    hier_await(lane);
}

/* The sum of all nodes, on all of them. */
static void sum_for_all(const struct hier_op *op, struct hier_lane *lane, const struct part *part, uint64_t at)
{
    const int n = op->hier->team.nodes;
    const uint64_t bytes = part->count * op->size;

    if (n > WHOLE_NODES && bytes <= WHOLE_BYTES && !shunt_conf->reproducible) {
        const struct tree tree = tree_of(op, 0, bytes);
        go_up(op, lane, part, &tree, at);
        go_down(op, lane, part, &tree, at);
    } else if (bytes * (uint64_t)(n - 1) <= WHOLE_BYTES || part->count < (uint64_t)n) {
        sum_whole(op, lane, part, at);
    } else {
        sum_slices(op, lane, part, at);
    }
}

/* On the root's alone. Few nodes, and all under SHUNT_REPRODUCIBLE, send straight there, and are added in their order. */
static void sum_for_root(const struct hier_op *op, struct hier_lane *lane, const struct part *part, uint64_t at)
{
    const struct shunt_hier *h = op->hier;
    const uint64_t bytes = part->count * op->size;
    const struct tree tree = tree_of(op, hier_root_node(op), bytes);

    if (h->team.nodes > SMALL_ARMS && !shunt_conf->reproducible)
        go_up(op, lane, part, &tree, at);
    else if (h->node == hier_root_node(op))
        add_all(op, lane, at, part->count, expect_all(op, lane, part, 1, bytes));
    else
        hier_send(lane, counterpart(op, lane, part, hier_root_node(op)), 1, at, bytes);
    hier_await(lane);
}

/* ---- on the node: vectors ---- */

/* The sum of the node's ranks, each part to its rank, at `to`, which lies in memory `mem`. */
static void gather_node(const struct hier_op *op, struct hier_lane *lane, const struct part *part, void *to,
                        const struct shunt_mem *mem)
{
    const struct shunt_task *all = op->task;
    struct shunt_task *task = &hier_task(lane)->task;

    *task = (struct shunt_task){ .coll = SHUNT_COLL_REDUCE, .count = lane->count, .type = all->type, .op = all->op,
                                 .send = hier_place(op, lane, all->send, 0), .send_mem = all->send_mem };
    task->root = turn_on(op, lane, op->hier->node);
    task->recv = part->count > 0 ? to : (void *)task->send; /* the others have no receive buffer */
    task->recv_mem = part->count > 0 ? *mem : all->send_mem;
    task->in_place = task->recv == task->send && part->count > 0;
    if (part->split) {
        task->coll = SHUNT_COLL_REDUCE_SCATTER_BLOCK;
        task->count = part->count;
        task->root = 0;
        task->in_place = false;
    }
}

/* From where the parts are in the receive buffer to all. */
static void spread_node(const struct hier_op *op, struct hier_lane *lane, const struct part *part, int from)
{
    const struct shunt_task *all = op->task;
    struct shunt_task *task = &hier_task(lane)->task;
    char *recv = (char *)all->recv;

    *task = (struct shunt_task){ .coll = SHUNT_COLL_BCAST, .count = hier_bytes(op, lane), .type = SHUNT_TYPE_U8,
                                 .op = SHUNT_OP_MOVE, .root = from, .send_mem = all->recv_mem, .recv_mem = all->recv_mem };
    task->recv = recv + lane->at * op->size;
    task->send = task->recv;
    if (part->split && from < 0) {
        task->coll = SHUNT_COLL_ALLGATHER;
        task->count = part->count * op->size;
        task->send = recv + part->at * op->size;
        task->in_place = true;
        task->root = 0;
    }
}

/* ---- vectors ---- */

void hier_write_allreduce(struct hier_op *op, struct hier_lane *lane)
{
    const struct part part = part_of(op, lane);
    const bool several = op->hier->places > 1;
    char *to = (char *)op->task->recv + part.at * op->size;
    const char *from = several ? to : (const char *)op->task->send + part.at * op->size;
    const uint64_t bytes = part.count * op->size, at = hier_room(lane, bytes);

    if (several)
        gather_node(op, lane, &part, to, &op->task->recv_mem);
    if (part.count > 0) {
        hier_out(lane, at, from, bytes);
        sum_for_all(op, lane, &part, at);
        hier_in(lane, to, at, bytes);
    }
    hier_turn(lane);
    if (several)
        spread_node(op, lane, &part, part.split ? -1 : turn_on(op, lane, op->hier->node));
}

/* Slices of the sum, on the root's node, to the root. */
static void bring_to_root(const struct hier_op *op, struct hier_lane *lane, const struct part *part)
{
    const bool root = op->hier->place == hier_root_place(op);
    struct shunt_task *task = &hier_task(lane)->task;

    *task = (struct shunt_task){ .coll = SHUNT_COLL_GATHER, .count = part->count * op->size, .type = SHUNT_TYPE_U8,
                                 .op = SHUNT_OP_MOVE, .root = hier_root_place(op), .send = op->spare.device,
                                 .send_mem = op->spare.mem };
    task->recv = root ? (char *)op->task->recv + lane->at * op->size : op->spare.device;
    task->recv_mem = root ? op->task->recv_mem : op->spare.mem;
}

void hier_write_reduce(struct hier_op *op, struct hier_lane *lane)
{
    const struct part part = part_of(op, lane);
    const struct shunt_hier *h = op->hier;
    const bool several = h->places > 1, at_root = h->node == hier_root_node(op);
    const bool direct = at_root && !part.split; /* the root itself has it, or nobody */
    char *recv = (char *)op->task->recv + part.at * op->size, *to = direct ? recv : op->spare.device;
    const char *from = several ? to : (const char *)op->task->send + part.at * op->size;
    const uint64_t bytes = part.count * op->size, at = hier_room(lane, bytes);

    if (several)
        gather_node(op, lane, &part, to, direct ? &op->task->recv_mem : &op->spare.mem);
    if (part.count > 0) {
        hier_out(lane, at, from, bytes);
        sum_for_root(op, lane, &part, at);
        if (at_root)
            hier_in(lane, to, at, bytes);
    }
    hier_turn(lane);
    if (at_root && part.split)
        bring_to_root(op, lane, &part);
}

void hier_write_bcast(struct hier_op *op, struct hier_lane *lane)
{
    const struct part part = part_of(op, lane);
    const struct shunt_hier *h = op->hier;
    const bool several = h->places > 1, at_root = h->node == hier_root_node(op);
    char *mine = (char *)op->task->recv + part.at * op->size;
    const uint64_t bytes = part.count * op->size, at = hier_room(lane, bytes);
    const struct tree tree = tree_of(op, hier_root_node(op), bytes);

    if (several && at_root)
        spread_node(op, lane, &part, hier_root_place(op));
    if (part.count > 0 && at_root)
        hier_out(lane, at, mine, bytes);
    if (part.count > 0)
        go_down(op, lane, &part, &tree, at);
    hier_turn(lane);
    if (part.count > 0 && !at_root)
        hier_in(lane, mine, at, bytes);
    if (several && !at_root)
        spread_node(op, lane, &part, part.split ? -1 : turn_on(op, lane, h->node));
}
