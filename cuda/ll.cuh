/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exchange with flags in the payload (LL): every rank writes what others need of its data to them, as words {data,
 * data, data, flag}; everybody polls the words that come to it, and adds in rank order or puts each in its place. One
 * hop, no barrier, no fence.
 *
 * A word's 16 bytes are written and read whole, so its flag vouches for its data. A thread takes a unit of 48 bytes,
 * which travels as four words, in four planes so that a warp's stores are contiguous. A reader clears the words it has
 * used, so that a flag never meets a stale word of 2^32 operations ago. A block writes and clears nothing before the
 * words of each thread's first unit have arrived from all peers; one that leaves has sent everything, so the launch
 * that repeats it does not send again.
 *
 * In place is safe: what a thread writes it has read before, as the same unit of what it sends.
 *
 * Slices may differ in size and lie anywhere: then a unit is sent and awaited as far as its slice goes. Kernels for such
 * are kernels of their own (`differ`, which only those that move have), so that the others are as fast as without.
 */
#ifndef SHUNT_CUDA_LL_CUH
#define SHUNT_CUDA_LL_CUH

#include "ops.cuh"
#include "start.cuh"

struct ll_unit {
    gpu_vec v[SHUNT_LL_UNIT / 16];
};

/* Where rank `sender` puts its words or lines in the scratch of rank `owner`; one of the two is me. */
static __device__ __forceinline__ char *ll_slot(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t owner,
                                                uint32_t sender)
{
    uint32_t peer = owner == a.head.me ? sender : owner;
    uint32_t slot = a.channel[sender] - (a.channel[sender] > a.channel[owner]); /* nobody sends to itself */
    uint64_t place = 2 * slot + (op.turns >> peer & 1);

    return scratch_of(a, owner, sender) +
           (op.lines ? a.lines + place * a.line_bytes : SHUNT_SCRATCH_DATA + place * a.ll_bytes);
}

/* The k-th rank to send to: everybody begins with another one. */
static __device__ __forceinline__ uint32_t ll_peer(const shunt_ll_args &a, uint32_t k)
{
    return a.head.me + k < a.head.n ? a.head.me + k : a.head.me + k - a.head.n;
}

/* The flag of an operation's words: never 0, which is what cleared words hold. */
static __device__ __forceinline__ uint32_t ll_flag(const shunt_ll_op &op)
{
    return (uint32_t)op.ticket | 1u << 31;
}

/* The part of a message that one thread works on at a time. */
struct ll_place {
    uint64_t units; /* of the message: the distance of two planes */
    uint64_t i;     /* which unit */
    uint32_t bytes; /* of it, 48 but for the last */
    uint32_t words; /* that carry them */
};

static __device__ __forceinline__ ll_place ll_place_of(uint64_t message, uint64_t units, uint64_t i)
{
    uint64_t left = message - SHUNT_LL_UNIT * i;
    uint32_t bytes = left < SHUNT_LL_UNIT ? (uint32_t)left : SHUNT_LL_UNIT;

    return { units, i, bytes, (bytes + 11) / 12 };
}

/* Of kernels whose slices differ: where they are. Their argument begins as that of the others. */
static __device__ __forceinline__ const shunt_spans &ll_spans(const shunt_ll_args &a)
{
    return ((const shunt_spans_args &)a).spans;
}

/* The same unit of a slice of its own size: past its end it has no words. */
static __device__ __forceinline__ ll_place ll_place_in(const shunt_span &span, const ll_place &at)
{
    const uint64_t units = (span.bytes + SHUNT_LL_UNIT - 1) / SHUNT_LL_UNIT;

    return at.i < units ? ll_place_of(span.bytes, units, at.i) : ll_place{ units, at.i, 0, 0 };
}

/* The unit of what goes to rank q, of what comes from it. */
template <bool differ>
static __device__ __forceinline__ ll_place ll_place_to(const shunt_ll_args &a, uint32_t q, const ll_place &at)
{
    if constexpr (differ)
        return ll_place_in(ll_spans(a).in[q], at);
    return at;
}

template <bool differ>
static __device__ __forceinline__ ll_place ll_place_from(const shunt_ll_args &a, uint32_t q, const ll_place &at)
{
    if constexpr (differ)
        return ll_place_in(ll_spans(a).out[q], at);
    return at;
}

template <bool differ>
static __device__ __forceinline__ const char *ll_in(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t slice)
{
    if constexpr (differ)
        return (const char *)op.in + ll_spans(a).in[slice].at;
    return (const char *)op.in + slice * op.bytes;
}

template <bool differ>
static __device__ __forceinline__ char *ll_out(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t slice)
{
    if constexpr (differ)
        return (char *)op.out + ll_spans(a).out[slice].at;
    return (char *)op.out + slice * op.bytes;
}

