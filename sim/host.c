/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that both sides see: pinned and managed memory are pages of one file of this process,
 * mapped at the same address here and in every executor. Memory that a program registers stays what
 * it is: copies to and from it go the way of pageable memory, and kernels cannot touch it, if it is
 * not shared memory (shared.c).
 */
#include "sim/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

static uint64_t
    file_end; /* of sim.host_fd, guarded by the table's lock; offsets are not used twice */

static CUresult place(struct sim_block *b)
{
    b->map_bytes = sim_round(b->bytes, SIM_PAGE);
    b->map_address = b->address = sim_reserve(b->map_bytes, SIM_PAGE, 0);
    b->offset = file_end;
    if (!b->address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *want = (void *)(uintptr_t)b->address;
    int saved = errno;
    void *got = mmap(want, b->map_bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED | MAP_NORESERVE, sim.host_fd, (off_t)b->offset);
    errno = saved;
    struct sim_request map = sim_block_request(b);
    CUresult result = got == want ? sim_map_everywhere(&map) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result && (result = sim_block_add(b)))
        sim_unmap_everywhere(b->map_address, b->map_bytes);
    if (result)
        sim_unreserve(b->map_address, b->map_bytes);
    else
        file_end += b->map_bytes;
    return result;
}

static CUresult allocate(CUcontext ctx, size_t bytes, enum sim_kind kind, unsigned flags,
                         CUdeviceptr *address)
{
    struct sim_block *b;
    if (!bytes && kind == SIM_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    *address = 0;
    if (!bytes)
        return CUDA_SUCCESS;
    if (bytes > SIZE_MAX / 2 || (sim_has_fault(SIM_FAULT_NOMEM) && bytes > 1u << 20) ||
        !(b = calloc(1, sizeof *b)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->bytes = bytes;
    b->kind = kind;
    b->ctx = ctx;
    b->device = ctx->device;
    b->flags = flags;
    b->sync_memops = kind == SIM_MANAGED;
    b->export = -1;
    b->id = atomic_fetch_add(&sim.next_buffer_id, 1) + 1;
    sim_table_lock();
    CUresult result = place(b);
    sim_table_unlock();
    if (result)
        free(b);
    else
        *address = b->address;
    return result;
}

void sim_host_give_back(const struct sim_block *b)
{
    int saved = errno;
    fallocate(sim.host_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)b->offset,
              (off_t)b->map_bytes);
    errno = saved;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    CUcontext ctx;
    CUdeviceptr at;
    CUresult result = sim_current(&ctx);
    if (!result && (!address || flags & ~7u))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_check();
    if (!result)
        result = allocate(ctx, bytes, SIM_HOST, flags | CU_MEMHOSTALLOC_DEVICEMAP, &at);
    if (!result)
        *address = (void *)(uintptr_t)at;
    return result;
}

CUresult cuMemAllocHost(void **address, size_t bytes)
{
    return cuMemHostAlloc(address, bytes, 0);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (!result && (!address || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_check();
    return result ? result : allocate(ctx, bytes, SIM_MANAGED, flags, address);
}

/* Take the block of that kind which begins at `p` away, after all work of its context */
static CUresult take_away(const void *p, enum sim_kind kind, CUresult otherwise)
{
    CUdeviceptr address = (uintptr_t)p;
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(address);
    ctx = b && b->address == address && b->kind == kind ? b->ctx : NULL;
    sim_table_unlock();
    if (!ctx)
        return otherwise;
    pthread_mutex_lock(&ctx->submit);
    result = sim_context_wait(ctx);
    if (!result) {
        sim_table_lock();
        b = sim_block_at(address);
        if (b && b->address == address && b->kind == kind)
            sim_block_release(b);
        sim_table_unlock();
    }
    pthread_mutex_unlock(&ctx->submit);
    return result;
}

CUresult cuMemFreeHost(void *p)
{
    return take_away(p, SIM_HOST, CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemHostUnregister(void *p)
{
    return take_away(p, SIM_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned flags)
{
    CUcontext ctx;
    CUdeviceptr address = (uintptr_t)p;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!p || !bytes || flags & ~15u)
        return CUDA_ERROR_INVALID_VALUE;
    sim_count(SIM_REGISTRATIONS);
    struct sim_block *b = calloc(1, sizeof *b);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *b = (struct sim_block){.address = address,
                            .bytes = bytes,
                            .map_address = address,
                            .map_bytes = bytes,
                            .kind = SIM_REGISTERED,
                            .ctx = ctx,
                            .device = ctx->device,
                            .flags = flags,
                            .export = -1,
                            .id = atomic_fetch_add(&sim.next_buffer_id, 1) + 1};
    sim_table_lock();
    struct sim_block *above = sim_block_above(address);
    if (sim_block_at(address) || (above && above->address < address + bytes))
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!(result = sim_registered_map(b)) && (result = sim_block_add(b)))
        sim_registered_release(b);
    sim_table_unlock();
    if (result)
        free(b);
    return result;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *device, void *p, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!device || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at((uintptr_t)p);
    bool host = b && (b->kind == SIM_HOST || b->kind == SIM_REGISTERED);
    if (host)
        *device = b->kind == SIM_REGISTERED ? sim_registered_address(b, (uintptr_t)p) : (uintptr_t)p;
    sim_table_unlock();
    return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *p)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at((uintptr_t)p);
    if (!b || b->kind != SIM_HOST)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        *flags = b->flags;
    sim_table_unlock();
    return result;
}

/* ---- hints for managed memory: taken note of by nobody ---- */

static CUresult check_managed(CUdeviceptr p, size_t bytes)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(p);
    bool ok = b && b->kind == SIM_MANAGED && bytes && bytes <= b->address + b->bytes - p;
    sim_table_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUmemLocation to, unsigned flags,
                            CUstream stream)
{
    (void)to;
    (void)stream;
    return flags ? CUDA_ERROR_INVALID_VALUE : check_managed(p, bytes);
}

CUresult cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    (void)advice;
    (void)location;
    return check_managed(p, bytes);
}

#undef cuMemPrefetchAsync
SIM_API CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream)
{
    (void)device;
    (void)stream;
    return check_managed(p, bytes);
}

#undef cuMemAdvise
SIM_API CUresult cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device)
{
    (void)advice;
    (void)device;
    return check_managed(p, bytes);
}
