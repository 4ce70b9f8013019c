/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective in one hop: each rank sends all that others need of its data straight to them.
 *
 * Allreduce, Scan and Exscan send more than they must, n - 1 times the bytes, and Reduce brings all vectors to one rank:
 * for those it is the way of small messages. The others cannot send less. In place is safe everywhere (plan.c).
 */
#include "coll/plan.h"

/* An exchange of vectors, or of blocks, that `describe` describes. */
typedef void (*describer)(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop);

static void write_vectors(const struct shunt_shape *shape, uint32_t me, describer describe, struct shunt_plan *plan)
{
    struct shunt_hop hop;

    shunt_hop_begin(&hop);
    describe(shape, me, &hop);
    shunt_plan_begin(plan, shape, me, 1);
    shunt_plan_exchange(plan, &hop);
}

static void write_blocks(const struct shunt_shape *shape, uint32_t me, describer describe, struct shunt_plan *plan)
{
    struct shunt_hop hop;

    shunt_hop_begin(&hop);
    describe(shape, me, &hop);
    shunt_plan_begin_blocks(plan, shape, me);
    shunt_plan_exchange(plan, &hop);
}

/* The whole vector (slice 0) of the ranks `first` to `last` comes here, is combined, and lands in slice 0. */
static void combine_vectors(struct shunt_hop *hop, uint32_t first, uint32_t last)
{
    for (uint32_t q = first; q <= last; q++)
        hop->recv[q] = hop->from[q] = 0;
    hop->out = 0;
}

/* My vector goes to the ranks `first` to `last`. */
static void send_vector(struct shunt_hop *hop, uint32_t first, uint32_t last)
{
    for (uint32_t q = first; q <= last; q++)
        hop->send[q] = 0;
}

static void describe_allreduce(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    (void)me;
    send_vector(hop, 0, shape->n - 1);
    combine_vectors(hop, 0, shape->n - 1);
}

static void describe_reduce(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    send_vector(hop, shape->root, shape->root);
    if (me == shape->root)
        combine_vectors(hop, 0, shape->n - 1);
}

static void describe_scan(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    send_vector(hop, me, shape->n - 1);
    combine_vectors(hop, 0, me);
}

static void describe_exscan(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    send_vector(hop, me, shape->n - 1);
    if (me > 0)
        combine_vectors(hop, 0, me - 1);
}

static void describe_bcast(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    if (me == shape->root) {
        send_vector(hop, 0, shape->n - 1);
        hop->send[me] = SHUNT_PLAN_NONE;
    } else {
        hop->recv[shape->root] = hop->from[shape->root] = 0;
    }
}

static void describe_reduce_scatter_block(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    for (uint32_t q = 0; q < shape->n; q++) {
        hop->send[q] = (uint8_t)q;
        hop->from[q] = (uint8_t)me;
        hop->recv[q] = 0;
    }
    hop->out = 0;
}

static void describe_gather(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    hop->send[shape->root] = 0;
    for (uint32_t q = 0; q < shape->n && me == shape->root; q++) {
        hop->from[q] = 0;
        hop->recv[q] = (uint8_t)q;
    }
}

static void describe_scatter(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    for (uint32_t q = 0; q < shape->n && me == shape->root; q++)
        hop->send[q] = (uint8_t)q;
    hop->recv[shape->root] = 0;
    hop->from[shape->root] = (uint8_t)me;
}

static void describe_allgather(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    (void)me;
    for (uint32_t q = 0; q < shape->n; q++) {
        hop->send[q] = hop->from[q] = 0;
        hop->recv[q] = (uint8_t)q;
    }
}

static void describe_alltoall(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    for (uint32_t q = 0; q < shape->n; q++) {
        hop->send[q] = hop->recv[q] = (uint8_t)q;
        hop->from[q] = (uint8_t)me;
    }
}

#define ONESHOT(coll, of)                                                                          \
    void shunt_plan_##coll##_oneshot(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan) \
    {                                                                                              \
        write_##of(shape, me, describe_##coll, plan);                                              \
    }
ONESHOT(allreduce, vectors)
ONESHOT(reduce, vectors)
ONESHOT(scan, vectors)
ONESHOT(exscan, vectors)
ONESHOT(bcast, vectors)
ONESHOT(reduce_scatter_block, blocks)
ONESHOT(gather, blocks)
ONESHOT(scatter, blocks)
ONESHOT(allgather, blocks)
ONESHOT(alltoall, blocks)
