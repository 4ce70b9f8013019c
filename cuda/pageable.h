/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host memory for what is staged and does not fit in a pinned piece: mapped without its pages, which come when they are
 * touched. Some of it is kept, so that a call does not pay for a mapping.
 */
#ifndef SHUNT_CUDA_PAGEABLE_H
#define SHUNT_CUDA_PAGEABLE_H

#include <stdbool.h>
#include <stddef.h>

/* NULL: there is none. */
void *shunt_pageable_get(size_t bytes);

/* `touched`: more than the first page may be there. Of such memory only the largest is kept. */
void shunt_pageable_put(void *memory, bool touched);

/* Give back what is kept. */
void shunt_pageable_close(void);

#endif
