/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a peer's buffer by copy engine, for one of the two sides alone: what the other needs to say for that, and the copy. */
#ifndef SHUNT_CUDA_PULL_H
#define SHUNT_CUDA_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/board.h"
#include "cuda/gpu.h"
#include "cuda/lane.h"

/* Where a buffer is, for one peer. Travels to it as it is. */
struct shunt_source {
    uint32_t registration;
    uint32_t slot;            /* of the owner */
    uint64_t offset;          /* bytes into the block */
    unsigned char handle[64]; /* CUDA IPC's of the block, should the peer have closed it meanwhile */
};

/*
 * The owner: can the process in `slot` read these bytes? Only what it has opened counts, and only blocks that CUDA IPC
 * opens; a buffer that comes again is offered to it. False also where nothing of all this is set up, which is begun here.
 */
bool shunt_source_of(struct shunt_arena *arena, const void *p, uint64_t bytes, const struct shunt_mem *mem, int slot,
                     struct shunt_source *source);

/* The reader: keep up with what the process in `slot` offers. To be called now and then; costs little if nothing is new. */
void shunt_source_follow(struct shunt_arena *arena, int slot);

/* Can the engines write here? Then the bytes need not go through host memory. */
bool shunt_pull_reaches(struct shunt_arena *arena, const void *p, const struct shunt_mem *mem);

/*
 * What the application has put on the legacy default stream must have passed before a buffer is read or written. A buffer
 * comes into our hands with a ticket; shunt_pull_ready is to be called until it answers true. One answer is good for all
 * buffers that have come before.
 */
uint64_t shunt_pull_ticket(void);
bool shunt_pull_ready(uint64_t ticket);

/*
 * Begin a copy to a buffer that shunt_pull_reaches; several may be under way. OK: it has begun, ask for its end until the
 * answer is not AGAIN. An error of either leaves the target undefined, and the data can be had in another way.
 */
struct shunt_pulling {
    struct shunt_lane_copy copy; /* its batch is 0: none */
    bool held;                   /* until its end no block of a peer is closed */
    bool unlaunched;             /* once it has ended: it needed no launch */
};
enum shunt_status shunt_pull_begin(const struct shunt_source *source, void *to, uint64_t bytes,
                                   struct shunt_pulling *pulling);
enum shunt_status shunt_pull_end(struct shunt_pulling *pulling);

/* To host memory; complete on return. What is small goes the way of copies between GPUs, to pinned memory. */
enum shunt_status shunt_pull_out(const struct shunt_source *source, void *host, uint64_t bytes);

#endif
