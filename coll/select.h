/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection: a pure function of the posts, what the peers have opened, the layout of scratch, and the settings. */
#ifndef SHUNT_COLL_SELECT_H
#define SHUNT_COLL_SELECT_H

#include <stdbool.h>

#include "base/board.h"
#include "coll/algo.h"
#include "coll/routes.h"
#include "coll/task.h"
#include "coll/tune.h"
#include "coll/wishes.h"
#include "cuda/peer.h"

/* Chunks of a scratch ring per block. */
#define SHUNT_RING_DEPTH 2

/* What selection may look at besides the posts. */
struct shunt_select {
    struct shunt_arena *arena;
    const int *slots; /* arena slot of each rank */
    const struct shunt_layout *layout;
    const struct shunt_wishes *wishes; /* of the decider; those of all, if the posts say so */
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
    int wanted; /* shunt_wishes_algo */
    uint32_t can;
    uint32_t max_blocks;
    bool hosted; /* some pairs go by host memory */
    bool rounds; /* elements that must not be added hop by hop */
    bool meets;  /* all must have begun before anyone does anything */
    bool spans; /* blocks differ, bytes are those of the largest */
    const struct shunt_routes *routes; /* NULL: not known */
    int proto;    /* SHUNT_PROTO_* */
    bool ordered; /* sums only in rank order */
    const struct shunt_tune *tune;     /* NULL: there is no table, or not all have the same */
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

/* Take algorithm and protocol from a table, where it has this group, nothing has been asked for and no buffers are to be copied or read. */
void shunt_shape_tune(struct shunt_demand *demand, uint64_t hash);

bool shunt_shape_asks_routes(const struct shunt_demand *demand);
bool shunt_shape_copies(unsigned coll, uint64_t bytes, int wanted);

/* Does this collective of this size profit from receive buffers that the peers have opened; may copy engines do it? */
bool shunt_select_zero_copy(const struct shunt_wishes *wishes, unsigned coll, uint64_t bytes);
bool shunt_select_copies(const struct shunt_wishes *wishes, unsigned coll, uint64_t bytes);

/* The same of send buffers that the root has opened. */
bool shunt_select_reads(const struct shunt_wishes *wishes, unsigned coll, uint64_t bytes);

/* In which field two posts contradict each other ("count"), or NULL; *a and *b are their values. */
const char *shunt_posts_differ(const struct shunt_post *x, const struct shunt_post *y, unsigned long long *a,
                               unsigned long long *b);

#endif
