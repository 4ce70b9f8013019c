/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host hands to the kernels, by value, and how a rank's scratch memory is laid out. Read by C and CUDA alike.
 *
 * Scratch of a rank (one allocation, mapped by its peers; `channel` is the number of the sending process on the node):
 *
 *   counters      [channel][block][signal]: ticket << 20 | chunk + 1
 *   verdict       whether the owner's last launch of a plan has gone on
 *   LL words      [channel but the owner's][parity]: ll_bytes each
 *   rings         [channel but the owner's][area]: ring_bytes each, chunks `stride` apart
 *
 * Counters only grow, because every rank launches in ticket order; nobody ever resets them.
 */
#ifndef SHUNT_CUDA_KARGS_H
#define SHUNT_CUDA_KARGS_H

#include <stdint.h>

#include "base/plan.h"

#define SHUNT_KRANKS 16                 /* ranks of one kernel operation */
#define SHUNT_KREFS  (6 * SHUNT_KRANKS) /* references of its plan */

#define SHUNT_GRID            (SHUNT_PLAN_BLOCKS * SHUNT_PLAN_TEAMS) /* thread blocks of a kernel at most */
#define SHUNT_SCRATCH_VERDICT 32768 /* a word of the owner's own, behind the counters: see plan.cuh */
#define SHUNT_SCRATCH_DATA    65536
#define SHUNT_CHUNK_BITS      20

#if SHUNT_KRANKS * SHUNT_PLAN_BLOCKS * SHUNT_PLAN_SIGNALS * 8 > SHUNT_SCRATCH_VERDICT
#error "the counters overlap the word behind them"
#endif

/* A thread block's answer in pinned memory: ticket << 2 | code. AGAIN: it has not touched user memory, launch it again. */
enum { SHUNT_DONE_OK = 1, SHUNT_DONE_AGAIN = 2, SHUNT_DONE_ABORTED = 3 };

/* What both kernel shapes need. */
struct shunt_khead {
    uint64_t ticket;
    uint64_t window_ns;    /* how long a block waits for its peers before it has touched user memory */
    uint64_t *done;        /* pinned host memory: a word per thread block */
    const uint32_t *abort; /* pinned host memory: not 0 ends every wait */
    uint64_t skip[SHUNT_GRID / 64]; /* bit b: thread block b ended in an earlier launch of this operation */
    uint8_t n, me;
    uint16_t system;       /* not 0: user memory is managed memory, its stores must reach the CPU too */
    uint32_t launch;       /* 0, 1, ... : how often this operation has been launched before */
};

/* LL: a unit of 48 bytes travels as four words of 12 bytes and a flag. */
#define SHUNT_LL_UNIT    48
#define SHUNT_LL_WORDS   4
#define SHUNT_LL_THREADS 256

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
    uint8_t n_in, n_out, kind, team;
    uint8_t lag, raise_signal, pad[2];
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
