/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kernel that lingers: after its operation it waits for the next one, and does that without being launched.
 *
 * The host's orders lie in pinned memory. One warp, of block 0, reads them, since such reads take a microsecond and
 * those of several blocks do not overlap; the other blocks get the order from device memory. Block 0 also decides to
 * leave, when the host says so or nothing has come for the window. It announces that and then looks once more, as the
 * host writes its order and then looks whether the kernel is leaving: so one of the two sees the other (cuda/linger.c).
 *
 * Block 0 may not have found room on the GPU yet, and may only find it when others leave. So a block that has heard
 * nothing for long closes the gate, unless block 0 has been there and opened it: the first of the two decides.
 *
 * The window begins when all blocks have ended their part: block 0 may be the first, by half the time of a large operation.
 *
 * A block that could not end its operation (its peers are late, or dead) says so and waits here like all others: the host
 * makes the kernel quit and launches the operation again.
 */
#ifndef SHUNT_CUDA_LINGER_CUH
#define SHUNT_CUDA_LINGER_CUH

#include "start.cuh"

static_assert(sizeof(shunt_order) == 12 * SHUNT_ORDER_WORDS, "an order is the data of its words");

/* One for all kernels, as plan_span. */
static __device__ __forceinline__ shunt_order &linger_order()
{
    __shared__ shunt_order order;
    return order;
}

/* Called by a whole warp: the order with this number, if it is there whole. The caller's barrier publishes *order. */
static __device__ __forceinline__ bool order_read(const void *words, uint32_t sequence, shunt_order *order)
{
    const uint32_t lane = threadIdx.x % 32;
    gpu_vec word = { { 0, 0, 0, sequence } };

    if (lane < SHUNT_ORDER_WORDS)
        word = gpu_ll_load((const gpu_vec *)words + lane);
    if (!__all_sync(~0u, word.w[3] == sequence))
        return false;
    if (lane < SHUNT_ORDER_WORDS)
        memcpy((char *)order + 12 * lane, &word, 12);
    return true;
}

static __device__ __forceinline__ void order_relay(const shunt_ll_args &a, uint32_t sequence, const shunt_order *order)
{
    const uint32_t lane = threadIdx.x % 32;
    gpu_vec word = { { 0, 0, 0, sequence } };

    if (lane < SHUNT_ORDER_WORDS) {
        memcpy(&word, (const char *)order + 12 * lane, 12);
        gpu_ll_store((gpu_vec *)(a.to[a.head.me] + SHUNT_SCRATCH_RELAY) + lane, word);
    }
}

static __device__ __forceinline__ void linger_say(const shunt_ll_args &a, uint32_t taken, uint32_t word)
{
    if (threadIdx.x == 0)
        gpu_store_host(a.linger.state, SHUNT_LINGER_STATE(taken, a.linger.generation, word));
}

/* The window is over, and order `sequence` has not come. False: it has come after all. */
static __device__ bool linger_leaves(const shunt_ll_args &a, uint32_t sequence, shunt_order *order)
{
    linger_say(a, sequence - 1, SHUNT_LINGER_LEAVING);
    /* Sequentially consistent, as the host's fence between its order and its look at the state. */
    if (threadIdx.x == 0)
        gpu_fence_sys();
    __syncwarp();
    if (order_read(a.linger.order, sequence, order)) {
        linger_say(a, sequence, SHUNT_LINGER_ALIVE);
        return false;
    }
    return true;
}

/* Called by a whole warp: is the gate open? `opens`: what it is to be if nobody has said so yet. */
static __device__ __forceinline__ bool linger_gate(const shunt_ll_args &a, bool opens)
{
    bool open = false;

    if (threadIdx.x % 32 == 0)
        open = first_says(a.to[a.head.me] + SHUNT_SCRATCH_GATE,
                          (uint64_t)a.linger.generation << 32 | a.linger.sequence, opens);
    return __any_sync(~0u, open);
}

