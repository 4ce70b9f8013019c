/* SPDX-License-Identifier: BSD-3-Clause */
/* Small words with which algorithms write plans. */
#include "coll/plan.h"

#include <stddef.h>
#include <string.h>

/* Parts, slices and chunks begin at multiples of 16 bytes, so that all of them are aligned like the vector itself. */
static uint64_t cut(uint64_t bytes, uint64_t pieces)
{
    uint64_t piece = (bytes + pieces - 1) / pieces;
    return piece == 0 ? 16 : (piece + 15) / 16 * 16;
}

void shunt_plan_begin(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me, uint32_t slices)
{
    memset(plan, 0, offsetof(struct shunt_plan, refs));
    plan->n = shape->n;
    plan->me = me;
    plan->flags = shape->flags;
    plan->blocks = shape->blocks;
    plan->bytes = shape->bytes;
    plan->slice_bytes = cut(shape->bytes, slices);
    plan->part_bytes = cut(plan->slice_bytes, shape->blocks);
    plan->chunk = shape->chunk;
    plan->depth = shape->depth;
}

struct shunt_step *shunt_plan_step(struct shunt_plan *plan, enum shunt_step_kind kind, uint32_t team, uint32_t lag)
{
    struct shunt_step *step = &plan->steps[plan->n_steps++];

    step->kind = (uint8_t)kind;
    step->team = (uint8_t)team;
    step->lag = (uint8_t)lag;
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
