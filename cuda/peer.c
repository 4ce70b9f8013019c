/* SPDX-License-Identifier: BSD-3-Clause */
/* This process's GPU as its peers use it, and theirs as this one uses them; see peer.h. */
#include "cuda/peer.h"

#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "cuda/lane.h"
#include "cuda/linger.h"
#include "cuda/packer.h"
#include "cuda/registry.h"
#include "cuda/shm.h"
#include "cuda/transport.h"
#include "cuda/tray.h"

static struct {
    pthread_mutex_t lock;
    enum { UNTRIED, READY, FAILED } state;
    enum shunt_reason reason;
    struct shunt_device device;
    struct shunt_peer peers[SHUNT_ARENA_PROCS];
} self = { .lock = PTHREAD_MUTEX_INITIALIZER };

static enum shunt_status allocate(struct shunt_device *device)
{
    CUdeviceptr scratch = 0;
    void *pinned = NULL;
    size_t words = SHUNT_GRID * sizeof(uint64_t), size = words + 128 + SHUNT_LINGER_BYTES + SHUNT_ROOM_BYTES;
    enum shunt_status status = SHUNT_CUDA(cuMemAlloc_v2(&scratch, device->layout.total));

    if (status != SHUNT_OK)
        return status;
    device->scratch = (char *)scratch;
    status = SHUNT_CUDA(cuMemHostAlloc(&pinned, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    if (status != SHUNT_OK)
        goto free_scratch;
    memset(pinned, 0, size);
    device->done = pinned;
    device->abort = (uint32_t *)((char *)pinned + words);
    shunt_linger_open((char *)pinned + words + 128);
    device->room = (uint64_t *)((char *)pinned + words + 128 + SHUNT_LINGER_BYTES);
    status = SHUNT_CUDA(cuMemsetD8Async(scratch, 0, device->layout.rings, device->gpu->stream));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamSynchronize(device->gpu->stream));
    if (status == SHUNT_OK)
        return SHUNT_OK;
    shunt_driver.cuMemFreeHost(pinned);
free_scratch:
    shunt_driver.cuMemFree_v2(scratch);
    return status;
}

static void release(const struct shunt_device *device)
{
    shunt_driver.cuMemFreeHost(device->done);
    shunt_driver.cuMemFree_v2((CUdeviceptr)device->scratch);
}

static bool can_write_words(CUdevice device)
{
    int can = 0;

    return SHUNT_CUDA(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device)) == SHUNT_OK &&
           can;
}

static void describe_gpu(struct shunt_device *device, struct shunt_card *card)
{
    CUdevice handle;
    CUuuid uuid;
    size_t memory = 0;

    memset(&uuid, 0, sizeof uuid);
    if (SHUNT_CUDA(cuDeviceGet(&handle, device->gpu->ordinal)) == SHUNT_OK) {
        device->stream_words = can_write_words(handle);
        SHUNT_CUDA(cuDeviceGetUuid_v2(&uuid, handle));
        if (SHUNT_CUDA(cuDeviceGetPCIBusId(card->pci, sizeof card->pci, handle)) != SHUNT_OK)
            card->pci[0] = '\0';
        SHUNT_CUDA(cuDeviceTotalMem_v2(&memory, handle));
    }
    memcpy(card->uuid, &uuid, sizeof card->uuid);
    shunt_registry_start(device->gpu, card, shunt_conf->peer_size != 0 ? shunt_conf->peer_size : memory / 8);
}

/* Inside the context: kernels, scratch, and the handle that peers open it with. */
static enum shunt_reason set_up_inside(struct shunt_device *device, struct shunt_card *card)
{
    if (shunt_kernels_load(device->gpu, &device->max_blocks) != SHUNT_OK)
        return SHUNT_REASON_NO_KERNELS;
    shunt_packer_load(device->gpu);
    if (allocate(device) != SHUNT_OK)
        return SHUNT_REASON_NO_DEVICE_MEMORY;
    enum shunt_reason reason = shunt_transports_offer(device, card);
    if (reason != SHUNT_REASON_NONE) {
        release(device);
        return reason;
    }
    describe_gpu(device, card);
    if (shunt_conf->message_size != SIZE_MAX)
        shunt_lanes_load(device);
    return SHUNT_REASON_NONE;
}

static enum shunt_reason set_up(struct shunt_arena *arena, struct shunt_gpu *gpu, struct shunt_card *card)
{
    struct shunt_device *device = &self.device;
    struct shunt_gpu_scope scope;
    int channel = shunt_arena_set_device_used(arena);

