/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer writes held back, as a GPU may: they become visible in random order until a release or a fence.
 *
 * A table per block, indexed by a hash of the 8-byte word written: writes to one word meet in one slot, so they stay
 * in order, and a load finds what its own block has written by looking into one slot. A write that finds its slot
 * taken makes the older one visible first.
 */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "sim/block.h"
#include "sim/word16.h"

#define SLOTS 256u

struct store {
    void *p;
    alignas(16) unsigned char value[16];
    uint32_t epoch, warp_epoch; /* of the barriers that the writer had passed */
    uint16_t writer;
    uint8_t bytes;
};

struct sim_stores {
    uint64_t used[SLOTS / 64];
    struct store slots[SLOTS];
};

struct sim_stores *sim_stores_new(void)
{
    return calloc(1, sizeof(struct sim_stores));
}

static unsigned slot_of(const void *p)
{
    return (unsigned)(((uintptr_t)p >> 3) * 0x9e3779b97f4a7c15ull >> 56);
}

static bool is_used(const struct sim_stores *stores, unsigned i)
{
    return stores->used[i / 64] >> i % 64 & 1;
}

/* Relaxed: the order of two writes is made by the fence or release that asked for them, not here. */
static void make_visible(struct sim_stores *stores, unsigned i)
{
    const struct store *s = &stores->slots[i];
    stores->used[i / 64] &= ~(1ull << i % 64);
    switch (s->bytes) {
    case 1:
        __atomic_store_n((uint8_t *)s->p, *(const uint8_t *)s->value, __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n((uint16_t *)s->p, *(const uint16_t *)s->value, __ATOMIC_RELAXED);
        break;
    case 4:
        __atomic_store_n((uint32_t *)s->p, *(const uint32_t *)s->value, __ATOMIC_RELAXED);
        break;
    case 8:
        __atomic_store_n((uint64_t *)s->p, *(const uint64_t *)s->value, __ATOMIC_RELAXED);
        break;
    default:
        sim_store16(s->p, s->value);
    }
}

/* The first used slot at or after i, around the end; SLOTS if there is none. */
static unsigned next_used(const struct sim_stores *stores, unsigned i)
{
    for (unsigned step = 0; step <= SLOTS / 64; step++) {
        unsigned word = (i / 64 + step) % (SLOTS / 64);
        uint64_t bits = stores->used[word];
        if (step == 0)
            bits &= ~0ull << i % 64;
        if (bits)
            return word * 64 + (unsigned)__builtin_ctzll(bits);
    }
    return SLOTS;
}

void sim_stores_put(struct sim_launch *launch, void *p, const void *value, unsigned bytes)
{
    struct sim_block *block = launch->block;
    struct sim_stores *stores = block->stores;
    unsigned i = slot_of(p), writer = launch->fiber->number;
    if (is_used(stores, i))
        make_visible(stores, i);
    stores->used[i / 64] |= 1ull << i % 64;
    stores->slots[i] = (struct store){
        .p = p,
        .epoch = block->barrier.epoch,
        .warp_epoch = block->warps[writer / 32].epoch,
        .writer = (uint16_t)writer,
        .bytes = (uint8_t)bytes,
    };
    memcpy(stores->slots[i].value, value, bytes);
    if (sim_random(launch) % 8 == 0)
        make_visible(stores, next_used(stores, sim_random(launch) % SLOTS));
}

void sim_stores_settle(struct sim_launch *launch, const void *p, unsigned bytes)
{
    struct sim_stores *stores = launch->block->stores;
    for (uintptr_t word = (uintptr_t)p & ~(uintptr_t)7; word < (uintptr_t)p + bytes; word += 8) {
        unsigned i = slot_of((void *)word);
        if (is_used(stores, i))
            make_visible(stores, i);
    }
}

static bool is_covered(const struct sim_block *block, const struct store *s, unsigned by)
{
    unsigned warp = s->writer / 32;
    return s->writer == by || s->epoch != block->barrier.epoch ||
           (warp == by / 32 && s->warp_epoch != block->warps[warp].epoch);
}

void sim_stores_release(struct sim_launch *launch)
{
    struct sim_stores *stores = launch->block->stores;
    unsigned first = sim_random(launch) % SLOTS, seen = 0;
    for (unsigned step = 0; step < SLOTS; step += seen) {
        unsigned at = (first + step) % SLOTS, i = next_used(stores, at);
        if (i == SLOTS)
            return;
        seen = (i - at) % SLOTS + 1;
        if (step + seen <= SLOTS && is_covered(launch->block, &stores->slots[i], launch->fiber->number))
            make_visible(stores, i);
    }
}

void sim_stores_leak(struct sim_launch *launch)
{
    struct sim_stores *stores = launch->block->stores;
    uint32_t random = sim_random(launch);
    unsigned i = random % 2 ? SLOTS : next_used(stores, random / 2 % SLOTS);
    if (i < SLOTS)
        make_visible(stores, i);
}

void sim_stores_drain(struct sim_launch *launch, struct sim_block *block)
{
    unsigned i;
    while ((i = next_used(block->stores, sim_random(launch) % SLOTS)) < SLOTS)
        make_visible(block->stores, i);
}
