/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host MPI carries in place of a parcel's data (base/parcel.h).
 *
 * Its size is odd and fixed, and it begins with a random number that only the processes of this arena know, so no message
 * of the program is ever taken for one.
 */
#ifndef SHUNT_PT2PT_DESCRIPTOR_H
#define SHUNT_PT2PT_DESCRIPTOR_H

#include "base/parcel.h"
#include "cuda/pull.h"

struct shunt_descriptor {
    uint64_t token[2];
    uint64_t number; /* of the parcel */
    uint64_t bytes;  /* of the message */
    uint32_t index;  /* of the parcel, in the table of the process of the source; from another node: bytes of a piece */
    struct shunt_source source; /* from another node: the sender's world rank as its slot, and nothing else */
    uint64_t hash; /* of all before it */
    uint8_t end;
} __attribute__((packed));

enum { SHUNT_DESCRIPTOR_BYTES = sizeof(struct shunt_descriptor) };
_Static_assert(SHUNT_DESCRIPTOR_BYTES % 2 == 1, "few programs send messages of odd size");

/* Fill in token and hash. */
void shunt_descriptor_seal(struct shunt_arena *arena, struct shunt_descriptor *descriptor);

/* Is this one, of SHUNT_DESCRIPTOR_BYTES? `at` may have any alignment. */
bool shunt_descriptor_read(struct shunt_arena *arena, const void *at, struct shunt_descriptor *descriptor);

/* The same with any token. */
void shunt_descriptor_close(const uint64_t token[2], struct shunt_descriptor *descriptor);
bool shunt_descriptor_is(const uint64_t token[2], const void *at, struct shunt_descriptor *descriptor);

#endif
