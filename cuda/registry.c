/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of user buffers: what this process offers to its peers, and what of theirs it has opened.
 *
 * The owner decides what is valid. A registration names an allocation by the driver's BUFFER_ID, and is used only for a
 * buffer with just that id; a block whose address answers with another id has been freed and is declared dead. Peers
 * close dead blocks, and only when the last has done so is the entry used again.
 *
 * A peer opens a block when it is offered, once. If it had no room, or has closed it since, the deciders of operations
 * note that it was missed, and the owner offers it again when it is next used: at once, and then ever less often.
 */
#include "cuda/registry.h"

#include <string.h>
#include <unistd.h>

#include "cuda/vmm.h"

/* Allocations seen lately that are not registered: more than can be, or of many in turns none would come again. */
#define CANDIDATES 64

#define MOST_WAIT 4096 /* uses between two offers of what peers do not open */

/* What the owner remembers of a registration. */
struct own_entry {
    uint64_t used;             /* when; see `clock` */
    uint32_t uses, offered_at; /* how often it was used; until the last offer */
    uint32_t wait;             /* so many uses until the next */
};

static struct {
    pthread_mutex_t lock;
    struct shunt_gpu *gpu; /* NULL before the start and after the end */
    struct shunt_card *mine;
    uint64_t limit;           /* of `mapped` */
    uint64_t mapped;          /* bytes of peers' blocks that are open here */
    struct shunt_block *open; /* the list of them */
    unsigned held;            /* by those who read a block just now: nothing is closed */
    uint64_t pass;            /* when the last round of closing began: what was used since stays */
    int mailbox;              /* -1: none yet; -2: there is none to be had */
    uint64_t clock;           /* counts uses; racing increments may count as one */
    uint32_t registered;
    struct own_entry own[SHUNT_REGISTRATIONS + 1];
    struct {
        uint64_t id;
        unsigned uses;
    } candidates[CANDIDATES];
    unsigned next_candidate;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER, .mailbox = -1 };

static uint64_t tick(void)
{
    uint64_t now = __atomic_load_n(&registry.clock, __ATOMIC_RELAXED) + 1;

    __atomic_store_n(&registry.clock, now, __ATOMIC_RELAXED);
    return now;
}

void shunt_registry_start(struct shunt_gpu *gpu, struct shunt_card *mine, uint64_t limit)
{
    registry.gpu = gpu;
    registry.mine = mine;
    registry.limit = limit;
}

/* ---- the owner ---- */

static uint64_t id_at(uint64_t address)
{
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    unsigned long long id = 0;
    void *value = &id;

    if (shunt_driver.cuPointerGetAttributes(1, &wanted, &value, (CUdeviceptr)address) != CUDA_SUCCESS)
        return 0;
    return id;
}

/* Peers look at the card again. */
static void new_version(struct shunt_card *mine)
{
    atomic_fetch_add_explicit(&mine->version, 1, memory_order_release);
}

static void declare_dead(struct shunt_card *mine, uint32_t r)
{
    atomic_store_explicit(&mine->registrations[r].state, SHUNT_REG_DEAD, memory_order_release);
    new_version(mine);
    shunt_info("cuda", "block %u is gone", r);
}

static void sweep(struct shunt_card *mine)
{
    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++) {
        struct shunt_registration *reg = &mine->registrations[r];
        if (atomic_load(&reg->state) == SHUNT_REG_LIVE && id_at(reg->base) != reg->id)
            declare_dead(mine, r);
    }
}

void shunt_registry_sweep(void)
{
    pthread_mutex_lock(&registry.lock);
    sweep(registry.mine);
    pthread_mutex_unlock(&registry.lock);
}

