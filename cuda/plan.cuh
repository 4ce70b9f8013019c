/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a plan (base/plan.h) on the GPU: the one kernel for everything that is not LL.
 *
 * Block b of the plan is the thread blocks 2 b (team 0) and 2 b + 1 (team 1). Each walks through its chunks alone.
 * Threads 0 ... n-1 poll and raise the signals of one peer each; a barrier stands between a step's waits, its data and
 * its signals. The release behind the second barrier is cumulative: it covers the stores of the whole thread block.
 *
 * Where slices go around a ring, a chunk has several turns (base/plan.h); else turns are chunks.
 */
#ifndef SHUNT_CUDA_PLAN_CUH
#define SHUNT_CUDA_PLAN_CUH

#include "ops.cuh"
#include "start.cuh"

#define SHUNT_UNROLL 4 /* vectors in flight per thread */

/* Shared by the threads of a block for one step. */
struct span {
    const char *from[SHUNT_KRANKS];
    char *to[SHUNT_KRANKS];
    uint32_t bytes[SHUNT_KRANKS]; /* of each pair (copy); [0] of all (reduce) */
};

static __device__ __forceinline__ uint32_t plan_block()
{
    return blockIdx.x / SHUNT_PLAN_TEAMS;
}

/* This team's part of each slice. */
static __device__ __forceinline__ uint32_t plan_part(const shunt_plan_args &a)
{
    return a.split ? blockIdx.x : plan_block();
}

/* A turn: which phase of which chunk. Turns are fewer than 2^20, as counters need it. */
struct turn {
    uint64_t number;
    uint32_t chunk, phase;

    __device__ __forceinline__ turn(const shunt_plan_args &a, uint64_t t) : number(t), chunk((uint32_t)t), phase(0)
    {
        if (a.phases > 1) {
            chunk = (uint32_t)t / a.phases;
            phase = (uint32_t)t - chunk * a.phases;
        }
    }
};

static __device__ __forceinline__ uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of slices that differ the one that a reference means: what lies in scratch is as long as where it goes or comes from. */
static __device__ __forceinline__ const shunt_span &ref_slice(const shunt_plan_args &a, shunt_ref ref)
{
    if (ref.space == SHUNT_SPACE_IN)
        return a.spans.in[ref.slice];
    if (ref.space == SHUNT_SPACE_OUT)
        return a.spans.out[ref.slice];
    return ref.rank != a.head.me ? a.spans.in[ref.rank] : a.spans.out[ref.slot];
}

/* The same as span_offset, of such slices. */
static __device__ __forceinline__ uint64_t slice_offset(const shunt_plan_args &a, const shunt_span &slice, uint64_t chunk,
                                                        uint32_t *bytes)
{
    uint64_t in_part = chunk * a.chunk, in_slice = plan_block() * a.part_bytes + in_part;

    *bytes = in_slice < slice.bytes ?
                 (uint32_t)smaller(smaller(a.chunk, a.part_bytes - in_part), slice.bytes - in_slice) :
                 0;
    return slice.at + in_slice;
}

static __device__ __forceinline__ uint64_t span_offset(const shunt_plan_args &a, uint32_t slice, uint64_t chunk,
                                                       uint32_t *bytes)
{
    uint64_t in_part = chunk * a.chunk, in_slice = plan_part(a) * a.part_bytes + in_part;
    uint64_t offset = slice * a.slice_bytes + in_slice;
    uint64_t left = smaller(smaller(a.chunk, a.part_bytes - in_part),
                            in_slice < a.slice_bytes ? a.slice_bytes - in_slice : 0);

    *bytes = offset < a.bytes ? (uint32_t)smaller(left, a.bytes - offset) : 0;
    return offset;
}

