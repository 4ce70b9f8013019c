/* SPDX-License-Identifier: BSD-3-Clause */
/* Small words with which algorithms write plans. */
#include "coll/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Parts, slices and chunks begin at multiples of 16 bytes, so that all of them are aligned like the vector itself. */
static uint64_t cut(uint64_t bytes, uint64_t pieces)
{
    uint64_t piece = (bytes + pieces - 1) / pieces;
    return piece == 0 ? 16 : (piece + 15) / 16 * 16;
}

static void begin(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me)
{
    memset(plan, 0, offsetof(struct shunt_plan, steps)); /* the rest is large, and written when used */
    plan->n = shape->n;
    plan->me = me;
    plan->flags = shape->flags;
    plan->blocks = shape->blocks;
    plan->chunk = shape->chunk;
    plan->depth = shape->depth;
    plan->phases = 1;
}

void shunt_plan_begin(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me, uint32_t slices)
{
    begin(plan, shape, me);
    plan->slices = slices;
    plan->bytes = shape->bytes;
    plan->slice_bytes = cut(shape->bytes, slices);
    plan->part_bytes = cut(plan->slice_bytes, shape->blocks);
}

void shunt_plan_begin_blocks(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me)
{
    begin(plan, shape, me);
    plan->slices = shape->n;
    plan->bytes = shape->n * shape->bytes;
    plan->slice_bytes = shape->bytes;
    plan->part_bytes = cut(shape->bytes, shape->blocks);
}

void shunt_plan_begin_spans(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me)
{
    begin(plan, shape, me);
    plan->slices = shape->n;
    plan->spans = shape->spans;
    plan->bytes = plan->slice_bytes = shape->bytes;
    plan->part_bytes = cut(shape->bytes, shape->blocks);
}

void shunt_plan_split(struct shunt_plan *plan)
{
    plan->split = true;
    plan->part_bytes = cut(plan->slice_bytes, (uint64_t)plan->blocks * SHUNT_PLAN_TEAMS);
}

struct shunt_step *shunt_plan_step(struct shunt_plan *plan, enum shunt_step_kind kind, uint32_t team, uint32_t lag)
{
    struct shunt_step *step = &plan->steps[plan->n_steps++];

    memset(step, 0, sizeof *step);
    step->kind = (uint8_t)kind;
    step->team = (uint8_t)team;
    step->lag = (uint8_t)lag;
    step->to = 255;
    step->way = SHUNT_ALL_WAYS;
    step->first_ref = (uint16_t)plan->n_refs;
    return step;
}

void shunt_plan_in(struct shunt_plan *plan, struct shunt_step *step, struct shunt_ref ref)
{
    plan->refs[plan->n_refs++] = ref;
    step->n_in++;
}

void shunt_plan_out(struct shunt_plan *plan, struct shunt_step *step, struct shunt_ref ref)
{
    plan->refs[plan->n_refs++] = ref;
    step->n_out++;
}

void shunt_plan_pair(struct shunt_plan *plan, struct shunt_step *step, struct shunt_ref from, struct shunt_ref to)
{
    plan->refs[plan->n_refs++] = from;
    plan->refs[plan->n_refs++] = to;
    step->n_in++;
}

void shunt_plan_all_begin(struct shunt_plan *plan, uint8_t signal)
{
    struct shunt_step *begin = shunt_plan_step(plan, SHUNT_STEP_WAIT, 0, 0);

    begin->once = true;
    begin->raise = shunt_plan_others(plan);
    begin->raise_signal = signal;
    for (uint32_t team = 0; team < SHUNT_PLAN_TEAMS; team++) {
        struct shunt_step *wait = shunt_plan_step(plan, SHUNT_STEP_WAIT, team, 0);
        wait->once = true;
        wait->wait[0] = (struct shunt_wait){ shunt_plan_others(plan), signal, 0 };
    }
}

/* ---- exchanges ---- */

enum { DATA, READ, BEGUN }; /* signals: a chunk lies in my scratch; the chunk that I sent has been read; a rank has begun */

