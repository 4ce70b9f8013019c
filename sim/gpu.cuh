/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device functions that kernels are written in, for the CPU: takes the place of cuda/gpu.cuh when the kernels'
 * source is compiled by a C++ compiler. It has the same include guard, and is included first.
 *
 * What CUDA C++ itself gives to kernels is here too, as far as they use it: threadIdx and its kin, __shared__ (without
 * extern), the barriers of blocks and warps, shuffles and votes.
 *
 * Every access is checked for alignment. With SHUNT_SIM_MEAN=1 writes are held back until a release, and
 * gpu_load_fresh after polling with anything but acquires is a mistake.
 */
#ifndef SHUNT_CUDA_GPU_CUH
#define SHUNT_CUDA_GPU_CUH

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sim/block.h"
#include "sim/register.h"
#include "sim/word16.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
/*
 * The scheduler exchanges the contents when another block has its turn. "used": what a compiler believes to know about
 * the places that write a static variable must not hold for these (gcc 12 loses sight of some: it took one for zero).
 */
#define __shared__ static thread_local __attribute__((used))

typedef struct sim_dim3 dim3;

#define threadIdx (sim_running->fiber->tid)
#define blockIdx  (sim_running->block->index)
#define blockDim  (sim_running->block_dim)
#define gridDim   (sim_running->grid_dim)

/*
 * A kernel:   extern "C" __global__ void name(GPU_ARGS(struct x) args) { ... } GPU_KERNEL(name, struct x);
 *
 * Its one argument is a trivially copyable struct of at most 4 KiB, read where the launch has put it. GPU_KERNEL makes
 * the kernel known by its name.
 */
