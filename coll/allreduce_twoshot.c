/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce, twoshot: slice r of everybody's vector goes to rank r, which adds in rank order and sends the sum to all.
 *
 * Two hops, 2 (n - 1) / n times the bytes: for medium and large messages on direct links. With SHUNT_PLAN_ZERO_COPY
 * the sums go straight into the receive buffers; else into scratch area 1, from where each rank copies them out.
 *
 * In place is safe: rank r stores a chunk of its slice into rank q's buffer only after q's DATA signal for that chunk,
 * so after q has read it.
 */
#include "coll/plan.h"

/* Signals: a chunk of my slice lies in my scratch; the sum of a chunk has been sent to me, and so my chunk has been
 * read; the sum that I sent has been read. */
enum { DATA, SUM, READ };

static void scatter_step(struct shunt_plan *plan)
{
    struct shunt_step *send = shunt_plan_step(plan, SHUNT_STEP_COPY, 0, 0);

    send->wait[0] = (struct shunt_wait){ shunt_plan_others(plan), SUM, (uint8_t)plan->depth };
    for (uint32_t k = 1; k < plan->n; k++) {
        uint8_t q = (uint8_t)shunt_plan_after(plan, k), me = (uint8_t)plan->me;
        shunt_plan_pair(plan, send, (struct shunt_ref){ .space = SHUNT_SPACE_IN, .slice = q },
                        (struct shunt_ref){ .space = SHUNT_SPACE_SCRATCH0, .rank = q, .slot = me, .slice = q });
    }
    send->raise = shunt_plan_others(plan);
    send->raise_signal = DATA;
}

static void reduce_step(struct shunt_plan *plan, int zero_copy)
{
    struct shunt_step *add = shunt_plan_step(plan, SHUNT_STEP_REDUCE, 1, 0);
    uint8_t me = (uint8_t)plan->me;

    add->wait[0] = (struct shunt_wait){ shunt_plan_others(plan), DATA, 0 };
    if (!zero_copy)
        add->wait[1] = (struct shunt_wait){ shunt_plan_others(plan), READ, (uint8_t)plan->depth };
    for (uint32_t q = 0; q < plan->n; q++) {
        struct shunt_ref mine = { .space = SHUNT_SPACE_IN, .slice = me };
        struct shunt_ref theirs = { .space = SHUNT_SPACE_SCRATCH0, .rank = me, .slot = (uint8_t)q, .slice = me };
        shunt_plan_in(plan, add, q == me ? mine : theirs);
    }
    for (uint32_t k = 0; k < plan->n; k++) {
        uint8_t q = (uint8_t)shunt_plan_after(plan, k);
        int space = q == me || zero_copy ? SHUNT_SPACE_OUT : SHUNT_SPACE_SCRATCH1;
        shunt_plan_out(plan, add,
                       (struct shunt_ref){ .space = (uint8_t)space, .rank = q, .slot = me, .slice = me });
    }
    add->raise = shunt_plan_others(plan);
    add->raise_signal = SUM;
}

static void gather_step(struct shunt_plan *plan, int zero_copy)
{
    struct shunt_step *get = shunt_plan_step(plan, zero_copy ? SHUNT_STEP_WAIT : SHUNT_STEP_COPY, 1, 1);
    uint8_t me = (uint8_t)plan->me;

    get->wait[0] = (struct shunt_wait){ shunt_plan_others(plan), SUM, 0 };
    if (zero_copy)
        return;
    for (uint32_t k = 1; k < plan->n; k++) {
        uint8_t q = (uint8_t)shunt_plan_after(plan, k);
        shunt_plan_pair(plan, get,
                        (struct shunt_ref){ .space = SHUNT_SPACE_SCRATCH1, .rank = me, .slot = q, .slice = q },
                        (struct shunt_ref){ .space = SHUNT_SPACE_OUT, .rank = me, .slice = q });
    }
    get->raise = shunt_plan_others(plan);
    get->raise_signal = READ;
}

void shunt_plan_allreduce_twoshot(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    int zero_copy = (shape->flags & SHUNT_PLAN_ZERO_COPY) != 0;

    shunt_plan_begin(plan, shape, me, shape->n);
    scatter_step(plan);
    reduce_step(plan, zero_copy);
    gather_step(plan, zero_copy);
}
