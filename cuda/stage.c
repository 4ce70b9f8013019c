/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between device memory and host memory for the staged path.
 *
 * A bounded pool of pinned pieces (SHUNT_STAGE_SIZE in pieces of SHUNT_STAGE_CHUNK) is made on first use. A message
 * that fits in a piece is staged in it; a larger one gets pageable memory, touched lazily, and is copied in pieces
 * through two pinned ones: while the GPU moves one, the CPU moves the other.
 */
#include <pthread.h>
#include <string.h>

#include "base/conf.h"
#include "cuda/context.h"
#include "cuda/gpu.h"
#include "cuda/pageable.h"
#include "cuda/stage.h"

#define MAX_PIECES 64
#define FIRST_PAGE 4096

static struct {
    pthread_mutex_t lock;
    bool tried;
    char *pinned;    /* pieces * chunk bytes */
    size_t chunk;
    unsigned pieces;
    uint64_t taken;  /* bit mask */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Called with the lock held, inside some context. Without pinned memory everything is pageable: slower, but right. */
static void pool_make(void)
{
    void *pinned = NULL;

    pool.tried = true;
    pool.chunk = shunt_conf->stage_chunk < 4096 ? 4096 : shunt_conf->stage_chunk;
    size_t pieces = shunt_conf->stage_size / pool.chunk;
    pool.pieces = pieces > MAX_PIECES ? MAX_PIECES : (unsigned)pieces;
    if (pool.pieces == 0)
        return;
    if (SHUNT_CUDA(cuMemHostAlloc(&pinned, pool.pieces * pool.chunk, CU_MEMHOSTALLOC_PORTABLE)) != SHUNT_OK)
        pool.pieces = 0;
    pool.pinned = pinned;
}

char *shunt_pool_take(void)
{
    char *piece = NULL;

    pthread_mutex_lock(&pool.lock);
    for (unsigned i = 0; i < pool.pieces && piece == NULL; i++) {
        if (!(pool.taken >> i & 1)) {
            pool.taken |= 1ull << i;
            piece = pool.pinned + i * pool.chunk;
        }
    }
    pthread_mutex_unlock(&pool.lock);
    return piece;
}

bool shunt_pool_has(const void *p)
{
    return pool.pinned != NULL && (const char *)p >= pool.pinned &&
           (const char *)p < pool.pinned + pool.pieces * pool.chunk;
}

void shunt_pool_give(char *piece)
{
    if (piece == NULL)
        return;
    pthread_mutex_lock(&pool.lock);
    pool.taken &= ~(1ull << ((size_t)(piece - pool.pinned) / pool.chunk));
    pthread_mutex_unlock(&pool.lock);
}

/* The pool is made by the first copy, which has a context; before that everything is pageable. */
size_t shunt_pool_ready(void)
{
    pthread_mutex_lock(&pool.lock);
    if (!pool.tried)
        pool_make();
    pthread_mutex_unlock(&pool.lock);
    return pool.chunk;
}

void *shunt_bounce_get(size_t bytes)
{
    char *piece = bytes <= pool.chunk ? shunt_pool_take() : NULL;

    return piece != NULL ? piece : shunt_pageable_get(bytes);
}

void shunt_bounce_put(void *host, size_t touched)
{
    if (host == NULL)
        return;
    if (shunt_pool_has(host))
        shunt_pool_give(host);
    else
        shunt_pageable_put(host, touched > FIRST_PAGE);
}

static enum shunt_status copy_and_wait(struct shunt_gpu *gpu, void *to, const void *from, size_t bytes)
{
    enum shunt_status status = SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, gpu->copies));

    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamSynchronize(gpu->copies));
    return status;
}

/* One copy in flight in each of two pieces; `done[i]` is recorded behind the GPU's copy of piece i. */
struct pipe {
    struct shunt_gpu *gpu;
    char *piece[2];
    CUevent done[2];
};

static enum shunt_status pipe_out(struct pipe *pipe, char *host, const char *device, size_t bytes)
{
    size_t pieces = (bytes + pool.chunk - 1) / pool.chunk;
    enum shunt_status status = SHUNT_OK;

    for (size_t i = 0; i <= pieces && status == SHUNT_OK; i++) {
        if (i < pieces) {
            size_t at = i * pool.chunk, n = bytes - at < pool.chunk ? bytes - at : pool.chunk;
            status = SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)pipe->piece[i % 2], (CUdeviceptr)(device + at), n,
                                              pipe->gpu->copies));
            if (status == SHUNT_OK)
                status = SHUNT_CUDA(cuEventRecord(pipe->done[i % 2], pipe->gpu->copies));
        }
        if (i > 0 && status == SHUNT_OK) {
            size_t at = (i - 1) * pool.chunk, n = bytes - at < pool.chunk ? bytes - at : pool.chunk;
            status = SHUNT_CUDA(cuEventSynchronize(pipe->done[(i - 1) % 2]));
            if (status == SHUNT_OK)
                memcpy(host + at, pipe->piece[(i - 1) % 2], n);
        }
    }
    return status;
}

