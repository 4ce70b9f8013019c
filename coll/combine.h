/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions on the host, with the kernels' arithmetic (cuda/ops.cuh): for what comes over the network. */
#ifndef SHUNT_COLL_COMBINE_H
#define SHUNT_COLL_COMBINE_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

/* Is there one of this type and operation? */
bool shunt_combine_can(enum shunt_type type, enum shunt_op op);

/*
 * to = from[0] op from[1] op ... from[n - 1], in this order, `count` elements; 16-bit floats are rounded once. `to` may be one of
 * them. n >= 2.
 */
void shunt_combine(enum shunt_type type, enum shunt_op op, size_t count, const void *const *from, int n, void *to);

#endif
