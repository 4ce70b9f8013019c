/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiver's side of parcels; receive.h. */
#include "pt2pt/receive.h"

#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "cuda/pack.h"
#include "pt2pt/distant.h"
#include "pt2pt/spill.h"

#define HEALTH_SECONDS 0.1

static _Atomic unsigned busy;

unsigned shunt_receives_busy(void)
{
    return atomic_load_explicit(&busy, memory_order_relaxed);
}

bool shunt_receive_start(struct shunt_arena *arena)
{
    struct shunt_parcels *mine = shunt_arena_parcels(arena, shunt_arena_self(arena));

    if (!shunt_spill_open(mine))
        return false;
    /* Release: with it senders see the mailbox. */
    atomic_store_explicit(&mine->decodes, 1, memory_order_release);
    shunt_distant_accept();
    return true;
}

bool shunt_receive_reads(struct shunt_arena *arena, const void *at, struct shunt_fetch *fetch)
{
    fetch->distant = false;
    return shunt_descriptor_read(arena, at, &fetch->descriptor) ||
           (fetch->distant = shunt_distant_read(at, &fetch->descriptor));
}

void shunt_receive_discard(struct shunt_arena *arena, const struct shunt_fetch *fetch)
{
    const struct shunt_descriptor *descriptor = &fetch->descriptor;

    if (fetch->distant)
        shunt_distant_discard(descriptor);
    else
        shunt_parcel_discard(shunt_arena_parcels(arena, (int)descriptor->source.slot), descriptor->index, descriptor->number);
}

static uint64_t bytes_of(const struct shunt_fetch *fetch)
{
    return fetch->descriptor.bytes < fetch->room ? fetch->descriptor.bytes : fetch->room;
}

static bool turn(struct shunt_parcels *theirs, const struct shunt_fetch *fetch, enum shunt_parcel_state from,
                 enum shunt_parcel_state to)
{
    return shunt_parcel_turn(theirs, fetch->descriptor.index, fetch->descriptor.number, from, to);
}

/* The sender sees that this process fetches something, and has patience with the others. */
static void show_life(struct shunt_arena *arena)
{
    atomic_fetch_add_explicit(&shunt_arena_parcels(arena, shunt_arena_self(arena))->fetched, 1, memory_order_relaxed);
}

/* It has been pulled, or could not be. */
static enum shunt_status end_pull(struct shunt_arena *arena, struct shunt_parcels *theirs, struct shunt_fetch *fetch,
                                  enum shunt_status status)
{
    show_life(arena);
    fetch->failed = status != SHUNT_OK;
    if (fetch->failed)
        shunt_info("message", "a peer's buffer cannot be read: it shall move the message to host memory");
    turn(theirs, fetch, SHUNT_PARCEL_PULLING, fetch->failed ? SHUNT_PARCEL_WANTED : SHUNT_PARCEL_DONE);
    return fetch->failed ? SHUNT_AGAIN : SHUNT_OK;
}

static enum shunt_status continue_pull(struct shunt_arena *arena, struct shunt_parcels *theirs,
                                       struct shunt_fetch *fetch)
{
    struct shunt_parcels *mine = shunt_arena_parcels(arena, shunt_arena_self(arena));
    bool passes = fetch->passage.pattern != NULL;
    enum shunt_status status = passes ? shunt_passage_end(&fetch->passage) : shunt_pull_end(&fetch->pulling);

    if (status == SHUNT_AGAIN)
        return status;
    fetch->busy = false;
    atomic_fetch_sub_explicit(&busy, 1, memory_order_relaxed);
    if (passes)
        atomic_fetch_add_explicit(&mine->unpacked, 1, memory_order_relaxed);
    else if (fetch->pulling.unlaunched)
        atomic_fetch_add_explicit(&mine->unlaunched, 1, memory_order_relaxed);
    return end_pull(arena, theirs, fetch, status);
}

/* OK: a copy is on its way. MEMORY: to host memory instead. */
static enum shunt_status begin_copy(struct shunt_fetch *fetch, const struct shunt_source *source)
{
    return fetch->passage.pattern ? shunt_passage_begin(source, bytes_of(fetch), &fetch->passage) :
                                    shunt_pull_begin(source, fetch->to, bytes_of(fetch), &fetch->pulling);
}