/* `read`, `written`: the turns that count for what lies in this rank's scratch, for what goes into that of others. */
static __device__ __forceinline__ char *ref_address(const shunt_plan_args &a, shunt_ref ref, uint64_t offset,
                                                    uint64_t read, uint64_t written)
{
    switch (ref.space) {
    case SHUNT_SPACE_IN:
        return (char *)a.in + offset;
    case SHUNT_SPACE_OUT:
    case SHUNT_SPACE_THEIRS:
        return (char *)a.out[ref.rank] + offset;
    default: {
        /* nobody sends to itself: the owner's own channel has no ring */
        uint32_t channel = a.channel[ref.slot] - (a.channel[ref.slot] > a.channel[ref.rank]);
        uint32_t host = a.hosted >> (ref.rank == a.head.me ? ref.slot : ref.rank) & 1;
        uint64_t ring = (uint64_t)channel * SHUNT_PLAN_AREAS + (ref.space - SHUNT_SPACE_SCRATCH0);
        uint32_t number = (uint32_t)(ref.rank == a.head.me ? read : written);
        uint64_t place = (uint64_t)plan_block() * a.depth + number % a.depth;
        uint32_t align = (a.align[ref.slot] + ref.slice * a.slice_bytes) % 16; /* as the sender's slice */
        if (a.has_spans)
            align = ref.slot == a.head.me ? ((uintptr_t)a.in + a.spans.in[ref.rank].at) % 16 : a.align[ref.slot];
        return scratch_of(a, ref.rank, ref.slot) + a.rings[host] + ring * a.ring_bytes[host] + place * a.stride + align;
    }
    }
}

static __device__ __forceinline__ uint64_t *counter_of(const shunt_plan_args &a, uint32_t owner, uint32_t sender,
                                                       uint32_t signal)
{
    uint64_t index = ((uint64_t)a.channel[sender] * SHUNT_PLAN_BLOCKS + plan_block()) * SHUNT_PLAN_SIGNALS + signal;
    return (uint64_t *)scratch_of(a, owner, sender) + index;
}

/* This thread's peer: has it raised what the step waits for? */
static __device__ poll step_wait(const shunt_plan_args &a, const shunt_kstep &step, uint64_t chunk, bool may_leave)
{
    uint32_t q = threadIdx.x;

    for (int w = 0; w < 2 && q < a.head.n; w++) {
        if (!(step.wait_ranks[w] >> q & 1) || chunk + 1 <= step.wait_depth[w])
            continue;
        const uint64_t *counter = counter_of(a, a.head.me, q, step.wait_signal[w]);
        uint64_t goal = (a.head.ticket << SHUNT_CHUNK_BITS) + chunk + 1 - step.wait_depth[w];
        patience wait(may_leave);
        while (gpu_acquire_sys(counter) < goal) {
            poll state = wait.spent(a.head);
            if (state != POLL_OK)
                return state;
        }
    }
    return POLL_OK;
}

/* Addresses and lengths of the step's data, one thread per reference; the caller's barrier publishes them. */
static __device__ void step_span(const shunt_plan_args &a, const shunt_kstep &step, const turn &t, span &s)
{
    bool copy = step.kind == SHUNT_STEP_COPY;
    uint32_t refs = copy ? 2 * step.n_in : step.n_in + step.n_out;

    for (uint32_t i = threadIdx.x; i < refs; i += blockDim.x) {
        shunt_ref ref = a.refs[step.first_ref + i];
        uint32_t bytes;
        if (step.turns) {
            uint32_t place = ref.slice + (step.team == 0 ? 2 * a.head.n - t.phase : t.phase);
            ref.slice = a.order[step.way][place % a.head.n];
        }
        uint64_t offset = a.has_spans ? slice_offset(a, ref_slice(a, ref), t.chunk, &bytes) :
                                        span_offset(a, ref.slice, t.chunk, &bytes);
        char *p = ref_address(a, ref, offset, t.number, t.number + step.ahead);
        bool to = copy ? i % 2 : i >= step.n_in;
        uint32_t k = copy ? i / 2 : to ? i - step.n_in : i;
        if (to)
            s.to[k] = p;
        else
            s.from[k] = p;
        if (copy ? !to : i == 0)
            s.bytes[k] = bytes;
    }
}

/*
 * Bytes before the first 16-byte boundary of p, at most `bytes`; all of them where 16-byte accesses cannot be used:
 * the addresses do not agree modulo 16, or elements straddle the boundary.
 */
template <class T> static __device__ __forceinline__ uint32_t head_bytes(const char *p, bool congruent, uint32_t bytes)
{
    uint32_t head = (uint32_t)(-(uintptr_t)p & 15);

    return congruent && (uintptr_t)p % sizeof(T) == 0 && head < bytes ? head : bytes;
}