/* Nobody has entry r open any more? */
static bool closed_by_all(struct shunt_arena *arena, uint32_t channel, uint32_t r)
{
    int n = shunt_arena_local_size(arena);

    for (int slot = 0; slot < n; slot++) {
        if (atomic_load_explicit(&shunt_card(arena, slot)->opened[channel][r], memory_order_acquire) != 0)
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
        if (state == SHUNT_REG_LIVE && (oldest == 0 || registry.own[r].used < registry.own[oldest].used))
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

/*
 * A block is registered on its second use that would profit, and serves from the third on, once all have opened it. If
 * it could not be, because the table was full or the driver refused, it is tried again ever less often.
 */
static bool is_due(unsigned uses)
{
    return uses >= 2 && (uses & (uses - 1)) == 0;
}

/* How the memory at p can be exported: fills kind, handle, base, size. Refused for managed, pool and imported memory. */
static bool describe(CUdeviceptr p, struct shunt_registration *reg)
{
    CUpointer_attribute wanted[2] = { CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE };
    CUdeviceptr base = 0;
    size_t size = 0;
    void *values[2] = { &base, &size };

    reg->kind = SHUNT_EXPORT_IPC;
    if (SHUNT_CUDA_AT(SHUNT_LOG_TRACE, cuPointerGetAttributes(2, wanted, values, p)) != SHUNT_OK || base == 0)
        return false;
    if (SHUNT_CUDA_AT(SHUNT_LOG_TRACE, cuIpcGetMemHandle(&reg->handle, base)) != SHUNT_OK) {
        reg->kind = SHUNT_EXPORT_DESCRIPTOR;
        if (shunt_vmm_piece(p, &base, &size) != SHUNT_OK)
            return false;
    }
    reg->base = base;
    reg->size = size;
    return true;
}

static bool describe_inside(const void *p, struct shunt_registration *reg)
{
    struct shunt_gpu_scope scope;

    if (registry.gpu == NULL || shunt_gpu_enter(registry.gpu, &scope) != SHUNT_OK)
        return false;
    bool possible = describe((CUdeviceptr)p, reg);
    shunt_gpu_leave(&scope);
    return possible;
}

static uint32_t register_block(struct shunt_arena *arena, struct shunt_card *mine, const void *p, uint64_t id)
{
    struct shunt_registration new;

    sweep(mine);
    if (!describe_inside(p, &new))
        return 0;
    uint32_t r = free_entry(arena, mine);
    if (r == 0)
        return 0;
    struct shunt_registration *reg = &mine->registrations[r];
    /* Release: who reads one of the fields below sees that the entry was dead before, or its new number. */
    atomic_thread_fence(memory_order_release);
    reg->kind = new.kind;
    reg->handle = new.handle;
    reg->base = new.base;
    reg->size = new.size;
    reg->id = id;
    atomic_store_explicit(&reg->offers, 1, memory_order_relaxed);
    atomic_store_explicit(&reg->number, ++registry.registered << SHUNT_ENTRY_BITS | r, memory_order_release);
    atomic_store_explicit(&reg->state, SHUNT_REG_LIVE, memory_order_release); /* the fields before the state */
    atomic_fetch_and(&mine->missed, ~(1ull << r));
    registry.own[r] = (struct own_entry){ .wait = 1 };
    new_version(mine);
    shunt_info("cuda", "registered a block of %llu bytes as %u%s", (unsigned long long)new.size, r,
               new.kind == SHUNT_EXPORT_DESCRIPTOR ? ", a descriptor" : "");
    return r;
}

static uint32_t find_live(struct shunt_card *mine, uint64_t id, uintptr_t p)
{
    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++) {
        struct shunt_registration *reg = &mine->registrations[r];
        if (reg->id == id && p - reg->base < reg->size && atomic_load(&reg->state) == SHUNT_REG_LIVE)
            return r;
    }
    return 0;
}

/* One descriptor to one peer. False: its mailbox is full. */
static bool send_descriptor(struct shunt_arena *arena, struct shunt_card *theirs, struct shunt_registration *reg)
{
    struct shunt_letter letter = { .slot = shunt_arena_self(arena), .number = atomic_load(&reg->number) };
    struct shunt_gpu_scope scope;
    int descriptor = -1;

    if (shunt_gpu_enter(registry.gpu, &scope) != SHUNT_OK)
        return true;
    enum shunt_status status = shunt_vmm_export((CUdeviceptr)reg->base, &descriptor);
    shunt_gpu_leave(&scope);
    if (status != SHUNT_OK)
        return true;
    status = shunt_mailbox_send(&theirs->mailbox, &letter, descriptor);
    close(descriptor);
    return status != SHUNT_ERR_LIMIT;
}

/* To all who ask for it. */
static void send_descriptors(struct shunt_arena *arena, struct shunt_card *mine, uint32_t r)
{
    int n = shunt_arena_local_size(arena);
    uint64_t bit = 1ull << r;

    /* Acquire: whoever has set the bit has asked before. */
    atomic_fetch_and_explicit(&mine->wanted, ~bit, memory_order_acquire);
    for (int slot = 0; slot < n; slot++) {
        struct shunt_card *theirs = shunt_card(arena, slot);
        if (!(atomic_load_explicit(&theirs->asked[mine->channel], memory_order_acquire) & bit))
            continue;
        atomic_fetch_and(&theirs->asked[mine->channel], ~bit);
        if (!send_descriptor(arena, theirs, &mine->registrations[r])) {
            atomic_fetch_or(&theirs->asked[mine->channel], bit);
            atomic_fetch_or(&mine->wanted, bit);
        }
    }
    new_version(mine);
}

/* Some operation went without it: offer it again, if the last offer is long ago. */
static void offer_again(struct shunt_card *mine, uint32_t r)
{
    struct own_entry *own = &registry.own[r];
    uint32_t since = own->uses - own->offered_at;

    if (since < own->wait)
        return;
    own->wait = since > 8 * own->wait ? 1 : own->wait < MOST_WAIT ? 2 * own->wait : MOST_WAIT;
    own->offered_at = own->uses;
    atomic_fetch_and(&mine->missed, ~(1ull << r));
    atomic_fetch_add(&mine->registrations[r].offers, 1);
    new_version(mine);
}

/* Entry r is used: by those who have opened it; what of the others? */
static void use_entry(struct shunt_arena *arena, struct shunt_card *mine, uint32_t r)
{
    registry.own[r].used = tick();
    registry.own[r].uses++;
    if (atomic_load_explicit(&mine->wanted, memory_order_relaxed) >> r & 1)
        send_descriptors(arena, mine, r);
    if (atomic_load_explicit(&mine->missed, memory_order_relaxed) >> r & 1)
        offer_again(mine, r);
}

void shunt_place_of(struct shunt_arena *arena, const void *p, uint64_t bytes, const struct shunt_mem *mem, bool large,
                    struct shunt_place *place)
{
    struct shunt_card *mine = shunt_card(arena, shunt_arena_self(arena));

    *place = (struct shunt_place){ .align = (uint32_t)((uintptr_t)p % 256), .id = mem->id };
    if (!large || mem->kind != SHUNT_MEM_DEVICE || mem->id == 0)
        return;
    pthread_mutex_lock(&registry.lock);
    uint32_t r = find_live(mine, mem->id, (uintptr_t)p);
    if (r == 0) {
        unsigned uses = count_use(mem->id);
        if (uses == 1)
            sweep(mine); /* a new allocation: others may have gone, and peers should not hold them */
        else if (is_due(uses))
            r = register_block(arena, mine, p, mem->id);
    }
    struct shunt_registration *reg = &mine->registrations[r];
    /* A buffer may go on in the next piece of a range that was mapped by hand: it goes through scratch. */
    if (r != 0 && bytes <= reg->size && (uintptr_t)p - reg->base <= reg->size - bytes) {
        use_entry(arena, mine, r);
        place->reg = atomic_load_explicit(&reg->number, memory_order_relaxed);
        place->offset = (uintptr_t)p - reg->base;
    }
    pthread_mutex_unlock(&registry.lock);
}

/* ---- the peers, with the lock held ---- */

/* Something is to be closed, or to be opened after something else has been closed, when nothing runs. */
static _Atomic bool untidy;

static void note_untidy(struct shunt_peer *peer)
{
    peer->untidy = true;
    atomic_store_explicit(&untidy, true, memory_order_release);
}

bool shunt_peers_untidy(void)
{
    return atomic_load_explicit(&untidy, memory_order_acquire);
}

void shunt_registry_begin_pass(void)
{
    atomic_store_explicit(&untidy, false, memory_order_release);
    registry.pass = registry.clock;
}

void shunt_block_use(struct shunt_block *block)
{
    block->used = tick();
}

char *shunt_block_hold(int slot, uint32_t number)
{
    struct shunt_block *block = &shunt_peer_at(slot)->blocks[shunt_entry_of(number)];
    char *address = NULL;

    pthread_mutex_lock(&registry.lock);
    if (block->address != NULL && block->number == number) {
        address = block->address;
        shunt_block_use(block);
        registry.held++;
    }
    pthread_mutex_unlock(&registry.lock);
    return address;
}

void shunt_block_release(void)
{
    pthread_mutex_lock(&registry.lock);
    registry.held--;
    pthread_mutex_unlock(&registry.lock);
}

static void close_block(struct shunt_block *block)
{
    struct shunt_block **at = &registry.open;

    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    if (block->kind == SHUNT_EXPORT_DESCRIPTOR)
        shunt_vmm_close((CUdeviceptr)block->address, block->size);
    else
        SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuIpcCloseMemHandle((CUdeviceptr)block->address));
    block->address = NULL;
    registry.mapped -= block->size;
    shunt_info("cuda", "closed block %u of channel %u, %llu bytes", shunt_entry_of(block->number), block->channel,
               (unsigned long long)block->size);
    /* Release: the owner reuses the entry only after the mapping is gone. */
    atomic_store_explicit(&registry.mine->opened[block->channel][shunt_entry_of(block->number)], 0,
                          memory_order_release);
}

