/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What base/board.c (flat boards, and what all boards have in common) and base/tree.c (boards of more members) share.
 */
#ifndef SHUNT_BASE_BOARD_INNER_H
#define SHUNT_BASE_BOARD_INNER_H

#include "base/arena_layout.h"

/* This process's view of a board. */
struct shunt_board {
    struct shared_line *passed; /* of this member: in the arena, or `own` */
    uint64_t sequence;          /* operations passed: the next one's number. Only the member's own calls change it */
    struct shunt_arena *arena;
    struct shared_board *shared; /* NULL: only counts */
    int n, me;
    unsigned entries; /* of its ring, if it is none of trees */
    _Atomic uint32_t uses;     /* 1 while open, and 1 for each round */
    _Atomic uint64_t look_at;  /* ns: when to look next whether members live */
    _Atomic uint32_t polls;    /* that found nothing. Two threads may lose a count, which is no matter */
    int *slots;
    struct shared_line own; /* more than SHUNT_TREE_RANKS members: nobody else reads it */
};

/* ---- the word ---- */

enum state { FREE, UNDECIDED, STAGE, RUN };

struct word {
    uint32_t lap;     /* sequence / entries of the ring, modulo 2^29. Compared for equality only */
    uint32_t arrived; /* a bit for each member */
    uint32_t left;    /* how many of them */
    enum state state;
    uint32_t by;      /* RUN: the member whose post has the verdict */
    enum shunt_reason reason; /* STAGE, and FREE after STAGE */
};

static_assert(SHUNT_BOARD_RANKS <= 16 && SHUNT_NREASONS <= 256, "the word's fields");

static inline uint64_t pack_word(struct word word)
{
    return (uint64_t)word.arrived | (uint64_t)word.left << 16 | (uint64_t)word.state << 21 | (uint64_t)word.by << 23 |
           (uint64_t)word.reason << 27 | (uint64_t)word.lap << 35;
}

static inline struct word unpack_word(uint64_t bits)
{
    return (struct word){
        .arrived = bits & 0xffff,
        .left = bits >> 16 & 31,
        .state = bits >> 21 & 3,
        .by = bits >> 23 & 15,
        .reason = bits >> 27 & 255,
        .lap = (uint32_t)(bits >> 35),
    };
}

static inline uint32_t lap_of(uint64_t sequence, unsigned entries)
{
    return (uint32_t)(sequence / entries) & 0x1fffffff;
}

/*
 * Change the word from *bits to `to`. False: another was faster, *bits is the word now.
 * Release: what this process wrote before (its post, its verdict, the end of its reading) is seen by whoever reads
 * the new word. Acquire: it sees what all before it have released, since each change continues the same chain.
 */
static inline bool swap_word(_Atomic uint64_t *at, uint64_t *bits, struct word to)
{
    return atomic_compare_exchange_strong_explicit(at, bits, pack_word(to), memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* The word, and all that was written before it became so. */
static inline uint64_t load_word(_Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_acquire);
}

/*
 * Rule 2: may this member arrive in the entry as it is? NONE, or why not. A free entry can be taken whatever lap it
 * was used for last: if the others are ahead, this member finds them as host ranks at its first look. An entry of the
 * same lap that was staged and left by all has the reason still.
 */
static inline enum shunt_reason entry_trouble(struct word word, uint32_t lap)
{
    if (word.state == FREE)
        return word.lap == lap ? word.reason : SHUNT_REASON_NONE;
    if (word.lap != lap)
        return SHUNT_REASON_BOARD_FULL; /* a lap ago somebody has not left yet, or we are that far behind */
    return word.state == UNDECIDED ? SHUNT_REASON_NONE : word.reason;
}

/* UNDECIDED -> STAGE. Without effect where it is decided. */
static inline void stage_word(_Atomic uint64_t *at, enum shunt_reason reason)
{
    uint64_t bits = load_word(at);
    struct word to;
    do {
        to = unpack_word(bits);
        if (to.state != UNDECIDED)
            return;
        to.state = STAGE;
        to.reason = reason;
    } while (!swap_word(at, &bits, to));
}

/* Has member `i` passed the operation? Acquire: its arrival, had there been one, is seen by what looks from now on. */
static inline bool member_passed(const struct shunt_board *board, int i, uint64_t sequence)
{
    return atomic_load_explicit(&board->shared->passed[i].value, memory_order_acquire) > sequence;
}

/* Which of a board's posts are meant. */
static inline struct shared_post *post_at(const struct shunt_board *board, const uint16_t *post, int member)
{
    return shared_post(board->arena->shared, post[member]);
}

/* ---- base/board.c ---- */

/* Why no operation of this board can run on the GPUs, whatever the ranks bring; NONE. */
enum shunt_reason shunt_board_trouble(const struct shunt_board *board);

/* What only time tells of an undecided operation, looked for now and then. `missing`: a member that has not come; -1. */
enum shunt_reason shunt_board_time(const struct shunt_round *round, int missing);

/* ---- base/doze.c ---- */

/* Of an operation that this member has decided: wake those that asked for it in their posts. */
void shunt_board_rouse(struct shunt_board *board, const uint16_t *post);

/* ---- base/tree.c: as their namesakes in board.c, for boards of more than SHUNT_BOARD_RANKS members ---- */

/* Arrive with this post. NONE: arrived, *last: as the last of all, so the caller decides. */
enum shunt_reason shunt_tree_enter(struct shunt_board *board, struct shared_tree *tree, uint16_t post, bool *last);
enum shunt_round_state shunt_tree_poll(struct shunt_round *round);
void shunt_tree_veto(struct shunt_round *round, enum shunt_reason reason);
const struct shunt_verdict *shunt_tree_verdict(const struct shunt_round *round);
void shunt_tree_leave(struct shunt_round *round);

static inline bool is_tree(const struct shunt_board *board)
{
    return board->n > SHUNT_BOARD_RANKS;
}

#endif
