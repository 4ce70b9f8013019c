/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection: a pure function of the posts, what the peers have opened, the layout of scratch, and the settings. */
#ifndef SHUNT_COLL_SELECT_H
#define SHUNT_COLL_SELECT_H

#include <stdbool.h>

#include "base/board.h"
#include "coll/algo.h"
#include "coll/routes.h"
#include "coll/task.h"
#include "cuda/peer.h"

#define SHUNT_ALGO_AUTO   (-1)
#define SHUNT_ALGO_STAGED (-2)

/* Chunks of a scratch ring per block. */
#define SHUNT_RING_DEPTH 2

/* A setting like oneshot:0-256k,twoshot:256k- as ranges; the first that holds a size wins, else auto. */
#define SHUNT_RANGES 16

struct shunt_range {
    uint64_t from, to; /* to is the first size that is not meant */
    int algo;          /* enum shunt_algo_id, SHUNT_ALGO_AUTO or SHUNT_ALGO_STAGED */
};
struct shunt_ranges {
    unsigned n;
    struct shunt_range range[SHUNT_RANGES];
};

/* Parse such a setting for one collective. False: not understood, *ranges is empty. */
bool shunt_ranges_parse(unsigned coll, const char *text, struct shunt_ranges *ranges);
int shunt_ranges_find(const struct shunt_ranges *ranges, uint64_t bytes);

/* What the user's setting says for this collective and size: an algorithm, SHUNT_ALGO_AUTO or SHUNT_ALGO_STAGED. */
int shunt_select_wanted(unsigned coll, uint64_t bytes);

/* What selection may look at besides the posts. */
struct shunt_select {
    struct shunt_arena *arena;
    const int *slots; /* arena slot of each rank */
    const struct shunt_layout *layout;
};

/* The decider's function for the board; context is struct shunt_select (select.c). */
bool shunt_select_decide(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict);

/*
 * The part of it that needs no peers: algorithm, protocol, grid and chunks of a collective of n ranks, of which each
 * contributes this many bytes. `can`: which of SHUNT_PLAN_ZERO_COPY and _LINES the peers and links allow.
 */
struct shunt_demand {
    unsigned coll; /* enum shunt_coll */
    int n;
    uint64_t bytes;
    int wanted; /* shunt_select_wanted */
    uint32_t can;
    uint32_t max_blocks;
    bool hosted; /* some pairs go by host memory */
    bool rounds; /* elements that must not be added hop by hop */
    bool spans; /* blocks differ, bytes are those of the largest */
    const struct shunt_routes *routes; /* NULL: not known */
};
void shunt_select_shape(const struct shunt_demand *demand, const struct shunt_layout *layout,
                        struct shunt_verdict *verdict);

/* May this algorithm do it at all? If not, it is as if none had been asked for. */
bool shunt_shape_allows(const struct shunt_demand *demand, int algo);

/* What has to be found out before: do links keep lines whole; are receive buffers open; which routes are there? */
bool shunt_shape_asks_lines(const struct shunt_demand *demand);
bool shunt_shape_asks_zero_copy(const struct shunt_demand *demand, const struct shunt_verdict *verdict);
/* After the shape, if that asks for open receive buffers and all are: the shape with them. */
void shunt_shape_zero_copy(struct shunt_demand *demand, const struct shunt_layout *layout, struct shunt_verdict *verdict);

/* May the root read the send buffers of the others, if it has opened them? */
bool shunt_shape_reads(const struct shunt_demand *demand);

bool shunt_shape_asks_routes(const struct shunt_demand *demand);
bool shunt_shape_copies(unsigned coll, uint64_t bytes, int wanted);

/* Does this collective of this size profit from receive buffers that the peers have opened; may copy engines do it? */
bool shunt_select_zero_copy(unsigned coll, uint64_t bytes);
bool shunt_select_copies(unsigned coll, uint64_t bytes);

/* The same of send buffers that the root has opened. */
bool shunt_select_reads(unsigned coll, uint64_t bytes);

/* In which field two posts contradict each other ("count"), or NULL; *a and *b are their values. */
const char *shunt_posts_differ(const struct shunt_post *x, const struct shunt_post *y, unsigned long long *a,
                               unsigned long long *b);

#endif
