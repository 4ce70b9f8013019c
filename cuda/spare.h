/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room of ours for what goes over the network: pinned host memory, which is all that UCX gets to see, and memory of the GPU for
 * what is there only on its way. Some of it is kept from operation to operation.
 */
#ifndef SHUNT_CUDA_SPARE_H
#define SHUNT_CUDA_SPARE_H

#include "cuda/gpu.h"

struct shunt_spare {
    int place; /* among those that are kept */
    char *host;
    size_t host_bytes;
    char *device; /* NULL: none was wanted */
    size_t device_bytes;
    struct shunt_mem mem; /* of `device` */
};

/* At least so much, on the GPU where `like` lies. False: there is no memory, or too many threads have some. */
bool shunt_spare_take(const void *like, size_t host_bytes, size_t device_bytes, struct shunt_spare *spare);

/* Back; or, where somebody may still look at it, never again. */
void shunt_spare_give(const struct shunt_spare *spare);
void shunt_spare_abandon(const struct shunt_spare *spare);

/* At the end: give back what nobody has taken. */
void shunt_spare_close(void);

#endif
