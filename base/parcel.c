/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose turn it is with a parcel; parcel.h. */
#include "base/parcel.h"

#include "base/arena_layout.h"

static uint64_t word_of(uint64_t number, enum shunt_parcel_state state)
{
    return number << 3 | state;
}

struct shunt_parcels *shunt_arena_parcels(const struct shunt_arena *arena, int slot)
{
    return (struct shunt_parcels *)shared_at(arena->shared, arena->shared->parcels_at) + slot;
}

void shunt_arena_token(const struct shunt_arena *arena, uint64_t token[2])
{
    token[0] = arena->shared->nonce[0];
    token[1] = arena->shared->nonce[1];
}

uint64_t shunt_parcel_expose(struct shunt_parcels *parcels, uint32_t index, const struct shunt_parcel_note *note)
{
    struct shunt_parcel *parcel = &parcels->list[index];
    uint64_t number = (atomic_load_explicit(&parcel->word, memory_order_relaxed) >> 3) + 1;

    parcel->note = *note;
    /* Release: who finds it exposed finds its note. */
    atomic_store_explicit(&parcel->word, word_of(number, SHUNT_PARCEL_EXPOSED), memory_order_release);
    return number;
}

enum shunt_parcel_state shunt_parcel_look(const struct shunt_parcels *parcels, uint32_t index, uint64_t number)
{
    /* Acquire: after DONE the sender reuses its buffer, after MOVED the receiver reads the copy. */
    uint64_t word = atomic_load_explicit(&parcels->list[index].word, memory_order_acquire);

    return word >> 3 == number ? (enum shunt_parcel_state)(word & 7) : SHUNT_PARCEL_GONE;
}

bool shunt_parcel_turn(struct shunt_parcels *parcels, uint32_t index, uint64_t number, enum shunt_parcel_state from,
                       enum shunt_parcel_state to)
{
    uint64_t expected = word_of(number, from);

    /* Release: what the one side has read or written before the other sees the change; acquire: the reverse. */
    return atomic_compare_exchange_strong_explicit(&parcels->list[index].word, &expected, word_of(number, to),
                                                   memory_order_acq_rel, memory_order_acquire);
}

static bool is_alike(const struct shunt_parcel_note *a, const struct shunt_parcel_note *b)
{
    return a->comm == b->comm && a->tag == b->tag && a->dest == b->dest;
}

/* May its descriptor still be on its way, or in hands that have not begun to fetch? */
static bool is_open(uint64_t word)
{
    switch ((enum shunt_parcel_state)(word & 7)) {
    case SHUNT_PARCEL_EXPOSED:
    case SHUNT_PARCEL_WANTED:
    case SHUNT_PARCEL_MOVING:
    case SHUNT_PARCEL_MOVED: return true;
    default: return false;
    }
}

bool shunt_parcel_find(const struct shunt_parcels *parcels, const struct shunt_parcel_note *like,
                       bool (*held)(void *context, uint32_t index, uint64_t number), void *context,
                       struct shunt_parcel_note *note, uint32_t *index, uint64_t *number)
{
    bool found = false;

    for (uint32_t i = 0; i < SHUNT_PARCELS; i++) {
        const struct shunt_parcel *parcel = &parcels->list[i];
        uint64_t word = atomic_load_explicit(&parcel->word, memory_order_acquire);
        if (!is_open(word) || !is_alike(&parcel->note, like) || held(context, i, word >> 3))
            continue;
        if (found && parcel->note.order > note->order)
            continue;
        found = true;
        *note = parcel->note;
        *index = i;
        *number = word >> 3;
    }
    return found;
}

void shunt_parcel_discard(struct shunt_parcels *parcels, uint32_t index, uint64_t number)
{
    /* It may be on its way from the one to the other. */
    while (is_open(number << 3 | shunt_parcel_look(parcels, index, number)) &&
           !shunt_parcel_turn(parcels, index, number, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_DONE) &&
           !shunt_parcel_turn(parcels, index, number, SHUNT_PARCEL_MOVED, SHUNT_PARCEL_DONE)) {
    }
}
