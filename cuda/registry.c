/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of user buffers: which blocks this process has exported, and which of its peers' it has opened.
 *
 * The owner decides what is valid. A registration names an allocation by the driver's BUFFER_ID, and is used only for a
 * buffer with just that id; a block whose address answers with another id has been freed and is declared dead. Peers
 * close dead blocks, and only when the last has done so is the entry used again. So an entry never means two things.
 */
#include "cuda/peer.h"

#include <string.h>

#define CANDIDATES 16 /* allocations seen lately that are not registered */

/* A block is exported on its second use that would profit; it serves from then on, once the peers have opened it. */
#define USES_BEFORE_EXPORT 2

static struct {
    pthread_mutex_t lock;
    uint64_t limit;  /* of `mapped` */
    uint64_t mapped; /* bytes of peers' blocks that are open here */
    uint64_t clock;  /* counts uses */
    uint64_t used[SHUNT_REGISTRATIONS + 1];
    struct {
        uint64_t id;
        unsigned uses;
    } candidates[CANDIDATES];
    unsigned next_candidate;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

void shunt_registry_limit(uint64_t bytes)
{
    registry.limit = bytes;
}

static uint64_t id_at(uint64_t address)
{
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    unsigned long long id = 0;
    void *value = &id;

    if (shunt_driver.cuPointerGetAttributes(1, &wanted, &value, (CUdeviceptr)address) != CUDA_SUCCESS)
        return 0;
    return id;
}

static void declare_dead(struct shunt_card *mine, uint32_t r)
{
    atomic_store_explicit(&mine->registrations[r].state, SHUNT_REG_DEAD, memory_order_release);
    atomic_fetch_add_explicit(&mine->version, 1, memory_order_release);
}

/* Declare dead what the application has freed. */
static void sweep(struct shunt_card *mine)
{
    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++) {
        struct shunt_registration *reg = &mine->registrations[r];
        if (atomic_load(&reg->state) == SHUNT_REG_LIVE && id_at(reg->base) != reg->id)
            declare_dead(mine, r);
    }
}

/* Nobody has entry r open any more? */
static bool closed_by_all(struct shunt_arena *arena, uint32_t channel, uint32_t r)
{
    int n = shunt_arena_local_size(arena);

    for (int slot = 0; slot < n; slot++) {
        if (atomic_load_explicit(&shunt_card(arena, slot)->opened[channel], memory_order_acquire) >> r & 1)
            return false;
    }
    return true;
}

/* A free entry; if there is none, the one used longest ago is declared dead, to be free some calls later. */
static uint32_t free_entry(struct shunt_arena *arena, struct shunt_card *mine)
{
    uint32_t oldest = 0;

    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++) {
        uint32_t state = atomic_load(&mine->registrations[r].state);
        if (state == SHUNT_REG_FREE || (state == SHUNT_REG_DEAD && closed_by_all(arena, mine->channel, r)))
            return r;
        if (state == SHUNT_REG_LIVE && (oldest == 0 || registry.used[r] < registry.used[oldest]))
            oldest = r;
    }
    if (oldest != 0)
        declare_dead(mine, oldest);
    return 0;
}

/* How often this allocation has come without being registered, this time included. */
static unsigned count_use(uint64_t id)
{
    for (unsigned i = 0; i < CANDIDATES; i++) {
        if (registry.candidates[i].id == id)
            return ++registry.candidates[i].uses;
    }
    unsigned i = registry.next_candidate++ % CANDIDATES;
    registry.candidates[i].id = id;
    return registry.candidates[i].uses = 1;
}

static uint32_t export_block(struct shunt_arena *arena, struct shunt_card *mine, const void *p, uint64_t id)
{
    CUpointer_attribute wanted[2] = { CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE };
    CUdeviceptr base = 0;
    size_t size = 0;
    void *values[2] = { &base, &size };
    CUipcMemHandle handle;

    sweep(mine);
    if (SHUNT_CUDA_AT(SHUNT_LOG_TRACE, cuPointerGetAttributes(2, wanted, values, (CUdeviceptr)p)) != SHUNT_OK || base == 0)
        return 0;
    /* Refused for managed, pool, VMM and imported memory: not an error, such a buffer goes through scratch. */
    if (SHUNT_CUDA_AT(SHUNT_LOG_TRACE, cuIpcGetMemHandle(&handle, base)) != SHUNT_OK)
        return 0;
    uint32_t r = free_entry(arena, mine);
    if (r == 0)
        return 0;
    struct shunt_registration *reg = &mine->registrations[r];
    reg->handle = handle;
    reg->base = base;
    reg->size = size;
    reg->id = id;
    atomic_store_explicit(&reg->state, SHUNT_REG_LIVE, memory_order_release); /* the fields before the state */
    atomic_fetch_add_explicit(&mine->version, 1, memory_order_release);
    shunt_info("cuda", "registered a block of %zu bytes as %u", size, r);
    return r;
}

