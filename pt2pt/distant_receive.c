/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiver's side of parcels from other nodes: distant.h. */
#include <stdlib.h>
#include <string.h>

#include "cuda/gpu.h"
#include "cuda/pageable.h"
#include "pt2pt/distant_inner.h"

enum { WINDOW = 4 }; /* pieces under way at a time */

/* A parcel on its way to its place. Where a piece fails UCX may look at it for ever, so it stays. */
struct shunt_arrival {
    uint32_t wanted, begun, done; /* pieces */
    enum shunt_status status;     /* of what has been stored */
    char *memory;                 /* for WINDOW pieces */
    struct shunt_net_part part[WINDOW];
};

bool shunt_distant_read(const void *at, struct shunt_descriptor *descriptor)
{
    return distant.peers != NULL && shunt_descriptor_is(distant.token, at, descriptor) && descriptor->index > 0 &&
           descriptor->source.slot < (uint32_t)distant.n;
}

static uint64_t bytes_of_piece(const struct shunt_descriptor *descriptor, uint32_t i)
{
    const uint64_t at = (uint64_t)i * descriptor->index, rest = descriptor->bytes - at;

    return rest < descriptor->index ? rest : descriptor->index;
}

static int peer_of(const struct shunt_descriptor *descriptor)
{
    return (int)descriptor->source.slot;
}

/* Nobody wants its pieces from this one on, and the sender may forget it. */
static void end_parcel(const struct shunt_descriptor *descriptor, uint32_t from)
{
    const uint32_t pieces = distant_pieces(descriptor->bytes, descriptor->index);

    shunt_net_lock();
    for (uint32_t i = from; i < pieces; i++)
        shunt_net_drop(peer_of(descriptor), distant_tag(descriptor->number, i));
    distant_write(peer_of(descriptor), &(struct distant_letter){ .kind = DISTANT_GOT, .number = descriptor->number });
    shunt_net_unlock();
}

void shunt_distant_discard(const struct shunt_descriptor *descriptor)
{
    end_parcel(descriptor, 0);
}

static struct shunt_arrival *make_arrival(const struct shunt_fetch *fetch)
{
    struct shunt_arrival *arrival = calloc(1, sizeof *arrival);
    const uint32_t wanted = distant_pieces(fetch->room, fetch->descriptor.index);

    if (arrival == NULL)
        return NULL;
    arrival->wanted = wanted;
    if (wanted > 0)
        arrival->memory = shunt_pageable_get((wanted < WINDOW ? wanted : WINDOW) * (size_t)fetch->descriptor.index);
    if (wanted > 0 && arrival->memory == NULL) {
        free(arrival);
        return NULL;
    }
    return arrival;
}

static char *memory_of(const struct shunt_fetch *fetch, uint32_t i)
{
    return fetch->arrival->memory + (size_t)(i % WINDOW) * fetch->descriptor.index;
}

static void begin_pieces(const struct shunt_fetch *fetch)
{
    struct shunt_arrival *a = fetch->arrival;

    for (; a->begun < a->wanted && a->begun < a->done + WINDOW; a->begun++)
        shunt_net_receive(&a->part[a->begun % WINDOW], peer_of(&fetch->descriptor),
                          distant_tag(fetch->descriptor.number, a->begun), memory_of(fetch, a->begun),
                          bytes_of_piece(&fetch->descriptor, a->begun));
}

/* As much of a piece as there is room for. */
static enum shunt_status store_piece(const struct shunt_fetch *fetch, uint32_t i)
{
    const uint64_t at = (uint64_t)i * fetch->descriptor.index, rest = fetch->room - at;
    const uint64_t come = bytes_of_piece(&fetch->descriptor, i), bytes = rest < come ? rest : come;
    char *to = (char *)fetch->to + at;

    if (fetch->to_device)
        return shunt_stage_in(to, memory_of(fetch, i), bytes);
    memcpy(to, memory_of(fetch, i), bytes);
    return SHUNT_OK;
}

/* AGAIN: pieces are still to come. */
static enum shunt_status store_pieces(const struct shunt_fetch *fetch)
{
    struct shunt_arrival *a = fetch->arrival;

    for (; a->done < a->wanted; a->done++, begin_pieces(fetch)) {
        enum shunt_net_state state = shunt_net_state(&a->part[a->done % WINDOW]);
        if (state == SHUNT_NET_FAILED)
            return SHUNT_ERR_DEAD;
        if (state != SHUNT_NET_DONE || (fetch->to_device && !shunt_pull_ready(fetch->ticket)))
            return SHUNT_AGAIN;
        if (a->status == SHUNT_OK)
            a->status = store_piece(fetch, a->done);
    }
    return SHUNT_OK;
}

enum shunt_status shunt_distant_fetch(struct shunt_fetch *fetch)
{
    if (fetch->room > fetch->descriptor.bytes)
        fetch->room = fetch->descriptor.bytes;
    /* What has gaps comes to the host's image of it: it has to go through host memory anyway. */
    if (fetch->passage.pattern != NULL)
        fetch->to_device = false;
    if (fetch->arrival == NULL && (fetch->arrival = make_arrival(fetch)) == NULL) {
        shunt_distant_discard(&fetch->descriptor);
        return SHUNT_ERR_MEMORY;
    }
    struct shunt_arrival *arrival = fetch->arrival;
    begin_pieces(fetch);
    shunt_net_progress();
    enum shunt_status status = store_pieces(fetch);
    if (status == SHUNT_AGAIN)
        return status;
    end_parcel(&fetch->descriptor, arrival->begun);
    fetch->arrival = NULL;
    if (status != SHUNT_OK)
        return status;
    status = arrival->status;
    if (arrival->memory != NULL)
        shunt_pageable_put(arrival->memory, true);
    free(arrival);
    return status;
}

bool shunt_distant_ask(const struct shunt_distant_note *kind, uint64_t above, uint64_t *number, uint64_t *bytes)
{
    bool answered = false;
    unsigned spins = 0;

    if (distant.peers == NULL)
        return false;
    shunt_net_lock();
    distant.oldest.answered = false;
    distant_write(kind->peer, &(struct distant_letter){ .kind = DISTANT_OLDEST, .comm = kind->comm, .tag = kind->tag,
                                                        .number = above, .question = ++distant.oldest.question });
    shunt_net_unlock();
    while (!answered && !shunt_net_lost(kind->peer)) {
        if (!shunt_net_progress())
            shunt_board_relax(&spins);
        shunt_net_lock();
        answered = distant.oldest.answered;
        *number = distant.oldest.number;
        *bytes = distant.oldest.bytes;
        shunt_net_unlock();
    }
    return answered && *number != 0;
}
