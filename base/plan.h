/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plan: what one rank does in one operation, as steps. Algorithms (coll/) write plans, runners (the kernel in cuda/,
 * the host in unit tests) execute them; a plan knows bytes, not types.
 *
 * The vector is cut into `slices`; each slice into one part per block; each part into chunks of at most `chunk` bytes.
 * Every block works alone, with its own signals: block b of a rank only ever waits for block b of its peers.
 *
 * A block is two teams, which share nothing but signals: the senders (team 0) and the others (team 1). So the fence
 * behind one team's data is hidden by the other's work. Each team runs the iterations i = 0, 1, ...; in each it runs
 * its steps in order, a step of lag l on chunk i - l.
 *
 * Scratch is a ring of `depth` chunks per block, area and sending rank, in the memory of the rank that receives. A
 * writer reuses a place only after a signal has told it that the chunk `depth` before has been read: a wait with
 * depth > 0. Signals count chunks: raising signal s for chunk c sets the peer's counter to c + 1.
 *
 * There is no start barrier. Team 0 writes nothing but scratch area 0, at once; every plan therefore ends with waits
 * that prove that its peers have read all that was sent to their area 0. What lies in area 1 may still be unread then:
 * it may be written only after a signal of the same operation from that peer. If the first wait of a team takes too
 * long, all of the launch leave and are launched again, unless a first wait of another team was over before: then all
 * stay. Who leaves has done what comes before its first wait, and goes on from there.
 *
 * Where slices go around a ring, a chunk is worked through in `phases`, and what is said above of chunks is said of these:
 * chunk number c in phase p is turn c * phases + p. A step may be for some of the phases, in each of which its references
 * mean the next slice, in the order of the ring: team 0 goes backwards in it, since what comes has been farther back, team 1
 * forwards. There may be several rings, or ways, in use side by side: blocks take them in turns.
 */
#ifndef SHUNT_BASE_PLAN_H
#define SHUNT_BASE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/spans.h"

#define SHUNT_PLAN_RANKS   64
#define SHUNT_PLAN_STEPS   48
#define SHUNT_PLAN_REFS    (6 * SHUNT_PLAN_RANKS)
#define SHUNT_PLAN_SIGNALS 5 /* counters per pair of ranks and block */
#define SHUNT_PLAN_AREAS   2 /* scratch areas per pair of ranks */
#define SHUNT_PLAN_BLOCKS  64
#define SHUNT_PLAN_TEAMS   2
#define SHUNT_PLAN_WAYS    4
#define SHUNT_ALL_WAYS     255

/* In place of the number of a slice: there is none. */
#define SHUNT_NO_SLICE 255

enum shunt_space {
    SHUNT_SPACE_IN,       /* my send buffer */
    SHUNT_SPACE_OUT,      /* the receive buffer of `rank` */
    SHUNT_SPACE_SCRATCH0, /* scratch of `rank`, ring of what `slot` sends, area 0 */
    SHUNT_SPACE_SCRATCH1, /* the same, area 1 */
    SHUNT_SPACE_THEIRS,   /* the send buffer of `rank`, to be read */
};

struct shunt_ref {
    uint8_t space; /* enum shunt_space */
    uint8_t rank;  /* whose memory */
    uint8_t slot;  /* scratch: the rank that writes there */
    uint8_t slice;
};

/*
 * An exchange is a plan in which every rank sends each other one at most one slice of its send buffer, and either combines
 * all that comes and what it has itself into one slice, or puts each into one. It is the plan that can also be run with flags
 * in the payload.
 */
enum shunt_step_kind {
    SHUNT_STEP_COPY,   /* n_in pairs of refs: from, to, from, to ... */
    SHUNT_STEP_REDUCE, /* n_in refs combined in that order, stored to n_out refs; all of one slice */
    SHUNT_STEP_WAIT,   /* nothing but its waits */
};

/* Wait until `signal` of each rank in `ranks` has reached chunk + 1 - depth. */
struct shunt_wait {
    uint64_t ranks; /* bit mask */
    uint8_t signal;
    uint8_t depth;
};

struct shunt_step {
    uint64_t raise; /* ranks whose counter of mine is set to chunk + 1 + ahead after the step */
    uint64_t back; /* the same without `ahead`, of another signal: for those from whom something came */
    struct shunt_wait wait[2];
    uint16_t first_ref;
    uint8_t n_in, n_out;
    uint8_t kind; /* enum shunt_step_kind */
    uint8_t team, lag;
    uint8_t raise_signal, back_signal;
    uint8_t from, to; /* phases in which it is done, `to` is the first in which it is not */
    uint8_t ahead;    /* what it writes into others' scratch is a chunk so much later than what it reads */
    uint8_t way;      /* or SHUNT_ALL_WAYS */
    bool once;        /* only at turn 0 */
    bool turns;       /* its references' slices are places in the order of its way at phase 0 */
};

enum {
    SHUNT_PLAN_LL = 1,        /* data travels with flags in the payload: the plan must be an exchange */
    SHUNT_PLAN_ZERO_COPY = 2, /* results go straight into the peers' receive buffers */
    SHUNT_PLAN_LINES = 4,     /* with LL: as LL128 */
    SHUNT_PLAN_HOSTED = 16,   /* between some of the ranks what is sent lies in host memory */
    SHUNT_PLAN_READS = 32,    /* with ZERO_COPY: it is the peers' send buffers that are used, by who reads them */
    SHUNT_PLAN_ENGINES = 8,   /* the copy engines run it: nothing but copies, and a wait for those of others */
    SHUNT_PLAN_MEETS = 64,    /* an exchange in which nobody does anything before all have begun */
};

