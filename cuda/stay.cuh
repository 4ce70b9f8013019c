/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the kernel that fetches stays for the next message (stay.h is the host's end).
 *
 * The host's orders lie in pinned memory. One warp, of block 0, reads them, since such reads take a microsecond and those
 * of several blocks do not overlap; the others get an order that concerns them from device memory. Block 0 also decides to
 * leave, when the host says so or nothing has come for the window: it says that it is leaving, then looks once more, as the
 * host writes an order and then looks whether the kernel is leaving; so one of the two sees the other.
 *
 * Block 0 always passes on that it leaves, so the others wait for it without end. But they stay only when they have seen
 * that it has begun: else it might wait for the room that they take.
 */
#ifndef SHUNT_CUDA_STAY_CUH
#define SHUNT_CUDA_STAY_CUH

#include <gpu.cuh>
#include "fetch_args.h"

#define STAY_PATIENCE_NS 4000 /* for block 0, which begins with the others */

static_assert(sizeof(shunt_fetch_order) == 12 * SHUNT_FETCH_WORDS, "an order is the data of its words");

static __device__ __forceinline__ shunt_fetch_order &stay_order()
{
    __shared__ shunt_fetch_order order;
    return order;
}

/* Called by a whole warp: the next order, or (in device memory) any newer one, if it is there whole. */
static __device__ __forceinline__ bool stay_read(const shunt_fetch_word *words, bool next, uint32_t *sequence,
                                                 shunt_fetch_order *order)
{
    const uint32_t lane = threadIdx.x % 32;
    gpu_vec word = { { 0, 0, 0, 0 } };

    if (lane < 3)
        word = gpu_ll_load((const gpu_vec *)words + lane);
    const uint32_t number = __shfl_sync(~0u, word.w[3], 0), lanes = 1 + 2 * (__shfl_sync(~0u, word.w[0], 0) & 0xffff);
    const bool newer = next ? number == *sequence + 1 : (int32_t)(number - *sequence) > 0;
    if (!__all_sync(~0u, newer && (lane >= 3 || word.w[3] == number)))
        return false;
    if (lane >= 3 && lane < lanes)
        word = gpu_ll_load((const gpu_vec *)words + lane);
    if (!__all_sync(~0u, lane >= (lanes < 3 ? 3 : lanes) || word.w[3] == number))
        return false;
    if (lane < SHUNT_FETCH_WORDS)
        memcpy((char *)order + 12 * lane, &word, 12);
    *sequence = number;
    __syncwarp();
    return true;
}

static __device__ __forceinline__ void stay_relay(const shunt_fetch_args &a, uint32_t sequence,
                                                  const shunt_fetch_order *order)
{
    const uint32_t lane = threadIdx.x % 32, lanes = order->n > 1 ? 1 + 2 * order->n : 3;
    gpu_vec word = { { 0, 0, 0, sequence } };

    if (lane < lanes) {
        memcpy(&word, (const char *)order + 12 * lane, 12);
        gpu_ll_store((gpu_vec *)a.relay + lane, word);
    }
}

static __device__ __forceinline__ void stay_say(const shunt_fetch_args &a, uint32_t taken, uint32_t word)
{
    if (threadIdx.x == 0)
        gpu_store_host(a.state, SHUNT_STAY_STATE(taken, a.launch, word));
}

/* Warp 0 of block 0: the next order, or that there is none. */
static __device__ void stay_await(const shunt_fetch_args &a, uint32_t window_ns, uint32_t *sequence,
                                  shunt_fetch_order *order)
{
    const uint64_t end = gpu_clock_ns() + window_ns;
    const uint32_t before = *sequence;
    bool leaves = false;

    while (!stay_read(a.order, true, sequence, order)) {
        gpu_spin();
        /* One answer for the warp, whose clocks differ. */
        if (!__any_sync(~0u, gpu_clock_ns() > end))
            continue;
        stay_say(a, before, SHUNT_STAY_LEAVING);
        /* Sequentially consistent, as the host's fence between its order and its look at the state. */
        if (threadIdx.x == 0)
            gpu_fence_sys();
        __syncwarp();
        leaves = !stay_read(a.order, true, sequence, order);
        if (leaves && threadIdx.x == 0)
            order->n = order->blocks = 0;
        if (!leaves)
            stay_say(a, *sequence, SHUNT_STAY_ALIVE);
        __syncwarp();
        break;
    }
    if (gridDim.x > 1 && (order->n == 0 || order->blocks > 1))
        stay_relay(a, before + 1, order);
    if (order->n == 0)
        stay_say(a, leaves ? before : *sequence, SHUNT_STAY_GONE);
}

/* All threads of a block: the next order that concerns it. Of no copies: leave. It is there until the block's next barrier. */
static __device__ const shunt_fetch_order &stay_next(const shunt_fetch_args &a, uint32_t window_ns, uint32_t *sequence)
{
    __shared__ uint32_t taken;
    shunt_fetch_order &order = stay_order();

    if (threadIdx.x < 32) {
        uint32_t number = *sequence;
        if (blockIdx.x == 0)
            stay_await(a, window_ns, &number, &order);
        else
            while (!stay_read(a.relay, false, &number, &order))
                gpu_spin();
        if (threadIdx.x == 0)
            taken = number;
    }
    __syncthreads();
    *sequence = taken;
    return order;
}

/* Block 0 has begun, and will stay: from here on nothing makes it leave without a word. */
static __device__ __forceinline__ void stay_lead(const shunt_fetch_args &a)
{
    if (blockIdx.x == 0 && threadIdx.x == 0 && a.window_ns != 0)
        gpu_store(a.leads, a.launch);
}

/* All threads of a block, at the end of its piece: does it stay? */
static __device__ __forceinline__ bool stay_along(const shunt_fetch_args &a)
{
    __shared__ bool stays;

    if (a.window_ns == 0)
        return false;
    if (threadIdx.x == 0) {
        const uint64_t end = gpu_clock_ns() + STAY_PATIENCE_NS;
        stays = blockIdx.x == 0;
        while (!stays && gpu_clock_ns() < end) {
            stays = gpu_load_user(a.leads) == a.launch;
            if (!stays)
                gpu_spin();
        }
    }
    __syncthreads();
    return stays;
}

#endif