/* It is exposed. */
static enum shunt_status begin_pull(struct shunt_arena *arena, struct shunt_parcels *theirs, struct shunt_fetch *fetch)
{
    struct shunt_source source = fetch->descriptor.source; /* the descriptor is packed */
    enum shunt_status status = SHUNT_ERR_MEMORY;

    if (fetch->to_device && !shunt_pull_ready(fetch->ticket))
        return SHUNT_AGAIN;
    if (!turn(theirs, fetch, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_PULLING))
        return SHUNT_AGAIN;
    show_life(arena);
    if (fetch->to_device)
        status = begin_copy(fetch, &source);
    if (status == SHUNT_ERR_MEMORY && (!fetch->to_device || fetch->passage.pattern)) {
        fetch->to_device = false;
        return end_pull(arena, theirs, fetch, shunt_pull_out(&source, fetch->to, bytes_of(fetch)));
    }
    if (status != SHUNT_OK)
        return end_pull(arena, theirs, fetch, status);
    fetch->busy = true;
    atomic_fetch_add_explicit(&busy, 1, memory_order_relaxed);
    return SHUNT_AGAIN;
}

/* From host memory to its place. */
static enum shunt_status put(const struct shunt_fetch *fetch, const void *from)
{
    const struct shunt_passage *passage = &fetch->passage;
    uint64_t bytes = bytes_of(fetch);

    if (!fetch->to_device)
        memcpy(fetch->to, from, bytes);
    else if (!passage->pattern)
        return shunt_stage_in(fetch->to, from, bytes);
    else
        return shunt_pack_in(passage->pattern, passage->base, (int64_t)((bytes - 1) / passage->pattern->bytes) + 1, bytes, from);
    return SHUNT_OK;
}

static enum shunt_status load(struct shunt_arena *arena, struct shunt_parcels *theirs, struct shunt_fetch *fetch)
{
    const struct shunt_descriptor *descriptor = &fetch->descriptor;
    enum shunt_status status = SHUNT_OK;
    uint64_t bytes = bytes_of(fetch);
    void *window;

    if (bytes > 0)
        status = shunt_spill_map(arena, (int)descriptor->source.slot, descriptor->index, bytes, &window);
    if (bytes > 0 && status == SHUNT_OK) {
        status = put(fetch, window);
        munmap(window, bytes);
    }
    turn(theirs, fetch, SHUNT_PARCEL_MOVED, SHUNT_PARCEL_DONE);
    return status;
}

/* The sender moves it, or is to do so: unless it has died. */
static enum shunt_status await_sender(struct shunt_arena *arena, struct shunt_fetch *fetch)
{
    double now = shunt_seconds();

    if (fetch->looked == 0 || now - fetch->looked < HEALTH_SECONDS) {
        fetch->looked = fetch->looked == 0 ? now : fetch->looked;
        return SHUNT_AGAIN;
    }
    fetch->looked = now;
    return shunt_arena_alive(arena, (int)fetch->descriptor.source.slot) ? SHUNT_AGAIN : SHUNT_ERR_DEAD;
}

enum shunt_status shunt_receive_fetch(struct shunt_arena *arena, struct shunt_fetch *fetch)
{
    if (fetch->distant)
        return shunt_distant_fetch(fetch);
    struct shunt_parcels *theirs = shunt_arena_parcels(arena, (int)fetch->descriptor.source.slot);

    /* A copy that is under way ends before anything else, even if the sender has given the message up meanwhile. */
    if (fetch->busy)
        return continue_pull(arena, theirs, fetch);
    switch (shunt_parcel_look(theirs, fetch->descriptor.index, fetch->descriptor.number)) {
    case SHUNT_PARCEL_EXPOSED:
        if (!fetch->failed)
            return begin_pull(arena, theirs, fetch);
        turn(theirs, fetch, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_WANTED);
        return await_sender(arena, fetch);
    case SHUNT_PARCEL_WANTED:
    case SHUNT_PARCEL_MOVING: return await_sender(arena, fetch);
    case SHUNT_PARCEL_MOVED: return load(arena, theirs, fetch);
    default: return SHUNT_ERR_INVALID;
    }
}
