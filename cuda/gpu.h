/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPU as the layers above see it: is it in use, what memory is this, copies for the staged path.
 *
 * Every function leaves the caller's current device, context stack, last CUDA error and errno as they were. None may be
 * called in a fork child. Thread-safe.
 */
#ifndef SHUNT_CUDA_GPU_H
#define SHUNT_CUDA_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Does this process use CUDA (libcuda mapped and initialised)? About 1 ns when the answer is no or known.
 * Nothing is loaded or initialised by asking.
 */
bool shunt_gpu_in_use(void);

/*
 * Make that question cheap in programs that load nothing after MPI_Init: `path` names an object of ours that is loaded
 * now and never unloaded, and so marks the end of the list of loaded objects. Optional; failure is silent.
 */
void shunt_gpu_watch(const char *path);

enum shunt_mem_kind {
    SHUNT_MEM_HOST,    /* pageable or pinned: the CPU may touch it */
    SHUNT_MEM_DEVICE,  /* cudaMalloc, VMM, pool, imported: the CPU may not */
    SHUNT_MEM_MANAGED, /* both may */
};

struct shunt_mem {
    enum shunt_mem_kind kind;
    int device;   /* ordinal of the GPU it lies on; -1 for host memory */
    uint64_t id;  /* the driver's BUFFER_ID: a new one whenever an address is handed out again */
};

/*
 * What memory is `p`? The stack of the calling thread and the brk heap are host memory without a query; others cost
 * one driver query (75-165 ns) once the process uses CUDA. Never fails: what the driver does not know is host memory.
 * Never pass MPI sentinels.
 */
void shunt_gpu_classify(const void *p, struct shunt_mem *mem);

/* May the CPU touch it, also while kernels run? Managed memory only where every GPU of the process allows that. */
bool shunt_gpu_host_may_touch(const struct shunt_mem *mem);

/* Are both on the stack of the calling thread or in the brk heap? Asks nobody; false says nothing. */
bool shunt_gpu_surely_host(const void *p, const void *q);

/*
 * Host memory for staging `bytes`: pinned if it fits in the bounded pool, else pageable, lazily touched and kept for
 * the next call. NULL if there is none. Give it back with shunt_bounce_put, which wants to know how many bytes of it may
 * have been touched. Contents undefined.
 */
void *shunt_bounce_get(size_t bytes);
void shunt_bounce_put(void *host, size_t touched);

/*
 * Copy between device (or managed) memory and host memory that shunt_bounce_get gave, in pipelined pieces through the
 * pinned pool where the host side is pageable. Ordered after the legacy default stream; complete on return.
 */
enum shunt_status shunt_stage_out(void *host, const void *device, size_t bytes);
enum shunt_status shunt_stage_in(void *device, const void *host, size_t bytes);

/* Copy inside device memory; complete on return. For communicators of one rank. */
enum shunt_status shunt_gpu_copy(void *to, const void *from, size_t bytes);

/* At Finalize: give back all device and pinned memory if the context still lives; never fails, never blocks long. */
void shunt_gpu_finish(void);

#endif