static enum shunt_status pipe_in(struct pipe *pipe, char *device, const char *host, size_t bytes)
{
    size_t pieces = (bytes + pool.chunk - 1) / pool.chunk;
    enum shunt_status status = SHUNT_OK;

    for (size_t i = 0; i < pieces && status == SHUNT_OK; i++) {
        size_t at = i * pool.chunk, n = bytes - at < pool.chunk ? bytes - at : pool.chunk;
        if (i >= 2)
            status = SHUNT_CUDA(cuEventSynchronize(pipe->done[i % 2]));
        if (status != SHUNT_OK)
            break;
        memcpy(pipe->piece[i % 2], host + at, n);
        status = SHUNT_CUDA(
            cuMemcpyAsync((CUdeviceptr)(device + at), (CUdeviceptr)pipe->piece[i % 2], n, pipe->gpu->copies));
        if (status == SHUNT_OK)
            status = SHUNT_CUDA(cuEventRecord(pipe->done[i % 2], pipe->gpu->copies));
    }
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamSynchronize(pipe->gpu->copies));
    return status;
}

static bool pipe_open(struct pipe *pipe)
{
    for (int i = 0; i < 2; i++)
        pipe->piece[i] = shunt_pool_take();
    for (int i = 0; i < 2 && pipe->piece[1] != NULL; i++) {
        if (SHUNT_CUDA(cuEventCreate(&pipe->done[i], CU_EVENT_DISABLE_TIMING)) != SHUNT_OK)
            pipe->done[i] = NULL;
    }
    return pipe->done[0] != NULL && pipe->done[1] != NULL;
}

static void pipe_close(struct pipe *pipe)
{
    for (int i = 0; i < 2; i++) {
        if (pipe->done[i] != NULL)
            SHUNT_CUDA(cuEventDestroy_v2(pipe->done[i]));
        shunt_pool_give(pipe->piece[i]);
    }
}

enum direction { OUT, IN, LOCAL };

static enum shunt_status transfer(enum direction direction, struct shunt_gpu *gpu, void *device, void *host, size_t bytes)
{
    struct pipe pipe = { .gpu = gpu };
    enum shunt_status status;
    bool direct = direction == LOCAL || shunt_pool_has(host) || bytes <= pool.chunk;

    if (!direct && pipe_open(&pipe))
        status = direction == OUT ? pipe_out(&pipe, host, device, bytes) : pipe_in(&pipe, device, host, bytes);
    else
        status = direction == IN ? copy_and_wait(gpu, device, host, bytes) : copy_and_wait(gpu, host, device, bytes);
    pipe_close(&pipe);
    return status;
}

/*
 * Enter the context of the device memory, order behind the legacy stream, move, leave. LOCAL: `host` is the target, on
 * a GPU too.
 */
static enum shunt_status stage(enum direction direction, void *device, void *host, size_t bytes)
{
    struct shunt_gpu_scope scope;
    bool foreign;

    if (bytes == 0)
        return SHUNT_OK;
    struct shunt_gpu *gpu = shunt_gpu_of(device, &foreign);
    if (gpu == NULL)
        return SHUNT_ERR_CUDA;
    enum shunt_status status = shunt_gpu_enter(gpu, &scope);
    if (status != SHUNT_OK)
        return status;
    shunt_pool_ready();
    shunt_gpu_after_legacy(gpu, gpu->copies);
    status = transfer(direction, gpu, device, host, bytes);
    shunt_gpu_leave(&scope);
    return status;
}

enum shunt_status shunt_stage_out(void *host, const void *device, size_t bytes)
{
    return stage(OUT, (void *)device, host, bytes);
}

enum shunt_status shunt_stage_in(void *device, const void *host, size_t bytes)
{
    return stage(IN, device, (void *)host, bytes);
}

enum shunt_status shunt_gpu_copy(void *to, const void *from, size_t bytes)
{
    return stage(LOCAL, (void *)from, to, bytes);
}

void shunt_stage_forget(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.pinned = NULL;
    pool.pieces = 0;
    pool.taken = 0;
    pool.tried = false;
    pthread_mutex_unlock(&pool.lock);
}

void shunt_stage_close(void)
{
    pthread_mutex_lock(&pool.lock);
    /* What is still out the host MPI uses, in operations that the program has not completed. */
    if (pool.pinned != NULL && pool.taken == 0)
        shunt_driver.cuMemFreeHost(pool.pinned);
    pool.pinned = NULL;
    pool.pieces = 0;
    pthread_mutex_unlock(&pool.lock);
    shunt_pageable_close();
}
