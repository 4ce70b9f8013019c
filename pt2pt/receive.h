/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiver's side of parcels: fetching what a descriptor names. */
#ifndef SHUNT_PT2PT_RECEIVE_H
#define SHUNT_PT2PT_RECEIVE_H

#include "pt2pt/descriptor.h"

/* Where a parcel goes: `room` bytes, in memory that shunt_pull_reaches or on the host. */
struct shunt_fetch {
    struct shunt_descriptor descriptor;
    void *to;
    uint64_t room;
    bool to_device;
    bool asked, failed; /* zero at first */
    double looked;
};

/* Say in the arena that this process takes descriptors from now on; false if it cannot. */
bool shunt_receive_start(struct shunt_arena *arena);

/*
 * Fetch as much as there is room for. AGAIN: it is the sender's turn, or the application's stream has not passed; ask
 * again. Whatever else comes out, the sender has its buffer back.
 */
enum shunt_status shunt_receive_fetch(struct shunt_arena *arena, struct shunt_fetch *fetch);

#endif
