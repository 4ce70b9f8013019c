/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce whose root reads the others' send buffers where they are: what comes over the links goes into the sums at once, and
 * takes neither flags nor scratch on its way.
 *
 * All first tell all that they have begun: then what they send is there, behind what the application has ordered before. Who is read
 * stays until it has been. In place is safe: the root reads an element of its own and stores its sum there.
 */
#include "coll/plan.h"

/* Signals: this rank has begun; its half of each block that team 0, or 1, of the root reads has been read. */
enum { BEGUN, READ };

static void read_step(struct shunt_plan *plan, uint32_t team)
{
    struct shunt_step *add = shunt_plan_step(plan, SHUNT_STEP_REDUCE, team, 0);

    for (uint32_t q = 0; q < plan->n; q++)
        shunt_plan_in(plan, add, q == plan->me ? (struct shunt_ref){ .space = SHUNT_SPACE_IN } :
                                                 (struct shunt_ref){ .space = SHUNT_SPACE_THEIRS, .rank = (uint8_t)q });
    shunt_plan_out(plan, add, (struct shunt_ref){ .space = SHUNT_SPACE_OUT, .rank = (uint8_t)plan->me });
    add->raise = shunt_plan_others(plan);
    add->raise_signal = (uint8_t)(READ + team);
}

static void wait_step(struct shunt_plan *plan, uint32_t team, uint32_t root)
{
    struct shunt_step *wait = shunt_plan_step(plan, SHUNT_STEP_WAIT, team, 0);

    wait->wait[0] = (struct shunt_wait){ UINT64_C(1) << root, (uint8_t)(READ + team), 0 };
}

void shunt_plan_reduce_reading(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    shunt_plan_begin(plan, shape, me, 1);
    shunt_plan_split(plan);
    plan->flags |= SHUNT_PLAN_READS;
    shunt_plan_all_begin(plan, BEGUN);
    for (uint32_t team = 0; team < SHUNT_PLAN_TEAMS; team++) {
        if (me == shape->root)
            read_step(plan, team);
        else
            wait_step(plan, team, shape->root);
    }
}
