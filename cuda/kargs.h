/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host hands to the kernels, by value, and how a rank's scratch memory is laid out. Read by C and CUDA alike.
 *
 * Scratch of a rank (one allocation, mapped by its peers; `channel` is the number of the sending process on the node):
 *
 *   start words   [channel]: the ticket of the operation whose kernel that peer has started
 *   counters      [channel][block][signal]: ticket << 20 | chunk + 1
 *   LL words      [channel][parity]: ll_bytes each
 *   rings         [channel][area]: ring_bytes each, chunks `stride` apart
 *
 * All flags only grow, because every rank launches in ticket order; nobody ever resets them.
 */
#ifndef SHUNT_CUDA_KARGS_H
#define SHUNT_CUDA_KARGS_H

#include <stdint.h>

#include "base/plan.h"

#define SHUNT_KRANKS 16                 /* ranks of one kernel operation */
#define SHUNT_KREFS  (6 * SHUNT_KRANKS) /* references of its plan */

#define SHUNT_SCRATCH_START    0 /* 128 bytes per channel, so that peers' stores do not share a line */
#define SHUNT_SCRATCH_COUNTERS 4096
#define SHUNT_SCRATCH_DATA     65536
#define SHUNT_CHUNK_BITS       20

/* The kernel's answer in pinned memory: ticket << 2 | code */
enum { SHUNT_DONE_OK = 1, SHUNT_DONE_AGAIN = 2, SHUNT_DONE_ABORTED = 3 };

/* Words in this GPU's own memory that the blocks of a kernel share: GO or LEAVE, and how many have ended. */
struct shunt_kshared {
    uint64_t verdict; /* of the last launch that had more than one block: see SHUNT_VERDICT */
    uint32_t ended;   /* blocks that have ended; those that were aborted count 65536 more */
};

/* Whether the kernel of this launch goes on or leaves: one answer for all blocks. */
#define SHUNT_VERDICT(ticket, launch, code) ((uint64_t)(ticket) << 8 | ((launch) & 63) << 2 | (code))
enum { SHUNT_VERDICT_GO = 1, SHUNT_VERDICT_LEAVE = 2 };

/* What both kernel shapes need. */
struct shunt_khead {
    uint64_t ticket;
    uint64_t window_ns; /* how long to wait for peers before user memory is touched */
    uint64_t *done;     /* pinned host memory */
    const uint32_t *abort; /* pinned host memory: not 0 ends every wait */
    struct shunt_kshared *shared;
    uint64_t verdict; /* what shared->verdict holds before this launch */
    uint32_t n, me;
    uint32_t launch; /* 0, 1, ... : how often this operation has been launched before */
};

/* One-shot with flags in the payload. */
struct shunt_ll_args {
    struct shunt_khead head;
    const void *in;
    void *out;
    uint64_t bytes;
    void *to[SHUNT_KRANKS];   /* my slot in each peer's memory; unused for me */
    void *from[SHUNT_KRANKS]; /* each peer's slot in mine */
};

/* A step as the kernel reads it: struct shunt_step with masks of SHUNT_KRANKS. */
struct shunt_kstep {
    uint16_t raise, wait_ranks[2];
    uint16_t first_ref;
    uint8_t wait_signal[2], wait_depth[2];
    uint8_t n_in, n_out, kind, lag;
    uint8_t raise_signal, pad[3];
};

struct shunt_plan_args {
    struct shunt_khead head;
    const void *in;
    void *out[SHUNT_KRANKS];
    char *scratch[SHUNT_KRANKS];
    uint64_t bytes, slice_bytes, part_bytes;
    uint64_t rings;      /* offset of the rings in scratch */
    uint64_t ring_bytes; /* of one channel and area */
    uint32_t chunk, depth, stride;
    uint32_t n_steps;
    uint8_t channel[SHUNT_KRANKS];
    uint8_t align[SHUNT_KRANKS]; /* of each rank's data in scratch: address modulo 16 of its send buffer */
    struct shunt_kstep steps[SHUNT_PLAN_STEPS];
    struct shunt_ref refs[SHUNT_KREFS];
};

#endif
