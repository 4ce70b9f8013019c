/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective in one hop: each rank sends all that others need of its data straight to them.
 *
 * Allreduce, Scan and Exscan send more than they must, n - 1 times the bytes, and Reduce brings all vectors to one rank:
 * for those it is the way of small messages. The others cannot send less. In place is safe everywhere (plan.c). What only
 * moves can also be written for the copy engines (copy.c).
 */
#include <string.h>

#include "coll/plan.h"

/* An exchange that `describe` describes, of vectors or of blocks, whose steps `write` writes. */
typedef void (*describer)(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop);
typedef void (*step_writer)(struct shunt_plan *plan, const struct shunt_hop *hop);

static void write_vectors(const struct shunt_shape *shape, uint32_t me, describer describe, step_writer write,
                          struct shunt_plan *plan)
{
    struct shunt_hop hop;

    shunt_hop_begin(&hop);
    describe(shape, me, &hop);
    shunt_plan_begin(plan, shape, me, 1);
    write(plan, &hop);
}

static void write_blocks(const struct shunt_shape *shape, uint32_t me, describer describe, step_writer write,
                         struct shunt_plan *plan)
{
    struct shunt_hop hop;

    shunt_hop_begin(&hop);
    describe(shape, me, &hop);
    shunt_plan_begin_blocks(plan, shape, me);
    write(plan, &hop);
}

/* Blocks that differ: what goes to, and what comes from rank q, has number q. Nothing where there are no bytes. */
static void write_spans(const struct shunt_shape *shape, uint32_t me, bool combines, step_writer write,
                        struct shunt_plan *plan)
{
    struct shunt_hop hop;

    shunt_hop_begin(&hop);
    for (uint32_t q = 0; q < shape->n; q++) {
        hop.from[q] = hop.to[q] = (uint8_t)me;
        if (shape->spans->in[q].bytes != 0)
            hop.send[q] = (uint8_t)q;
        if (shape->spans->out[q].bytes != 0)
            hop.recv[q] = (uint8_t)q;
    }
    if (combines && hop.recv[me] != SHUNT_NO_SLICE)
        hop.out = (uint8_t)me;
    shunt_plan_begin_spans(plan, shape, me);
    write(plan, &hop);
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
        memset(hop->to, 0, shape->n);
        hop->send[me] = SHUNT_NO_SLICE;
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
    hop->to[shape->root] = (uint8_t)me;
    for (uint32_t q = 0; q < shape->n && me == shape->root; q++) {
        hop->from[q] = 0;
        hop->recv[q] = (uint8_t)q;
    }
}

static void describe_scatter(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    for (uint32_t q = 0; q < shape->n && me == shape->root; q++) {
        hop->send[q] = (uint8_t)q;
        hop->to[q] = 0;
    }
    hop->recv[shape->root] = 0;
    hop->from[shape->root] = (uint8_t)me;
}

static void describe_allgather(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    for (uint32_t q = 0; q < shape->n; q++) {
        hop->send[q] = hop->from[q] = 0;
        hop->recv[q] = (uint8_t)q;
        hop->to[q] = (uint8_t)me;
    }
}

static void describe_alltoall(const struct shunt_shape *shape, uint32_t me, struct shunt_hop *hop)
{
    for (uint32_t q = 0; q < shape->n; q++) {
        hop->send[q] = hop->recv[q] = (uint8_t)q;
        hop->from[q] = hop->to[q] = (uint8_t)me;
    }
}

/* Of equal counts or not. */
void shunt_plan_reduce_scatter_oneshot(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    if (shape->spans != NULL)
        write_spans(shape, me, true, shunt_plan_exchange, plan);
    else
        write_blocks(shape, me, describe_reduce_scatter_block, shunt_plan_exchange, plan);
}

void shunt_plan_reduce_oneshot(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    if (shape->flags & SHUNT_PLAN_ZERO_COPY)
        shunt_plan_reduce_reading(shape, me, plan);
    else
        write_vectors(shape, me, describe_reduce, shunt_plan_exchange, plan);
}

#define WRITER(coll, name, of, steps)                                                              \
    void shunt_plan_##coll##_##name(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan) \
    {                                                                                              \
        write_##of(shape, me, describe_##coll, steps, plan);                                       \
    }

#define SPANS_WRITER(coll, name, steps)                                                            \
    void shunt_plan_##coll##_##name(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan) \
    {                                                                                              \
        write_spans(shape, me, false, steps, plan);                                                \
    }
WRITER(allreduce, oneshot, vectors, shunt_plan_exchange)
WRITER(scan, oneshot, vectors, shunt_plan_exchange)
WRITER(exscan, oneshot, vectors, shunt_plan_exchange)
WRITER(bcast, oneshot, vectors, shunt_plan_exchange)
WRITER(reduce_scatter_block, oneshot, blocks, shunt_plan_exchange)
WRITER(gather, oneshot, blocks, shunt_plan_exchange)
WRITER(scatter, oneshot, blocks, shunt_plan_exchange)
WRITER(allgather, oneshot, blocks, shunt_plan_exchange)
WRITER(alltoall, oneshot, blocks, shunt_plan_exchange)
WRITER(bcast, copy, vectors, shunt_plan_copies)
WRITER(gather, copy, blocks, shunt_plan_copies)
WRITER(scatter, copy, blocks, shunt_plan_copies)
WRITER(allgather, copy, blocks, shunt_plan_copies)
WRITER(alltoall, copy, blocks, shunt_plan_copies)
SPANS_WRITER(gatherv, oneshot, shunt_plan_exchange)
SPANS_WRITER(scatterv, oneshot, shunt_plan_exchange)
SPANS_WRITER(allgatherv, oneshot, shunt_plan_exchange)
SPANS_WRITER(alltoallv, oneshot, shunt_plan_exchange)
SPANS_WRITER(alltoallw, oneshot, shunt_plan_exchange)
SPANS_WRITER(neighbor_allgather, oneshot, shunt_plan_exchange)
SPANS_WRITER(neighbor_allgatherv, oneshot, shunt_plan_exchange)
SPANS_WRITER(neighbor_alltoall, oneshot, shunt_plan_exchange)
SPANS_WRITER(neighbor_alltoallv, oneshot, shunt_plan_exchange)
SPANS_WRITER(neighbor_alltoallw, oneshot, shunt_plan_exchange)
SPANS_WRITER(gatherv, copy, shunt_plan_copies)
SPANS_WRITER(scatterv, copy, shunt_plan_copies)
SPANS_WRITER(allgatherv, copy, shunt_plan_copies)
SPANS_WRITER(alltoallv, copy, shunt_plan_copies)
SPANS_WRITER(alltoallw, copy, shunt_plan_copies)
SPANS_WRITER(neighbor_allgather, copy, shunt_plan_copies)
SPANS_WRITER(neighbor_allgatherv, copy, shunt_plan_copies)
SPANS_WRITER(neighbor_alltoall, copy, shunt_plan_copies)
SPANS_WRITER(neighbor_alltoallv, copy, shunt_plan_copies)
SPANS_WRITER(neighbor_alltoallw, copy, shunt_plan_copies)