/* The block that was used longest ago, but not since this pass began; NULL if there is none. */
static struct shunt_block *oldest_block(void)
{
    struct shunt_block *oldest = NULL;

    for (struct shunt_block *block = registry.open; block != NULL; block = block->next) {
        if (block->used <= registry.pass && (oldest == NULL || block->used < oldest->used))
            oldest = block;
    }
    return oldest;
}

static bool has_room(uint64_t size)
{
    return size <= registry.limit && registry.mapped <= registry.limit - size;
}

static bool make_room(uint64_t size, bool idle)
{
    while (idle && size <= registry.limit && !has_room(size)) {
        struct shunt_block *oldest = oldest_block();
        if (oldest == NULL)
            break;
        close_block(oldest);
    }
    return has_room(size);
}

/* A copy of what is offered, whole. False: nothing is, or it has just changed, which the next version tells. */
static bool read_offer(const struct shunt_registration *reg, struct shunt_registration *copy)
{
    uint32_t state = atomic_load_explicit(&reg->state, memory_order_acquire);
    uint32_t number = atomic_load_explicit(&reg->number, memory_order_acquire);

    if (state != SHUNT_REG_LIVE)
        return false;
    copy->kind = reg->kind;
    copy->handle = reg->handle;
    copy->size = reg->size;
    atomic_store(&copy->offers, atomic_load(&reg->offers));
    atomic_store(&copy->number, number);
    /* Acquire: with a field of a later registration comes the state or the number that gives it away. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&reg->state, memory_order_relaxed) == SHUNT_REG_LIVE &&
           atomic_load_explicit(&reg->number, memory_order_relaxed) == number;
}

/* It is mapped at `address`. */
static void enter_block(struct shunt_block *block, uint32_t channel, const struct shunt_registration *offer,
                        CUdeviceptr address)
{
    uint32_t r = shunt_entry_of(block->number);

    block->address = (char *)address;
    block->size = offer->size;
    block->kind = offer->kind;
    block->channel = channel;
    block->used = tick();
    block->next = registry.open;
    registry.open = block;
    registry.mapped += block->size;
    /* Release: who sees the number may count on the mapping. */
    atomic_store_explicit(&registry.mine->opened[channel][r], block->number, memory_order_release);
    shunt_info("cuda", "opened block %u of channel %u, %llu bytes", r, channel, (unsigned long long)block->size);
}

/* A letter with a descriptor has come. */
static void take_letter(struct shunt_arena *arena, const struct shunt_letter *letter, int descriptor, bool idle)
{
    struct shunt_registration offer;
    uint32_t r = shunt_entry_of(letter->number);
    CUdeviceptr address;

    if (letter->slot < 0 || letter->slot >= shunt_arena_local_size(arena) || r == 0 || r > SHUNT_REGISTRATIONS)
        return;
    struct shunt_peer *peer = shunt_peer_at(letter->slot);
    struct shunt_block *block = &peer->blocks[r];
    if (!read_offer(&shunt_card(arena, letter->slot)->registrations[r], &offer) || peer->state != SHUNT_PEER_OPEN)
        return;
    if (block->address != NULL || block->number != letter->number || offer.number != letter->number)
        return;
    block->tried = offer.offers;
    if (make_room(offer.size, idle) &&
        shunt_vmm_open(descriptor, offer.size, registry.gpu->ordinal, &address) == SHUNT_OK)
        enter_block(block, peer->channel, &offer, address);
}

static void take_letters(struct shunt_arena *arena, bool idle)
{
    struct shunt_letter letter;
    int descriptor;

    while (registry.mailbox >= 0 &&
           shunt_mailbox_next(registry.mailbox, &registry.mine->mailbox, &letter, &descriptor)) {
        take_letter(arena, &letter, descriptor, idle);
        close(descriptor);
    }
}

/* Ask the owner to send a descriptor to the mailbox, which is made now if there was none. */
static void ask_for(struct shunt_card *theirs, uint32_t channel, uint32_t r)
{
    struct shunt_card *mine = registry.mine;

    if (registry.mailbox == -1 && shunt_mailbox_open(&registry.mailbox, &mine->mailbox) != SHUNT_OK)
        registry.mailbox = -2;
    if (registry.mailbox < 0)
        return;
    /* Release: the address before the question, and that before the bell. */
    atomic_fetch_or_explicit(&mine->asked[channel], 1ull << r, memory_order_release);
    atomic_fetch_or_explicit(&theirs->wanted, 1ull << r, memory_order_release);
}

/* Close what is dead of a peer's, or note that it is to be closed. False: something dead is still open. */
static bool close_dead(struct shunt_card *theirs, struct shunt_peer *peer, bool idle)
{
    bool all = true;

    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++) {
        struct shunt_registration *reg = &theirs->registrations[r];
        struct shunt_block *block = &peer->blocks[r];
        if (block->address == NULL || (atomic_load_explicit(&reg->state, memory_order_acquire) == SHUNT_REG_LIVE &&
                                       atomic_load_explicit(&reg->number, memory_order_acquire) == block->number))
            continue;
        if (idle)
            close_block(block);
        else
            all = false;
    }
    if (!all)
        note_untidy(peer);
    return all;
}

