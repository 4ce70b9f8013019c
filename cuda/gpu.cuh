/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All PTX and every load and store of memory that somebody else writes too. The simulation has a header of the same
 * name and functions that runs them on the CPU (sim/gpu.cuh); nothing else differs between the two.
 */
#ifndef SHUNT_CUDA_GPU_CUH
#define SHUNT_CUDA_GPU_CUH

#include <cstdint>
#include <cstring>
#include <type_traits>

/* A kernel's argument: one struct by value. GPU_KERNEL registers it with the simulation. */
#define GPU_ARGS(type)         const __grid_constant__ type
#define GPU_KERNEL(name, type) static_assert(sizeof(type) <= 4096, "kernel arguments are limited to 4 KiB")

struct alignas(16) gpu_vec {
    uint32_t w[4];
};

/* Plain stores: visible to others after a release or a fence. */
static __device__ __forceinline__ void gpu_store_vec(void *p, gpu_vec v)
{
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
                 : "memory");
}

/* Memory that a peer has written during this kernel: from the point of coherence, after an acquire. */
static __device__ __forceinline__ gpu_vec gpu_load_fresh_vec(const void *p)
{
    gpu_vec v;
    asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                 : "l"(p)
                 : "memory");
    return v;
}

template <class T> static __device__ __forceinline__ T gpu_load_fresh(const T *p)
{
    if constexpr (sizeof(T) == alignof(T)) {
        return *(const volatile T *)p;
    } else { /* complex: word by word */
        using word = typename std::conditional<alignof(T) == 4, uint32_t, uint64_t>::type;
        const volatile word *from = (const volatile word *)p;
        word w[2] = { from[0], from[1] };
        T v;
        memcpy(&v, w, sizeof v);
        return v;
    }
}

template <class T> static __device__ __forceinline__ void gpu_store(T *p, T v)
{
    *p = v;
}

/*
 * User memory that nobody writes during this operation, but that the application may have written since this kernel
 * began: past the L1 cache.
 */
static __device__ __forceinline__ gpu_vec gpu_load_user_vec(const void *p)
{
    return gpu_load_fresh_vec(p);
}

template <class T> static __device__ __forceinline__ T gpu_load_user(const T *p)
{
    return gpu_load_fresh(p);
}

/* Flags. A release makes visible what the block has written before its last barrier; .sys is all GPUs and the CPU. */
static __device__ __forceinline__ void gpu_release_sys(uint64_t *p, uint64_t v)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

static __device__ __forceinline__ uint64_t gpu_acquire_sys(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ void gpu_fence_gpu()
{
    __threadfence();
}

static __device__ __forceinline__ void gpu_fence_sys()
{
    __threadfence_system();
}

/* LL words: {data, data, data, flag}, 16 bytes that are read and written whole (type b128, from sm_70 on). */
static __device__ __forceinline__ void gpu_ll_store(gpu_vec *p, gpu_vec v)
{
    uint64_t lo = (uint64_t)v.w[1] << 32 | v.w[0], hi = (uint64_t)v.w[3] << 32 | v.w[2];
    asm volatile("{\n\t"
                 ".reg .b128 v;\n\t"
                 "mov.b128 v, {%1, %2};\n\t"
                 "st.relaxed.sys.global.b128 [%0], v;\n\t"
                 "}" ::"l"(p),
                 "l"(lo), "l"(hi)
                 : "memory");
}

static __device__ __forceinline__ gpu_vec gpu_ll_load(const gpu_vec *p)
{
    uint64_t lo, hi;
    asm volatile("{\n\t"
                 ".reg .b128 v;\n\t"
                 "ld.relaxed.sys.global.b128 v, [%2];\n\t"
                 "mov.b128 {%0, %1}, v;\n\t"
                 "}"
                 : "=l"(lo), "=l"(hi)
                 : "l"(p)
                 : "memory");
    return gpu_vec{ { (uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32) } };
}

/*
 * A word of mine that I have used: before the peer's next write to it, which comes after my done word of this operation;
 * the fence in front of that (block_end) puts the two in order, in kernels that linger, too.
 */
static __device__ __forceinline__ void gpu_ll_clear(gpu_vec *p)
{
    gpu_store_vec(p, gpu_vec{ { 0, 0, 0, 0 } });
}

/*
 * LL128 lines: 128 aligned bytes, of which each of eight lanes stores or loads 16 by one instruction; the last 8 bytes
 * are the flag. `p` is the lane's place in the first of N rows, which are 512 bytes apart. Called by whole warps: the
 * barrier brings their lanes together, so that a row is one access of the memory system, not several.
 */
template <int N> static __device__ __forceinline__ void gpu_lines_store(char *p, const gpu_vec *v)
{
    __syncwarp();
#pragma unroll
    for (int k = 0; k < N; k++)
        gpu_ll_store((gpu_vec *)(p + 512 * k), v[k]);
}

template <int N> static __device__ __forceinline__ void gpu_lines_load(const char *p, gpu_vec *v)
{
    __syncwarp();
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] = gpu_ll_load((const gpu_vec *)(p + 512 * k));
}

static __device__ __forceinline__ uint64_t gpu_cas_gpu(uint64_t *p, uint64_t old, uint64_t value)
{
    return atomicCAS((unsigned long long *)p, (unsigned long long)old, (unsigned long long)value);
}

/* Of words that only this GPU uses; nobody waits for them. */
static __device__ __forceinline__ void gpu_raise_gpu(uint64_t *p, uint64_t least)
{
    asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(p), "l"(least) : "memory");
}

static __device__ __forceinline__ void gpu_count_gpu(uint64_t *p)
{
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(p) : "memory");
}

/* IEEE's 16-bit floats, as their bits. To the nearest, ties to even; NaN becomes 0x7fff. */
static __device__ __forceinline__ float gpu_f16_to_float(uint16_t bits)
{
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    return v;
}

static __device__ __forceinline__ uint16_t gpu_float_to_f16(float v)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
}

static __device__ __forceinline__ uint64_t gpu_clock_ns()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

/* Once per fruitless poll. */
static __device__ __forceinline__ void gpu_spin()
{
}

/* Pinned host memory: about 1 us each, and different blocks' reads do not overlap. */
static __device__ __forceinline__ uint32_t gpu_load_host(const uint32_t *p)
{
    return *(const volatile uint32_t *)p;
}

static __device__ __forceinline__ void gpu_store_host(uint64_t *p, uint64_t v)
{
    *(volatile uint64_t *)p = v;
}

#endif
