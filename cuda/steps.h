/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan's steps as the kernel that runs plans reads them. For C and C++. */
#ifndef SHUNT_CUDA_STEPS_H
#define SHUNT_CUDA_STEPS_H

#include <string.h>

#include "cuda/kargs.h"

static inline void shunt_kstep_of(const struct shunt_step *step, struct shunt_kstep *k)
{
    memset(k, 0, sizeof *k);
    k->raise = (uint16_t)step->raise;
    k->back = (uint16_t)step->back;
    k->raise_signal = step->raise_signal;
    k->back_signal = step->back_signal;
    k->first_ref = step->first_ref;
    k->n_in = step->n_in;
    k->n_out = step->n_out;
    k->kind = step->kind;
    k->team = step->team;
    k->lag = step->lag;
    k->from = step->from;
    k->to = step->to;
    k->ahead = step->ahead;
    k->way = step->way;
    k->once = step->once;
    k->turns = step->turns;
    for (int w = 0; w < 2; w++) {
        k->wait_ranks[w] = (uint16_t)step->wait[w].ranks;
        k->wait_signal[w] = step->wait[w].signal;
        k->wait_depth[w] = step->wait[w].depth;
    }
}

/* All that args have of a plan but where things lie. */
static inline void shunt_plan_args_of(const struct shunt_plan *plan, struct shunt_plan_args *args)
{
    args->bytes = plan->bytes;
    args->slice_bytes = plan->slice_bytes;
    args->part_bytes = plan->part_bytes;
    args->chunk = plan->chunk;
    args->depth = plan->depth;
    args->stride = plan->chunk + 128;
    args->n_steps = plan->n_steps;
    args->phases = (uint16_t)plan->phases;
    args->ways = (uint8_t)plan->ways;
    args->split = plan->split;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        shunt_kstep_of(&plan->steps[i], &args->steps[i]);
    memcpy(args->refs, plan->refs, plan->n_refs * sizeof *plan->refs);
    for (uint32_t way = 0; way < plan->ways; way++)
        memcpy(args->order[way], plan->order[way], plan->n);
    args->has_spans = plan->spans != NULL;
    if (plan->spans != NULL)
        args->spans = *plan->spans;
}

#endif
