/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel that fetches small messages from a peer's memory: shunt_fetch. A copy engine needs 8.5 us until the host
 * has seen the end of a copy, a kernel less, and one that is there already half of that: so it may stay for a while.
 */
#ifndef SHUNT_CUDA_FETCH_CUH
#define SHUNT_CUDA_FETCH_CUH

#include "fetch_args.h"
#include "stay.cuh"
#include "words.cuh"

/* All loads of a round are under way before its first store: each takes as long as the links do. */
template <class T> static __device__ __forceinline__ void fetch_words(const shunt_fetch_piece &piece)
{
    const uint32_t words = piece.bytes / sizeof(T);

    for (uint32_t w = threadIdx.x; w < words; w += SHUNT_FETCH_BATCH * SHUNT_FETCH_THREADS) {
        T v[SHUNT_FETCH_BATCH];
#pragma unroll
        for (uint32_t k = 0; k < SHUNT_FETCH_BATCH; k++)
            if (w + k * SHUNT_FETCH_THREADS < words)
                v[k] = load_word<T>(piece.from + (w + k * SHUNT_FETCH_THREADS) * sizeof(T));
#pragma unroll
        for (uint32_t k = 0; k < SHUNT_FETCH_BATCH; k++)
            if (w + k * SHUNT_FETCH_THREADS < words)
                store_word<T>(piece.to + (w + k * SHUNT_FETCH_THREADS) * sizeof(T), v[k]);
    }
}

static __device__ __forceinline__ void fetch_piece(const shunt_fetch_piece &piece)
{
    switch (piece.width) {
    case 16: fetch_words<gpu_vec>(piece); break;
    case 8: fetch_words<uint64_t>(piece); break;
    case 4: fetch_words<uint32_t>(piece); break;
    case 2: fetch_words<uint16_t>(piece); break;
    default: fetch_words<uint8_t>(piece); break;
    }
}

/* Release: who sees the word sees what all threads of the block have put there. */
static __device__ __forceinline__ void fetch_done(const shunt_fetch_args &a, uint64_t number, bool stays)
{
    __syncthreads();
    if (threadIdx.x == 0)
        gpu_release_sys(&a.done[blockIdx.x], SHUNT_FETCH_DONE(number, stays));
}

/* This block's part of an order. */
static __device__ void fetch_order(const shunt_fetch_order &order)
{
    for (uint32_t i = order.n > 1 ? blockIdx.x : 0; i < order.n; i += order.blocks) {
        const shunt_fetch_copy &copy = order.copies[i];
        const uint32_t at = order.n > 1 ? 0 : blockIdx.x * order.piece, left = copy.bytes - at;
        fetch_piece({ (char *)(((uint64_t)copy.to[1] << 32 | copy.to[0]) + at),
                      (const char *)(((uint64_t)copy.from[1] << 32 | copy.from[0]) + at),
                      left < order.piece ? left : order.piece, copy.width });
    }
}

/* A thread block for each piece. With a window they stay, and more with them, for what comes next. */
extern "C" __global__ void __launch_bounds__(SHUNT_FETCH_THREADS) shunt_fetch(GPU_ARGS(shunt_fetch_args) a)
{
    if (blockIdx.x < a.n && called_back(a.told, a.launch))
        return;
    stay_lead(a);
    if (blockIdx.x < a.n)
        fetch_piece(a.pieces[blockIdx.x]);
    bool stays = stay_along(a);
    uint32_t sequence = (uint32_t)a.launch, window = a.window_ns;

    fetch_done(a, a.launch, stays);
    while (stays) {
        const shunt_fetch_order &order = stay_next(a, window, &sequence);
        const bool mine = blockIdx.x < order.blocks;
        window = order.window_ns;
        stays = order.n > 0;
        if (stays && mine)
            fetch_order(order);
        if (stays && mine)
            fetch_done(a, a.launch + (uint32_t)(sequence - (uint32_t)a.launch), true);
        else
            __syncthreads(); /* before the next order takes this one's place */
    }
}
GPU_KERNEL(shunt_fetch, shunt_fetch_args);

#endif
