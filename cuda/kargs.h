/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host hands to the kernels, by value, and how a rank's scratch memory is laid out. Read by C and CUDA alike.
 *
 * Scratch of a rank (one allocation, mapped by its peers; `channel` is the number of the sending process on the node):
 *
 *   counters      [channel][block][signal]: ticket << 20 | chunk + 1
 *   verdict       whether the owner's last launch has gone on, where its blocks decide together (start.cuh)
 *   relay, gate   the owner's last order to its lingering kernel; whether that lingers (linger.cuh)
 *   ended         how many operations the thread blocks of that have ended, all in all
 *   recall, begun the launch that the owner's host has called back; the last launch that each thread block has begun
 *   LL words      [channel but the owner's][parity]: ll_bytes each
 *   LL128 lines   [channel but the owner's][parity]: line_bytes each
 *   rings         [channel but the owner's][area]: ring_bytes each, chunks `stride` apart
 *
 * Counters only grow, because every rank launches in ticket order; nobody ever resets them.
 *
 * Two GPUs that do not reach each other have the same in host memory (shm.h): counters and LL words at the same places,
 * no lines, and rings of another size.
 */
#ifndef SHUNT_CUDA_KARGS_H
#define SHUNT_CUDA_KARGS_H

#include <stdint.h>

#include "base/plan.h"

#define SHUNT_KRANKS 16                 /* ranks of one kernel operation */
#define SHUNT_KREFS  (7 * SHUNT_KRANKS) /* references of its plan */

#if SHUNT_KRANKS != SHUNT_SPAN_RANKS
#error "a span for each rank"
#endif

#define SHUNT_GRID            (SHUNT_PLAN_BLOCKS * SHUNT_PLAN_TEAMS) /* thread blocks of a kernel at most */
#define SHUNT_SCRATCH_VERDICT 40960 /* a word of the owner's own, behind the counters */
#define SHUNT_SCRATCH_RELAY   (SHUNT_SCRATCH_VERDICT + 128) /* an order, on its way to all thread blocks */
#define SHUNT_SCRATCH_GATE    (SHUNT_SCRATCH_RELAY + 128)   /* a word: does this kernel linger? */
#define SHUNT_SCRATCH_RECALL  (SHUNT_SCRATCH_GATE + 128)
#define SHUNT_SCRATCH_ENDED   (SHUNT_SCRATCH_RECALL + 128) /* of the kernel that lingers: ticket << 16 | thread blocks' operations ended */
#define SHUNT_SCRATCH_BEGUN   (SHUNT_SCRATCH_ENDED + 128)  /* a word for each thread block */
#define SHUNT_SCRATCH_DATA    65536
#define SHUNT_CHUNK_BITS      20

/* A launch of an operation; its first is launch 0. */
#define SHUNT_LAUNCH_KEY(ticket, launch) ((uint64_t)(ticket) << 7 | ((launch) & 127))

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
    uint16_t system;       /* not 0: what was stored must have got to others' memory, or to where the CPU sees it (block_end) */
    uint32_t launch;       /* 0, 1, ... : how often this operation has been launched before */
};

/* LL: a unit of 48 bytes travels as four words of 12 bytes and a flag. */
#define SHUNT_LL_UNIT    48
#define SHUNT_LL_WORDS   4
#define SHUNT_LL_THREADS 256
#define SHUNT_LL_MOST    384 /* threads of a block of these kernels: more would lack registers */

/*
 * LL128: a unit of 1920 bytes, which a warp works on, travels as 16 lines of 120 bytes and a flag. A warp sends so many
 * units ahead of the one that it receives. A message that is larger than a slot goes round in it; that needs room for
 * SHUNT_LINE_LAP units of each warp (ll128.cuh).
 */
#define SHUNT_LINE_UNIT    1920
#define SHUNT_LINE_WIRE    2048
#define SHUNT_LINE_THREADS 256
#define SHUNT_LINE_DIRECT  384 /* threads of a direct exchange: they also store to the peers */
#define SHUNT_LINE_AHEAD   2
#define SHUNT_LINE_LAP     (2 * SHUNT_LINE_AHEAD)

#define SHUNT_LINE_UNITS(bytes) (((uint64_t)(bytes) + SHUNT_LINE_UNIT - 1) / SHUNT_LINE_UNIT)

/* One operation, as far as it differs from that before it on the same communicator. */
struct shunt_ll_op {
    const void *in;
    void *out;
    uint64_t bytes; /* of a slice, which is what a rank sends to another; with spans: of this rank's largest */
    uint64_t ticket;
    uint32_t turns; /* bit q: parity of the slots shared with rank q */
    uint16_t lines; /* not 0: LL128 */
    uint16_t lacks; /* so many bytes less the last slice has; LL128 only */
};

/*
 * Who sends what to whom, and what becomes of it: a plan whose every rank sends once and receives once, as far as it
 * does (base/plan.h). Kernels that combine put the result into one slice; those that move put each rank's data into one.
 */
struct shunt_exchange {
    uint8_t send[SHUNT_KRANKS]; /* [q]: the slice of my send buffer that rank q gets; [me]: that I use myself */
    uint8_t recv[SHUNT_KRANKS]; /* [q]: where what rank q sends goes; of a kernel that combines: any, if it counts */
    uint8_t out;                /* slice of the receive buffer for the result of a kernel that combines */
    uint8_t direct;             /* not 0: of those of all ranks, which have opened them for each other */
};

/*
 * An order to a kernel that lingers (linger.cuh): four words {data, data, data, sequence}, each of which vouches for
 * itself. The data are a struct shunt_order.
 */
#define SHUNT_ORDER_WORDS 4
struct shunt_order_word {
    uint32_t data[3], sequence;
};

enum { SHUNT_ORDER_RUN, SHUNT_ORDER_QUIT };
struct shunt_order {
    struct shunt_ll_op op;
    uint32_t window_ns; /* how long to linger after it */
    uint32_t kind;      /* SHUNT_ORDER_* */
};

/* What the kernel says of itself: {sequence of the last order that it has taken, generation, one of the words}. */
enum { SHUNT_LINGER_ALIVE = 1, SHUNT_LINGER_LEAVING = 2, SHUNT_LINGER_GONE = 3 };
#define SHUNT_LINGER_STATE(sequence, generation, word) ((uint64_t)(sequence) << 32 | (uint32_t)(generation) << 2 | (word))

struct shunt_linger_args {
    const struct shunt_order_word *order; /* pinned host memory: SHUNT_ORDER_WORDS of them */
    uint64_t *state;                      /* pinned host memory */
    uint32_t generation; /* 30 bits */
    uint32_t sequence;   /* of the last order to earlier kernels */
    uint32_t window_ns;  /* how long to linger after the first operation; 0: not at all */
};

/* An exchange with flags in the payload: LL or LL128. */
struct shunt_ll_args {
    struct shunt_khead head;
    struct shunt_ll_op op;
    struct shunt_linger_args linger;
    struct shunt_exchange exchange;
    char *to[SHUNT_KRANKS];   /* [q]: scratch where I write to rank q; [me]: my own */
    char *from[SHUNT_KRANKS]; /* [q]: where rank q writes to me; [me]: my own */
    char *outs[SHUNT_KRANKS]; /* the receive buffers of all ranks, of a direct exchange */
    uint64_t ll_bytes, lines, line_bytes; /* of an LL slot; where the lines begin; of a slot of lines */
    uint32_t line_room;                   /* units that a slot of lines has room for */
    uint8_t channel[SHUNT_KRANKS];
};

/* The same, of slices that differ (base/plan.h). */
struct shunt_spans_args {
    struct shunt_ll_args ll;
    struct shunt_spans spans;
};

/* A step as the kernel reads it: struct shunt_step with masks of SHUNT_KRANKS. */
struct shunt_kstep {
    uint16_t raise, back, wait_ranks[2];
    uint16_t first_ref;
    uint8_t wait_signal[2], wait_depth[2];
    uint8_t n_in, n_out, kind, team;
    uint8_t lag, raise_signal, back_signal, from;
    uint8_t to, ahead, way, once;
    uint8_t turns, pad;
};

struct shunt_plan_args {
    struct shunt_khead head;
    const void *in;
    void *out[SHUNT_KRANKS];
    char *to[SHUNT_KRANKS];   /* as in shunt_ll_args */
    char *from[SHUNT_KRANKS];
    uint64_t bytes, slice_bytes, part_bytes;
    uint64_t rings[2];      /* offset of the rings in scratch: in device memory, in host memory */
    uint64_t ring_bytes[2]; /* of one channel and area */
    uint32_t hosted;        /* bit q: what goes between rank q and me lies in host memory */
    uint32_t chunk, depth, stride;
    uint32_t n_steps;
    uint16_t phases;
    uint8_t ways, split;
    uint8_t order[SHUNT_PLAN_WAYS][SHUNT_KRANKS];
    uint8_t channel[SHUNT_KRANKS];
    uint8_t align[SHUNT_KRANKS]; /* of each rank's data in scratch: address modulo 16 of its send buffer; with spans: of
                                    what it sends to me, and for me: nothing */
    struct shunt_kstep steps[SHUNT_PLAN_STEPS];
    struct shunt_ref refs[SHUNT_KREFS];
    uint32_t has_spans; /* slices differ, see base/plan.h */
    struct shunt_spans spans;
};

#endif