/* Copy; element by element where the two addresses do not agree modulo 16. */
template <class T> static __device__ void copy_span(char *to, const char *from, uint32_t bytes)
{
    const uint32_t t = threadIdx.x, threads = blockDim.x;
    uint32_t head = head_bytes<T>(to, (((uintptr_t)to ^ (uintptr_t)from) & 15) == 0, bytes);
    uint32_t body = (bytes - head) / 16, tail = head + 16 * body;

    for (uint32_t i = t; i < head / sizeof(T); i += threads)
        gpu_store((T *)to + i, gpu_load_fresh((const T *)from + i));
    uint32_t i = t;
    for (; i + (SHUNT_UNROLL - 1) * threads < body; i += SHUNT_UNROLL * threads) {
        gpu_vec v[SHUNT_UNROLL];
#pragma unroll
        for (int u = 0; u < SHUNT_UNROLL; u++)
            v[u] = gpu_load_fresh_vec(from + head + 16ull * (i + u * threads));
#pragma unroll
        for (int u = 0; u < SHUNT_UNROLL; u++)
            gpu_store_vec(to + head + 16ull * (i + u * threads), v[u]);
    }
    for (; i < body; i += threads)
        gpu_store_vec(to + head + 16ull * i, gpu_load_fresh_vec(from + head + 16ull * i));
    for (uint32_t k = t; k < (bytes - tail) / sizeof(T); k += threads)
        gpu_store((T *)(to + tail) + k, gpu_load_fresh((const T *)(from + tail) + k));
}

/* Elements first ... first + count - 1 of T, each combined in the order of `from` and stored to all of `to`. */
template <class T, class Op>
static __device__ void reduce_elements(const span &s, uint32_t n_in, uint32_t n_out, uint32_t offset, uint32_t count)
{
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        uint64_t at = offset + (uint64_t)i * sizeof(T);
        shunt_total<T, Op, T> sum;
        sum.first(gpu_load_fresh((const T *)(s.from[0] + at)));
        for (uint32_t k = 1; k < n_in; k++)
            sum.next(gpu_load_fresh((const T *)(s.from[k] + at)));
        T total = sum.value();
        for (uint32_t k = 0; k < n_out; k++)
            gpu_store((T *)(s.to[k] + at), total);
    }
}

template <class T, class Op, int U>
static __device__ __forceinline__ void reduce_vectors(const span &s, uint32_t n_in, uint32_t n_out, uint64_t at,
                                                      uint64_t step)
{
    shunt_total<T, Op, gpu_vec> sum[U];

#pragma unroll
    for (int u = 0; u < U; u++)
        sum[u].first(gpu_load_fresh_vec(s.from[0] + at + u * step));
    for (uint32_t k = 1; k < n_in; k++) {
        gpu_vec v[U];
#pragma unroll
        for (int u = 0; u < U; u++)
            v[u] = gpu_load_fresh_vec(s.from[k] + at + u * step);
#pragma unroll
        for (int u = 0; u < U; u++)
            sum[u].next(v[u]);
    }
    gpu_vec total[U];
#pragma unroll
    for (int u = 0; u < U; u++)
        total[u] = sum[u].value();
    for (uint32_t k = 0; k < n_out; k++) {
#pragma unroll
        for (int u = 0; u < U; u++)
            gpu_store_vec(s.to[k] + at + u * step, total[u]);
    }
}

template <class T, class Op> static __device__ void reduce_span(const span &s, uint32_t n_in, uint32_t n_out)
{
    const uint32_t threads = blockDim.x, bytes = s.bytes[0];
    bool congruent = true;

    for (uint32_t k = 0; k < n_in; k++)
        congruent &= (((uintptr_t)s.from[k] ^ (uintptr_t)s.to[0]) & 15) == 0;
    for (uint32_t k = 0; k < n_out; k++)
        congruent &= (((uintptr_t)s.to[k] ^ (uintptr_t)s.to[0]) & 15) == 0;
    uint32_t head = head_bytes<T>(s.to[0], congruent, bytes);
    uint32_t body = (bytes - head) / 16, tail = head + 16 * body, i = threadIdx.x;

    reduce_elements<T, Op>(s, n_in, n_out, 0, head / sizeof(T));
    for (; i + (SHUNT_UNROLL - 1) * threads < body; i += SHUNT_UNROLL * threads)
        reduce_vectors<T, Op, SHUNT_UNROLL>(s, n_in, n_out, head + 16ull * i, 16ull * threads);
    for (; i < body; i += threads)
        reduce_vectors<T, Op, 1>(s, n_in, n_out, head + 16ull * i, 0);
    reduce_elements<T, Op>(s, n_in, n_out, tail, (bytes - tail) / sizeof(T));
}

/* Does the step wait for anything at this chunk? */
static __device__ __forceinline__ bool step_waits(const shunt_kstep &step, uint64_t chunk)
{
    return (step.wait_ranks[0] != 0 && chunk >= step.wait_depth[0]) ||
           (step.wait_ranks[1] != 0 && chunk >= step.wait_depth[1]);
}

