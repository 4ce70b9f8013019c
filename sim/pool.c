/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools: allocation in stream order. A freed block stays in its pool, and goes at once to the next
 * allocation of the same size in the same stream, or to one in another stream when the work before
 * the free is done.
 */
#include "sim/driver.h"

#include <stdlib.h>

struct CUmemPoolHandle_st {
    CUdevice device;
    cuuint64_t threshold;
    struct freed *freed;
    struct CUmemPoolHandle_st *next;
};

/* A block that the program has freed and that is still mapped */
struct freed {
    CUdeviceptr address;
    size_t bytes;
    CUcontext ctx;
    unsigned queue; /* free for everybody when this */
    uint64_t value; /* has completed so much */
    struct freed *next;
};

static struct CUmemPoolHandle_st defaults[SIM_MAX_GPUS];
static struct CUmemPoolHandle_st
    *pools; /* made by programs; all lists are guarded by the table's lock */
static CUmemoryPool current[SIM_MAX_GPUS];

CUmemoryPool sim_default_pool(CUdevice device)
{
    defaults[device].device = device;
    return &defaults[device];
}

static bool done(const struct freed *f)
{
    return atomic_load(&sim.shared->queue[f->queue].completed) >= f->value;
}

static void release(struct freed *f)
{
    struct sim_block *b = sim_block_at(f->address);
    if (b && b->kind == SIM_POOL)
        sim_block_release(b);
    free(f);
}

/* Give back what nobody works with any more: in device memory it is gone only then. */
static void trim(CUmemoryPool pool)
{
    for (struct freed **at = &pool->freed; *at;) {
        struct freed *f = *at;
        if (!done(f)) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        release(f);
    }
}

static void forget(CUmemoryPool pool, CUcontext ctx)
{
    for (struct freed **at = &pool->freed; *at;) {
        struct freed *f = *at;
        if (f->ctx != ctx) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        free(f); /* the block itself has gone with its context */
    }
}

void sim_pools_forget(CUcontext ctx)
{
    for (int i = 0; i < SIM_MAX_GPUS; i++)
        forget(&defaults[i], ctx);
    for (CUmemoryPool pool = pools; pool; pool = pool->next)
        forget(pool, ctx);
}

/* A freed block that fits; the program sees it as a new one */
static CUdeviceptr reuse(CUmemoryPool pool, const struct CUstream_st *s, size_t bytes)
{
    for (struct freed **at = &pool->freed; *at; at = &(*at)->next) {
        struct freed *f = *at;
        if (f->bytes != bytes || f->ctx != s->ctx || (f->queue != s->index && !done(f)))
            continue;
        CUdeviceptr address = f->address;
        struct sim_block *b = sim_block_at(address);
        *at = f->next;
        free(f);
        b->id = atomic_fetch_add(&sim.next_buffer_id, 1) + 1;
        return address;
    }
    return 0;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
                                 CUstream stream)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (result)
        return result;
    if (!address || !pool)
        return CUDA_ERROR_INVALID_VALUE;
    *address = 0;
    if (!bytes)
        return CUDA_SUCCESS;
    if (s->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sim_table_lock();
    CUdeviceptr old = reuse(pool, s, bytes);
    sim_table_unlock();
    if (old) {
        *address = old;
        return CUDA_SUCCESS;
    }
    result = sim_device_alloc(s->ctx, bytes, SIM_POOL, address);
    if (result)
        return result;
    sim_table_lock();
    sim_block_at(*address)->pool = pool;
    sim_table_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    struct CUstream_st *s;
    CUmemoryPool pool;
    CUresult result = sim_stream_of(stream, &s);
    if (!result)
        result = cuDeviceGetMemPool(&pool, s->ctx->device);
    return result ? result : cuMemAllocFromPoolAsync(address, bytes, pool, stream);
}

/*
 * Memory of cuMemAlloc may be freed this way too: then it is gone when the stream gets there, and
 * waits here for that.
 */
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (result || !address)
        return result;
    struct sim_cmd point = {.op = SIM_OP_NOTHING, .bytes = sizeof point};
    struct freed *f = calloc(1, sizeof *f);
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (s->capture)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    uint64_t value = 0;
    if (!result)
        result = sim_submit(s, &point, NULL, &value);
    sim_table_lock();
    struct sim_block *b = sim_block_at(address);
    bool of_pool = b && b->address == address && b->kind == SIM_POOL;
    if (!result && of_pool) {
        *f = (struct freed){address, b->bytes, b->ctx, s->index, value, b->pool->freed};
        b->pool->freed = f;
    }
    sim_table_unlock();
    if (!result && of_pool)
        return CUDA_SUCCESS;
    free(f);
    return result ? result : cuMemFree(address);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult result = cuDeviceGetDefaultMemPool(pool, device);
    if (!result && current[device])
        *pool = current[device];
    return result;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    CUmemoryPool unused;
    CUresult result = cuDeviceGetDefaultMemPool(&unused, device);
    if (!result)
        current[device] = pool;
    return result;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!pool || !properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_ok(properties->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    CUmemoryPool p = calloc(1, sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->device = properties->location.id;
    sim_table_lock();
    p->next = pools;
    pools = p;
    sim_table_unlock();
    *pool = p;
    return CUDA_SUCCESS;
}

/*
 * What is still allocated from it stays; only the handle is gone, which is why the object is kept.
 */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!pool || (pool >= defaults && pool < defaults + SIM_MAX_GPUS))
        return CUDA_ERROR_INVALID_VALUE;
    if (current[pool->device] == pool)
        current[pool->device] = NULL;
    return cuMemPoolTrimTo(pool, 0);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    CUresult result = sim_ready();
    (void)keep;
    if (result)
        return result;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    sim_table_lock();
    trim(pool);
    sim_table_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!pool || !value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = *(cuuint64_t *)value;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!pool || !value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        *(int *)value = 1;
    else
        *(cuuint64_t *)value = attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? pool->threshold : 0;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    return pool && (access || !n) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
