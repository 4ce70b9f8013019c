/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of what ran where, and the reason for each call on device memory that did not run on the GPUs.
 *
 * Each process writes only its own counters (in the arena where there is one, so that the last process of a node to
 * finalise can print the node's sum under SHUNT_STATS=1; otherwise private memory, printed by each process). Tests rely
 * on what is printed, to stderr or SHUNT_DEBUG_FILE:
 *
 *     shunt [HOST] statistics of 4 processes:
 *     shunt [HOST]   allreduce host              12 calls             4096 bytes
 *     shunt [HOST]   allreduce staged            12 calls            98304 bytes
 *     shunt [HOST]   allreduce oneshot          200 calls            12800 bytes
 *     shunt [HOST]   allreduce: 12 staged: a rank passed host memory
 *     shunt [HOST]   allreduce: 150 without a launch
 *     shunt [HOST]   allreduce: 200 by host memory between GPUs (SHM)
 *     shunt [HOST]   links: 12 proven in 4.1 ms of each process at most, the slowest copy took 0.3 of 10000 ms
 *     shunt [HOST]   messages: 20 fetched from the sender's buffer, 1 moved to host memory, 2097152 bytes
 *     shunt [HOST]   messages: 15 fetched without a launch
 *     shunt [HOST]   messages: 12 packed for their receivers, 9 unpacked by them
 *     shunt [HOST]   messages: 12 to other nodes over UCX, 25165824 bytes
 *
 * Calls on host memory are counted of Allreduce only; of calls without device algorithms the staged ones. Lines of zero calls
 * are left out; "no collective was called" stands for a table without lines. Calls and bytes are
 * sums over the processes. Without an arena the brackets hold HOST:PID and the rank, as in log.h, and the first line
 * says "statistics of 1 process:".
 */
#ifndef SHUNT_BASE_STATS_H
#define SHUNT_BASE_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/reasons.h"

struct shunt_arena;

enum {
    SHUNT_STATS_COLLS = 21,  /* collectives of which every path is counted: the first of enum shunt_coll */
    SHUNT_STATS_STAGED = 32, /* calls behind them, of which the staged ones are counted */
};

/* Where a call ran. GPU paths are counted per algorithm (enum shunt_algo_name of coll/algo.h). */
enum shunt_path {
    SHUNT_PATH_HOST,   /* host memory: the host MPI, untouched */
    SHUNT_PATH_STAGED, /* device memory through host memory and the host MPI; counted with its reason */
    SHUNT_PATH_LOCAL,  /* one rank: a device copy */
    SHUNT_PATH_GPU,    /* the algorithms of algos.def follow: SHUNT_PATH_GPU + algorithm */
    SHUNT_NPATHS = SHUNT_PATH_GPU + 6
};

/* The words to print for collectives and algorithms, by number; the arrays are not copied. Others print as numbers. */
void shunt_stats_names(const char *const *colls, int ncolls, const char *const *algos, int nalgos);

/*
 * Use the arena's counters of this process from now on (counts so far are kept), and have the node's statistics wait
 * for this process until it finishes or ends. NULL: private again. Not while another thread attaches or finishes.
 */
void shunt_stats_attach(struct shunt_arena *arena);

/*
 * One call of collective `coll` (enum shunt_coll) of `bytes` took `path`; reason != NONE where it was staged. Of those
 * behind SHUNT_STATS_COLLS only that is counted, and the reason is that there is no algorithm.
 * Thread-safe: about 1 ns in the thread that counts first, three locked additions in the others.
 */
void shunt_stats_count(unsigned coll, unsigned path, enum shunt_reason reason, uint64_t bytes);

/* Of the calls counted as run on the GPUs, this one needed no launch: a kernel that lingered did it. Thread-safe. */
void shunt_stats_lingered(unsigned coll);

/* Of the calls counted as run on the GPUs, in this one some GPUs met in host memory. Thread-safe. */
void shunt_stats_hosted(unsigned coll);

/*
 * This process has taken a step of so many seconds to meet a peer (`proven`: the last one); `slowest` is the longest time in
 * which a first copy of it to a peer was seen to end so far. One thread at a time.
 */
void shunt_stats_met(struct shunt_arena *arena, bool proven, double seconds, double slowest);

/*
 * At Finalize, before the arena is left: prints if SHUNT_STATS=1 and this process is the last of the node's attached
 * and living to finish (or has no arena: NULL). Detaches. A process that died before it finished is not waited for;
 * what it had counted is in the sum.
 */
void shunt_stats_finish(struct shunt_arena *arena);

#endif