/* Whole vectors where the address allows it, else element by element. Bytes past the end are zero. */
template <class T> static __device__ __forceinline__ ll_unit ll_load(const char *slice, const ll_place &at)
{
    const char *p = slice + SHUNT_LL_UNIT * at.i;
    T x[SHUNT_LL_UNIT / sizeof(T)] = {};
    ll_unit unit;

    if ((uintptr_t)slice % 16 == 0 && at.bytes == SHUNT_LL_UNIT) {
#pragma unroll
        for (int k = 0; k < SHUNT_LL_UNIT / 16; k++)
            unit.v[k] = gpu_load_user_vec(p + 16 * k);
        return unit;
    }
#pragma unroll
    for (unsigned k = 0; k < SHUNT_LL_UNIT / sizeof(T); k++) {
        if (k * sizeof(T) < at.bytes)
            x[k] = gpu_load_user((const T *)p + k);
    }
    memcpy(&unit, x, sizeof unit);
    return unit;
}

template <class T>
static __device__ __forceinline__ void ll_store(char *slice, const ll_place &at, const ll_unit &unit)
{
    char *p = slice + SHUNT_LL_UNIT * at.i;
    T x[SHUNT_LL_UNIT / sizeof(T)];

    if ((uintptr_t)slice % 16 == 0 && at.bytes == SHUNT_LL_UNIT) {
#pragma unroll
        for (int k = 0; k < SHUNT_LL_UNIT / 16; k++)
            gpu_store_vec(p + 16 * k, unit.v[k]);
        return;
    }
    memcpy(x, &unit, sizeof unit);
#pragma unroll
    for (unsigned k = 0; k < SHUNT_LL_UNIT / sizeof(T); k++) {
        if (k * sizeof(T) < at.bytes)
            gpu_store((T *)p + k, x[k]);
    }
}

static __device__ __forceinline__ void ll_write(gpu_vec *to, const ll_place &at, uint32_t flag, const ll_unit &unit)
{
    uint32_t x[SHUNT_LL_UNIT / 4];

    memcpy(x, &unit, sizeof x);
#pragma unroll
    for (uint32_t j = 0; j < SHUNT_LL_WORDS; j++) {
        if (j < at.words)
            gpu_ll_store(to + j * at.units, { { x[3 * j], x[3 * j + 1], x[3 * j + 2], flag } });
    }
}

/* Send a unit of what each peer gets. Answers that of the slice that I use myself, or zeros if there is none. */
template <class T, bool differ>
static __device__ __forceinline__ ll_unit ll_send(const shunt_ll_args &a, const shunt_ll_op &op, const ll_place &at)
{
    const uint32_t own = a.exchange.send[a.head.me];
    ll_unit mine = {};

    if (own != SHUNT_NO_SLICE)
        mine = ll_load<T>(ll_in<differ>(a, op, own), ll_place_to<differ>(a, a.head.me, at));
    for (uint32_t k = 1; k < a.head.n; k++) {
        uint32_t q = ll_peer(a, k), slice = a.exchange.send[q];
        if (slice == SHUNT_NO_SLICE)
            continue;
        const ll_place there = ll_place_to<differ>(a, q, at);
        gpu_vec *to = (gpu_vec *)ll_slot(a, op, q, a.head.me) + at.i;
        ll_write(to, there, ll_flag(op), slice == own ? mine : ll_load<T>(ll_in<differ>(a, op, slice), there));
    }
    return mine;
}

/* Poll rank q's words of this unit until all are there; each only until it is. */
static __device__ __forceinline__ poll ll_receive(const shunt_ll_args &a, const shunt_ll_op &op, const ll_place &at,
                                                  uint32_t q, patience &wait, ll_unit *unit)
{
    const gpu_vec *words = (const gpu_vec *)ll_slot(a, op, a.head.me, q) + at.i;
    uint32_t x[SHUNT_LL_UNIT / 4] = {};
    uint32_t missing = (1u << at.words) - 1;

    for (;;) {
#pragma unroll
        for (uint32_t j = 0; j < SHUNT_LL_WORDS; j++) {
            if (missing >> j & 1) {
                gpu_vec w = gpu_ll_load(words + j * at.units);
                if (w.w[3] == ll_flag(op))
                    missing &= ~(1u << j);
                x[3 * j] = w.w[0];
                x[3 * j + 1] = w.w[1];
                x[3 * j + 2] = w.w[2];
            }
        }
        if (missing == 0)
            break;
        poll state = wait.spent(a.head);
        if (state != POLL_OK)
            return state;
    }
    memcpy(unit, x, sizeof *unit);
    return POLL_OK;
}

/* Does anything of rank q come here? Of my own, too, but that comes from nowhere. */
static __device__ __forceinline__ bool ll_comes(const shunt_ll_args &a, uint32_t q)
{
    return a.exchange.recv[q] != SHUNT_NO_SLICE;
}

static __device__ __forceinline__ void ll_clear(const shunt_ll_args &a, const shunt_ll_op &op, const ll_place &at,
                                                uint32_t q)
{
    for (uint32_t j = 0; j < at.words; j++)
        gpu_ll_clear((gpu_vec *)ll_slot(a, op, a.head.me, q) + at.i + j * at.units);
}