void shunt_hop_begin(struct shunt_hop *hop)
{
    memset(hop, SHUNT_NO_SLICE, sizeof *hop);
}

/* To whom it sends; from whom something comes. */
static uint64_t receivers(const struct shunt_plan *plan, const struct shunt_hop *hop)
{
    uint64_t mask = 0;

    for (uint32_t q = 0; q < plan->n; q++)
        mask |= (uint64_t)(q != plan->me && hop->send[q] != SHUNT_NO_SLICE) << q;
    return mask;
}

static uint64_t senders(const struct shunt_plan *plan, const struct shunt_hop *hop)
{
    uint64_t mask = 0;

    for (uint32_t q = 0; q < plan->n; q++)
        mask |= (uint64_t)(q != plan->me && hop->recv[q] != SHUNT_NO_SLICE) << q;
    return mask;
}

static void send_step(struct shunt_plan *plan, const struct shunt_hop *hop, uint64_t to)
{
    struct shunt_step *send = shunt_plan_step(plan, SHUNT_STEP_COPY, 0, 0);

    send->wait[0] = (struct shunt_wait){ to, READ, (uint8_t)plan->depth };
    for (uint32_t k = 1; k < plan->n; k++) {
        uint8_t q = (uint8_t)shunt_plan_after(plan, k), slice = hop->send[q];
        if (slice != SHUNT_NO_SLICE)
            shunt_plan_pair(plan, send, (struct shunt_ref){ .space = SHUNT_SPACE_IN, .slice = slice },
                            (struct shunt_ref){ SHUNT_SPACE_SCRATCH0, q, (uint8_t)plan->me, slice });
    }
    send->raise = to | 1ull << plan->me;
    send->raise_signal = DATA;
}

/* What comes from rank q, or what I have myself, as a reference. */
static struct shunt_ref source(const struct shunt_plan *plan, const struct shunt_hop *hop, uint32_t q)
{
    if (q == plan->me)
        return (struct shunt_ref){ .space = SHUNT_SPACE_IN, .slice = hop->send[q] };
    return (struct shunt_ref){ SHUNT_SPACE_SCRATCH0, (uint8_t)plan->me, (uint8_t)q, hop->from[q] };
}

static void receive_step(struct shunt_plan *plan, const struct shunt_hop *hop, uint64_t to)
{
    bool combines = hop->out != SHUNT_NO_SLICE;
    uint64_t from = senders(plan, hop);
    struct shunt_step *take = shunt_plan_step(plan, combines ? SHUNT_STEP_REDUCE : SHUNT_STEP_COPY, 1, 0);
    struct shunt_ref result = { .space = SHUNT_SPACE_OUT, .rank = (uint8_t)plan->me };

    /* For my own senders too: in place, the result overwrites what they send. */
    take->wait[0] = (struct shunt_wait){ from | (uint64_t)(from != 0 && to != 0) << plan->me, DATA, 0 };
    for (uint32_t q = 0; q < plan->n; q++) {
        if (hop->recv[q] == SHUNT_NO_SLICE)
            continue;
        result.slice = hop->recv[q];
        if (combines)
            shunt_plan_in(plan, take, source(plan, hop, q));
        else
            shunt_plan_pair(plan, take, source(plan, hop, q), result);
    }
    result.slice = hop->out;
    if (combines)
        shunt_plan_out(plan, take, result);
    take->raise = from;
    take->raise_signal = READ;
}

void shunt_plan_exchange(struct shunt_plan *plan, const struct shunt_hop *hop)
{
    uint64_t to = receivers(plan, hop);

    if (plan->flags & SHUNT_PLAN_MEETS)
        shunt_plan_all_begin(plan, BEGUN);
    if (to != 0)
        send_step(plan, hop, to);
    for (uint32_t q = 0; q < plan->n; q++) {
        if (hop->recv[q] != SHUNT_NO_SLICE) {
            receive_step(plan, hop, to);
            break;
        }
    }
    if (to != 0) {
        struct shunt_step *end = shunt_plan_step(plan, SHUNT_STEP_WAIT, 1, 1);
        end->wait[0] = (struct shunt_wait){ to, READ, 0 };
    }
}