static uint32_t find_live(struct shunt_card *mine, uint64_t id)
{
    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++) {
        if (mine->registrations[r].id == id && atomic_load(&mine->registrations[r].state) == SHUNT_REG_LIVE)
            return r;
    }
    return 0;
}

void shunt_place_of(struct shunt_arena *arena, const void *p, const struct shunt_mem *mem, bool large,
                    struct shunt_place *place)
{
    struct shunt_card *mine = shunt_card(arena, shunt_arena_self(arena));
    uint32_t r = 0;

    *place = (struct shunt_place){ .align = (uint32_t)((uintptr_t)p % 256), .id = mem->id };
    if (!large || mem->kind != SHUNT_MEM_DEVICE || mem->id == 0)
        return;
    pthread_mutex_lock(&registry.lock);
    r = find_live(mine, mem->id);
    if (r == 0 && count_use(mem->id) == USES_BEFORE_EXPORT)
        r = export_block(arena, mine, p, mem->id);
    if (r != 0) {
        registry.used[r] = ++registry.clock;
        place->reg = r;
        place->offset = (uintptr_t)p - mine->registrations[r].base;
    }
    pthread_mutex_unlock(&registry.lock);
}

static void open_block(struct shunt_card *mine, struct shunt_card *theirs, struct shunt_peer *peer, uint32_t r)
{
    struct shunt_registration *reg = &theirs->registrations[r];
    CUdeviceptr block = 0;

    if (registry.mapped + reg->size > registry.limit)
        return; /* stays closed: the operation goes through scratch */
    if (SHUNT_CUDA_AT(SHUNT_LOG_INFO,
                      cuIpcOpenMemHandle_v2(&block, reg->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) != SHUNT_OK)
        return;
    peer->blocks[r] = (char *)block;
    peer->sizes[r] = reg->size;
    registry.mapped += reg->size;
    /* Release: who sees the bit may count on the mapping. */
    atomic_fetch_or_explicit(&mine->opened[peer->channel], 1ull << r, memory_order_release);
    shunt_info("cuda", "opened block %u of channel %u, %llu bytes", r, peer->channel, (unsigned long long)reg->size);
}

/* Some opened block has been declared dead by its owner, and is to be closed when nothing runs. */
static _Atomic bool untidy;

static void note_dead(struct shunt_peer *peer)
{
    peer->dead_blocks = true;
    atomic_store_explicit(&untidy, true, memory_order_release);
}

bool shunt_peers_untidy(void)
{
    return atomic_load_explicit(&untidy, memory_order_acquire);
}

void shunt_registry_tidied(void)
{
    atomic_store_explicit(&untidy, false, memory_order_release);
}

void shunt_registry_follow(struct shunt_card *mine, struct shunt_card *theirs, struct shunt_peer *peer)
{
    uint32_t version = atomic_load_explicit(&theirs->version, memory_order_acquire);

    if (version == peer->version)
        return;
    pthread_mutex_lock(&registry.lock);
    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++) {
        uint32_t state = atomic_load_explicit(&theirs->registrations[r].state, memory_order_acquire);
        if (state == SHUNT_REG_LIVE && peer->blocks[r] == NULL)
            open_block(mine, theirs, peer, r);
        if (state == SHUNT_REG_DEAD && peer->blocks[r] != NULL)
            note_dead(peer);
    }
    __atomic_store_n(&peer->version, version, __ATOMIC_RELEASE); /* the blocks before the version */
    pthread_mutex_unlock(&registry.lock);
}

void shunt_registry_tidy(struct shunt_card *mine, struct shunt_card *theirs, struct shunt_peer *peer)
{
    pthread_mutex_lock(&registry.lock);
    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++) {
        uint32_t state = atomic_load_explicit(&theirs->registrations[r].state, memory_order_acquire);
        if (state != SHUNT_REG_DEAD || peer->blocks[r] == NULL)
            continue;
        SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuIpcCloseMemHandle((CUdeviceptr)peer->blocks[r]));
        peer->blocks[r] = NULL;
        registry.mapped -= peer->sizes[r];
        /* Release: the owner reuses the entry only after the mapping is gone. */
        atomic_fetch_and_explicit(&mine->opened[peer->channel], ~(1ull << r), memory_order_release);
    }
    peer->dead_blocks = false;
    pthread_mutex_unlock(&registry.lock);
}
