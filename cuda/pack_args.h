/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host hands to the kernels that pack and unpack: a pattern, and which of its packed bytes to move. Read by C and
 * CUDA alike.
 *
 * Positions in packed data count in granules of the pattern (32 bits wide, unless `wide`), offsets and strides in bytes. A
 * granule is moved in one or more words, as the addresses are aligned.
 */
#ifndef SHUNT_CUDA_PACK_ARGS_H
#define SHUNT_CUDA_PACK_ARGS_H

#include <stdint.h>

#define SHUNT_PACK_LOOPS   3
#define SHUNT_PACK_NESTS   8 /* that travel with the launch; more lie in device memory */
#define SHUNT_PACK_THREADS 256
#define SHUNT_PACK_BATCH   4 /* words that a thread loads before it stores them */

/*
 * Division by a number that is known beforehand: n / by == n * magic >> shift for n < 2^31. With s = ceil(log2(by)),
 * magic = ceil(2^(31 + s) / by) exceeds the true quotient by less than 2^s / by of a unit, which n < 2^31 does not turn
 * into one. magic 0: `by` is beyond 2^31, the quotient is 0.
 */
struct shunt_kdiv {
    uint64_t by;
    uint32_t magic, shift;
};

struct shunt_kloop {
    struct shunt_kdiv count;
    int64_t stride;
};

struct shunt_knest {
    uint64_t start;
    int64_t offset;
    struct shunt_kdiv length;
    uint32_t levels, pad;
    struct shunt_kloop loops[SHUNT_PACK_LOOPS];
};

/* How the list is given. */
enum { SHUNT_PACK_NESTED, SHUNT_PACK_UNIFORM, SHUNT_PACK_BLOCKS };

struct shunt_pack_args {
    uint64_t launch;     /* its number */
    uint64_t *told;      /* told.h */
    char *base;        /* of an element; packed positions count from it */
    char *packed;      /* where the first of the words lies */
    uint64_t first;    /* word, from there on ... */
    uint64_t words;    /* ... so many */
    uint32_t width;    /* bytes of a word: 1, 2, 4, 8 or 16 */
    uint32_t granule;  /* bytes */
    uint32_t shift;    /* log2 of the words of a granule */
    uint32_t wide;
    int64_t extent;
    uint32_t outer_levels;
    uint32_t kind;
    struct shunt_kloop outer[SHUNT_PACK_LOOPS];
    struct shunt_kdiv list;   /* granules of the list */
    struct shunt_kdiv length; /* of all blocks: UNIFORM */
    uint64_t n;               /* of the list */
    const struct shunt_knest *table; /* NESTED: in device memory; NULL: they are here */
    const int64_t *offsets;          /* else: of the blocks; */
    const uint64_t *starts;          /* BLOCKS: their beginnings in the list */
    struct shunt_knest nests[SHUNT_PACK_NESTS];
};

#endif