struct shunt_plan {
    uint32_t n, me;
    uint32_t flags; /* SHUNT_PLAN_* */
    uint32_t blocks;
    uint32_t slices;
    uint32_t phases; /* at least 1 */
    uint32_t ways;   /* rings in use; 0: no slice turns */
    bool split;      /* each team has a part of its own of a slice, its half of the block's */
    const struct shunt_spans *spans; /* NULL: all slices but the last ones are of one size and follow each other */
    uint64_t bytes;       /* of the whole vector; with spans: of the largest slice of all ranks */
    uint64_t slice_bytes; /* of all slices but the last ones; with spans: the same */
    uint64_t part_bytes;  /* of a block's or team's part of a slice, a multiple of 16 */
    uint32_t chunk;       /* bytes, a multiple of 16 */
    uint32_t depth;       /* chunks of a ring, at least 2 */
    uint32_t n_steps, n_refs;
    struct shunt_step steps[SHUNT_PLAN_STEPS];
    struct shunt_ref refs[SHUNT_PLAN_REFS];
    uint8_t order[SHUNT_PLAN_WAYS][SHUNT_PLAN_RANKS]; /* the slices in the order of the ring, if any turn */
};

/* Chunks that each block works through: the same on all ranks of the operation. */
static inline uint64_t shunt_plan_chunks(const struct shunt_plan *plan)
{
    return (plan->part_bytes + plan->chunk - 1) / plan->chunk;
}

static inline uint64_t shunt_plan_turns(const struct shunt_plan *plan)
{
    return shunt_plan_chunks(plan) * plan->phases;
}

/* Does a block do this step at this turn? */
static inline bool shunt_plan_does(const struct shunt_plan *plan, const struct shunt_step *step, uint32_t block, uint64_t turn)
{
    uint64_t phase = turn % plan->phases;

    return (step->way == SHUNT_ALL_WAYS || block % plan->ways == step->way) && phase >= step->from && phase < step->to && (turn == 0 || !step->once);
}

/* Bytes of chunk `chunk` of block `block` in slice `slice`; 0 past the end. Without spans. */
static inline uint64_t shunt_plan_span(const struct shunt_plan *plan, uint32_t slice, uint32_t block, uint64_t chunk,
                                       uint64_t *offset)
{
    uint64_t first = slice * plan->slice_bytes + block * plan->part_bytes + chunk * plan->chunk;
    uint64_t slice_end = (slice + 1) * plan->slice_bytes;
    uint64_t part_end = slice * plan->slice_bytes + (block + 1) * plan->part_bytes;
    uint64_t end = first + plan->chunk;

    if (end > part_end)
        end = part_end;
    if (end > slice_end)
        end = slice_end;
    if (end > plan->bytes)
        end = plan->bytes;
    *offset = first;
    return end > first ? end - first : 0;
}

/* With spans: which one a reference of this rank's plan means. What lies in scratch is as long as where it goes or comes from. */
static inline const struct shunt_span *shunt_plan_span_of(const struct shunt_plan *plan, struct shunt_ref ref)
{
    bool outgoing = ref.space == SHUNT_SPACE_SCRATCH0 && ref.rank != plan->me;

    if (ref.space == SHUNT_SPACE_IN)
        return &plan->spans->in[ref.slice];
    if (ref.space == SHUNT_SPACE_OUT)
        return &plan->spans->out[ref.slice];
    return outgoing ? &plan->spans->in[ref.rank] : &plan->spans->out[ref.slot];
}

/* The same as shunt_plan_span of a reference, with spans or without. */
static inline uint64_t shunt_plan_ref_span(const struct shunt_plan *plan, struct shunt_ref ref, uint32_t block,
                                           uint64_t chunk, uint64_t *offset)
{
    uint64_t first = block * plan->part_bytes + chunk * plan->chunk, end = first + plan->chunk;

    if (plan->spans == NULL)
        return shunt_plan_span(plan, ref.slice, block, chunk, offset);
    const struct shunt_span *span = shunt_plan_span_of(plan, ref);
    if (end > (block + 1) * plan->part_bytes)
        end = (block + 1) * plan->part_bytes;
    if (end > span->bytes)
        end = span->bytes;
    *offset = span->at + first;
    return end > first ? end - first : 0;
}

/* The same of a step at a turn, with all that there is of parts and phases. */
static inline uint64_t shunt_plan_step_span(const struct shunt_plan *plan, const struct shunt_step *step,
                                            struct shunt_ref ref, uint32_t block, uint64_t turn, uint64_t *offset)
{
    uint32_t phase = (uint32_t)(turn % plan->phases), n = plan->n;

    if (step->turns)
        ref.slice = plan->order[step->way][(ref.slice + (step->team == 0 ? 2 * n - phase : phase)) % n];
    return shunt_plan_ref_span(plan, ref, plan->split ? block * SHUNT_PLAN_TEAMS + step->team : block, turn / plan->phases,
                               offset);
}

#endif
