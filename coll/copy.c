/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that only move data, by the copy engines: who has something copies it straight into the receive buffers of
 * those who get it, in the layout that one hop has (oneshot.c).
 *
 * All buffers must be ready when the operation is decided, since nobody waits for anything before he writes. A rank is
 * done when its copies are, and those of all that write to it.
 */
#include "coll/plan.h"

enum { DONE }; /* signal: all my copies have arrived */

void shunt_plan_copies(struct shunt_plan *plan, const struct shunt_hop *hop)
{
    struct shunt_step *copy = shunt_plan_step(plan, SHUNT_STEP_COPY, 0, 0);
    uint64_t senders = 0;

    for (uint32_t k = 0; k < plan->n; k++) {
        uint8_t q = (uint8_t)shunt_plan_after(plan, k);
        if (q != plan->me && hop->send[q] != SHUNT_NO_SLICE) {
            shunt_plan_pair(plan, copy, (struct shunt_ref){ .space = SHUNT_SPACE_IN, .slice = hop->send[q] },
                            (struct shunt_ref){ .space = SHUNT_SPACE_OUT, .rank = q, .slice = hop->to[q] });
            copy->raise |= 1ull << q;
        }
        if (q != plan->me && hop->recv[q] != SHUNT_NO_SLICE)
            senders |= 1ull << q;
    }
    if (hop->recv[plan->me] != SHUNT_NO_SLICE)
        shunt_plan_pair(plan, copy, (struct shunt_ref){ .space = SHUNT_SPACE_IN, .slice = hop->send[plan->me] },
                        (struct shunt_ref){ .space = SHUNT_SPACE_OUT, .rank = (uint8_t)plan->me,
                                            .slice = hop->recv[plan->me] });
    copy->raise_signal = DONE;
    if (senders != 0) {
        struct shunt_step *end = shunt_plan_step(plan, SHUNT_STEP_WAIT, 1, 0);
        end->wait[0] = (struct shunt_wait){ senders, DONE, 0 };
    }
}
