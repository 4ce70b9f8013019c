/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels that find no room on the GPU, since those of the application have all of it, perhaps until MPI returns: they are
 * called back.
 *
 * That takes words in the GPU's memory: in one the host writes the key of the launch that it calls back, by a copy, which
 * needs no room; in others the thread blocks say that they have begun. Each says so first, and then looks for its key. So
 * when the key is there and a while has passed, in which what a block had said before must have come, either some block is
 * known to have begun, and goes on, or none has, and each that begins from now on finds the key, and leaves with nothing done.
 */
#ifndef SHUNT_CUDA_RECALL_H
#define SHUNT_CUDA_RECALL_H

#include "cuda/context.h"

/* What is known of a launch. All zero: nothing yet. */
struct shunt_recall {
    uint64_t key;
    unsigned step;
    double since; /* seconds: when that step was made */
};

/* Where the words are. */
struct shunt_recall_words {
    CUdeviceptr recalled, begun; /* one word, and n */
    unsigned n;
    uint64_t *pinned; /* host memory, n + 1 words, for copies under way */
};

enum shunt_recalled {
    SHUNT_RECALL_WAITS,   /* nothing is known yet, or time is not up */
    SHUNT_RECALL_RUNS,    /* it has begun, and has not been called back */
    SHUNT_RECALL_MIXED,   /* some blocks have begun, others may find that it was called back: all of it ends soon */
    SHUNT_RECALL_UNBEGUN, /* none has begun, and none will do anything: but it is there until there is room */
};

/*
 * Look at a launch that has not answered, now and then, inside the context: once `key` has been looked at for SHUNT_ROOM_MS it is
 * called back, unless it has begun. Never waits. A key is never used twice, and never 0. `now` in seconds.
 */
enum shunt_recalled shunt_recall_look(struct shunt_recall *recall, struct shunt_gpu *gpu,
                                      const struct shunt_recall_words *words, uint64_t key, double now);

/* Has it been called back? If it ends then, it may have done a part, or nothing. */
bool shunt_recall_called(const struct shunt_recall *recall, uint64_t key);

/* What has been called back and has not begun. */
bool shunt_recall_unbegun(const struct shunt_recall *recall, uint64_t key);

/* The time until it is called back counts from now, unless it has been. */
void shunt_recall_restart(struct shunt_recall *recall, double now);

#endif