    device->gpu = gpu;
    device->context = gpu->id;
    device->layout = shunt_layout_make(shunt_arena_local_size(arena));
    if (channel < 0 || channel >= (int)device->layout.channels)
        return SHUNT_REASON_TOO_MANY_GPUS;
    device->channel = (uint32_t)channel;
    if (device->layout.ring_bytes == 0)
        return SHUNT_REASON_NO_DEVICE_MEMORY;
    if (shunt_gpu_enter(gpu, &scope) != SHUNT_OK)
        return SHUNT_REASON_CONTEXT;
    double begun = shunt_seconds();
    enum shunt_reason reason = set_up_inside(device, card);
    shunt_gpu_leave(&scope);
    shunt_info("cuda", "GPU %d was set up in %.1f ms: kernels, %llu MiB of scratch", gpu->ordinal,
               (shunt_seconds() - begun) * 1e3, (unsigned long long)device->layout.total >> 20);
    return reason;
}

static void publish(struct shunt_card *card)
{
    card->channel = self.device.channel;
    card->total = self.device.layout.total;
    card->reason = self.reason;
    /* Release: who sees the state sees the fields above. */
    atomic_store_explicit(&card->state, self.state == READY ? SHUNT_CARD_OPEN : SHUNT_CARD_REFUSED,
                          memory_order_release);
    if (self.state == FAILED)
        shunt_warn_once(self.reason, "GPU %d is used only through host memory",
                        self.device.gpu != NULL ? self.device.gpu->ordinal : -1);
}

/* Allocations that have been found usable on the device, by BUFFER_ID: a hit saves the driver's answer. */
#define KNOWN 64
static _Atomic uint64_t known[KNOWN];

static struct shunt_device *device_ready(struct shunt_gpu *gpu, uint64_t id, enum shunt_reason *reason)
{
    if (self.state == READY && self.device.gpu == gpu && self.device.context == gpu->id) {
        atomic_store_explicit(&known[id % KNOWN], id, memory_order_relaxed);
        return &self.device;
    }
    if (self.state == FAILED)
        *reason = self.reason;
    return NULL;
}

struct shunt_device *shunt_device_open(struct shunt_arena *arena, const void *buffer, const struct shunt_mem *mem,
                                       enum shunt_reason *reason)
{
    bool foreign;

    /* Only a set-up that ended well has entered an id; a context that has gone since is noticed at the launch. */
    if (mem->id != 0 && atomic_load_explicit(&known[mem->id % KNOWN], memory_order_relaxed) == mem->id)
        return &self.device;
    struct shunt_gpu *gpu = shunt_gpu_of(buffer, &foreign);
    *reason = SHUNT_REASON_CONTEXT;
    if (gpu == NULL || foreign)
        return NULL;
    pthread_mutex_lock(&self.lock);
    if (self.state == UNTRIED) {
        struct shunt_card *card = shunt_card(arena, shunt_arena_self(arena));
        self.reason = set_up(arena, gpu, card);
        self.state = self.reason == SHUNT_REASON_NONE ? READY : FAILED;
        publish(card);
    }
    struct shunt_device *device = device_ready(gpu, mem->id, reason);
    pthread_mutex_unlock(&self.lock);
    return device;
}

struct shunt_device *shunt_device_get(void)
{
    pthread_mutex_lock(&self.lock);
    bool there = self.state == READY && self.device.gpu->id == self.device.context && !self.device.gpu->dead;
    pthread_mutex_unlock(&self.lock);
    return there ? &self.device : NULL;
}

