/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a peer's buffer; pull.h. */
#include "cuda/pull.h"

#include <string.h>

#include "cuda/registry.h"
#include "cuda/stage.h"

#define MOST_SMALL 32768 /* bytes */

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
        shunt_peer_open(arena, slot, &reason) != SHUNT_PEER_OPEN || shunt_peer_hosted(slot))
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

/* Buffers that have come, and how many of them may be touched as far as the legacy stream is concerned. */
static struct {
    pthread_mutex_t lock;
    _Atomic uint64_t tickets, passed;
    uint64_t awaited; /* those before an event that has been recorded; 0: none has */
} legacy = { .lock = PTHREAD_MUTEX_INITIALIZER };

uint64_t shunt_pull_ticket(void)
{
    return atomic_fetch_add_explicit(&legacy.tickets, 1, memory_order_relaxed) + 1;
}

/* With the lock held, inside the context. */
static void ask_legacy(struct shunt_gpu *gpu)
{
    uint64_t now = atomic_load_explicit(&legacy.tickets, memory_order_relaxed), passed = 0;

    if (legacy.awaited != 0) {
        passed = shunt_gpu_legacy_passed(gpu) ? legacy.awaited : 0;
        legacy.awaited = passed != 0 ? 0 : legacy.awaited;
    } else if (shunt_gpu_legacy_idle() || !shunt_gpu_mark_legacy(gpu)) {
        passed = now;
    } else {
        legacy.awaited = now;
    }
    if (passed != 0)
        atomic_store_explicit(&legacy.passed, passed, memory_order_release);
}

bool shunt_pull_ready(uint64_t ticket)
{
    struct shunt_device *device;
    struct shunt_gpu_scope scope;

    if (atomic_load_explicit(&legacy.passed, memory_order_acquire) >= ticket || (device = shunt_device_get()) == NULL)
        return true;
    pthread_mutex_lock(&legacy.lock);
    bool inside = shunt_gpu_enter(device->gpu, &scope) == SHUNT_OK;
    if (inside) {
        ask_legacy(device->gpu);
        shunt_gpu_leave(&scope);
    } else {
        legacy.awaited = 0;
    }
    pthread_mutex_unlock(&legacy.lock);
    return !inside || atomic_load_explicit(&legacy.passed, memory_order_acquire) >= ticket;
}

/* Without a mapping that stays, because the peer's block was closed for want of room: it is opened for this copy alone. */
static CUdeviceptr open_block(const struct shunt_source *source)
{
    CUipcMemHandle handle;
    CUdeviceptr block = 0;

    memcpy(&handle, source->handle, sizeof handle);
    return SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuIpcOpenMemHandle_v2(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) ==
                   SHUNT_OK ? block : 0;
}

static enum shunt_status copy_and_wait(const struct shunt_device *device, void *to, const char *from, uint64_t bytes)
{
    enum shunt_status status =
        SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, device->gpu->copies));

    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamSynchronize(device->gpu->copies));
    return status;
}

/* To host memory by the way of small copies between GPUs, which is the shorter. */
static enum shunt_status copy_out_small(const struct shunt_device *device, void *to, const char *from, uint64_t bytes)
{
    struct shunt_lane_copy copy;
    unsigned spins = 0;
    char *piece = bytes <= MOST_SMALL && bytes <= shunt_pool_ready() ? shunt_pool_take() : NULL;
    enum shunt_status status = piece ? shunt_lane_begin(device, piece, from, bytes, &copy) : SHUNT_PASS;

    if (status == SHUNT_OK)
        while (shunt_lane_waits(&copy) || (status = shunt_lane_ended(device, &copy)) == SHUNT_AGAIN)
            shunt_board_relax(&spins);
    if (status == SHUNT_OK)
        memcpy(to, piece, bytes);
    shunt_pool_give(piece);
    return status;
}

/* Begins a copy if `pulling` is given, and if the peer's block stays open; else it is complete on return. */
static enum shunt_status copy_inside(const struct shunt_device *device, const struct shunt_source *source, void *to,
                                     uint64_t bytes, struct shunt_pulling *pulling)
{
    char *block = shunt_block_hold((int)source->slot, source->registration);
    bool held = block != NULL;
    enum shunt_status status;

    if (!held && (block = (char *)open_block(source)) == NULL)
        return SHUNT_ERR_CUDA;
    if (pulling == NULL) {
        status = held ? copy_out_small(device, to, block + source->offset, bytes) : SHUNT_PASS;
        if (status != SHUNT_OK) /* as all that is staged; enters a context by itself */
            status = shunt_stage_out(to, block + source->offset, bytes);
    } else if (held) {
        status = shunt_lane_begin(device, to, block + source->offset, bytes, &pulling->copy);
    } else {
        status = copy_and_wait(device, to, block + source->offset, bytes);
    }
    if (!held)
        SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuIpcCloseMemHandle((CUdeviceptr)block));
    else if (pulling != NULL && status == SHUNT_OK)
        pulling->held = true;
    else
        shunt_block_release();
    return status;
}

static enum shunt_status copy_from(const struct shunt_source *source, void *to, uint64_t bytes,
                                   struct shunt_pulling *pulling)
{
    struct shunt_device *device = shunt_device_get();
    struct shunt_gpu_scope scope;

    if (bytes == 0)
        return SHUNT_OK;
    if (device == NULL || shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return SHUNT_ERR_CUDA;
    enum shunt_status status = copy_inside(device, source, to, bytes, pulling);
    shunt_gpu_leave(&scope);
    return status;
}

enum shunt_status shunt_pull_begin(const struct shunt_source *source, void *to, uint64_t bytes,
                                   struct shunt_pulling *pulling)
{
    *pulling = (struct shunt_pulling){ .held = false };
    return copy_from(source, to, bytes, pulling);
}

enum shunt_status shunt_pull_end(struct shunt_pulling *pulling)
{
    const struct shunt_device *device;
    enum shunt_status status = SHUNT_OK;

    if (pulling->copy.batch != 0 && shunt_lane_waits(&pulling->copy))
        return SHUNT_AGAIN;
    if (pulling->copy.batch != 0)
        status = (device = shunt_device_get()) == NULL ? SHUNT_ERR_CUDA : shunt_lane_ended(device, &pulling->copy);
    if (status == SHUNT_AGAIN)
        return status;
    if (pulling->held)
        shunt_block_release();
    *pulling = (struct shunt_pulling){ .unlaunched = pulling->copy.unlaunched };
    return status;
}

enum shunt_status shunt_pull_out(const struct shunt_source *source, void *host, uint64_t bytes)
{
    return copy_from(source, host, bytes, NULL);
}