/* What the ranks have sent, the unit of each: combined in rank order. */
template <class T, class Op> struct ll_sum {
    ll_unit sum;

    __device__ __forceinline__ poll receive(const shunt_ll_args &a, const shunt_ll_op &op, const ll_place &at,
                                            const ll_unit &mine, patience &wait)
    {
        shunt_total<T, Op, gpu_vec> total[SHUNT_LL_UNIT / 16] = {};
        bool begun = false;

        for (uint32_t q = 0; q < a.head.n; q++) {
            ll_unit theirs = mine;
            if (!ll_comes(a, q))
                continue;
            if (q != a.head.me) {
                poll state = ll_receive(a, op, at, q, wait, &theirs);
                if (state != POLL_OK)
                    return state;
            }
#pragma unroll
            for (int k = 0; k < SHUNT_LL_UNIT / 16; k++) {
                if (!begun)
                    total[k].first(theirs.v[k]);
                else
                    total[k].next(theirs.v[k]);
            }
            begun = true;
        }
#pragma unroll
        for (int k = 0; k < SHUNT_LL_UNIT / 16; k++)
            sum.v[k] = total[k].value();
        return POLL_OK;
    }

    __device__ __forceinline__ void store(const shunt_ll_args &a, const shunt_ll_op &op, const ll_place &at)
    {
        if (a.exchange.out == SHUNT_NO_SLICE)
            return;
        ll_store<T>(ll_out<false>(a, op, a.exchange.out), at, sum);
        for (uint32_t q = 0; q < a.head.n; q++) {
            if (ll_comes(a, q) && q != a.head.me)
                ll_clear(a, op, at, q);
        }
    }
};

/*
 * The same, each in its place. Of several peers only the last one's unit is kept: what has come is read again, from the
 * GPU's own memory.
 */
template <class T, bool differ> struct ll_parts {
    ll_unit mine, last;
    uint32_t kept;

    __device__ __forceinline__ poll receive(const shunt_ll_args &a, const shunt_ll_op &op, const ll_place &at,
                                            const ll_unit &own, patience &wait)
    {
        mine = own;
        kept = SHUNT_NO_SLICE;
        for (uint32_t q = 0; q < a.head.n; q++) {
            if (q == a.head.me || !ll_comes(a, q))
                continue;
            poll state = ll_receive(a, op, ll_place_from<differ>(a, q, at), q, wait, &last);
            if (state != POLL_OK)
                return state;
            kept = q;
        }
        return POLL_OK;
    }

    __device__ __forceinline__ void store(const shunt_ll_args &a, const shunt_ll_op &op, const ll_place &at)
    {
        patience wait(false);

        for (uint32_t q = 0; q < a.head.n; q++) {
            if (!ll_comes(a, q))
                continue;
            const ll_place there = ll_place_from<differ>(a, q, at);
            ll_unit unit = q == a.head.me ? mine : last;
            if (q != a.head.me && q != kept)
                ll_receive(a, op, there, q, wait, &unit);
            ll_store<T>(ll_out<differ>(a, op, a.exchange.recv[q]), there, unit);
            if (q != a.head.me)
                ll_clear(a, op, there, q);
        }
    }
};

template <class T, class Op, bool differ>
using ll_result = typename std::conditional<shunt_moves<Op>, ll_parts<T, differ>, ll_sum<T, Op>>::type;

/*
 * This block's part of operation `op` in its launch 0, 1, ...; the first has sent all. `recalled`: it leaves when it has
 * waited. Called by all threads.
 */
template <class T, class Op, bool differ>
static __device__ uint32_t ll_exchange(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t launch, bool recalled)
{
    const uint64_t units = (op.bytes + SHUNT_LL_UNIT - 1) / SHUNT_LL_UNIT, step = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t own = a.exchange.send[a.head.me];
    ll_place at = ll_place_of(op.bytes, units, first);
    ll_unit mine = {};
    ll_result<T, Op, differ> result = {};
    poll state = POLL_OK;

    if (launch == 0 && first < units) {
        mine = ll_send<T, differ>(a, op, at);
        for (uint64_t i = first + step; i < units; i += step)
            ll_send<T, differ>(a, op, ll_place_of(op.bytes, units, i));
    } else if (first < units && own != SHUNT_NO_SLICE) {
        mine = ll_load<T>(ll_in<differ>(a, op, own), ll_place_to<differ>(a, a.head.me, at));
    }
    if (first < units) {
        patience wait(true);
        state = result.receive(a, op, at, mine, wait);
    }
    /* All threads or none: what one thread writes, another's repetition would read as input. */
    if (__syncthreads_or(state != POLL_OK || recalled))
        return state == POLL_ABORTED ? SHUNT_DONE_ABORTED : SHUNT_DONE_AGAIN;
    patience wait(false);
    for (uint64_t i = first; i < units; i += step) {
        if (i != first) {
            at = ll_place_of(op.bytes, units, i);
            if (own != SHUNT_NO_SLICE)
                mine = ll_load<T>(ll_in<differ>(a, op, own), ll_place_to<differ>(a, a.head.me, at));
            state = result.receive(a, op, at, mine, wait);
            if (state != POLL_OK)
                break;
        }
        result.store(a, op, at);
    }
    return state == POLL_OK ? SHUNT_DONE_OK : SHUNT_DONE_ABORTED;
}

#endif
