/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender's side of parcels; send.h. */
#include "pt2pt/send.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/conf.h"
#include "cuda/tray.h"
#include "pt2pt/spill.h"

#define PINNED_RATE    25e9 /* bytes per second by which staging would move them */
#define HEALTH_SECONDS 0.1
#define SMALL_BYTES    8192

/* The places of this process's table. */
static struct {
    pthread_mutex_t lock;
    enum { EMPTY, USED, MOVED } place[SHUNT_PARCELS];
    uint64_t bytes[SHUNT_PARCELS]; /* of those that are MOVED: the sender has gone on, the receiver is to fetch them */
    int dest[SHUNT_PARCELS];
    struct shunt_sending *sending[SHUNT_PARCELS]; /* of those that are USED */
    uint32_t next;
    uint64_t order;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Has what was moved been fetched, or will nobody fetch it? */
static bool is_over(struct shunt_arena *arena, const struct shunt_parcels *mine, uint32_t i)
{
    return (atomic_load_explicit(&mine->list[i].word, memory_order_acquire) & 7) == SHUNT_PARCEL_DONE ||
           !shunt_arena_alive(arena, table.dest[i]);
}

/* A free place, or -1. */
static int take_place(struct shunt_arena *arena, const struct shunt_parcels *mine, struct shunt_sending *sending)
{
    int found = -1;

    pthread_mutex_lock(&table.lock);
    for (uint32_t k = 0; k < SHUNT_PARCELS && found < 0; k++) {
        uint32_t i = (table.next + k) % SHUNT_PARCELS;
        if (table.place[i] == USED || (table.place[i] == MOVED && !is_over(arena, mine, i)))
            continue;
        if (table.place[i] == MOVED)
            shunt_spill_drop(i, table.bytes[i]);
        table.place[i] = USED;
        table.sending[i] = sending;
        table.next = i + 1;
        found = (int)i;
    }
    pthread_mutex_unlock(&table.lock);
    return found;
}

static void give_place(struct shunt_sending *sending, int state)
{
    pthread_mutex_lock(&table.lock);
    table.place[sending->index] = state;
    table.sending[sending->index] = NULL;
    table.bytes[sending->index] = sending->bytes;
    table.dest[sending->index] = sending->dest;
    pthread_mutex_unlock(&table.lock);
    shunt_tray_give(sending->tray);
    sending->tray = NULL;
}

bool shunt_send_prepare(struct shunt_arena *arena, const void *buffer, uint64_t bytes, const struct shunt_mem *mem, int dest,
                        struct shunt_sending *sending)
{
    struct shunt_parcels *mine = shunt_arena_parcels(arena, shunt_arena_self(arena));
    int place;

    *sending = (struct shunt_sending){ .dest = dest, .buffer = buffer, .bytes = bytes };
    if (!shunt_source_of(arena, buffer, bytes, mem, dest, &sending->source) || !shunt_spill_offer(arena, dest) ||
        (place = take_place(arena, mine, sending)) < 0)
        return false;
    sending->index = (uint32_t)place;
    return true;
}

void shunt_send_expose(struct shunt_arena *arena, const struct shunt_parcel_note *note, struct shunt_sending *sending,
                       struct shunt_descriptor *descriptor)
{
    struct shunt_parcels *mine = shunt_arena_parcels(arena, shunt_arena_self(arena));
    struct shunt_parcel_note own = *note;

    own.order = __atomic_add_fetch(&table.order, 1, __ATOMIC_RELAXED);
    sending->number = shunt_parcel_expose(mine, sending->index, &own);
    *descriptor = (struct shunt_descriptor){
        .number = sending->number, .bytes = sending->bytes, .index = sending->index, .source = sending->source
    };
    shunt_descriptor_seal(arena, descriptor);
}

void shunt_send_undo(struct shunt_arena *arena, struct shunt_sending *sending)
{
    struct shunt_parcels *mine = shunt_arena_parcels(arena, shunt_arena_self(arena));

    shunt_parcel_turn(mine, sending->index, sending->number, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_DONE);
    give_place(sending, EMPTY);
}

static bool finish(struct shunt_parcels *mine, struct shunt_sending *sending, bool moved)
{
    if (sending->tray)
        atomic_fetch_add_explicit(&mine->packed, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(moved ? &mine->moved : &mine->pulled, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&mine->bytes, sending->bytes, memory_order_relaxed);
    give_place(sending, moved ? MOVED : EMPTY);
    return true;
}

static bool move(struct shunt_parcels *mine, struct shunt_sending *sending, enum shunt_parcel_state from)
{
    if (!shunt_parcel_turn(mine, sending->index, sending->number, from, SHUNT_PARCEL_MOVING))
        return false;
    bool stored = shunt_spill_store(sending->index, sending->buffer, sending->bytes) == SHUNT_OK;
    shunt_parcel_turn(mine, sending->index, sending->number, SHUNT_PARCEL_MOVING,
                      stored ? SHUNT_PARCEL_MOVED : SHUNT_PARCEL_EXPOSED);
    sending->since = 0;
    return stored && finish(mine, sending, true);
}

/* Has the receiver fetched nothing for as long as staging would have taken, and for a while at least? */
static bool out_of_patience(struct shunt_arena *arena, struct shunt_sending *sending, double now)
{
    const struct shunt_parcels *theirs = shunt_arena_parcels(arena, sending->dest);
    uint64_t fetched = atomic_load_explicit(&theirs->fetched, memory_order_relaxed);
    double patience = 1e-6 * (double)shunt_conf->message_patience, moving = (double)sending->bytes / PINNED_RATE;

    /* Programs expect of small ones that they are sent without a receiver. */
    if (sending->bytes <= SMALL_BYTES)
        patience /= 8;

    if (sending->since == 0 || fetched != sending->fetched) {
        sending->since = now;
        sending->fetched = fetched;
    }
    return now - sending->since > (moving > patience ? moving : patience);
}

bool shunt_send_poll(struct shunt_arena *arena, struct shunt_sending *sending)
{
    struct shunt_parcels *mine = shunt_arena_parcels(arena, shunt_arena_self(arena));
    enum shunt_parcel_state state = shunt_parcel_look(mine, sending->index, sending->number);

    switch (state) {
    case SHUNT_PARCEL_DONE: return finish(mine, sending, false);
    case SHUNT_PARCEL_WANTED: return move(mine, sending, state);
    case SHUNT_PARCEL_EXPOSED:
        return out_of_patience(arena, sending, shunt_seconds()) && move(mine, sending, state);
    default:
        /* Who pulls may die; then nobody wants the message any more. */
        if (sending->since == 0)
            sending->since = shunt_seconds();
        else if (shunt_seconds() - sending->since > HEALTH_SECONDS) {
            sending->since = 0;
            if (!shunt_arena_alive(arena, sending->dest))
                return finish(mine, sending, false);
        }
        return false;
    }
}

bool shunt_sends_over(struct shunt_arena *arena)
{
    bool over = true;

    for (uint32_t i = 0; i < SHUNT_PARCELS; i++) {
        pthread_mutex_lock(&table.lock);
        struct shunt_sending *sending = table.place[i] == USED ? table.sending[i] : NULL;
        pthread_mutex_unlock(&table.lock);
        over &= !sending || shunt_send_poll(arena, sending);
    }
    return over;
}
