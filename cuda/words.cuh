/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels of pack.cu have in common: words of 1 to 16 bytes, and the look whether a launch has been called back. */
#ifndef SHUNT_CUDA_WORDS_CUH
#define SHUNT_CUDA_WORDS_CUH

#include <gpu.cuh>
#include "told.h"

template <class T> static __device__ __forceinline__ T load_word(const char *p)
{
    if constexpr (sizeof(T) == 16)
        return gpu_load_user_vec(p);
    else
        return gpu_load_user((const T *)p);
}

template <class T> static __device__ __forceinline__ void store_word(char *p, T v)
{
    if constexpr (sizeof(T) == 16)
        gpu_store_vec(p, v);
    else
        gpu_store((T *)p, v);
}

/*
 * First the word that this launch has begun, then the look whether it has been called back: as room.c says. A launch that has
 * been called back must touch nothing, since what it was to move may be gone.
 */
static __device__ __forceinline__ bool called_back(uint64_t *told, uint64_t launch)
{
    if (threadIdx.x == 0)
        gpu_store(&told[SHUNT_TOLD_BEGUN], launch);
    return gpu_load_user(&told[SHUNT_TOLD_RECALLED]) >= launch;
}

#endif
