/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-shot with flags in the payload (LL): every rank writes its data to all peers as words {data, flag}; everybody
 * polls the words and adds in rank order. One hop, no barrier.
 *
 * A vector of 16 bytes travels as two words, in two planes so that a warp's stores are contiguous. A reader clears the
 * words it has used, so that a flag never meets a stale word of 2^32 operations ago. A block writes and clears nothing
 * before the words of each thread's first vector have arrived from all peers; one that leaves has sent everything, so
 * the launch that repeats it does not send again.
 */
#ifndef SHUNT_CUDA_LL_CUH
#define SHUNT_CUDA_LL_CUH

#include "ops.cuh"
#include "start.cuh"

/* Load up to 16 bytes at p (aligned to T): whole vectors at once where p allows it. Bytes past `bytes` are undefined. */
template <class T> static __device__ __forceinline__ gpu_vec ll_load(const char *p, uint64_t bytes, bool aligned)
{
    T x[16 / sizeof(T)] = {};
    gpu_vec v;

    if (aligned && bytes >= 16)
        return gpu_load_vec(p);
#pragma unroll
    for (unsigned i = 0; i < 16 / sizeof(T); i++) {
        if (i * sizeof(T) < bytes)
            x[i] = gpu_load((const T *)p + i);
    }
    memcpy(&v, x, 16);
    return v;
}

template <class T> static __device__ __forceinline__ void ll_store(char *p, gpu_vec v, uint64_t bytes, bool aligned)
{
    T x[16 / sizeof(T)];

    if (aligned && bytes >= 16) {
        gpu_store_vec(p, v);
        return;
    }
    memcpy(x, &v, 16);
#pragma unroll
    for (unsigned i = 0; i < 16 / sizeof(T); i++) {
        if (i * sizeof(T) < bytes)
            gpu_store((T *)p + i, x[i]);
    }
}

/* Poll the two words of vector i from a peer. */
static __device__ __forceinline__ poll ll_poll(const shunt_khead &head, const gpu_vec *from, uint64_t vectors, uint64_t i,
                                               uint32_t flag, patience &wait, gpu_vec *v)
{
    for (;;) {
        gpu_vec lo = gpu_ll_load(from + i), hi = gpu_ll_load(from + vectors + i);
        if (lo.w[1] == flag && lo.w[3] == flag && hi.w[1] == flag && hi.w[3] == flag) {
            *v = gpu_vec{ { lo.w[0], lo.w[2], hi.w[0], hi.w[2] } };
            return POLL_OK;
        }
        poll state = wait.spent(head);
        if (state != POLL_OK)
            return state;
    }
}

/* Vector i of all ranks, combined in rank order. */
template <class T, class Op>
static __device__ __forceinline__ poll ll_combine(const shunt_ll_args &a, uint64_t vectors, uint64_t i, gpu_vec mine,
                                                  patience &wait, gpu_vec *sum)
{
    gpu_vec total = mine;

    for (uint32_t q = 0; q < a.head.n; q++) {
        gpu_vec v = mine;
        if (q != a.head.me) {
            poll state = ll_poll(a.head, (const gpu_vec *)a.from[q], vectors, i, (uint32_t)a.head.ticket, wait, &v);
            if (state != POLL_OK)
                return state;
        }
        total = q == 0 ? v : vec_apply<T, Op>(total, v);
    }
    *sum = total;
    return POLL_OK;
}

static __device__ __forceinline__ void ll_clear(const shunt_ll_args &a, uint64_t vectors, uint64_t i)
{
    for (uint32_t q = 0; q < a.head.n; q++) {
        if (q != a.head.me) {
            gpu_ll_clear((gpu_vec *)a.from[q] + i);
            gpu_ll_clear((gpu_vec *)a.from[q] + vectors + i);
        }
    }
}

template <class T> static __device__ __forceinline__ void ll_send(const shunt_ll_args &a, uint64_t vectors, uint64_t i,
                                                                 gpu_vec v)
{
    uint32_t flag = (uint32_t)a.head.ticket;

    for (uint32_t k = 1; k < a.head.n; k++) {
        uint32_t q = a.head.me + k < a.head.n ? a.head.me + k : a.head.me + k - a.head.n;
        gpu_ll_store((gpu_vec *)a.to[q] + i, v.w[0], v.w[1], flag);
        gpu_ll_store((gpu_vec *)a.to[q] + vectors + i, v.w[2], v.w[3], flag);
    }
}

template <class T, class Op> static __device__ void ll_allreduce(const shunt_ll_args &a)
{
    const uint64_t vectors = (a.bytes + 15) / 16, step = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const bool in_aligned = (uintptr_t)a.in % 16 == 0, out_aligned = (uintptr_t)a.out % 16 == 0;
    const char *in = (const char *)a.in;
    char *out = (char *)a.out;
    gpu_vec mine = {}, sum = {};
    poll state = POLL_OK;

    if (block_skipped(a.head))
        return;
    if (first < vectors)
        mine = ll_load<T>(in + 16 * first, a.bytes - 16 * first, in_aligned);
    if (a.head.launch == 0 && first < vectors) {
        ll_send<T>(a, vectors, first, mine);
        for (uint64_t i = first + step; i < vectors; i += step)
            ll_send<T>(a, vectors, i, ll_load<T>(in + 16 * i, a.bytes - 16 * i, in_aligned));
    }
    if (first < vectors) {
        patience wait(a.head, true);
        state = ll_combine<T, Op>(a, vectors, first, mine, wait, &sum);
    }
    /* All threads or none: what one thread writes, another's repetition would read as input. */
    if (__syncthreads_or(state != POLL_OK)) {
        block_end(a.head, state == POLL_ABORTED ? SHUNT_DONE_ABORTED : SHUNT_DONE_AGAIN);
        return;
    }
    patience wait(a.head, false);
    for (uint64_t i = first; i < vectors && state == POLL_OK; i += step) {
        if (i != first) {
            mine = ll_load<T>(in + 16 * i, a.bytes - 16 * i, in_aligned);
            state = ll_combine<T, Op>(a, vectors, i, mine, wait, &sum);
            if (state != POLL_OK)
                break;
        }
        ll_store<T>(out + 16 * i, sum, a.bytes - 16 * i, out_aligned);
        ll_clear(a, vectors, i);
    }
    block_end(a.head, state == POLL_OK ? SHUNT_DONE_OK : SHUNT_DONE_ABORTED);
}

#endif
