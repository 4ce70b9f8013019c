/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel that fetches small messages from a peer's memory: shunt_fetch. A copy engine needs 8.5 us until the host
 * has seen the end of a copy, a kernel less.
 */
#ifndef SHUNT_CUDA_FETCH_CUH
#define SHUNT_CUDA_FETCH_CUH

#include "fetch_args.h"
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

/* A thread block for each piece. */
extern "C" __global__ void __launch_bounds__(SHUNT_FETCH_THREADS) shunt_fetch(GPU_ARGS(shunt_fetch_args) a)
{
    const shunt_fetch_piece &piece = a.pieces[blockIdx.x];

    if (called_back(a.told, a.launch))
        return;
    switch (piece.width) {
    case 16: fetch_words<gpu_vec>(piece); break;
    case 8: fetch_words<uint64_t>(piece); break;
    case 4: fetch_words<uint32_t>(piece); break;
    case 2: fetch_words<uint16_t>(piece); break;
    default: fetch_words<uint8_t>(piece); break;
    }
    __syncthreads();
    /* Release: who sees the word sees what all threads of the block have put there. */
    if (threadIdx.x == 0)
        gpu_release_sys(&a.done[blockIdx.x], a.launch);
}
GPU_KERNEL(shunt_fetch, shunt_fetch_args);

#endif
