/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels that pack and unpack derived datatypes: shunt_pack, shunt_unpack; and that of fetch.cuh.
 *
 * Each thread moves words of the packed data, and finds by divisions where each lies in the elements. So packed memory is
 * accessed in order, whatever the elements look like; it may be pinned memory of the host.
 */
#include <gpu.cuh>
#include "fetch.cuh"
#include "pack_args.h"
#include "words.cuh"

template <class N> static __device__ __forceinline__ N divide(N n, const shunt_kdiv &d)
{
    if constexpr (sizeof(N) == 4)
        return d.magic ? (N)((uint64_t)n * d.magic >> d.shift) : 0;
    else
        return n / d.by;
}

/* The place of granule g of a nest; loops run from the innermost on, and the outermost takes what is left. */
template <class N> static __device__ __forceinline__ int64_t place_in_nest(const shunt_knest &nest, N g, uint32_t granule)
{
    N block = divide(g, nest.length);
    int64_t place = nest.offset + (int64_t)(g - block * (N)nest.length.by) * granule;

#pragma unroll 1
    for (uint32_t i = 0; i < nest.levels; i++) {
        N next = i + 1 < nest.levels ? divide(block, nest.loops[i].count) : 0;
        place += (int64_t)(block - next * (N)nest.loops[i].count.by) * nest.loops[i].stride;
        block = next;
    }
    return place;
}

/* The last of n that starts at or before g. */
template <class Start> static __device__ __forceinline__ uint64_t find_start(uint64_t n, uint64_t g, Start start)
{
    uint64_t low = 0, high = n;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (start(middle) <= g)
            low = middle;
        else
            high = middle;
    }
    return low;
}

template <class N> static __device__ __forceinline__ int64_t place_in_list(const shunt_pack_args &a, N g)
{
    if (a.kind == SHUNT_PACK_NESTED) {
        const shunt_knest *nests = a.table ? a.table : a.nests;
        uint64_t i = a.n == 1 ? 0 : find_start(a.n, g, [&](uint64_t k) { return nests[k].start; });
        return place_in_nest<N>(nests[i], g - (N)nests[i].start, a.granule);
    }
    if (a.kind == SHUNT_PACK_UNIFORM) {
        N i = divide(g, a.length);
        return a.offsets[i] + (int64_t)(g - i * (N)a.length.by) * a.granule;
    }
    uint64_t i = find_start(a.n, g, [&](uint64_t k) { return a.starts[k]; });
    return a.offsets[i] + (int64_t)(g - a.starts[i]) * a.granule;
}

/* Where a word lies, from the base. */
template <class N> static __device__ __forceinline__ int64_t find_place(const shunt_pack_args &a, uint64_t word)
{
    N g = (N)(word >> a.shift), rest = divide(g, a.list);
    int64_t place = place_in_list<N>(a, g - rest * (N)a.list.by) + (int64_t)(word & ((1u << a.shift) - 1)) * a.width;

#pragma unroll 1
    for (uint32_t i = 0; i < a.outer_levels; i++) {
        N next = divide(rest, a.outer[i].count);
        place += (int64_t)(rest - next * (N)a.outer[i].count.by) * a.outer[i].stride;
        rest = next;
    }
    return place + (int64_t)rest * a.extent;
}

/* Words w, w + threads, ...: all loads are under way before the first store. */
template <class T, bool packing, int n>
static __device__ __forceinline__ void move(const shunt_pack_args &a, uint64_t w, uint64_t threads, char *const *lying)
{
    T v[n];

#pragma unroll
    for (int k = 0; k < n; k++)
        if (w + k * threads < a.words)
            v[k] = load_word<T>(packing ? lying[k] : a.packed + (w + k * threads) * sizeof(T));
#pragma unroll
    for (int k = 0; k < n; k++)
        if (w + k * threads < a.words)
            store_word<T>(packing ? a.packed + (w + k * threads) * sizeof(T) : lying[k], v[k]);
}

/* N: the type of positions; n: words of a thread that are under way at a time. */
template <class N, bool packing, int n> static __device__ __forceinline__ void move_all(const shunt_pack_args &a)
{
    const uint64_t threads = (uint64_t)gridDim.x * SHUNT_PACK_THREADS;

    for (uint64_t w = (uint64_t)blockIdx.x * SHUNT_PACK_THREADS + threadIdx.x; w < a.words; w += n * threads) {
        char *lying[n];
#pragma unroll
        for (int k = 0; k < n; k++)
            if (w + k * threads < a.words)
                lying[k] = a.base + find_place<N>(a, a.first + w + k * threads);
        switch (a.width) {
        case 16: move<gpu_vec, packing, n>(a, w, threads, lying); break;
        case 8: move<uint64_t, packing, n>(a, w, threads, lying); break;
        case 4: move<uint32_t, packing, n>(a, w, threads, lying); break;
        case 2: move<uint16_t, packing, n>(a, w, threads, lying); break;
        default: move<uint8_t, packing, n>(a, w, threads, lying); break;
        }
    }
}

/* Elements so large are rare, and their divisions long: apart, so that they do not cost the others registers. */
template <bool packing> static __device__ __attribute__((noinline)) void move_wide(const shunt_pack_args &a)
{
    move_all<uint64_t, packing, 1>(a);
}

template <bool packing> static __device__ __forceinline__ void run(const shunt_pack_args &a)
{
    if (called_back(a.told, a.launch))
        return;
    if (a.wide)
        move_wide<packing>(a);
    else
        move_all<uint32_t, packing, SHUNT_PACK_BATCH>(a);
}

extern "C" __global__ void __launch_bounds__(SHUNT_PACK_THREADS) shunt_pack(GPU_ARGS(shunt_pack_args) a)
{
    run<true>(a);
}
GPU_KERNEL(shunt_pack, shunt_pack_args);

extern "C" __global__ void __launch_bounds__(SHUNT_PACK_THREADS) shunt_unpack(GPU_ARGS(shunt_pack_args) a)
{
    run<false>(a);
}
GPU_KERNEL(shunt_unpack, shunt_pack_args);
