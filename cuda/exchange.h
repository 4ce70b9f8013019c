/* SPDX-License-Identifier: BSD-3-Clause */
/* From a plan that is an exchange (base/plan.h) to what the kernels with flags in the payload need of it. */
#ifndef SHUNT_CUDA_EXCHANGE_H
#define SHUNT_CUDA_EXCHANGE_H

#include "cuda/kargs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What rank plan->me sends, and what it receives where. */
void shunt_exchange_of(const struct shunt_plan *plan, struct shunt_exchange *x);

/* The operation on these buffers. In place a rank's own block is there already: then *x says that it stays. */
void shunt_exchange_op(const struct shunt_plan *plan, const void *in, void *out, uint64_t ticket,
                       struct shunt_exchange *x, struct shunt_ll_op *op);

#ifdef __cplusplus
}
#endif

#endif
