/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiver's side of parcels: fetching what a descriptor names. */
#ifndef SHUNT_PT2PT_RECEIVE_H
#define SHUNT_PT2PT_RECEIVE_H

#include "pt2pt/descriptor.h"
#include "pt2pt/passage.h"

/* Where a parcel goes: `room` bytes, in memory that shunt_pull_reaches or on the host; or to elements with gaps. */
struct shunt_fetch {
    struct shunt_descriptor descriptor;
    void *to;       /* with a passage: host memory, for when there is no room on the way */
    uint64_t room;
    bool to_device; /* false afterwards, too, if it has come to that */
    struct shunt_passage passage;
    uint64_t ticket; /* of shunt_pull_ticket, if to_device */
    bool failed;     /* zero at first, as the rest */
    bool busy;       /* the copy is on its way */
    struct shunt_pulling pulling;
    double looked;
    bool distant;                  /* it comes from another node (distant.h), */
    struct shunt_arrival *arrival; /* and has begun to; owned */
};

/* Is there a descriptor, of SHUNT_DESCRIPTOR_BYTES, from this node or another one? Into fetch->descriptor. */
bool shunt_receive_reads(struct shunt_arena *arena, const void *at, struct shunt_fetch *fetch);

/* The parcel, which has not begun to be fetched, is not wanted. */
void shunt_receive_discard(struct shunt_arena *arena, const struct shunt_fetch *fetch);

/* Say in the arena that this process takes descriptors from now on; false if it cannot. */
bool shunt_receive_start(struct shunt_arena *arena);

/*
 * Fetch as much as there is room for. AGAIN: it is on its way, or it is the sender's turn, or the application's stream has
 * not passed; ask again. Whatever else comes out, the sender has its buffer back. Several may be on their way.
 */
enum shunt_status shunt_receive_fetch(struct shunt_arena *arena, struct shunt_fetch *fetch);

/* How many copies of this process are on their way. Nobody but the receiver sees their end. */
unsigned shunt_receives_busy(void);

#endif
