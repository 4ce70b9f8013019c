/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One record per GPU that this process's buffers lie on: the application's context on it, our stream, events.
 *
 * We never create a context: a buffer on a GPU proves that the application has one there, its primary context or one
 * of its own. Entering pushes it for the time of our calls and puts the thread's capture mode to relaxed, so that
 * nothing of ours lands in, or breaks, a graph that the application captures.
 */
#ifndef SHUNT_CUDA_CONTEXT_H
#define SHUNT_CUDA_CONTEXT_H

#include <pthread.h>

#include "cuda/driver.h"

#define SHUNT_GPUS 64

struct shunt_gpu {
    int ordinal;
    CUcontext context;
    unsigned long long id; /* of the context: a handle may come back after a reset, an id does not */
    CUstream stream; /* non-blocking, highest priority: kernels, in ticket order */
    CUstream copies; /* the same for what is staged, which must not wait for a kernel that finds no room on the GPU */
    CUevent legacy;  /* recorded on the legacy default stream before our first read */
    bool dead;       /* the context is gone, and everything of ours in it: nothing may be touched any more */
};

/* What enter changed and leave restores. */
struct shunt_gpu_scope {
    CUstreamCaptureMode mode;
};

/*
 * The record of the GPU where the memory at p lies; made on first use. NULL if there is no context to work in.
 * *foreign: p belongs to another context than the record's (copies work all the same, kernels and IPC do not).
 */
struct shunt_gpu *shunt_gpu_of(const void *p, bool *foreign);

enum shunt_status shunt_gpu_enter(struct shunt_gpu *gpu, struct shunt_gpu_scope *scope);
void shunt_gpu_leave(struct shunt_gpu_scope *scope);

/*
 * Let this stream of ours wait for what the application has put on the legacy default stream; many codes rely on that order.
 * False: it cannot be asked now, and is not waited for. Has it come so far?
 */
bool shunt_gpu_after_legacy(struct shunt_gpu *gpu, CUstream stream);

/* The same without a stream that waits: for a host that asks whether it has come so far. */
bool shunt_gpu_mark_legacy(struct shunt_gpu *gpu);
bool shunt_gpu_legacy_passed(struct shunt_gpu *gpu);

/* Is there nothing on it, and on the streams that it waits for? Called between enter and leave. */
bool shunt_gpu_legacy_idle(void);

/* At Finalize. */
void shunt_gpus_close(void);

/* stage.c: give the pinned pool back, inside a context; or forget it, because its context is gone. */
void shunt_stage_close(void);
void shunt_stage_forget(void);

#endif
