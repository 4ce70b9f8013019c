/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a block waits and how it ends.
 *
 * A block that waits for its peers longer than head.window_ns before it has touched user memory leaves, and the host
 * launches the kernel again for the blocks that left: so a peer whose application sits in a driver call never leaves a
 * kernel spinning here for long. A block that has sent all it has to send decides for itself (LL); else all blocks of a
 * launch decide alike (plan.cuh). Once it has touched user memory nothing is bounded by time; only the host's abort word
 * ends a wait.
 *
 * A kernel that finds no room on the GPU for long is called back by the host (room.c). Should it begin all the same, it
 * leaves as if its peers were late.
 */
#ifndef SHUNT_CUDA_START_CUH
#define SHUNT_CUDA_START_CUH

#include <gpu.cuh>
#include "kargs.h"

enum poll { POLL_OK, POLL_LATE, POLL_ABORTED };

/*
 * Polls between two looks at the clock. The abort word lies in host memory, where a read takes a microsecond and those
 * of many blocks queue: it is looked at only by who has waited for long, and seldom.
 */
#define SHUNT_POLLS_PER_LOOK 64
#define SHUNT_ABORT_LOOK_NS  5000000ull

/* Counts fruitless polls and says when to give up; `leaving`: the window applies, from the first look on. */
struct patience {
    uint64_t end, abort_look;
    uint32_t polls;
    bool leaving;

    __device__ __forceinline__ patience(bool may_leave) : end(0), abort_look(0), polls(0), leaving(may_leave)
    {
    }

    __device__ __forceinline__ poll spent(const shunt_khead &head)
    {
        gpu_spin();
        if (++polls % SHUNT_POLLS_PER_LOOK)
            return POLL_OK;
        uint64_t now = gpu_clock_ns();
        if (end == 0) {
            end = now + head.window_ns;
            abort_look = now + SHUNT_ABORT_LOOK_NS;
        }
        if (leaving && now > end)
            return POLL_LATE;
        if (now < abort_look)
            return POLL_OK;
        abort_look = now + SHUNT_ABORT_LOOK_NS;
        return gpu_load_host(head.abort) ? POLL_ABORTED : POLL_OK;
    }
};

/* The bit that the first thread of this GPU has said for `key`, which never comes again; `word` is the GPU's own. */
static __device__ __forceinline__ bool first_says(void *word, uint64_t key, bool bit)
{
    uint64_t mine = key << 1 | bit;
    uint64_t before = gpu_load_user((uint64_t *)word), found = before; /* nothing hangs on its order */

    if (before >> 1 != key) {
        found = gpu_cas_gpu((uint64_t *)word, before, mine);
        found = found == before ? mine : found;
    }
    return found & 1;
}

/*
 * Does this launch of an operation go on? One answer for all its thread blocks, by the first whose first wait is over:
 * yes if what it waited for has come, no if it is late. Would each decide for itself, one that has left could come back
 * only when the others have ended, and those may wait for peers that wait for it. `scratch` is this GPU's own. Called by
 * all threads of a block, after a barrier.
 */
static __device__ bool launch_goes(char *scratch, uint64_t ticket, uint32_t launch, bool come)
{
    __shared__ bool go;

    if (threadIdx.x == 0)
        go = first_says(scratch + SHUNT_SCRATCH_VERDICT, SHUNT_LAUNCH_KEY(ticket, launch), come);
    __syncthreads();
    return go;
}

/*
 * Called by all threads at the start of their block: it has begun. Answers whether this launch has been called back. Nobody
 * need know that before the block's first wait is over, so it costs no time. Threads may get different answers.
 *
 * The word first, then the look: the host writes its word, waits long enough for a store to arrive, and looks at ours.
 */
static __device__ __forceinline__ bool block_begin(char *scratch, const shunt_khead &head)
{
    const uint64_t key = SHUNT_LAUNCH_KEY(head.ticket, head.launch);

    if (threadIdx.x == 0)
        gpu_store_host((uint64_t *)(scratch + SHUNT_SCRATCH_BEGUN) + blockIdx.x, key);
    return gpu_load_user((const uint64_t *)(scratch + SHUNT_SCRATCH_RECALL)) == key;
}

/* Scratch of rank `owner` where rank `sender` writes; one of the two is me. */
template <class Args>
static __device__ __forceinline__ char *scratch_of(const Args &a, uint32_t owner, uint32_t sender)
{
    return owner == a.head.me ? a.from[sender] : a.to[owner];
}

/* Has this block ended in an earlier launch? */
static __device__ __forceinline__ bool block_skipped(const shunt_khead &head)
{
    return head.skip[blockIdx.x / 64] >> blockIdx.x % 64 & 1;
}

/*
 * Called by all threads at the end of their block; one that was aborted speaks for all. The barrier makes the block's
 * stores precede the fence, which is cumulative. Its scope is this GPU where the result lies in this GPU's memory: what
 * the application does next reads that through the same L2 cache, and a fence of the whole system would wait for all
 * that was sent to the peers (1.7 us, measured). Managed memory, which the CPU may read at once, needs the latter, and so do
 * results that were stored into the peers' receive buffers.
 */
static __device__ __forceinline__ void block_end(const shunt_khead &head, uint64_t ticket, uint32_t code)
{
    if (__syncthreads_or(code == SHUNT_DONE_ABORTED))
        code = SHUNT_DONE_ABORTED;
    if (threadIdx.x != 0)
        return;
    if (head.system) {
        gpu_release_sys(&head.done[blockIdx.x], ticket << 2 | code);
    } else {
        gpu_fence_gpu();
        gpu_store_host(&head.done[blockIdx.x], ticket << 2 | code);
    }
}

#endif
