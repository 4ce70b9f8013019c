/* SPDX-License-Identifier: BSD-3-Clause */
/* Small words with which algorithms write plans. */
#ifndef SHUNT_COLL_PLAN_H
#define SHUNT_COLL_PLAN_H

#include "coll/algo.h"

/* An empty plan of this shape whose vector is cut into `slices` slices. */
void shunt_plan_begin(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me, uint32_t slices);

/* A new step; its references are added after it. */
struct shunt_step *shunt_plan_step(struct shunt_plan *plan, enum shunt_step_kind kind, uint32_t team, uint32_t lag);
void shunt_plan_in(struct shunt_plan *plan, struct shunt_step *step, struct shunt_ref ref);
void shunt_plan_out(struct shunt_plan *plan, struct shunt_step *step, struct shunt_ref ref);
void shunt_plan_pair(struct shunt_plan *plan, struct shunt_step *step, struct shunt_ref from, struct shunt_ref to);

/* All ranks, and all ranks but me, as masks. */
static inline uint64_t shunt_plan_all(const struct shunt_plan *plan)
{
    return plan->n == 64 ? ~0ull : (1ull << plan->n) - 1;
}

static inline uint64_t shunt_plan_others(const struct shunt_plan *plan)
{
    return shunt_plan_all(plan) & ~(1ull << plan->me);
}

/* The k-th rank after me: peers are served in an order that differs from rank to rank. */
static inline uint32_t shunt_plan_after(const struct shunt_plan *plan, uint32_t k)
{
    return (plan->me + k) % plan->n;
}

#endif
