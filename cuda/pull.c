/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a peer's buffer; pull.h. */
#include "cuda/pull.h"

#include <string.h>

#include "cuda/registry.h"

_Static_assert(sizeof((struct shunt_source *)0)->handle == sizeof(CUipcMemHandle), "a source has room for a handle");

/* The handle of an own registration. False: that is none of CUDA IPC, or has just been replaced. */
static bool copy_handle(struct shunt_arena *arena, uint32_t number, unsigned char *handle)
{
    struct shunt_registration *reg =
        &shunt_card(arena, shunt_arena_self(arena))->registrations[shunt_entry_of(number)];
    bool by_ipc = reg->kind == SHUNT_EXPORT_IPC;

    memcpy(handle, &reg->handle, sizeof reg->handle);
    /* Acquire: with a field of a later registration comes its number. */
    atomic_thread_fence(memory_order_acquire);
    return by_ipc && atomic_load_explicit(&reg->number, memory_order_relaxed) == number;
}

bool shunt_source_of(struct shunt_arena *arena, const void *p, uint64_t bytes, const struct shunt_mem *mem, int slot,
                     struct shunt_source *source)
{
    enum shunt_reason reason;
    struct shunt_place place;
    int self = shunt_arena_self(arena);

    if (mem->kind != SHUNT_MEM_DEVICE || shunt_device_open(arena, p, mem, &reason) == NULL ||
        shunt_peer_open(arena, slot, &reason) != SHUNT_PEER_OPEN)
        return false;
    shunt_place_of(arena, p, bytes, mem, true, &place);
    if (place.reg == 0 || !shunt_peer_opened(arena, slot, self, place.reg))
        return false;
    *source = (struct shunt_source){ .registration = place.reg, .slot = (uint32_t)self, .offset = place.offset };
    return copy_handle(arena, place.reg, source->handle);
}

void shunt_source_follow(struct shunt_arena *arena, int slot)
{
    enum shunt_reason reason;

    if (shunt_device_get() != NULL)
        shunt_peer_open(arena, slot, &reason);
}

bool shunt_pull_reaches(struct shunt_arena *arena, const void *p, const struct shunt_mem *mem)
{
    enum shunt_reason reason;

    return mem->kind == SHUNT_MEM_DEVICE && shunt_device_open(arena, p, mem, &reason) != NULL;
}

bool shunt_pull_ready(bool *asked)
{
    struct shunt_device *device = shunt_device_get();
    struct shunt_gpu_scope scope;
    bool passed = true;

    if (device == NULL || shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return true;
    if (*asked)
        passed = shunt_gpu_legacy_passed(device->gpu);
    else if (!shunt_gpu_legacy_idle())
        passed = !(*asked = shunt_gpu_after_legacy(device->gpu, device->gpu->copies));
    shunt_gpu_leave(&scope);
    return passed;
}

static enum shunt_status copy_and_wait(const struct shunt_device *device, void *to, const char *from, uint64_t bytes)
{
    enum shunt_status status =
        SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, device->gpu->copies));

    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamSynchronize(device->gpu->copies));
    return status;
}

/* To host memory the bytes go as all that is staged, which enters a context by itself. */
static enum shunt_status copy_from(const struct shunt_device *device, void *to, const char *from, uint64_t bytes,
                                   bool to_device)
{
    return to_device ? copy_and_wait(device, to, from, bytes) : shunt_stage_out(to, from, bytes);
}

/* The peer has closed its mapping, for want of room: what it opens now it closes at once. */
static enum shunt_status open_and_copy(const struct shunt_device *device, const struct shunt_source *source, void *to,
                                       uint64_t bytes, bool to_device)
{
    CUipcMemHandle handle;
    CUdeviceptr block = 0;

    memcpy(&handle, source->handle, sizeof handle);
    enum shunt_status status =
        SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuIpcOpenMemHandle_v2(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    if (status != SHUNT_OK)
        return status;
    status = copy_from(device, to, (char *)block + source->offset, bytes, to_device);
    SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuIpcCloseMemHandle(block));
    return status;
}

enum shunt_status shunt_pull(const struct shunt_source *source, void *to, uint64_t bytes, bool to_device)
{
    struct shunt_device *device = shunt_device_get();
    struct shunt_gpu_scope scope;

    if (bytes == 0)
        return SHUNT_OK;
    if (device == NULL || shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return SHUNT_ERR_CUDA;
    char *block = shunt_block_hold((int)source->slot, source->registration);
    enum shunt_status status = block != NULL ? copy_from(device, to, block + source->offset, bytes, to_device)
                                             : open_and_copy(device, source, to, bytes, to_device);
    if (block != NULL)
        shunt_block_release();
    shunt_gpu_leave(&scope);
    return status;
}
