/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts: primary ones of devices, made ones, and each thread's stack of them. A context that
 * ends leaves its object behind, so that whoever still has it current is told so.
 */
#include "sim/driver.h"

#include <stdlib.h>
#include <unistd.h>

enum { STACK_DEPTH = 64 };

static _Thread_local CUcontext stack[STACK_DEPTH];
static _Thread_local int depth; /* the current one is stack[depth - 1] */

CUresult sim_error(CUcontext ctx)
{
    int error = atomic_load(&sim.shared->error);
    if (error)
        return (CUresult)error;
    return sim_executor_gone(&ctx->executor) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

CUresult sim_context_usable(CUcontext ctx)
{
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->live)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return (CUresult)atomic_load(&sim.shared->error);
}

CUresult sim_current(CUcontext *ctx)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    *ctx = depth ? stack[depth - 1] : NULL;
    return sim_context_usable(*ctx);
}

static void map_block(struct sim_block *block, void *data)
{
    struct CUctx_st *c = data;
    struct sim_request map = sim_block_request(block);
    if (map.bytes)
        sim_request(&c->executor, &map, NULL);
}

/* With sim.lock held: give the context its executor, which sees at once all memory there is. */
static CUresult start(struct CUctx_st *c)
{
    CUresult result = sim_executor_start(&c->executor, sim_config()->visible[c->device]);
    if (result)
        return result;
    sim_table_lock();
    sim_block_each(map_block, c);
    c->memory_end = 0;
    c->id = atomic_fetch_add(&sim.next_id, 1) + 1;
    c->live = true;
    sim_table_unlock();
    return CUDA_SUCCESS;
}

/*
 * With sim.lock held: all of the context's work, streams and memory end with it. (Who has retained
 * it still has.)
 */
static void stop(struct CUctx_st *c)
{
    sim_executor_stop(&c->executor);
    sim_streams_forget(c);
    sim_table_lock();
    c->live = false;
    sim_context_drop_memory(c);
    sim_table_unlock();
    c->flags = 0;
    c->peers = 0;
    /* An error ends with the last context that could have made it */
    for (struct CUctx_st *other = sim.contexts; other; other = other->next)
        if (other->live)
            return;
    atomic_store(&sim.shared->error, 0);
}

/* With sim.lock held */
static struct CUctx_st *new_context(CUdevice device, bool primary)
{
    struct CUctx_st *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->device = device;
    c->primary = primary;
    c->executor.socket = -1;
    pthread_mutex_init(&c->executor.lock, NULL);
    pthread_mutex_init(&c->submit, NULL);
    sim_table_lock();
    c->next = sim.contexts;
    sim.contexts = c;
    sim_table_unlock();
    return c;
}

/* ---- primary contexts ---- */

static CUresult check_device(CUdevice device)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    return sim_device_ok(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
    CUresult result = check_device(device);
    if (result)
        return result;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    struct CUctx_st *c = sim.primary[device];
    if (!c)
        c = sim.primary[device] = new_context(device, true);
    if (!c)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (!c->live)
        result = start(c);
    if (!result) {
        c->retains++;
        *ctx = c;
    }
    pthread_mutex_unlock(&sim.lock);
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult result = check_device(device);
    if (result)
        return result;
    pthread_mutex_lock(&sim.lock);
    struct CUctx_st *c = sim.primary[device];
    if (!c || !c->retains)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!--c->retains && c->live)
        stop(c);
    pthread_mutex_unlock(&sim.lock);
    return result;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    CUresult result = check_device(device);
    if (result)
        return result;
    pthread_mutex_lock(&sim.lock);
    struct CUctx_st *c = sim.primary[device];
    if (c && c->live)
        stop(c);
    pthread_mutex_unlock(&sim.lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    CUresult result = check_device(device);
    if (result)
        return result;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    struct CUctx_st *c = sim.primary[device];
    *flags = c ? c->flags : 0;
    *active = c && c->live;
    pthread_mutex_unlock(&sim.lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    CUresult result = check_device(device);
    if (result)
        return result;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    struct CUctx_st *c = sim.primary[device];
    if (!c)
        c = sim.primary[device] = new_context(device, true);
    if (c)
        c->flags = flags;
    pthread_mutex_unlock(&sim.lock);
    return c ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- contexts that a program makes ---- */

SIM_API CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device)
{
    CUresult result = check_device(device);
    if (result)
        return result;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    struct CUctx_st *c = new_context(device, false);
    result = c ? start(c) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim.lock);
    if (result)
        return result;
    c->flags = flags;
    *ctx = c;
    return cuCtxPushCurrent(c);
}

CUresult cuCtxCreate(CUcontext *ctx, CUctxCreateParams *params, unsigned flags, CUdevice device)
{
    return params && params->numExecAffinityParams ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
                                                   : cuCtxCreate_v2(ctx, flags, device);
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!ctx || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->live)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (depth && stack[depth - 1] == ctx)
        depth--;
    pthread_mutex_lock(&sim.lock);
    stop(ctx);
    pthread_mutex_unlock(&sim.lock);
    return CUDA_SUCCESS;
}

/* ---- the calling thread's stack ---- */

CUresult cuCtxGetCurrent(CUcontext *ctx)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    *ctx = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

/* A primary context may become current while it is not active: what needs it then fails. */
static bool settable(CUcontext ctx)
{
    return ctx->live || ctx->primary;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (ctx && !settable(ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!ctx)
        depth -= depth > 0;
    else if (depth)
        stack[depth - 1] = ctx;
    else
        stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!settable(ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (depth == STACK_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *ctx)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (ctx)
        *ctx = stack[depth];
    return CUDA_SUCCESS;
}

/* ---- questions about the current context ---- */

CUresult cuCtxGetDevice(CUdevice *device)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!settable(stack[depth - 1]))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *device = stack[depth - 1]->device; /* also of a primary context that is not active */
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned *flags)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (!result)
        *flags = ctx->flags;
    return result;
}

static CUresult usable_or_current(CUcontext *ctx)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    return *ctx ? sim_context_usable(*ctx) : sim_current(ctx);
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    CUresult result = usable_or_current(&ctx);
    if (!result)
        *id = ctx->id;
    return result;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
    CUresult result = usable_or_current(&ctx);
    if (!result)
        *version = 3020;
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_ERROR_INVALID_CONTEXT : result;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (!result)
        result = sim_capture_check();
    return result ? result : sim_context_wait(ctx);
}

/* ---- peers: all executors see all memory, so this only keeps account ---- */

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (!result && !peer)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        result = sim_context_usable(peer);
    if (result)
        return result;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer->device == ctx->device || sim_has_fault(SIM_FAULT_NOP2P))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (ctx->peers & 1u << peer->device)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    ctx->peers |= 1u << peer->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (!result && !peer)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return result;
    if (!(ctx->peers & 1u << peer->device))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    ctx->peers &= ~(1u << peer->device);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (!result)
        *value = limit == CU_LIMIT_STACK_SIZE         ? 1024
                 : limit == CU_LIMIT_MALLOC_HEAP_SIZE ? 8u << 20
                                                      : 0;
    return result;
}

/* Waits, as on hardware, for all work of the context. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CUcontext ctx;
    (void)limit;
    (void)value;
    CUresult result = sim_current(&ctx);
    return result ? result : sim_context_wait(ctx);
}