#define GPU_ARGS(type)           const type &
#define GPU_KERNEL(kernel, type) SIM_KERNEL(kernel, #kernel, type)
#define SIM_KERNEL(kernel, text, type)                                                             \
    static void sim_thread_##kernel(const void *args)                                              \
    {                                                                                              \
        kernel(*static_cast<const type *>(args));                                                  \
    }                                                                                              \
    static void sim_run_##kernel(void *const *args, const unsigned grid[3],                        \
                                 const unsigned block[3], unsigned dynamic_shared)                 \
    {                                                                                              \
        sim_launch_run(text, sim_thread_##kernel, args[0], grid, block, dynamic_shared);           \
    }                                                                                              \
    static const unsigned sim_sizes_##kernel[] = {sizeof(type), 0};                                \
    static struct sim_registered sim_registered_##kernel = {                                       \
        {text, sim_run_##kernel, sim_sizes_##kernel}, nullptr};                                    \
    __attribute__((constructor)) static void sim_register_##kernel()                               \
    {                                                                                              \
        sim_kernel_register(&sim_registered_##kernel);                                             \
    }                                                                                              \
    static_assert(std::is_trivially_copyable<type>::value && sizeof(type) <= 4096,                 \
                  text ": an argument of a kernel is plain data of at most 4 KiB")

/* ---- what CUDA C++ has: barriers, warps, fences. The place of the call tells two barriers apart. ---- */

#define SIM_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(SIM_PLACE)
{
    sim_barrier(false, file, line);
}

static inline int __syncthreads_count(int predicate, SIM_PLACE)
{
    return (int)sim_barrier(predicate != 0, file, line);
}

static inline int __syncthreads_or(int predicate, SIM_PLACE)
{
    return sim_barrier(predicate != 0, file, line) != 0;
}

static inline int __syncthreads_and(int predicate, SIM_PLACE)
{
    return sim_barrier(predicate == 0, file, line) == 0;
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, SIM_PLACE)
{
    sim_warp_barrier(mask, file, line);
}

template <class T>
T sim_shuffle(unsigned mask, T value, unsigned lane, const char *file, int line)
{
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    word = sim_warp_exchange(mask, word, lane, file, line);
    memcpy(&value, &word, sizeof value);
    return value;
}

static inline unsigned sim_lane()
{
    return sim_running->fiber->number % 32;
}

/* The lane that a shuffle over groups of `width` reads: `to` if it is in the caller's group, else the caller's own. */
static inline unsigned sim_lane_in_group(unsigned to, unsigned width)
{
    return to < 32 && to / width == sim_lane() / width ? to : sim_lane();
}

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, SIM_PLACE)
{
    unsigned lane = sim_lane() / (unsigned)width * (unsigned)width + (unsigned)from % (unsigned)width;
    return sim_shuffle(mask, value, lane, file, line);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, SIM_PLACE)
{
    unsigned to = sim_lane() ^ (unsigned)bits;
    /* Unlike up and down, xor may reach into a group before the caller's. */
    unsigned lane = to / (unsigned)width <= sim_lane() / (unsigned)width ? to : sim_lane();
    return sim_shuffle(mask, value, lane, file, line);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, SIM_PLACE)
{
    return sim_shuffle(mask, value, sim_lane_in_group(sim_lane() - by, (unsigned)width), file, line);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, SIM_PLACE)
{
    return sim_shuffle(mask, value, sim_lane_in_group(sim_lane() + by, (unsigned)width), file, line);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, SIM_PLACE)
{
    return sim_warp_ballot(mask, predicate != 0, file, line);
}

static inline int __any_sync(unsigned mask, int predicate, SIM_PLACE)
{
    return sim_warp_ballot(mask, predicate != 0, file, line) != 0;
}

static inline int __all_sync(unsigned mask, int predicate, SIM_PLACE)
{
    return sim_warp_ballot(mask, predicate == 0, file, line) == 0;
}

/* ---- memory ---- */

struct alignas(16) gpu_vec {
    uint32_t w[4];
};

/* Words that may overlay any type. */
typedef uint8_t __attribute__((may_alias)) sim_word1;
typedef uint16_t __attribute__((may_alias)) sim_word2;
typedef uint32_t __attribute__((may_alias)) sim_word4;
typedef uint64_t __attribute__((may_alias)) sim_word8;

template <unsigned bytes>
struct sim_word;
template <>
struct sim_word<1> {
    typedef sim_word1 type;
};
template <>
struct sim_word<2> {
    typedef sim_word2 type;
};
template <>
struct sim_word<4> {
    typedef sim_word4 type;
};
template <>
struct sim_word<8> {
    typedef sim_word8 type;
};

static __forceinline__ void sim_check(const void *p, unsigned align)
{
    if ((uintptr_t)p % align)
        sim_fail_align(p, align);
}

/* Copy `bytes` in indivisible words of `word` bytes, without any order. */
template <unsigned bytes, unsigned word>
static __forceinline__ void sim_load(const void *p, void *value)
{
    typedef typename sim_word<word>::type type;
    if (sim_running->block->stores)
        sim_before_load(p, bytes);
    for (unsigned i = 0; i < bytes / word; i++) {
        type w = __atomic_load_n(static_cast<const type *>(p) + i, __ATOMIC_RELAXED);
        memcpy(static_cast<char *>(value) + i * word, &w, word);
    }
}

template <unsigned bytes, unsigned word>
static __forceinline__ void sim_store(void *p, const void *value)
{
    typedef typename sim_word<word>::type type;
    sim_running->progress++;
    if (sim_running->block->stores) {
        sim_hold_store(p, value, bytes, word);
        return;
    }
    for (unsigned i = 0; i < bytes / word; i++) {
        type w;
        memcpy(&w, static_cast<const char *>(value) + i * word, word);
        __atomic_store_n(static_cast<type *>(p) + i, w, __ATOMIC_RELAXED);
    }
}

/* What a fence or an acquire does for the loads of this thread that follow. */
static __forceinline__ void sim_acquired()
{
    sim_running->fiber->acquiring = true;
    sim_running->fiber->stale = false;
}

static __forceinline__ void sim_check_acquired()
{
    if (sim_running->block->stores && sim_running->fiber->stale)
        sim_fail("gpu_load_fresh after polls that were no acquires, without an acquire or a fence");
}

/* 16 bytes of user or peer memory; not for data that a peer writes while the kernel runs. */
static __forceinline__ gpu_vec gpu_load_vec(const void *p)
{
    gpu_vec v;
    sim_check(p, 16);
    sim_load<16, 8>(p, &v);
    return v;
}

static __forceinline__ void gpu_store_vec(void *p, gpu_vec v)
{
    sim_check(p, 16);
    sim_store<16, 8>(p, &v);
}

/* The same for one element. Its alignment is that of its type; it moves in words of that size, at most 8 bytes. */
template <class T>
static __forceinline__ T gpu_load(const T *p)
{
    T v;
    sim_check(p, alignof(T));
    sim_load<sizeof(T), (alignof(T) < 8 ? alignof(T) : 8)>(p, &v);
    return v;
}

template <class T>
static __forceinline__ void gpu_store(T *p, T v)
{
    sim_check(p, alignof(T));
    sim_store<sizeof(T), (alignof(T) < 8 ? alignof(T) : 8)>(p, &v);
}

/* Data that a peer has written during this kernel, after the acquire that said so. */
static __forceinline__ gpu_vec gpu_load_fresh_vec(const void *p)
{
    sim_check_acquired();
    return gpu_load_vec(p);
}

template <class T>
static __forceinline__ T gpu_load_fresh(const T *p)
{
    sim_check_acquired();
    return gpu_load(p);
}

/* User memory: as above, but the kernel may have been running when the application wrote it. */
static __forceinline__ gpu_vec gpu_load_user_vec(const void *p)
{
    return gpu_load_vec(p);
}

template <class T>
static __forceinline__ T gpu_load_user(const T *p)
{
    return gpu_load(p);
}

/* ---- order. The scope of one GPU and of the system are the same here. ---- */

static inline void gpu_fence_sys()
{
    struct sim_launch *l = sim_running;
    if (l->block->stores)
        sim_stores_release(l);
    sim_acquired();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void gpu_fence_gpu()
{
    gpu_fence_sys();
}

/* All that this thread has written, and seen written by its block before a barrier, is visible before v is. */
template <class T>
static inline void sim_release(T *p, T v)
{
    struct sim_launch *l = sim_running;
    sim_check(p, sizeof v);
    if (l->block->stores) {
        sim_stores_release(l);
        sim_before_load(p, sizeof v);
    }
    l->progress++;
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static inline void gpu_release_sys(uint64_t *p, uint64_t v)
{
    sim_release(p, v);
}

static inline void gpu_release_gpu(uint64_t *p, uint64_t v)
{
    sim_release(p, v);
}

static inline uint64_t gpu_acquire_sys(const uint64_t *p)
{
    sim_check(p, sizeof *p);
    if (sim_running->block->stores)
        sim_before_load(p, sizeof *p);
    sim_acquired();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline uint64_t gpu_acquire_gpu(const uint64_t *p)
{
    return gpu_acquire_sys(p);
}

/* ---- LL words: {data, data, data, flag}, 16 indivisible bytes ---- */

static inline void gpu_ll_store(gpu_vec *p, gpu_vec v)
{
    sim_check(p, 16);
    sim_running->progress++;
    if (sim_running->block->stores)
        sim_hold_store(p, &v, 16, 16);
    else
        sim_store16(p, &v);
}

static inline gpu_vec gpu_ll_load(const gpu_vec *p)
{
    gpu_vec v;
    sim_check(p, 16);
    if (sim_running->block->stores)
        sim_before_load(p, 16);
    sim_load16(p, &v);
    return v;
}

static inline void gpu_ll_clear(gpu_vec *p)
{
    gpu_ll_store(p, gpu_vec{{0, 0, 0, 0}});
}

/*
 * ---- LL128 lines: whole 128 bytes, the last 8 of which are the flag. The lanes take turns here, so the flag's lane
 * writes last and reads first; the order between them is what the link gives for nothing. ----
 */

static __forceinline__ bool sim_has_flag()
{
    return sim_lane() % 8 == 7;
}

template <int N>
static inline void gpu_lines_store(char *p, const gpu_vec *v, SIM_PLACE)
{
    for (int flags = 0; flags < 2; flags++) {
        sim_warp_barrier(~0u, file, line);
        for (int k = 0; k < N && sim_has_flag() == (flags != 0); k++) {
            sim_check(p + 512 * k, 16);
            sim_running->progress++;
            sim_store16(p + 512 * k, &v[k]);
        }
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

template <int N>
static inline void gpu_lines_load(const char *p, gpu_vec *v, SIM_PLACE)
{
    for (int flags = 1; flags >= 0; flags--) {
        sim_warp_barrier(~0u, file, line);
        for (int k = 0; k < N && sim_has_flag() == (flags != 0); k++) {
            sim_check(p + 512 * k, 16);
            sim_load16(p + 512 * k, &v[k]);
        }
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

/* ---- atomics of one GPU, relaxed ---- */

static inline uint32_t gpu_add_gpu(uint32_t *p, uint32_t v)
{
    sim_check(p, sizeof *p);
    if (sim_running->block->stores)
        sim_before_load(p, sizeof *p);
    sim_running->progress++;
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

static inline uint64_t gpu_cas_gpu(uint64_t *p, uint64_t old, uint64_t desired)
{
    sim_check(p, sizeof *p);
    if (sim_running->block->stores)
        sim_before_load(p, sizeof *p);
    __atomic_compare_exchange_n(p, &old, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}

static inline void gpu_raise_gpu(uint64_t *p, uint64_t least)
{
    sim_check(p, sizeof *p);
    uint64_t now = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (now < least && !__atomic_compare_exchange_n(p, &now, least, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static inline void gpu_count_gpu(uint64_t *p)
{
    sim_check(p, sizeof *p);
    __atomic_fetch_add(p, 1, __ATOMIC_RELAXED);
}

/* ---- pinned host memory ---- */

static inline gpu_vec gpu_load_host_vec(const void *p)
{
    return gpu_load_vec(p);
}

static inline uint32_t gpu_load_host(const uint32_t *p)
{
    return gpu_load(p);
}

static inline void gpu_store_host(uint64_t *p, uint64_t v)
{
    sim_release(p, v);
}

/* ---- IEEE's 16-bit floats, as their bits ---- */

static inline float gpu_f16_to_float(uint16_t bits)
{
    uint32_t word = (uint32_t)(bits & 0x7fff) << 13 | (uint32_t)(bits & 0x8000) << 16;
    float v;
    memcpy(&v, &word, sizeof v);
    if ((bits & 0x7c00) != 0x7c00)
        return v * 0x1p112f; /* exact: the exponents' biases are 112 apart */
    word |= 0x7f800000;
    memcpy(&v, &word, sizeof v);
    return v;
}

/* To the nearest, ties to even; NaN becomes 0x7fff. */
static inline uint16_t gpu_float_to_f16(float v)
{
    uint32_t word;
    memcpy(&word, &v, sizeof word);
    uint32_t sign = word >> 16 & 0x8000, size = word & 0x7fffffff;
    if (size > 0x7f800000)
        return 0x7fff;
    if (size >= 0x47800000) /* 65536 */
        return (uint16_t)(sign | 0x7c00);
    float magnitude = v < 0 ? -v : v;
    if (size < 0x38800000) { /* below 2^-14, multiples of 2^-24: the sum is rounded where they end */
        magnitude += 0.5f;
        memcpy(&word, &magnitude, sizeof word);
        return (uint16_t)(sign | (word - 0x3f000000));
    }
    return (uint16_t)(sign | ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13));
}

/* ---- time ---- */

/*
 * A clock that is slower than the real one: a simulated kernel shares its core with other ranks, and what a kernel
 * waits for within microseconds of the GPU's time comes within a few turns of the processes here.
 */
static inline uint64_t gpu_clock_ns()
{
    return sim_kernel_clock();
}

/* To be called once for every poll that found nothing: others have their turn. */
static inline void gpu_spin()
{
    sim_spin();
}

/* The compiler's own choice in the kernels' source: inlined by force, they take half as long again to compile. */
#undef __forceinline__
#define __forceinline__ inline

#endif
