/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender's side of parcels for other nodes: distant.h. */
#include <stdlib.h>

#include "base/conf.h"
#include "cuda/gpu.h"
#include "cuda/pageable.h"
#include "pt2pt/distant_inner.h"

#define MOST_BYTES (UINT64_C(256) << 20) /* of host memory for what is under way; what is above goes by the host MPI */

/* ---- who takes descriptors ---- */

bool shunt_distant_takes(int peer)
{
    bool takes = false;

    if (distant.peers == NULL)
        return false;
    shunt_net_lock();
    struct distant_peer *p = &distant.peers[peer];
    if (!p->asked)
        distant_write(peer, &(struct distant_letter){ .kind = DISTANT_ASK });
    p->asked = true;
    takes = p->takes && !p->likened && !shunt_net_lost(peer);
    shunt_net_unlock();
    return takes;
}

void shunt_distant_liken(int peer)
{
    if (distant.peers == NULL)
        return;
    shunt_net_lock();
    distant.peers[peer].likened = true;
    shunt_net_unlock();
}

/* ---- what is under way ---- */

/* One that has failed is UCX's for ever, and so is its memory. */
static bool is_sent(const struct shunt_shipment *shipment)
{
    for (int i = 0; i < shipment->pieces; i++)
        if (shunt_net_state(&shipment->piece[i]) != SHUNT_NET_DONE)
            return false;
    return shipment->posted;
}

static void release_memory(struct shunt_shipment *shipment)
{
    if (shipment->memory != NULL) {
        shunt_pageable_put(shipment->memory, true);
        distant.bytes -= shipment->note.bytes;
    }
    shipment->memory = NULL;
}

/* Give back the memory of what has been sent, and forget what has been received. */
static void tidy(void)
{
    for (struct shunt_shipment **at = &distant.shipments, *shipment; (shipment = *at) != NULL;) {
        if (is_sent(shipment))
            release_memory(shipment);
        if (shipment->over && shipment->memory == NULL) {
            *at = shipment->next;
            free(shipment);
        } else {
            at = &shipment->next;
        }
    }
}

static void append(struct shunt_shipment *shipment)
{
    struct shunt_shipment **at = &distant.shipments;

    while (*at != NULL)
        at = &(*at)->next;
    *at = shipment;
}

struct shunt_shipment *shunt_distant_expose(const struct shunt_distant_note *note, struct shunt_descriptor *descriptor)
{
    const uint64_t piece = shunt_conf->stage_chunk;
    const uint32_t pieces = distant_pieces(note->bytes, piece);
    struct shunt_shipment *shipment = NULL;

    shunt_net_lock();
    tidy();
    if (piece <= UINT32_MAX && distant.bytes + note->bytes <= MOST_BYTES)
        shipment = calloc(1, sizeof *shipment + pieces * sizeof shipment->piece[0]);
    if (shipment != NULL && (shipment->memory = shunt_pageable_get(note->bytes)) == NULL) {
        free(shipment);
        shipment = NULL;
    }
    if (shipment != NULL) {
        shipment->note = *note;
        shipment->number = ++distant.last;
        shipment->pieces = (int)pieces;
        distant.bytes += note->bytes;
        append(shipment);
        *descriptor = (struct shunt_descriptor){ .number = shipment->number, .bytes = note->bytes, .index = (uint32_t)piece,
                                                 .source = { .slot = (uint32_t)distant.self } };
        shunt_descriptor_close(distant.token, descriptor);
    }
    shunt_net_unlock();
    return shipment;
}

enum shunt_status shunt_distant_post(struct shunt_arena *arena, struct shunt_shipment *shipment, const void *device)
{
    struct shunt_parcels *mine = shunt_arena_parcels(arena, shunt_arena_self(arena));
    const uint64_t bytes = shipment->note.bytes, size = shunt_conf->stage_chunk;
    enum shunt_status status = SHUNT_OK;

    for (int i = 0; i < shipment->pieces; i++) {
        const uint64_t at = (uint64_t)i * size, some = bytes - at < size ? bytes - at : size;
        if (status == SHUNT_OK)
            status = shunt_stage_out(shipment->memory + at, (const char *)device + at, some);
        /* Of another size than is expected, receiving it fails. */
        shunt_net_send(&shipment->piece[i], shipment->note.peer, distant_tag(shipment->number, (uint32_t)i),
                       shipment->memory + at, status == SHUNT_OK ? some : 0);
    }
    atomic_fetch_add_explicit(&mine->shipped, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&mine->shipped_bytes, bytes, memory_order_relaxed);
    shunt_net_lock();
    shipment->posted = true;
    shunt_net_unlock();
    return status;
}

static struct shunt_shipment *find_shipment(uint64_t number)
{
    struct shunt_shipment *shipment = distant.shipments;

    while (shipment != NULL && shipment->number != number)
        shipment = shipment->next;
    return shipment;
}

void shunt_distant_withdraw(uint64_t number)
{
    shunt_net_lock();
    struct shunt_shipment *shipment = find_shipment(number);
    if (shipment != NULL && shipment->posted)
        distant_write(shipment->note.peer, &(struct distant_letter){ .kind = DISTANT_GONE, .number = number,
                                                                     .pieces = (uint32_t)shipment->pieces });
    else if (shipment != NULL)
        release_memory(shipment);
    if (shipment != NULL)
        shipment->over = true;
    tidy();
    shunt_net_unlock();
}

/* ---- what receivers want ---- */

void distant_answer(int peer, const struct distant_letter *letter)
{
    struct distant_letter answer = { .kind = DISTANT_IS, .question = letter->question };

    for (const struct shunt_shipment *s = distant.shipments; s != NULL && answer.number == 0; s = s->next) {
        if (s->note.peer != peer || s->note.comm != letter->comm || s->note.tag != letter->tag || s->over ||
            s->number <= letter->number)
            continue;
        answer.number = s->number;
        answer.bytes = s->note.bytes;
    }
    distant_write(peer, &answer);
}

void distant_end(int peer, uint64_t number)
{
    struct shunt_shipment *shipment = find_shipment(number);

    if (shipment != NULL && shipment->note.peer == peer)
        shipment->over = true;
}
