/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce, oneshot: every rank sends its whole vector to all others and adds all vectors in rank order.
 *
 * One hop, n - 1 times the bytes: for small messages. Under SHUNT_PLAN_LL a kernel of its own does it at once, with the
 * flags in the payload; without it, the end waits until the peers have read what was sent to them.
 */
#include "coll/plan.h"

enum { DATA, READ }; /* signals: a chunk lies in my scratch; the chunk that I sent has been read */

void shunt_plan_allreduce_oneshot(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    shunt_plan_begin(plan, shape, me, 1);

    struct shunt_step *send = shunt_plan_step(plan, SHUNT_STEP_COPY, 0, 0);
    send->wait[0] = (struct shunt_wait){ shunt_plan_others(plan), READ, (uint8_t)plan->depth };
    for (uint32_t k = 1; k < plan->n; k++) {
        uint32_t q = shunt_plan_after(plan, k);
        shunt_plan_pair(plan, send, (struct shunt_ref){ .space = SHUNT_SPACE_IN },
                        (struct shunt_ref){ .space = SHUNT_SPACE_SCRATCH0, .rank = (uint8_t)q, .slot = (uint8_t)me });
    }
    send->raise = shunt_plan_all(plan);
    send->raise_signal = DATA;

    struct shunt_step *add = shunt_plan_step(plan, SHUNT_STEP_REDUCE, 1, 0);
    /* Of my own senders too: in place, the sum overwrites what they send. */
    add->wait[0] = (struct shunt_wait){ shunt_plan_all(plan), DATA, 0 };
    for (uint32_t q = 0; q < plan->n; q++) {
        struct shunt_ref mine = { .space = SHUNT_SPACE_IN };
        struct shunt_ref theirs = { .space = SHUNT_SPACE_SCRATCH0, .rank = (uint8_t)me, .slot = (uint8_t)q };
        shunt_plan_in(plan, add, q == me ? mine : theirs);
    }
    shunt_plan_out(plan, add, (struct shunt_ref){ .space = SHUNT_SPACE_OUT, .rank = (uint8_t)me });
    add->raise = shunt_plan_others(plan);
    add->raise_signal = READ;

    struct shunt_step *end = shunt_plan_step(plan, SHUNT_STEP_WAIT, 1, 1);
    end->wait[0] = (struct shunt_wait){ shunt_plan_others(plan), READ, 0 };
}
