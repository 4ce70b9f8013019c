/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of what ran where, and the reason for each call on device memory that did not run on the GPUs.
 *
 * Each process writes only its own counters (in the arena where there is one, so that the last process of a node to
 * finalise can print the node's sum under SHUNT_STATS=1; otherwise private memory, printed by each process).
 */
#ifndef SHUNT_BASE_STATS_H
#define SHUNT_BASE_STATS_H

#include <stdint.h>

#include "base/reasons.h"

struct shunt_arena;

/* Where a call ran. GPU paths are counted per algorithm (enum shunt_algo_id of coll/algos.def). */
enum shunt_path {
    SHUNT_PATH_HOST,   /* host memory: the host MPI, untouched */
    SHUNT_PATH_STAGED, /* device memory through host memory and the host MPI; counted with its reason */
    SHUNT_PATH_LOCAL,  /* one rank: a device copy */
    SHUNT_PATH_GPU,    /* the algorithms of algos.def follow: SHUNT_PATH_GPU + algorithm */
    SHUNT_NPATHS = SHUNT_PATH_GPU + 8
};

/* Use the arena's counters of this process from now on (counts so far are kept). NULL: private again. */
void shunt_stats_attach(struct shunt_arena *arena);

/* One call of collective `coll` (enum shunt_coll) of `bytes` took `path`; reason != NONE where it was staged. */
void shunt_stats_count(unsigned coll, unsigned path, enum shunt_reason reason, uint64_t bytes);

/* At Finalize: prints if SHUNT_STATS=1 and this process is the last of the node (or has no arena). */
void shunt_stats_finish(struct shunt_arena *arena);

#endif
