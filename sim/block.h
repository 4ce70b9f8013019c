/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of CUDA threads on one OS thread: what the device functions in gpu.cuh need of the scheduler.
 *
 * A launch runs on the OS thread that called for it. Every CUDA thread is a fiber; the fibers of a block that can run
 * form a ring, and a fiber runs until it ends, waits at a barrier, or spins. When every fiber of the ring has spun
 * without success the next block has its turn; when all blocks have, other OS threads and processes.
 */
#ifndef SHUNT_SIM_BLOCK_H
#define SHUNT_SIM_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/fiber.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sim_dim3 {
    unsigned x, y, z;
};

struct sim_fiber {
    struct sim_context context;
    struct sim_stack *stack;       /* NULL: has not run yet */
    struct sim_fiber *next, *prev; /* in the block's ring, or in the list of a meeting */
    struct sim_dim3 tid;
    unsigned number;   /* in the block */
    bool acquiring;    /* mean: its last load was an acquire */
    bool stale;        /* mean: has polled with other loads, and neither it nor a thread met since has acquired */
    uint64_t exchange; /* what it offers to the others of its warp */
};

/* A barrier of a block or of a warp: who has come so far. */
struct sim_meeting {
    struct sim_fiber *waiting; /* circular list */
    unsigned count;
    unsigned sum, result; /* of the predicates: of those who wait, of the last that completed */
    bool acquired; /* one of them is not stale */
    unsigned mask; /* of a warp */
    const char *file;
    int line;
    uint32_t epoch; /* completed so far */
};

struct sim_stores;

struct sim_block {
    struct sim_dim3 index;
    struct sim_fiber *fibers, *current;
    unsigned live, runnable, spins; /* spins: in a row, since anything else happened in this block */
    struct sim_meeting barrier, *warps;
    struct sim_stores *stores; /* peer writes held back; NULL if not mean */
    void *shared;              /* its __shared__ variables while another block runs */
};

struct sim_launch {
    struct sim_block *block; /* that runs */
    struct sim_fiber *fiber;
    struct sim_dim3 block_dim, grid_dim;
    uint64_t progress; /* counts whatever shows that the kernel goes on */
    uint64_t random;   /* state of the generator */
    unsigned until_switch;

    const char *name;
    void (*body)(const void *args);
    const void *args;
    struct sim_context home, *from;
    struct sim_stack_pool stacks;
    struct sim_block **resident; /* those that run at the same time */
    unsigned threads, blocks, nresident, started;
    unsigned *order; /* in which blocks start */
    struct sim_block *in_shared;
    void *shared;
    size_t shared_bytes;
    unsigned idle;
    uint64_t idle_since;
};

/*
 * The launch that this OS thread runs. In the same segment of thread-local memory as the kernels' __shared__ variables:
 * that is how the scheduler finds them.
 */
extern __thread struct sim_launch *sim_running;

/* Run `body` as one kernel; see struct sim_kernel. */
void sim_launch_run(const char *name, void (*body)(const void *args), const void *args, const unsigned grid[3],
                    const unsigned block[3], unsigned dynamic_shared);

/* A poll that found nothing. */
void sim_spin(void);

/* __syncthreads: how many of the block's threads came with a predicate that is not zero. */
unsigned sim_barrier(bool predicate, const char *file, int line);

/* __syncwarp; and the word that lane `lane` of the warp brought along (the caller's own if it is not in mask). */
void sim_warp_barrier(unsigned mask, const char *file, int line);
uint64_t sim_warp_exchange(unsigned mask, uint64_t value, unsigned lane, const char *file, int line);
unsigned sim_warp_ballot(unsigned mask, bool predicate, const char *file, int line);

/*
 * Mean. Before a load, or any other access that sees memory: perhaps let another fiber or block run, and make what the
 * block itself has written there visible. Instead of a store: hold `bytes` bytes back as words of `word` bytes.
 */
void sim_before_load(const void *p, unsigned bytes);
void sim_hold_store(void *p, const void *value, unsigned bytes, unsigned word);

uint32_t sim_random(struct sim_launch *launch);
uint64_t sim_clock(void); /* real time, ns */
uint64_t sim_kernel_clock(void); /* the same as kernels see it */

/* A mistake of the kernel: one line that says where, and abort. */
SIM_NORETURN void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
SIM_NORETURN void sim_fail_align(const void *p, unsigned align);

/*
 * Writes held back (mean). A write is at most 8 bytes, or 16 (an LL word, which is only ever accessed whole), aligned to
 * its size. sim_stores_put holds one; settle makes those of the words that [p, p + bytes) touches visible; release those that a release by the running thread must
 * make visible: its own, and what others wrote before a barrier that it has passed; drain all, leak perhaps one.
 */
struct sim_stores *sim_stores_new(void);
void sim_stores_put(struct sim_launch *launch, void *p, const void *value, unsigned bytes);
void sim_stores_settle(struct sim_launch *launch, const void *p, unsigned bytes);
void sim_stores_release(struct sim_launch *launch);
void sim_stores_leak(struct sim_launch *launch);
void sim_stores_drain(struct sim_launch *launch, struct sim_block *block);

#ifdef __cplusplus
}
#endif
#endif