/* By block 0 alone nobody is held up. Counted anew by each kernel: tickets grow. */
static __device__ __forceinline__ uint64_t *linger_ended(const shunt_ll_args &a)
{
    return (uint64_t *)(a.to[a.head.me] + SHUNT_SCRATCH_ENDED);
}

/* Called by all threads: this block begins; and has ended its part of an operation. */
static __device__ __forceinline__ void linger_count_anew(const shunt_ll_args &a)
{
    if (threadIdx.x == 0 && gridDim.x > 1 && a.linger.window_ns != 0)
        gpu_raise_gpu(linger_ended(a), a.op.ticket << 16);
}

static __device__ __forceinline__ void linger_count(const shunt_ll_args &a)
{
    if (threadIdx.x == 0 && gridDim.x > 1 && a.linger.window_ns != 0)
        gpu_count_gpu(linger_ended(a));
}

/* Have all blocks ended so many operations of this kernel? */
static __device__ __forceinline__ bool linger_all_ended(const shunt_ll_args &a, uint32_t operations)
{
    static_assert(64 * SHUNT_GRID < 1 << 16, "the operations of a kernel's blocks are counted in 16 bits");
    return gridDim.x == 1 || (gpu_load_user(linger_ended(a)) & 0xffff) >= operations * gridDim.x;
}

/* Warp 0 of block 0: the next order, QUIT if there is none. Blocks that find no room on the GPU are not waited for long. */
static __device__ void linger_await(const shunt_ll_args &a, uint32_t sequence, uint32_t window_ns, shunt_order *order)
{
    const uint64_t latest = gpu_clock_ns() + 4 * window_ns;
    uint64_t end = 0;
    bool leaves = gridDim.x > 1 && !linger_gate(a, true);

    while (!leaves && !order_read(a.linger.order, sequence, order)) {
        const uint64_t now = gpu_clock_ns();
        if (end == 0 && (now > latest || linger_all_ended(a, sequence - a.linger.sequence)))
            end = now + window_ns;
        /* One answer for the warp, whose clocks differ. */
        if (__any_sync(~0u, end != 0 && now > end)) {
            if (!linger_leaves(a, sequence, order))
                break;
            leaves = true;
        }
        gpu_spin();
    }
    if (threadIdx.x == 0 && leaves)
        order->kind = SHUNT_ORDER_QUIT;
    __syncwarp();
    if (gridDim.x > 1)
        order_relay(a, sequence, order);
    if (order->kind == SHUNT_ORDER_QUIT)
        linger_say(a, leaves ? sequence - 1 : sequence, SHUNT_LINGER_GONE);
}

/* Warp 0 of another block: the order that block 0 has passed on, or QUIT if block 0 has not come for long. */
static __device__ void linger_follow(const shunt_ll_args &a, uint32_t sequence, uint32_t window_ns, shunt_order *order)
{
    const uint64_t end = gpu_clock_ns() + 4 * window_ns;
    bool open = false;

    while (!order_read(a.to[a.head.me] + SHUNT_SCRATCH_RELAY, sequence, order)) {
        if (!open && __any_sync(~0u, gpu_clock_ns() > end)) {
            open = linger_gate(a, false);
            if (!open) {
                if (threadIdx.x == 0)
                    order->kind = SHUNT_ORDER_QUIT;
                return;
            }
        }
        gpu_spin();
    }
}

/* All threads of a block: wait for the order after `sequence`. False: leave. */
static __device__ bool linger_next(const shunt_ll_args &a, uint32_t sequence, uint32_t window_ns, shunt_order *order)
{
    if (threadIdx.x < 32 && blockIdx.x == 0) {
        linger_await(a, sequence, window_ns, order);
    } else if (threadIdx.x < 32) {
        linger_follow(a, sequence, window_ns, order);
    }
    __syncthreads();
    return order->kind == SHUNT_ORDER_RUN;
}

#endif
