/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parcels: messages whose data stays with the sender until the receiver fetches it, or the sender wants its buffer back.
 *
 * What the host MPI carries is a descriptor; whose turn it is says one word in the arena for each parcel. Every change of
 * it is one compare-and-swap, or a store of the side whose turn it is:
 *
 *     FREE -> EXPOSED                      by the sender, before the descriptor is sent
 *     EXPOSED -> PULLING -> DONE           by the receiver: it copies from the sender's buffer
 *     EXPOSED | WANTED -> MOVING -> MOVED  by the sender: it copies to host memory that outlives the call
 *     MOVING -> EXPOSED                    by the sender, which has found no such memory
 *     MOVED -> DONE                        by the receiver, which has fetched it there
 *     PULLING -> WANTED                    by the receiver, which cannot reach the buffer
 *     EXPOSED | MOVED -> DONE              by the receiver, which has no room for it
 *     DONE -> FREE                         by the sender
 *
 * So the buffer is the sender's again in DONE and MOVED, and never waits for a receiver that is held up elsewhere. The
 * word carries the number of the parcel, so that nobody takes a later one in the same place for his.
 */
#ifndef SHUNT_BASE_PARCEL_H
#define SHUNT_BASE_PARCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/board.h"

#define SHUNT_PARCELS 126 /* of a process that are under way */

enum shunt_parcel_state {
    SHUNT_PARCEL_FREE,
    SHUNT_PARCEL_EXPOSED,
    SHUNT_PARCEL_PULLING,
    SHUNT_PARCEL_WANTED,
    SHUNT_PARCEL_MOVING,
    SHUNT_PARCEL_MOVED,
    SHUNT_PARCEL_DONE,
    SHUNT_PARCEL_GONE, /* an answer, no state: there is another parcel in that place */
};

/* For whom it is, and how the host MPI knows it. Written before EXPOSED. */
struct shunt_parcel_note {
    uint64_t comm; /* a hash of the communicator */
    uint64_t bytes;
    uint64_t order; /* grows with every parcel of the sender */
    int32_t tag;
    uint32_t dest; /* the receiver's slot */
};

struct shunt_parcel {
    _Alignas(64) _Atomic uint64_t word; /* number << 3 | state */
    struct shunt_parcel_note note;
};

/* What a process has of this in the arena; all zero at first. */
struct shunt_parcels {
    _Alignas(128) _Atomic uint32_t decodes; /* this process understands descriptors, in whatever it receives */
    uint64_t mailbox[4];      /* of pt2pt/; written before `decodes` */
    _Atomic uint64_t fetched; /* grows whenever this process begins or ends to fetch a parcel */
    _Atomic uint64_t pulled, moved, bytes; /* for statistics: parcels sent that were pulled, or moved; of both */
    _Atomic uint64_t shipped, shipped_bytes; /* the same: sent to other nodes over UCX */
    _Atomic uint64_t unlaunched; /* the same: those that this process has fetched by a kernel that was there */
    _Atomic uint64_t packed, unpacked; /* the same: parcels that went by a copy at the sender, at the receiver */
    struct shunt_parcel list[SHUNT_PARCELS];
};
_Static_assert(sizeof(struct shunt_parcels) == 8192, "the arena has so much for each process");

struct shunt_parcels *shunt_arena_parcels(const struct shunt_arena *arena, int slot);

/* A number that all processes of the arena know and nobody else. */
void shunt_arena_token(const struct shunt_arena *arena, uint64_t token[2]);

/* The sender: take place `index`, which is FREE or DONE. Answers the parcel's number. */
uint64_t shunt_parcel_expose(struct shunt_parcels *parcels, uint32_t index, const struct shunt_parcel_note *note);

enum shunt_parcel_state shunt_parcel_look(const struct shunt_parcels *parcels, uint32_t index, uint64_t number);

/* One change from a state, which answers false if that is not the state any more; both sides. */
bool shunt_parcel_turn(struct shunt_parcels *parcels, uint32_t index, uint64_t number, enum shunt_parcel_state from,
                       enum shunt_parcel_state to);

/*
 * The oldest parcel of this kind (communicator, tag, receiver) that has not begun to be fetched, and whose descriptor the
 * receiver does not hold: whatever it receives or probes next of this kind, if it is a descriptor, it is this one's.
 */
bool shunt_parcel_find(const struct shunt_parcels *parcels, const struct shunt_parcel_note *like,
                       bool (*held)(void *context, uint32_t index, uint64_t number), void *context,
                       struct shunt_parcel_note *note, uint32_t *index, uint64_t *number);

/* The receiver, which has not begun to fetch it, does not want it: it is DONE now, or was before. */
void shunt_parcel_discard(struct shunt_parcels *parcels, uint32_t index, uint64_t number);

#endif
