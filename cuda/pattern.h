/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the bytes of an element lie that is not one block: the flattened form of a derived datatype, without MPI.
 *
 * A pattern is a list, repeated by up to SHUNT_LOOPS outer loops. The list has either nests (a block repeated by loops of
 * its own) or plain blocks, which take less memory where there are many without any order. Packed order is the order of
 * the list inside the loops; loops are listed innermost first.
 *
 * It is made by an outline: start one, append blocks and other outlines, repeat it, and make the pattern from it.
 */
#ifndef SHUNT_CUDA_PATTERN_H
#define SHUNT_CUDA_PATTERN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define SHUNT_LOOPS 3

struct shunt_loop {
    uint64_t count;
    int64_t stride; /* bytes */
};

/* A block that is repeated. */
struct shunt_nest {
    uint64_t start;  /* packed bytes of the list before it */
    int64_t offset;  /* of its first byte, from the element's address */
    uint64_t length; /* bytes of the block */
    uint32_t levels;
    struct shunt_loop loops[SHUNT_LOOPS];
};

struct shunt_pattern {
    uint64_t bytes;          /* packed bytes of an element */
    int64_t extent;          /* from an element to the next */
    int64_t low, high;       /* of all bytes of an element: the lowest, and one past the highest */
    uint32_t granule;        /* 1, 2, 4, 8 or 16: divides all offsets, lengths and strides (not the extent) */
    uint32_t outer_levels;
    struct shunt_loop outer[SHUNT_LOOPS];
    uint64_t list_bytes;     /* packed bytes of the list */
    size_t n;                /* of the list */
    struct shunt_nest *nests; /* the list, or NULL: blocks */
    int64_t *offsets;        /* of n blocks */
    uint64_t *starts;        /* packed bytes before each of n + 1 blocks; NULL if all are of the same length, */
    uint64_t length;         /* which is this */
    atomic_int references;
    struct shunt_pack_table *_Atomic table; /* the list in device memory; of pack.c */
};

/* Another owner; the last one to leave frees it. NULL is nobody's. */
struct shunt_pattern *shunt_pattern_keep(struct shunt_pattern *pattern);
void shunt_pattern_release(struct shunt_pattern *pattern);

/* Is it one block, and do elements lie without gaps between them (if there are several)? */
bool shunt_pattern_is_dense(const struct shunt_pattern *pattern, int64_t count);

/* Where the first byte in packed order lies: an element may begin in a gap. Of a pattern with bytes. */
static inline int64_t shunt_pattern_first(const struct shunt_pattern *pattern)
{
    return pattern->nests ? pattern->nests[0].offset : pattern->offsets[0];
}

/*
 * Of `count` elements at `base`, the packed bytes from `first` on, `bytes` of them: to or from `packed`. Touches nothing
 * else.
 */
void shunt_pattern_gather(const struct shunt_pattern *pattern, const char *base, uint64_t first, uint64_t bytes, char *packed);
void shunt_pattern_scatter(const struct shunt_pattern *pattern, char *base, uint64_t first, uint64_t bytes, const char *packed);

/* The same bytes as contiguous pieces, in packed order; ends with the first answer that is not SHUNT_OK. */
typedef enum shunt_status shunt_pattern_visit(void *context, int64_t offset, uint64_t packed, uint64_t bytes);
enum shunt_status shunt_pattern_walk(const struct shunt_pattern *pattern, uint64_t first, uint64_t bytes,
                                     shunt_pattern_visit *visit, void *context);

/* ---- making one ---- */

/* Loops of a piece; number 0 of an outline is that without loops. */
struct shunt_loops {
    uint32_t levels;
    struct shunt_loop loops[SHUNT_LOOPS];
};

struct shunt_strip {
    int64_t offset;
    uint64_t length;
    uint32_t loops; /* number of its loops in the outline */
};

struct shunt_outline {
    struct shunt_strip *pieces;
    size_t n, room;
    struct shunt_loops *sets;
    size_t n_sets, sets_room;
    uint32_t outer_levels;
    struct shunt_loop outer[SHUNT_LOOPS];
};

enum { SHUNT_PIECES = 1 << 22 }; /* of an outline at most: more is SHUNT_ERR_LIMIT */

#define SHUNT_OUTLINE_EMPTY { .pieces = NULL }

void shunt_outline_free(struct shunt_outline *outline);

enum shunt_status shunt_outline_block(struct shunt_outline *outline, int64_t offset, uint64_t length);

/* Append `count` times what `part` is, `stride` bytes apart, all of it moved by `offset`. */
enum shunt_status shunt_outline_add(struct shunt_outline *outline, const struct shunt_outline *part, int64_t offset,
                                  uint64_t count, int64_t stride);

/* All of it `count` times. */
enum shunt_status shunt_outline_repeat(struct shunt_outline *outline, uint64_t count, int64_t stride);

/* Find loops among its pieces. */
enum shunt_status shunt_outline_fold(struct shunt_outline *outline);

/* With one reference. */
enum shunt_status shunt_pattern_make(const struct shunt_outline *outline, int64_t extent, struct shunt_pattern **pattern);

#endif