/*
 * Wait for a step's signals. `first`: this team has not waited for anything before, and may leave; `recalled`: it should.
 * OK, or why it has to end. Called by all threads; their answers may differ.
 */
static __device__ poll team_wait(const shunt_plan_args &a, const shunt_kstep &step, uint64_t chunk, bool first,
                                 bool recalled)
{
    poll state = step_wait(a, step, chunk, first);
    bool missing = __syncthreads_or(state != POLL_OK || (first && recalled));

    if (first) {
        if (!launch_goes(a.to[a.head.me], a.head.ticket, a.head.launch, !missing))
            return state == POLL_ABORTED ? state : POLL_LATE;
        if (missing) {
            state = step_wait(a, step, chunk, false);
            missing = __syncthreads_or(state != POLL_OK);
        }
    }
    return missing && state == POLL_OK ? POLL_LATE : state;
}

/* One step at one turn. The answer is team_wait's. */
template <class T, class Op>
static __device__ poll step_run(const shunt_plan_args &a, const shunt_kstep &step, const turn &t, bool first,
                                bool recalled, span &s)
{
    step_span(a, step, t, s);
    poll state = team_wait(a, step, t.number, first, recalled);
    if (state != POLL_OK)
        return state;
    if (step.kind == SHUNT_STEP_COPY) {
        for (uint32_t k = 0; k < step.n_in; k++)
            copy_span<T>(s.to[k], s.from[k], s.bytes[k]);
    } else if (step.kind == SHUNT_STEP_REDUCE) {
        reduce_span<T, Op>(s, step.n_in, step.n_out);
    }
    __syncthreads(); /* the data before its signals; and nobody writes `s` while it is being read */
    uint32_t q = threadIdx.x;
    if (q < a.head.n && (step.raise >> q & 1))
        gpu_release_sys(counter_of(a, q, a.head.me, step.raise_signal),
                        (a.head.ticket << SHUNT_CHUNK_BITS) + t.number + 1 + step.ahead);
    if (q < a.head.n && (step.back >> q & 1))
        gpu_release_sys(counter_of(a, q, a.head.me, step.back_signal),
                        (a.head.ticket << SHUNT_CHUNK_BITS) + t.number + 1);
    return POLL_OK;
}

/* One for all kernels, not one for each: the simulation carries all of shared memory when it switches blocks. */
static __device__ __forceinline__ span &plan_span()
{
    __shared__ span s;
    return s;
}

/* Does this block do the step at this turn? */
static __device__ __forceinline__ bool step_is_due(const shunt_plan_args &a, const shunt_kstep &step, const turn &t)
{
    return t.phase >= step.from && t.phase < step.to && (!step.once || t.number == 0) &&
           (step.way == SHUNT_ALL_WAYS || plan_block() % a.ways == step.way);
}

template <class T, class Op> static __device__ void plan_run(const shunt_plan_args &a)
{
    span &s = plan_span();
    const uint64_t turns = (a.part_bytes + a.chunk - 1) / a.chunk * a.phases;
    const uint32_t team = blockIdx.x % SHUNT_PLAN_TEAMS;
    uint64_t last_lag = 0;
    bool waited = false; /* this team, for anything */

    if (block_skipped(a.head))
        return;
    const bool recalled = block_begin(a.to[a.head.me], a.head);
    for (uint32_t k = 0; k < a.n_steps; k++)
        last_lag = a.steps[k].team == team && a.steps[k].lag > last_lag ? a.steps[k].lag : last_lag;
    for (uint64_t i = 0; i < turns + last_lag; i++) {
        for (uint32_t k = 0; k < a.n_steps; k++) {
            uint64_t lag = a.steps[k].lag;
            if (a.steps[k].team != team || i < lag || i - lag >= turns)
                continue;
            const turn now(a, i - lag);
            if (!step_is_due(a, a.steps[k], now))
                continue;
            bool first = !waited && step_waits(a.steps[k], i - lag);
            if (a.head.launch != 0 && !waited && !first)
                continue; /* done in the launch that left; in place, its input may be the result by now */
            poll state = step_run<T, Op>(a, a.steps[k], now, first, recalled, s);
            if (state != POLL_OK) {
                block_end(a.head, a.head.ticket, state == POLL_ABORTED ? SHUNT_DONE_ABORTED : SHUNT_DONE_AGAIN);
                return;
            }
            waited |= first;
        }
    }
    block_end(a.head, a.head.ticket, SHUNT_DONE_OK);
}

#endif
