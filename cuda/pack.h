/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that does not lie in one block, between device memory and host memory: packed and unpacked by a kernel, one launch
 * for a message.
 *
 * Like all of gpu.h: ordered after the legacy default stream, complete on return, the caller's CUDA state untouched.
 * `base` is the address of element 0; nothing but the elements' bytes is touched, and it need not be mapped itself.
 */
#ifndef SHUNT_CUDA_PACK_H
#define SHUNT_CUDA_PACK_H

#include "cuda/pattern.h"

/*
 * The first `bytes` packed bytes of the elements at `base`, to or from host memory of shunt_bounce_get. `count`: how many
 * elements there are.
 */
enum shunt_status shunt_pack_out(const struct shunt_pattern *pattern, const void *base, int64_t count, uint64_t bytes,
                                 char *packed);
enum shunt_status shunt_pack_in(const struct shunt_pattern *pattern, void *base, int64_t count, uint64_t bytes,
                                const char *packed);

/* The same to or from elements in host memory that lie as those on the device do: `image` stands for `base`. */
enum shunt_status shunt_pack_fill(const struct shunt_pattern *pattern, const void *base, int64_t count, uint64_t bytes,
                                  char *image);
enum shunt_status shunt_pack_return(const struct shunt_pattern *pattern, void *base, int64_t count, uint64_t bytes,
                                    const char *image);

/*
 * Packed bytes first ... first + bytes - 1 of the elements at `base`, from or to `packed`, which is memory of the process's own
 * GPU. PASS: the elements lie elsewhere, and nothing has been done.
 */
enum shunt_status shunt_pack_between(const struct shunt_pattern *pattern, const void *base, uint64_t first, uint64_t bytes,
                                     char *packed, bool packing);

/* The pattern ends: give back what is kept for it in device memory. */
void shunt_pack_forget(struct shunt_pattern *pattern);

#endif
