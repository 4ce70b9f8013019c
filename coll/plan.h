/* SPDX-License-Identifier: BSD-3-Clause */
/* Small words with which algorithms write plans. */
#ifndef SHUNT_COLL_PLAN_H
#define SHUNT_COLL_PLAN_H

#include "coll/algo.h"

/* An empty plan of this shape whose vector is cut into `slices` slices. */
void shunt_plan_begin(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me, uint32_t slices);

/* The same, of as many blocks of shape->bytes as there are ranks: these are the slices. */
void shunt_plan_begin_blocks(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me);

/* The same, of the blocks that shape->spans has, of which shape->bytes is the size of the largest on any rank. */
void shunt_plan_begin_spans(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t me);

/* After a begin: each team works on a half of its own. */
void shunt_plan_split(struct shunt_plan *plan);

/*
 * The steps with which a plan begins in which not everybody hears from all: all tell all that they have begun, and nobody
 * goes on before.
 */
void shunt_plan_all_begin(struct shunt_plan *plan, uint8_t signal);

/* What one rank does in an exchange (base/plan.h); what is SHUNT_NO_SLICE does not happen. */
struct shunt_hop {
    uint8_t send[SHUNT_PLAN_RANKS]; /* [q]: the slice of the send buffer that goes to rank q; [me]: that stays here */
    uint8_t recv[SHUNT_PLAN_RANKS]; /* [q]: the slice of the receive buffer where rank q's goes; combining: any */
    uint8_t from[SHUNT_PLAN_RANKS]; /* [q]: the slice of rank q's send buffer that comes */
    uint8_t to[SHUNT_PLAN_RANKS];   /* [q]: moving: the slice of rank q's receive buffer where mine goes */
    uint8_t out;                    /* combining: the slice of the result; else NONE */
};

/* A hop in which nothing happens. */
void shunt_hop_begin(struct shunt_hop *hop);

/* The steps of an exchange, after a begin. */
void shunt_plan_exchange(struct shunt_plan *plan, const struct shunt_hop *hop);

/* The same by copy engines, straight to where it goes (coll/copy.c). */
/* Reduce, one hop, whose root may read the send buffers of the others. */
void shunt_plan_reduce_reading(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan);

void shunt_plan_copies(struct shunt_plan *plan, const struct shunt_hop *hop);

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
