/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of pack.cu on each GPU: loading, what they need in device memory, launching, waiting for them; for pack.c.
 *
 * A kernel may find no room on its GPU for as long as one of the application runs. It is called back then
 * (recall.h), and waits for room all the same: until it is gone there is no packer for this GPU.
 *
 * All but reaches and close want the GPU's context entered.
 */
#ifndef SHUNT_CUDA_PACKER_H
#define SHUNT_CUDA_PACKER_H

#include "cuda/context.h"
#include "cuda/pattern.h"
#include "cuda/recall.h"

/* One for each GPU. What is in it is used with its lock. */
struct shunt_packer {
    pthread_mutex_t lock;
    struct shunt_gpu *gpu;
    unsigned long long context; /* of the GPU when all this was made; 0: nothing is there */
    bool failed;                /* in this context it cannot be done */
    CUmodule module;
    CUfunction pack, unpack;
    unsigned processors;
    CUstream stream;      /* kernels, and copies when those have ended */
    CUdeviceptr told;     /* told.h */
    uint64_t *pinned;     /* for copies of those */
    uint64_t launch;      /* number of the last */
    struct shunt_recall recall;
    bool stuck;           /* it has been called back, and is still there */
    CUdeviceptr buffer; /* packed data on its way; 0: none yet */
    size_t buffer_bytes;
};

/* The packer of a GPU, ready and locked, or NULL: there are no kernels for it. */
struct shunt_packer *shunt_packer_lock(struct shunt_gpu *gpu);
void shunt_packer_unlock(struct shunt_packer *packer);

/* Make it ready before kernels run that wait for peers, since loading waits for what runs. */
void shunt_packer_load(struct shunt_gpu *gpu);

/* Do all these packed bytes lie in memory that kernels of this GPU may access? */
bool shunt_packer_reaches(const struct shunt_gpu *gpu, const struct shunt_pattern *pattern, const char *base,
                          int64_t count, uint64_t bytes);

/* Put the list of a pattern into device memory, unless it is there or travels with the launch. */
enum shunt_status shunt_packer_prepare(struct shunt_packer *packer, const struct shunt_pattern *pattern);

/* A buffer for a message of so many bytes: how many bytes of it to use, a multiple of `chunk`; 0: there is none. */
size_t shunt_packer_buffer(struct shunt_packer *packer, size_t chunk, uint64_t bytes);

/* Move packed bytes first ... first + bytes - 1 of the elements at `base` from or to `packed`, on the packer's stream. */
enum shunt_status shunt_packer_launch(struct shunt_packer *packer, const struct shunt_pattern *pattern, char *base,
                                      uint64_t first, uint64_t bytes, CUdeviceptr packed, bool packing);

/*
 * Wait for an event on the packer's stream, or, NULL, for all that is on it. SHUNT_PASS: the last launch has been called
 * back; what it was to move is to be moved otherwise.
 *
 * No copy may be put behind a kernel that has not ended: should that be called back, the copy would come late, into memory
 * that others use by then.
 */
enum shunt_status shunt_packer_wait(struct shunt_packer *packer, CUevent event);

/* Give everything of that GPU back, in its context; or forget it, as the context is gone. */
void shunt_packer_close(struct shunt_gpu *gpu);

#endif
