/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a block waits and how it ends.
 *
 * A block that waits for its peers longer than head.window_ns before it has touched user memory leaves, and the host
 * launches the kernel again for the blocks that left: so a peer whose application sits in a driver call never leaves a
 * kernel spinning here for long. Blocks are independent of each other, so each decides for itself. Once it has touched
 * user memory nothing is bounded by time; only the host's abort word ends a wait.
 */
#ifndef SHUNT_CUDA_START_CUH
#define SHUNT_CUDA_START_CUH

#include <gpu.cuh>
#include "kargs.h"

enum poll { POLL_OK, POLL_LATE, POLL_ABORTED };

/* Polls between two looks at the clock and the abort word: a look costs about a microsecond over PCIe. */
#define SHUNT_POLLS_PER_LOOK 64

/* Counts fruitless polls and says when to give up; `leaving`: the window applies. */
struct patience {
    uint64_t end;
    uint32_t polls;
    bool leaving;

    __device__ __forceinline__ patience(const shunt_khead &head, bool may_leave)
        : end(may_leave ? gpu_clock_ns() + head.window_ns : 0), polls(0), leaving(may_leave)
    {
    }

    __device__ __forceinline__ poll spent(const shunt_khead &head)
    {
        gpu_spin();
        if (++polls % SHUNT_POLLS_PER_LOOK)
            return POLL_OK;
        if (gpu_load_host(head.abort))
            return POLL_ABORTED;
        return leaving && gpu_clock_ns() > end ? POLL_LATE : POLL_OK;
    }
};

/* Has this block ended in an earlier launch? */
static __device__ __forceinline__ bool block_skipped(const shunt_khead &head)
{
    return head.skip[blockIdx.x / 64] >> blockIdx.x % 64 & 1;
}

/*
 * Called by all threads at the end of their block; one that was aborted speaks for all. The barrier makes the block's
 * stores precede the release, which is cumulative: whoever sees the word, and whatever is launched after that, sees the
 * data.
 */
static __device__ __forceinline__ void block_end(const shunt_khead &head, uint32_t code)
{
    if (__syncthreads_or(code == SHUNT_DONE_ABORTED))
        code = SHUNT_DONE_ABORTED;
    if (threadIdx.x == 0)
        gpu_release_sys(&head.done[blockIdx.x], head.ticket << 2 | code);
}

#endif