bool shunt_device_order(struct shunt_device *device, bool ask, enum shunt_legacy *legacy)
{
    struct shunt_gpu_scope scope;

    if (shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return false;
    if ((ask || shunt_linger_maybe()) && shunt_gpu_legacy_idle())
        *legacy = SHUNT_LEGACY_IDLE;
    else
        *legacy = shunt_gpu_after_legacy(device->gpu, device->gpu->stream) ? SHUNT_LEGACY_AWAITED : SHUNT_LEGACY_UNKNOWN;
    shunt_gpu_leave(&scope);
    return true;
}

bool shunt_device_passed(struct shunt_device *device)
{
    struct shunt_gpu_scope scope;

    if (shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return true;
    bool passed = shunt_gpu_legacy_passed(device->gpu);
    shunt_gpu_leave(&scope);
    return passed;
}

/* With the lock held: a peer that has published since the last look. */
static void meet(struct shunt_arena *arena, int slot, struct shunt_peer *peer)
{
    const struct shunt_meeting meeting = {
        .arena = arena, .slot = slot, .device = &self.device, .mine = shunt_card(arena, shunt_arena_self(arena)),
        .theirs = shunt_card(arena, slot), .peer = peer,
    };
    uint32_t state = atomic_load_explicit(&meeting.theirs->state, memory_order_acquire);
    enum shunt_peer_state result = SHUNT_PEER_REFUSED;
    struct shunt_gpu_scope scope;

    if (state == SHUNT_CARD_NONE)
        return;
    if (state == SHUNT_CARD_REFUSED) {
        peer->reason = meeting.theirs->reason;
    } else if (shunt_gpu_enter(self.device.gpu, &scope) == SHUNT_OK) {
        result = shunt_transports_meet(&meeting);
        shunt_gpu_leave(&scope);
    } else {
        peer->reason = SHUNT_REASON_CONTEXT;
    }
    __atomic_store_n(&peer->state, result, __ATOMIC_RELEASE);
}

static void follow(struct shunt_arena *arena, int slot, struct shunt_peer *peer)
{
    struct shunt_gpu_scope scope;

    if (atomic_load_explicit(&shunt_card(arena, slot)->version, memory_order_relaxed) == peer->version ||
        slot == shunt_arena_self(arena) || peer->hosted)
        return;
    if (shunt_gpu_enter(self.device.gpu, &scope) == SHUNT_OK) {
        shunt_registry_follow(arena, slot, false);
        shunt_gpu_leave(&scope);
    }
}

/* Open, and nothing new on its card: what every call but the first few finds, without the lock. */
static bool up_to_date(struct shunt_arena *arena, int slot, struct shunt_peer *peer)
{
    /* Acquire: with the state come the fields that it vouches for. */
    return __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) == SHUNT_PEER_OPEN &&
           (slot == shunt_arena_self(arena) || peer->hosted ||
            atomic_load_explicit(&shunt_card(arena, slot)->version, memory_order_relaxed) ==
                __atomic_load_n(&peer->version, __ATOMIC_ACQUIRE));
}

enum shunt_peer_state shunt_peer_open(struct shunt_arena *arena, int slot, enum shunt_reason *reason)
{
    struct shunt_peer *peer = &self.peers[slot];

    if (up_to_date(arena, slot, peer))
        return SHUNT_PEER_OPEN;
    pthread_mutex_lock(&self.lock);
    if (peer->state == SHUNT_PEER_MISSING || peer->state == SHUNT_PEER_MET)
        meet(arena, slot, peer);
    if (peer->state == SHUNT_PEER_OPEN)
        follow(arena, slot, peer);
    enum shunt_peer_state state = peer->state;
    *reason = peer->reason;
    pthread_mutex_unlock(&self.lock);
    return state;
}

uint32_t shunt_peer_channel(int slot)
{
    return self.peers[slot].channel;
}

char *shunt_peer_to(int slot)
{
    return self.peers[slot].to;
}

char *shunt_peer_from(int slot)
{
    return self.peers[slot].from;
}

bool shunt_peer_hosted(int slot)
{
    return self.peers[slot].hosted;
}

char *shunt_peer_buffer(int slot, const struct shunt_place *place)
{
    if (place->reg == 0)
        return NULL;
    struct shunt_block *block = &self.peers[slot].blocks[shunt_entry_of(place->reg)];

    shunt_block_use(block);
    return block->address + place->offset;
}

struct shunt_peer *shunt_peer_at(int slot)
{
    return &self.peers[slot];
}

bool shunt_peer_opened(struct shunt_arena *arena, int user, int owner, uint32_t registration)
{
    struct shunt_card *card = shunt_card(arena, owner);
    uint32_t r = shunt_entry_of(registration);

    if (registration == 0 || r > SHUNT_REGISTRATIONS)
        return false;
    if (atomic_load_explicit(&shunt_card(arena, user)->opened[card->channel][r], memory_order_acquire) == registration)
        return true;
    if (!(atomic_load_explicit(&card->missed, memory_order_relaxed) >> r & 1))
        atomic_fetch_or_explicit(&card->missed, 1ull << r, memory_order_relaxed);
    return false;
}

bool shunt_peers_hosted(struct shunt_arena *arena, const int *slots, int n)
{
    uint32_t members = 0, hosted = 0;

    for (int q = 0; q < n; q++) {
        members |= 1u << shunt_card(arena, slots[q])->channel;
        hosted |= atomic_load_explicit(&shunt_card(arena, slots[q])->hosted, memory_order_acquire);
    }
    return (members & hosted) != 0;
}

bool shunt_peer_whole_lines(struct shunt_arena *arena, int user, int owner)
{
    return atomic_load_explicit(&shunt_card(arena, user)->whole_lines, memory_order_acquire) >>
               shunt_card(arena, owner)->channel & 1;
}

void shunt_peer_fail(struct shunt_arena *arena, uint64_t ticket)
{
    atomic_store_explicit(&shunt_card(arena, shunt_arena_self(arena))->failed, ticket, memory_order_release);
}

bool shunt_peer_failed(struct shunt_arena *arena, int slot, uint64_t ticket)
{
    return atomic_load_explicit(&shunt_card(arena, slot)->failed, memory_order_acquire) == ticket;
}

uint32_t shunt_peer_ll_turn(int slot, uint64_t ticket, bool sends, bool receives)
{
    struct shunt_peer *peer = &self.peers[slot];
    uint32_t turn = peer->ll_turn++ & 1;

    peer->ll_before = peer->ll_heard;
    if (sends)
        peer->ll_sent[turn] = ticket;
    if (receives)
        peer->ll_heard = ticket;
    return turn;
}

void shunt_peer_ll_undo(int slot, uint32_t turns)
{
    struct shunt_peer *peer = &self.peers[slot];

    for (uint32_t i = 0; i < turns; i++)
        peer->ll_sent[--peer->ll_turn & 1] = 0; /* free it was, and nobody will read what is there now */
    /* What was heard in a wave before the last, all of which this rank has, tells as much as ever. */
    peer->ll_heard = peer->ll_before;
}

bool shunt_peer_ll_free(struct shunt_arena *arena, int slot)
{
    const struct shunt_peer *peer = &self.peers[slot];
    uint64_t last = peer->ll_sent[peer->ll_turn & 1];

    /* Acquire: its kernel's reads of the slot come before our next kernel's stores. */
    return last < peer->ll_heard || last == 0 ||
           shunt_peer_ended(arena, slot) >= last;
}

uint64_t shunt_peer_ended(struct shunt_arena *arena, int slot)
{
    return atomic_load_explicit(&shunt_card(arena, slot)->done, memory_order_acquire);
}

void shunt_peer_done(struct shunt_arena *arena, uint64_t ticket)
{
    atomic_store_explicit(&shunt_card(arena, shunt_arena_self(arena))->done, ticket, memory_order_release);
}

void shunt_peers_tidy(struct shunt_arena *arena)
{
    int n = shunt_arena_local_size(arena);

    pthread_mutex_lock(&self.lock);
    shunt_registry_begin_pass();
    for (int slot = 0; slot < n; slot++) {
        struct shunt_gpu_scope scope;
        if (!self.peers[slot].untidy || shunt_gpu_enter(self.device.gpu, &scope) != SHUNT_OK)
            continue;
        shunt_registry_follow(arena, slot, true);
        shunt_gpu_leave(&scope);
    }
    pthread_mutex_unlock(&self.lock);
}

int shunt_peers_flush(bool idle)
{
    struct shunt_gpu_scope scope;
    int left = 0;

    pthread_mutex_lock(&self.lock);
    if (self.state == READY && shunt_gpu_enter(self.device.gpu, &scope) == SHUNT_OK) {
        shunt_registry_sweep();
        left = shunt_registry_close_all(idle);
        shunt_gpu_leave(&scope);
    }
    pthread_mutex_unlock(&self.lock);
    return left;
}

void shunt_peers_close(void)
{
    struct shunt_gpu_scope scope;

    pthread_mutex_lock(&self.lock);
    /* Quietly: the application may have reset the device. */
    if (self.state == READY && self.device.gpu->id == self.device.context &&
        shunt_gpu_enter(self.device.gpu, &scope) == SHUNT_OK) {
        shunt_linger_quit(&self.device);
        shunt_lanes_close();
        shunt_trays_close();
        shunt_registry_close_all(true);
        shunt_shm_stop(true);
        for (int slot = 0; slot < SHUNT_ARENA_PROCS; slot++) {
            shunt_transports_leave(&self.peers[slot]);
            memset(&self.peers[slot], 0, sizeof self.peers[slot]);
        }
        shunt_kernels_unload();
        release(&self.device);
        shunt_gpu_leave(&scope);
    }
    for (int i = 0; i < KNOWN; i++)
        atomic_store(&known[i], 0);
    shunt_registry_stop();
    shunt_shm_stop(false);
    self.state = FAILED;
    self.reason = SHUNT_REASON_FINALIZED;
    pthread_mutex_unlock(&self.lock);
}

void shunt_gpu_finish(void)
{
    if (!shunt_gpu_in_use())
        return;
    shunt_peers_close();
    shunt_gpus_close();
}
