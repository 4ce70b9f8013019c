/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a kernel begins and ends.
 *
 * A kernel that waits for its peers longer than head.window_ns before it has touched user memory leaves, and the host
 * launches it again: so a peer whose application sits in a driver call never leaves a kernel spinning here. All blocks
 * must do the same, so the first block that knows writes GO or LEAVE into shared->verdict and the others obey it.
 * After GO nothing is bounded by time; only the host's abort word ends a wait.
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

/* The grid's common answer to "may we go on?"; `ready` is this block's opinion. */
static __device__ bool verdict_reach(const shunt_khead &head, bool ready)
{
    uint32_t code = ready ? SHUNT_VERDICT_GO : SHUNT_VERDICT_LEAVE;
    uint64_t mine = SHUNT_VERDICT(head.ticket, head.launch, code);
    uint64_t found = gpu_cas_gpu(&head.shared->verdict, head.verdict, mine);

    return (found == head.verdict ? mine : found) == SHUNT_VERDICT(head.ticket, head.launch, SHUNT_VERDICT_GO);
}

/* Called by all threads of a block with their own opinion; true: go on, user memory may be written. */
static __device__ bool block_may_go(const shunt_khead &head, bool ready)
{
    __shared__ int go;
    int all = __syncthreads_and(ready);

    if (gridDim.x == 1)
        return all;
    if (threadIdx.x == 0)
        go = verdict_reach(head, all);
    __syncthreads();
    return go;
}

/* Tell the peers that this rank's kernel runs, and wait until theirs do. Called by all threads. */
static __device__ bool peers_started(const shunt_khead &head, char *const *scratch, const uint8_t *channel)
{
    uint32_t q = threadIdx.x;
    bool ready = true;

    if (q < head.n && q != head.me) {
        if (blockIdx.x == 0)
            gpu_release_sys((uint64_t *)(scratch[q] + SHUNT_SCRATCH_START + 128 * channel[head.me]), head.ticket);
        const uint64_t *word = (const uint64_t *)(scratch[head.me] + SHUNT_SCRATCH_START + 128 * channel[q]);
        patience wait(head, true);
        while (gpu_acquire_sys(word) < head.ticket) {
            if (wait.spent(head) != POLL_OK) {
                ready = false;
                break;
            }
        }
    }
    return block_may_go(head, ready);
}

/*
 * Called by all threads at the end of their block: the last block tells the host. The barrier and the fence before the
 * counter make every block's stores visible before the release that the host (and any later launch) sees.
 */
static __device__ void block_end(const shunt_khead &head, uint32_t code)
{
    uint32_t blocks = gridDim.x;

    __syncthreads();
    if (threadIdx.x != 0)
        return;
    if (blocks > 1) {
        uint32_t weight = code == SHUNT_DONE_ABORTED ? 65537 : 1;

        gpu_fence_gpu();
        uint32_t ended = gpu_add_gpu(&head.shared->ended, weight) + weight;
        if (ended % 65536 != blocks)
            return;
        if (ended >= 65536)
            code = SHUNT_DONE_ABORTED;
        gpu_store(&head.shared->ended, 0u); /* for the next launch on this stream */
        gpu_fence_sys();
    }
    gpu_release_sys(head.done, head.ticket << 2 | code);
}

#endif
