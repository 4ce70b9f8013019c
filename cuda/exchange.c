/* SPDX-License-Identifier: BSD-3-Clause */
/* From a plan that is an exchange to the kernels' description of it. */
#include "cuda/exchange.h"

#include <stdbool.h>
#include <string.h>

static void read_step(const struct shunt_plan *plan, const struct shunt_step *step, struct shunt_exchange *x)
{
    const struct shunt_ref *ref = &plan->refs[step->first_ref];
    bool copies = step->kind == SHUNT_STEP_COPY;

    for (uint32_t i = 0; i < step->n_in; i++) {
        struct shunt_ref from = ref[copies ? 2 * i : i], to = copies ? ref[2 * i + 1] : ref[step->n_in];
        uint32_t q = from.space == SHUNT_SPACE_IN ? plan->me : from.slot;
        if (from.space == SHUNT_SPACE_IN)
            x->send[to.space == SHUNT_SPACE_SCRATCH0 ? to.rank : q] = from.slice;
        if (to.space == SHUNT_SPACE_OUT)
            x->recv[q] = to.slice;
        if (!copies)
            x->out = to.slice;
    }
    x->direct |= step->n_out > 1;
}

void shunt_exchange_of(const struct shunt_plan *plan, struct shunt_exchange *x)
{
    memset(x, SHUNT_NO_SLICE, sizeof *x);
    x->direct = 0;
    for (uint32_t k = 0; k < plan->n_steps; k++)
        read_step(plan, &plan->steps[k], x);
}

static void skip_own(const struct shunt_plan *plan, const struct shunt_ll_op *op, struct shunt_exchange *x)
{
    const uint32_t me = plan->me;

    if (x->out != SHUNT_NO_SLICE || x->recv[me] == SHUNT_NO_SLICE)
        return;
    uint64_t from = plan->spans ? plan->spans->in[me].at : x->send[me] * op->bytes;
    uint64_t to = plan->spans ? plan->spans->out[me].at : x->recv[me] * op->bytes;
    if ((const char *)op->in + from == (char *)op->out + to)
        x->recv[me] = x->send[me] = SHUNT_NO_SLICE;
}

/* Of all slices that this rank sends or receives. */
static uint64_t largest_span(const struct shunt_plan *plan)
{
    uint64_t bytes = 0;

    for (uint32_t q = 0; q < plan->n; q++) {
        uint64_t in = plan->spans->in[q].bytes, out = plan->spans->out[q].bytes, both = in > out ? in : out;
        bytes = both > bytes ? both : bytes;
    }
    return bytes;
}

void shunt_exchange_op(const struct shunt_plan *plan, const void *in, void *out, uint64_t ticket,
                       struct shunt_exchange *x, struct shunt_ll_op *op)
{
    bool one = plan->slices == 1;

    *op = (struct shunt_ll_op){
        .in = in,
        .out = out,
        .bytes = plan->spans ? largest_span(plan) : one ? plan->bytes : plan->slice_bytes,
        .ticket = ticket,
        .lines = (plan->flags & SHUNT_PLAN_LINES) != 0,
        .lacks = one || plan->spans ? 0 : (uint16_t)(plan->slices * plan->slice_bytes - plan->bytes),
    };
    skip_own(plan, op, x);
}
