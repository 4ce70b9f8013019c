/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host hands to the kernel that fetches: at its launch, and in orders while it stays. Read by C and CUDA. */
#ifndef SHUNT_CUDA_FETCH_ARGS_H
#define SHUNT_CUDA_FETCH_ARGS_H

#include <stdint.h>

#define SHUNT_FETCH_THREADS 512
#define SHUNT_FETCH_BATCH   4 /* words that a thread loads before it stores them */
#define SHUNT_FETCH_PIECES  32 /* with more of them the arguments, which each launch carries, take longer than they save */
#define SHUNT_FETCH_PIECE   32768 /* bytes, at most */
#define SHUNT_FETCH_GRID    16 /* thread blocks of a kernel that stays, or more if there are more pieces */
#define SHUNT_FETCH_COPIES  15 /* of an order: with its head two words for each, and a warp reads 32 at once */

struct shunt_fetch_piece {
    char *to;
    const char *from;
    uint32_t bytes;
    uint32_t width; /* bytes of a word: 1, 2, 4, 8 or 16 */
};

/*
 * An order: words {data, data, data, sequence}, each of which vouches for itself. The data are a struct
 * shunt_fetch_order as far as it has copies, and three words at least.
 */
struct shunt_fetch_word {
    uint32_t data[3], sequence;
};
#define SHUNT_FETCH_WORDS (1 + 2 * SHUNT_FETCH_COPIES)

struct shunt_fetch_copy {
    uint32_t to[2], from[2]; /* addresses, the low half first */
    uint32_t bytes, width;
};

struct shunt_fetch_order {
    uint16_t n;         /* copies; 0: leave */
    uint16_t blocks;    /* the first so many do it: a copy alone in pieces, each of several as a whole */
    uint32_t window_ns; /* how long to stay after it */
    uint32_t piece;     /* bytes */
    struct shunt_fetch_copy copies[SHUNT_FETCH_COPIES];
};

/* What the kernel says of itself: {the last order that it has taken, generation, one of the words}. */
enum { SHUNT_STAY_ALIVE = 1, SHUNT_STAY_LEAVING = 2, SHUNT_STAY_GONE = 3 };
#define SHUNT_STAY_STATE(sequence, generation, word) \
    ((uint64_t)(uint32_t)(sequence) << 32 | ((uint32_t)(generation) & 0x3fffffff) << 2 | (word))

/* Words that blocks write when their part is there: the number of the launch or order, and whether they stay. */
#define SHUNT_FETCH_DONE(number, stays) ((uint64_t)(number) << 1 | ((stays) ? 1 : 0))

struct shunt_fetch_args {
    uint64_t launch; /* its number, which grows with each launch and order */
    uint64_t *told;  /* told.h */
    uint64_t *done;  /* pinned, SHUNT_FETCH_PIECES: each block writes SHUNT_FETCH_DONE when its piece is there */
    const struct shunt_fetch_word *order; /* pinned, SHUNT_FETCH_WORDS */
    uint64_t *state;                      /* pinned: SHUNT_STAY_STATE, its generation the number of the launch */
    uint64_t *leads;                      /* device memory: the last launch whose block 0 has begun, and stays */
    struct shunt_fetch_word *relay;       /* device memory: an order, on its way to the other blocks */
    uint32_t window_ns;                   /* how long to stay; 0: not at all */
    uint32_t n;                           /* pieces; blocks behind them have none */
    struct shunt_fetch_piece pieces[SHUNT_FETCH_PIECES];
};

#endif