static void follow_offer(struct shunt_card *theirs, struct shunt_peer *peer, uint32_t r, bool idle)
{
    struct shunt_block *block = &peer->blocks[r];
    struct shunt_registration offer;
    CUdeviceptr address = 0;

    if (block->address != NULL || !read_offer(&theirs->registrations[r], &offer))
        return;
    if (block->number != offer.number)
        *block = (struct shunt_block){ .number = offer.number };
    if (block->tried == offer.offers)
        return;
    /* What lay there before was declared dead before this was offered: a driver might take the one for the other. */
    if (!close_dead(theirs, peer, idle))
        return;
    if (!make_room(offer.size, idle)) {
        if (!idle && offer.size <= registry.limit)
            note_untidy(peer);
        else
            block->tried = offer.offers; /* the operations go through scratch */
    } else if (offer.kind == SHUNT_EXPORT_DESCRIPTOR) {
        if (block->asked != offer.offers)
            ask_for(theirs, peer->channel, r);
        block->asked = offer.offers;
    } else {
        block->tried = offer.offers;
        if (SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuIpcOpenMemHandle_v2(&address, offer.handle,
                                                                CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) == SHUNT_OK)
            enter_block(block, peer->channel, &offer, address);
    }
}

void shunt_registry_follow(struct shunt_arena *arena, int slot, bool idle)
{
    struct shunt_card *theirs = shunt_card(arena, slot);
    struct shunt_peer *peer = shunt_peer_at(slot);
    uint32_t version = atomic_load_explicit(&theirs->version, memory_order_acquire);

    pthread_mutex_lock(&registry.lock);
    idle = idle && registry.held == 0;
    peer->untidy = false;
    close_dead(theirs, peer, idle);
    take_letters(arena, idle);
    for (uint32_t r = 1; r <= SHUNT_REGISTRATIONS; r++)
        follow_offer(theirs, peer, r, idle);
    __atomic_store_n(&peer->version, version, __ATOMIC_RELEASE); /* the blocks before the version */
    pthread_mutex_unlock(&registry.lock);
}

int shunt_registry_close_all(bool idle)
{
    int left = 0;

    pthread_mutex_lock(&registry.lock);
    while (idle && registry.held == 0 && registry.open != NULL)
        close_block(registry.open);
    for (struct shunt_block *block = registry.open; block != NULL; block = block->next)
        left++;
    pthread_mutex_unlock(&registry.lock);
    return left;
}

void shunt_registry_stop(void)
{
    pthread_mutex_lock(&registry.lock);
    if (registry.mailbox >= 0)
        close(registry.mailbox);
    registry.mailbox = -2;
    registry.gpu = NULL;
    pthread_mutex_unlock(&registry.lock);
}
