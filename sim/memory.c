/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory. Its pages are in a sparse file of the executor, and an offset of it is never
 * handed out twice: so memory that its owner has freed can stay readable to another process that
 * still has it open, as on hardware.
 */
#include "sim/driver.h"

#include <stdlib.h>

/* Allocations are aligned to this much and no more, and end where their last page ends. */
enum { ALIGNMENT = 256 };

CUresult sim_account(CUdevice device, size_t bytes)
{
    if (sim_has_fault(SIM_FAULT_NOMEM) && bytes > 1u << 20)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t used = sim.used[device] + sim_export_kept(device);
    if (bytes > sim_config()->memory || used > sim_config()->memory - bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim.used[device] += bytes;
    return CUDA_SUCCESS;
}

/* With the table locked: addresses and pages for a block that is filled in except for these */
static CUresult place(struct sim_block *b)
{
    size_t used = sim_round(b->bytes, ALIGNMENT);
    b->map_bytes = sim_round(used, SIM_PAGE);
    CUresult result = sim_account(b->device, b->map_bytes);
    if (result)
        return result;
    b->map_address = sim_reserve(b->map_bytes, b->map_bytes >= 2u << 20 ? 2u << 20 : SIM_PAGE, 0);
    b->address = b->map_address + b->map_bytes - used;
    b->offset = b->ctx->memory_end;
    struct sim_request map = sim_block_request(b);
    if (!b->map_address)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (!(result = sim_map_everywhere(&map))) {
        result = sim_block_add(b);
        if (result)
            sim_unmap_everywhere(b->map_address, b->map_bytes);
    }
    if (!result) {
        b->ctx->memory_end += b->map_bytes;
        return CUDA_SUCCESS;
    }
    if (b->map_address)
        sim_unreserve(b->map_address, b->map_bytes);
    sim.used[b->device] -= b->map_bytes;
    return result;
}

CUresult sim_device_alloc(CUcontext ctx, size_t bytes, enum sim_kind kind, CUdeviceptr *address)
{
    struct sim_block *b = bytes ? calloc(1, sizeof *b) : NULL;
    if (!bytes || bytes > SIZE_MAX / 2)
        return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->bytes = bytes;
    b->kind = kind;
    b->ctx = ctx;
    b->device = ctx->device;
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

/*
 * May the pages of device memory go back? Not while another process has them open: then the last
 * such one does it.
 */
static bool unused(const struct sim_block *b)
{
    if (b->kind != SIM_DEVICE && b->kind != SIM_POOL)
        return false;
    if (b->export < 0)
        return true;
    struct sim_export *e = &sim.shared->exports[b->export];
    atomic_store(&e->freed, 1);
    return !atomic_load(&e->uses);
}

void sim_block_release(struct sim_block *b)
{
    struct sim_request unmap = {
        .verb = SIM_UNMAP, .address = b->map_address, .bytes = b->map_bytes, .offset = b->offset};
    unmap.pid = unused(b) ? b->ctx->executor.pid : 0;
    sim_block_remove(b);
    if (b->kind != SIM_REGISTERED || b->fd >= 0)
        sim_request_everywhere(&unmap);
    switch (b->kind) {
    case SIM_DEVICE:
    case SIM_POOL:
        sim.used[b->device] -= b->map_bytes;
        sim_unreserve(b->map_address, b->map_bytes);
        break;
    case SIM_HOST:
    case SIM_MANAGED:
        sim_host_give_back(b);
        sim_unreserve(b->map_address, b->map_bytes);
        break;
    case SIM_IMPORT:
        sim_import_release(b);
        sim_unreserve(b->map_address, b->map_bytes);
        break;
    case SIM_VMM: /* the addresses belong to the program's reservation */
        sim_physical_drop(b->physical);
        break;
    case SIM_REGISTERED:
        sim_registered_release(b);
        break;
    }
    free(b);
}

static void drop(struct sim_block *block, void *ctx)
{
    if (block->ctx == ctx)
        sim_block_release(block);
}

void sim_context_drop_memory(CUcontext ctx)
{
    sim_block_each(drop, ctx);
    sim_pools_forget(ctx);
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (!result && !address)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = sim_capture_check();
    return result ? result : sim_device_alloc(ctx, bytes, SIM_DEVICE, address);
}

/*
 * The context of the block that begins at `address` and is freed by cuMemFree; NULL if there is
 * none
 */
static CUcontext freeable(CUdeviceptr address)
{
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(address);
    bool ok = b && b->address == address &&
              (b->kind == SIM_DEVICE || b->kind == SIM_POOL || b->kind == SIM_MANAGED);
    CUcontext ctx = ok ? b->ctx : NULL;
    sim_table_unlock();
    return ctx;
}

/* Waits for all work of the context, and keeps other threads from giving it more meanwhile. */
CUresult cuMemFree(CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = sim_ready();
    if (result || !address)
        return result;
    result = sim_current(&ctx);
    if (!result)
        result = sim_capture_check();
    if (result)
        return result;
    ctx = freeable(address);
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&ctx->submit);
    result = sim_context_wait(ctx);
    if (!result) {
        sim_table_lock();
        struct sim_block *b = sim_block_at(address);
        if (b && b->address == address)
            sim_block_release(b);
        sim_table_unlock();
    }
    pthread_mutex_unlock(&ctx->submit);
    return result;
}

CUresult cuMemAllocPitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                         unsigned element)
{
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = sim_round(width, 512);
    return cuMemAlloc(address, *pitch * height);
}

CUresult cuMemGetInfo(size_t *unused, size_t *total)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    sim_table_read_lock();
    if (unused)
        *unused = sim_config()->memory - sim.used[ctx->device] - sim_export_kept(ctx->device);
    if (total)
        *total = sim_config()->memory;
    sim_table_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr p)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(p);
    if (!b)
        result = CUDA_ERROR_NOT_FOUND;
    if (b && start)
        *start = b->address;
    if (b && bytes)
        *bytes = b->bytes;
    sim_table_unlock();
    return result;
}
