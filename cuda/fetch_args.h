/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host hands to the kernel that fetches: pieces of several copies, one for each thread block. Read by C and CUDA. */
#ifndef SHUNT_CUDA_FETCH_ARGS_H
#define SHUNT_CUDA_FETCH_ARGS_H

#include <stdint.h>

#define SHUNT_FETCH_THREADS 512
#define SHUNT_FETCH_BATCH   4 /* words that a thread loads before it stores them */
#define SHUNT_FETCH_PIECES  32 /* with more of them the arguments, which each launch carries, take longer than they save */
#define SHUNT_FETCH_PIECE   32768 /* bytes, at most */

struct shunt_fetch_piece {
    char *to;
    const char *from;
    uint32_t bytes;
    uint32_t width; /* bytes of a word: 1, 2, 4, 8 or 16 */
};

struct shunt_fetch_args {
    uint64_t launch; /* its number, which grows */
    uint64_t *told;  /* told.h */
    uint64_t *done;  /* pinned, SHUNT_FETCH_PIECES: each block writes the number when its piece is there */
    struct shunt_fetch_piece pieces[SHUNT_FETCH_PIECES];
};

#endif
