/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans of what has a block for each rank, over several nodes. A block goes over the network once for each node that needs it, to one
 * rank there; what a rank sends to one rank alone goes there at once.
 */
#include "coll/hier_inner.h"

/* The rank that is the k-th of those of a node that this place looks after; -1: there is none. */
static int charge(const struct hier_op *op, int node, int place, int k)
{
    const struct shunt_team *team = &op->hier->team;
    int there = k * op->hier->places + place;

    return there < team->size[node] ? shunt_team_rank(team, node, there) : -1;
}

/* Who on a node looks after this rank. */
static int keeper(const struct hier_op *op, int node)
{
    return hier_world(op, node, op->hier->place % op->hier->team.size[node]);
}

/* The k-th blocks of a node's ranks are on those of this node that look after them; or they are of this node. Now all get all. */
static void gather_blocks(const struct hier_op *op, struct hier_lane *lane, int node, int k)
{
    const struct shunt_hier *h = op->hier;
    const struct shunt_task *all = op->task;
    const uint64_t bytes = hier_bytes(op, lane), block = op->count * op->size, first = lane->at * op->size;
    const int mine = charge(op, node, h->place, k);
    const bool own = node == h->node;
    struct hier_task *t = hier_task(lane);

    t->task = (struct shunt_task){ .coll = SHUNT_COLL_ALLGATHERV, .count = bytes, .type = SHUNT_TYPE_U8, .op = SHUNT_OP_MOVE,
                                   .in_place = !own || all->in_place, .recv = all->recv, .recv_mem = all->recv_mem,
                                   .send = own ? all->send : all->recv, .send_mem = own ? all->send_mem : all->recv_mem,
                                   .spans = &t->spans, .waves = 1 };
    for (int q = 0; q < h->places; q++) {
        int rank = charge(op, node, q, k);
        if (mine >= 0)
            t->spans.in[q] = (struct shunt_span){ first + (own ? 0 : (uint64_t)mine * block), bytes };
        if (rank >= 0)
            t->spans.out[q] = (struct shunt_span){ first + (uint64_t)rank * block, bytes };
    }
}

void hier_write_allgather(struct hier_op *op, struct hier_lane *lane)
{
    const struct shunt_hier *h = op->hier;
    const struct shunt_team *team = &h->team;
    const uint64_t bytes = hier_bytes(op, lane), at = hier_room(lane, bytes);
    const char *own = hier_place(op, lane, op->task->send, 0);
    char *home = hier_place(op, lane, op->task->recv, team->me);
    uint64_t next;

    hier_out(lane, at, own, bytes);
    for (int i = 1; i < team->nodes; i++)
        hier_send(lane, keeper(op, (h->node + i) % team->nodes), 1, at, bytes);
    next = lane->host_bytes;
    for (int node = 0; node < team->nodes; node++)
        for (int k = 0, rank; node != h->node && (rank = charge(op, node, h->place, k)) >= 0; k++)
            hier_receive(lane, team->world[rank], 1, hier_room(lane, bytes), bytes);
    if (h->places > 1) {
        gather_blocks(op, lane, h->node, 0);
    } else if (home != own) {
        struct hier_step *copy = hier_step(lane, HIER_COPY);
        copy->device = home;
        copy->from = own;
        copy->bytes = bytes;
    }
    hier_await(lane);
    for (int node = 0; node < team->nodes; node++)
        for (int k = 0, rank; node != h->node && (rank = charge(op, node, h->place, k)) >= 0; k++) {
            hier_in(lane, hier_place(op, lane, op->task->recv, rank), next, bytes);
            next += hier_aligned(bytes);
        }
    for (int node = 0; node < team->nodes; node++)
        for (int k = 0; h->places > 1 && node != h->node && charge(op, node, 0, k) >= 0; k++)
            gather_blocks(op, lane, node, k);
}

/* The node's sums of the k-th blocks of a node, each to the one of this node's ranks that looks after it. */
static void reduce_blocks(const struct hier_op *op, struct hier_lane *lane, int node, int k)
{
    const struct shunt_hier *h = op->hier;
    const struct shunt_task *all = op->task;
    const uint64_t bytes = hier_bytes(op, lane);
    struct hier_task *t = hier_task(lane);

    t->task = (struct shunt_task){ .coll = SHUNT_COLL_REDUCE_SCATTER, .count = lane->count, .type = all->type, .op = all->op,
                                   .send = all->send, .send_mem = all->send_mem, .recv = op->spare.device,
                                   .recv_mem = op->spare.mem, .spans = &t->spans, .waves = 1 };
    for (int q = 0; q < h->places; q++) {
        int rank = charge(op, node, q, k);
        if (rank >= 0)
            t->spans.in[q] = (struct shunt_span){ (uint64_t)(hier_place(op, lane, all->send, rank) - (char *)all->send), bytes };
        if (charge(op, node, h->place, k) >= 0)
            t->spans.out[q] = (struct shunt_span){ 0, bytes };
    }
}

