/* SPDX-License-Identifier: BSD-3-Clause */
/* The pinned pool as the other files of this folder use it; stage.c. */
#ifndef SHUNT_CUDA_STAGE_H
#define SHUNT_CUDA_STAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Make the pool if there is none yet; inside a context. Answers the size of its pieces. */
size_t shunt_pool_ready(void);

/* A pinned piece, or NULL: all are taken. */
char *shunt_pool_take(void);
void shunt_pool_give(char *piece);

/* Is this in a piece? */
bool shunt_pool_has(const void *p);

#endif