void hier_write_reduce_scatter(struct hier_op *op, struct hier_lane *lane)
{
    const struct shunt_hier *h = op->hier;
    const struct shunt_team *team = &h->team;
    const uint64_t bytes = hier_bytes(op, lane), own = hier_room(lane, bytes);
    uint64_t operand[HIER_NODES];

    /* Those of other nodes first, on their way while the next ones are added. */
    for (int i = 1; i <= team->nodes; i++) {
        int node = (h->node + i) % team->nodes;
        for (int k = 0; charge(op, node, 0, k) >= 0; k++) {
            int rank = charge(op, node, h->place, k);
            if (h->places > 1)
                reduce_blocks(op, lane, node, k);
            if (rank < 0)
                continue;
            uint64_t at = node == h->node ? own : hier_room(lane, bytes);
            hier_out(lane, at, h->places > 1 ? op->spare.device : hier_place(op, lane, op->task->send, rank), bytes);
            if (node != h->node)
                hier_send(lane, team->world[rank], 1, at, bytes);
        }
    }
    for (int node = 0; node < team->nodes; node++) {
        operand[node] = node == h->node ? own : hier_room(lane, bytes);
        if (node != h->node)
            hier_receive(lane, keeper(op, node), 1, operand[node], bytes);
    }
    hier_await(lane);
    hier_add(lane, own, lane->count);
    for (int node = 0; node < team->nodes; node++)
        hier_operand(lane, operand[node]);
    hier_in(lane, hier_place(op, lane, op->task->recv, 0), own, bytes);
}

/* What this rank sends to another one, and where it puts what comes; NULL: nothing. */
static const char *sent_to(const struct hier_op *op, const struct hier_lane *lane, int rank)
{
    const struct shunt_task *task = op->task;
    const int me = op->hier->team.me;

    switch (task->coll) {
    case SHUNT_COLL_GATHER: return rank == task->root ? hier_place(op, lane, task->send, 0) : NULL;
    case SHUNT_COLL_SCATTER: return me == task->root ? hier_place(op, lane, task->send, rank) : NULL;
    default: return hier_place(op, lane, task->send, rank);
    }
}

static char *got_from(const struct hier_op *op, const struct hier_lane *lane, int rank)
{
    const struct shunt_task *task = op->task;
    const int me = op->hier->team.me;

    switch (task->coll) {
    case SHUNT_COLL_GATHER: return me == task->root ? hier_place(op, lane, task->recv, rank) : NULL;
    case SHUNT_COLL_SCATTER: return rank == task->root ? hier_place(op, lane, task->recv, 0) : NULL;
    default: return hier_place(op, lane, task->recv, rank);
    }
}

/* What the ranks of this node have for each other. */
static void exchange_node(const struct hier_op *op, struct hier_lane *lane)
{
    const struct shunt_hier *h = op->hier;
    const struct shunt_task *all = op->task;
    const uint64_t bytes = hier_bytes(op, lane);
    struct hier_task *t;

    if (shunt_coll_rooted(all->coll) && h->node != hier_root_node(op))
        return;
    t = hier_task(lane);
    t->task = (struct shunt_task){ .coll = SHUNT_COLL_ALLTOALLV, .count = bytes, .type = SHUNT_TYPE_U8, .op = SHUNT_OP_MOVE,
                                   .in_place = all->in_place, .send = all->send, .send_mem = all->send_mem,
                                   .recv = all->recv, .recv_mem = all->recv_mem, .spans = &t->spans, .waves = 1 };
    for (int q = 0; q < h->places; q++) {
        int rank = shunt_team_rank(&h->team, h->node, q);
        const char *out = sent_to(op, lane, rank), *in = got_from(op, lane, rank);
        if (out != NULL)
            t->spans.in[q] = (struct shunt_span){ (uint64_t)(out - (const char *)all->send), bytes };
        if (in != NULL)
            t->spans.out[q] = (struct shunt_span){ (uint64_t)(in - (char *)all->recv), bytes };
    }
}

static void keep_own(const struct hier_op *op, struct hier_lane *lane)
{
    const char *from = sent_to(op, lane, op->hier->team.me);
    char *to = got_from(op, lane, op->hier->team.me);

    if (from == NULL || to == NULL || from == to)
        return;
    struct hier_step *copy = hier_step(lane, HIER_COPY);
    copy->device = to;
    copy->from = from;
    copy->bytes = hier_bytes(op, lane);
}

/* Each other rank in turn, beginning behind this one. */
static int rank_after(const struct hier_op *op, int i)
{
    return (op->hier->team.me + i) % op->hier->team.n;
}

void hier_write_pairs(struct hier_op *op, struct hier_lane *lane)
{
    const struct shunt_hier *h = op->hier;
    const struct shunt_team *team = &h->team;
    const uint64_t bytes = hier_bytes(op, lane);

    for (int i = 1; i < team->n; i++) {
        int rank = rank_after(op, i);
        const char *from = team->node[rank] != h->node ? sent_to(op, lane, rank) : NULL;
        if (from == NULL)
            continue;
        uint64_t at = hier_room(lane, bytes);
        hier_out(lane, at, from, bytes);
        hier_send(lane, team->world[rank], 1, at, bytes);
    }
    uint64_t next = lane->host_bytes;
    for (int i = 1; i < team->n; i++) {
        int rank = rank_after(op, i);
        if (team->node[rank] != h->node && got_from(op, lane, rank) != NULL)
            hier_receive(lane, team->world[rank], 1, hier_room(lane, bytes), bytes);
    }
    if (h->places > 1)
        exchange_node(op, lane);
    else
        keep_own(op, lane);
    hier_await(lane);
    for (int i = 1; i < team->n; i++) {
        int rank = rank_after(op, i);
        if (team->node[rank] == h->node || got_from(op, lane, rank) == NULL)
            continue;
        hier_in(lane, got_from(op, lane, rank), next, bytes);
        next += hier_aligned(bytes);
    }
}
