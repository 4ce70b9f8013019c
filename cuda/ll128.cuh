/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exchange with a flag in every 128 bytes (LL128): as LL (ll.cuh), but 15 of 16 bytes are data, so that it is the best
 * way from where the link's rate counts.
 *
 * It needs links that keep 128 aligned bytes whole which eight lanes of a warp store by one instruction: NVLink does.
 * (gpu_lines_store and gpu_lines_load are where that is relied on.) A flag is made of the operation's ticket, which never
 * comes again, and flags always lie in the same places: so nothing is cleared.
 *
 * A warp takes a unit of 1920 bytes at a time: 120 vectors of 16 bytes, in 4 rows of 4 lines. Of the 8 lanes of a line,
 * lanes 0 to 6 carry a vector of every row; lane 7 carries half a vector of every row, and the flag.
 *
 * A message that is larger than its slot goes round in it, in laps. Warp w of every rank (all have as many then) works
 * on units w, w + W, ...; it sends the (s + 2)nd of its units when it has received the s-th from all. So who has
 * received the s-th of a peer knows that this peer has read the (s - 2)nd, and may send the (s + 2)nd into the place of
 * that or an older one: a lap of 4 units is enough. (A message that fits into its slot may be cut differently by each
 * rank.)
 *
 * Slices that differ (`differ`) never go round: then nobody could tell from what he receives how much has been read.
 *
 * As in LL, nothing is written before the first units have arrived. Of a message that fits, a block that leaves has sent
 * everything, and decides alone; else all blocks of a launch go on or leave alike (launch_goes).
 *
 * A direct exchange stores the result into the receive buffers of all ranks: a rank that has sent a unit of its slices has
 * read them. Whether all peers have stored all their hosts tell each other (coll/drive.c), who hear of it from their own kernels
 * by words behind a fence of the whole system: a word from GPU to GPU would come later than theirs, by the way that it takes.
 */
#ifndef SHUNT_CUDA_LL128_CUH
#define SHUNT_CUDA_LL128_CUH

#include "linger.cuh"
#include "ll.cuh"

#define SHUNT_LINE_ROWS 4

/* A lane's share of a unit: its vectors (the flags' lanes: two), or what it sends and receives of each row. */
struct line_unit {
    gpu_vec v[SHUNT_LINE_ROWS];
};

static __device__ __forceinline__ uint32_t line_lane()
{
    return threadIdx.x % 32;
}

static __device__ __forceinline__ bool line_has_flag()
{
    return line_lane() % 8 == 7;
}

/* Which of the unit's vectors is the lane's k-th: contiguous for the lanes of one row. */
static __device__ __forceinline__ uint32_t line_vector(uint32_t k)
{
    uint32_t group = line_lane() / 8;

    return line_has_flag() ? 112 + 2 * group + k : 28 * k + 7 * group + line_lane() % 8;
}

/* A slice of a user's buffer. */
struct line_slice {
    char *p;
    uint64_t bytes;
};

static __device__ __forceinline__ line_slice line_slice_of(const shunt_ll_args &a, const shunt_ll_op &op,
                                                           const void *buffer, uint32_t slice)
{
    return { (char *)buffer + slice * op.bytes, op.bytes - (slice == a.head.n - 1u ? op.lacks : 0) };
}

template <bool differ>
static __device__ __forceinline__ line_slice line_in(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t slice)
{
    if constexpr (differ)
        return { (char *)op.in + ll_spans(a).in[slice].at, ll_spans(a).in[slice].bytes };
    return line_slice_of(a, op, op.in, slice);
}

template <bool differ>
static __device__ __forceinline__ line_slice line_out(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t slice)
{
    if constexpr (differ)
        return { (char *)op.out + ll_spans(a).out[slice].at, ll_spans(a).out[slice].bytes };
    return line_slice_of(a, op, op.out, slice);
}

/* Does anything of unit i go to rank q, come from it? Of slices of one size all have it. */
template <bool differ>
static __device__ __forceinline__ bool line_goes(const shunt_ll_args &a, uint32_t q, uint64_t i)
{
    if constexpr (differ)
        return a.exchange.send[q] != SHUNT_NO_SLICE && i < SHUNT_LINE_UNITS(ll_spans(a).in[q].bytes);
    return a.exchange.send[q] != SHUNT_NO_SLICE;
}

template <bool differ>
static __device__ __forceinline__ bool line_comes(const shunt_ll_args &a, uint32_t q, uint64_t i)
{
    if constexpr (differ)
        return ll_comes(a, q) && i < SHUNT_LINE_UNITS(ll_spans(a).out[q].bytes);
    return ll_comes(a, q);
}

/* 16 bytes from byte `at` on; zero past the end. */
template <class T> static __device__ __forceinline__ gpu_vec line_load_vec(const line_slice &from, uint64_t at)
{
    if ((uintptr_t)from.p % 16 == 0 && at + 16 <= from.bytes)
        return gpu_load_user_vec(from.p + at);
    T x[16 / sizeof(T)] = {};
    gpu_vec v;
#pragma unroll
    for (uint32_t j = 0; j < 16 / sizeof(T); j++) {
        if (at + j * sizeof(T) < from.bytes)
            x[j] = gpu_load_user((const T *)(from.p + at) + j);
    }
    memcpy(&v, x, 16);
    return v;
}

template <class T>
static __device__ __forceinline__ void line_store_vec(const line_slice &to, uint64_t at, const gpu_vec &v)
{
    if ((uintptr_t)to.p % 16 == 0 && at + 16 <= to.bytes) {
        gpu_store_vec(to.p + at, v);
        return;
    }
    T x[16 / sizeof(T)];
    memcpy(x, &v, 16);
#pragma unroll
    for (uint32_t j = 0; j < 16 / sizeof(T); j++) {
        if (at + j * sizeof(T) < to.bytes)
            gpu_store((T *)(to.p + at) + j, x[j]);
    }
}

/* The lane's vectors of unit i; zero past the end. */
template <class T> static __device__ __forceinline__ line_unit line_load(const line_slice &from, uint64_t i)
{
    line_unit unit = {};

#pragma unroll
    for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++) {
        if (!line_has_flag() || k < 2)
            unit.v[k] = line_load_vec<T>(from, i * SHUNT_LINE_UNIT + 16 * line_vector(k));
    }
    return unit;
}

template <class T>
static __device__ __forceinline__ void line_store(const line_slice &to, uint64_t i, const line_unit &unit)
{
#pragma unroll
    for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++) {
        if (!line_has_flag() || k < 2)
            line_store_vec<T>(to, i * SHUNT_LINE_UNIT + 16 * line_vector(k), unit.v[k]);
    }
}

/* Word `w` of the unit's vector `at`, which some lane has: each lane asks for one. */
static __device__ __forceinline__ uint32_t line_word(const line_unit &unit, uint32_t at, uint32_t w)
{
    const bool of_flag = at >= 112;
    const uint32_t k = of_flag ? at % 2 : at / 28, rest = at % 28;
    const uint32_t lane = of_flag ? 8 * ((at - 112) / 2) + 7 : 8 * (rest / 7) + rest % 7;
    uint32_t found = 0;

#pragma unroll
    for (uint32_t j = 0; j < SHUNT_LINE_ROWS; j++) {
        uint32_t word = __shfl_sync(~0u, unit.v[j].w[w], lane % 32);
        found = j == k ? word : found;
    }
    return found;
}

/* The unit with its vectors in the order of the lanes: 32 k + lane is the lane's k-th. Stores to peers are whole lines then. */
static __device__ __forceinline__ line_unit line_straighten(const line_unit &unit)
{
    line_unit straight;

#pragma unroll
    for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++) {
#pragma unroll
        for (uint32_t w = 0; w < 4; w++)
            straight.v[k].w[w] = line_word(unit, 32 * k + line_lane(), w);
    }
    return straight;
}

template <class T>
static __device__ __forceinline__ void line_store_straight(const line_slice &to, uint64_t i, const line_unit &unit)
{
#pragma unroll
    for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++) {
        uint32_t vector = 32 * k + line_lane();
        if (vector < SHUNT_LINE_UNIT / 16)
            line_store_vec<T>(to, i * SHUNT_LINE_UNIT + 16 * vector, unit.v[k]);
    }
}

/* How the units of an operation lie in a slot. */
struct line_lap {
    uint64_t units; /* of the message */
    uint32_t step;  /* warps of the grid */
    uint32_t lap;   /* units that lie in the slot at a time */
    bool wraps;
    bool together;  /* all blocks go on or leave alike; who leaves has sent its first units only */

    __device__ __forceinline__ line_lap(const shunt_ll_args &a, const shunt_ll_op &op)
        : units(SHUNT_LINE_UNITS(op.bytes)), step(gridDim.x * (blockDim.x / 32))
    {
        wraps = units > a.line_room;
        lap = wraps ? a.line_room / step * step : a.line_room;
        together = wraps || a.exchange.direct;
    }

    __device__ __forceinline__ uint32_t place(uint64_t i) const
    {
        return wraps ? (uint32_t)i % lap : (uint32_t)i;
    }

    __device__ __forceinline__ uint64_t flag(const shunt_ll_op &op, uint64_t i) const
    {
        return op.ticket << 16 | (wraps ? (uint32_t)i / lap : 0);
    }
};

/* From vectors to rows, and back. */
static __device__ __forceinline__ line_unit line_pack(const line_unit &unit, uint64_t flag)
{
    const uint32_t lo = (uint32_t)flag, hi = (uint32_t)(flag >> 32);
    const gpu_vec *v = unit.v;

    if (!line_has_flag())
        return unit;
    return { { { { v[0].w[0], v[0].w[1], lo, hi } },
               { { v[0].w[2], v[0].w[3], lo, hi } },
               { { v[1].w[0], v[1].w[1], lo, hi } },
               { { v[1].w[2], v[1].w[3], lo, hi } } } };
}

static __device__ __forceinline__ line_unit line_unpack(const line_unit &rows)
{
    const gpu_vec *v = rows.v;

    if (!line_has_flag())
        return rows;
    return { { { { v[0].w[0], v[0].w[1], v[1].w[0], v[1].w[1] } }, { { v[2].w[0], v[2].w[1], v[3].w[0], v[3].w[1] } } } };
}

static __device__ __forceinline__ char *line_address(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t owner,
                                                     uint32_t sender, uint32_t place)
{
    return ll_slot(a, op, owner, sender) + (uint64_t)place * SHUNT_LINE_WIRE + 16 * line_lane();
}

/* Send unit i of what each peer gets. */
template <class T, bool differ>
static __device__ __forceinline__ void line_send(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l,
                                                 uint64_t i)
{
    uint32_t loaded = SHUNT_NO_SLICE;
    line_unit rows = {};

    for (uint32_t k = 1; k < a.head.n; k++) {
        uint32_t q = ll_peer(a, k), slice = a.exchange.send[q];
        if (!line_goes<differ>(a, q, i))
            continue;
        if (slice != loaded)
            rows = line_pack(line_load<T>(line_in<differ>(a, op, slice), i), l.flag(op, i));
        loaded = slice;
        gpu_lines_store<SHUNT_LINE_ROWS>(line_address(a, op, q, a.head.me, l.place(i)), rows.v);
    }
}

/* Are all rows of this lane there? Only the flags' lanes can tell. */
static __device__ __forceinline__ bool line_come(const line_unit &rows, uint64_t flag)
{
    bool come = true;

#pragma unroll
    for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++)
        come &= ((uint64_t)rows.v[k].w[3] << 32 | rows.v[k].w[2]) == flag;
    return come || !line_has_flag();
}

/* Poll rank q's lines of unit i until all are there. One answer for the whole warp. */
static __device__ __forceinline__ poll line_receive(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l,
                                                    uint64_t i, uint32_t q, patience &wait, line_unit *unit)
{
    const char *from = line_address(a, op, a.head.me, q, l.place(i));
    const uint64_t flag = l.flag(op, i);
    line_unit rows;

    for (;;) {
        gpu_lines_load<SHUNT_LINE_ROWS>(from, rows.v);
        if (__all_sync(~0u, line_come(rows, flag)))
            break;
        poll state = wait.spent(a.head);
        if (__any_sync(~0u, state != POLL_OK))
            return __any_sync(~0u, state == POLL_ABORTED) ? POLL_ABORTED : POLL_LATE;
    }
    *unit = line_unpack(rows);
    return POLL_OK;
}

/* Unit i of the slice that I use myself; nothing if there is none. */
template <class T, bool differ>
static __device__ __forceinline__ line_unit line_mine(const shunt_ll_args &a, const shunt_ll_op &op, uint64_t i)
{
    const uint32_t own = a.exchange.send[a.head.me];

    return own != SHUNT_NO_SLICE && ll_comes(a, a.head.me) ? line_load<T>(line_in<differ>(a, op, own), i) : line_unit{};
}

/* Unit i of what the ranks have sent: combined in rank order. */
template <class T, class Op> struct line_sum {
    line_unit sum;

    __device__ __forceinline__ poll receive(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l,
                                            uint64_t i, bool may_leave)
    {
        const line_unit mine = line_mine<T, false>(a, op, i);
        patience wait(may_leave);
        shunt_total<T, Op, gpu_vec> total[SHUNT_LINE_ROWS] = {};
        bool begun = false;

        for (uint32_t q = 0; q < a.head.n; q++) {
            line_unit theirs = mine;
            if (!ll_comes(a, q))
                continue;
            if (q != a.head.me) {
                poll state = line_receive(a, op, l, i, q, wait, &theirs);
                if (state != POLL_OK)
                    return state;
            }
#pragma unroll
            for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++) {
                if (!begun)
                    total[k].first(theirs.v[k]);
                else
                    total[k].next(theirs.v[k]);
            }
            begun = true;
        }
#pragma unroll
        for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++)
            sum.v[k] = total[k].value();
        return POLL_OK;
    }

    __device__ __forceinline__ void store(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &, uint64_t i)
    {
        if (a.exchange.out == SHUNT_NO_SLICE)
            return;
        if (!a.exchange.direct) {
            line_store<T>(line_slice_of(a, op, op.out, a.exchange.out), i, sum);
            return;
        }
        const line_unit straight = line_straighten(sum);
        for (uint32_t k = 1; k < a.head.n; k++)
            line_store_straight<T>(line_slice_of(a, op, a.outs[ll_peer(a, k)], a.exchange.out), i, straight);
        line_store_straight<T>(line_slice_of(a, op, op.out, a.exchange.out), i, straight);
    }
};

/* The same, each in its place; as ll_parts. */
template <class T, bool differ> struct line_parts {
    line_unit last;
    uint32_t kept;

    __device__ __forceinline__ poll receive(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l,
                                            uint64_t i, bool may_leave)
    {
        patience wait(may_leave);

        kept = SHUNT_NO_SLICE;
        for (uint32_t q = 0; q < a.head.n; q++) {
            if (q == a.head.me || !line_comes<differ>(a, q, i))
                continue;
            poll state = line_receive(a, op, l, i, q, wait, &last);
            if (state != POLL_OK)
                return state;
            kept = q;
        }
        return POLL_OK;
    }

    __device__ __forceinline__ void store(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l, uint64_t i)
    {
        patience wait(false);

        for (uint32_t q = 0; q < a.head.n; q++) {
            if (!line_comes<differ>(a, q, i))
                continue;
            line_unit unit = last;
            if (q == a.head.me)
                unit = line_mine<T, differ>(a, op, i);
            else if (q != kept)
                line_receive(a, op, l, i, q, wait, &unit);
            line_store<T>(line_out<differ>(a, op, a.exchange.recv[q]), i, unit);
        }
    }
};

template <class T, class Op, bool differ>
using line_result = typename std::conditional<shunt_moves<Op>, line_parts<T, differ>, line_sum<T, Op>>::type;

/*
 * The first unit of each warp; a warp that has none is content. OK: the block goes on. Else it leaves; of a message of
 * which blocks decide alone it has sent all then. The answers of a block's threads may differ.
 */
template <class T, class Op, bool differ>
static __device__ poll line_begin(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l, uint64_t first,
                                  uint32_t launch, bool recalled, line_result<T, Op, differ> &result)
{
    const uint64_t ahead = SHUNT_LINE_AHEAD * l.step;
    bool has = first < l.units;

    for (uint64_t i = first; i < first + ahead && i < l.units && launch == 0; i += l.step)
        line_send<T, differ>(a, op, l, i);
    poll state = has ? result.receive(a, op, l, first, true) : POLL_OK;
    bool missing = __syncthreads_or(state != POLL_OK || recalled);
    if (l.together) {
        if (!launch_goes(a.to[a.head.me], op.ticket, launch, !missing))
            return state == POLL_ABORTED ? state : POLL_LATE;
        if (state != POLL_OK)
            state = result.receive(a, op, l, first, false);
        missing = missing && __syncthreads_or(state != POLL_OK);
    } else if (missing && launch == 0) {
        for (uint64_t i = first + ahead; i < l.units; i += l.step)
            line_send<T, differ>(a, op, l, i);
    }
    return missing && state == POLL_OK ? POLL_LATE : state;
}

/* As ll_exchange. */
template <class T, class Op, bool differ>
static __device__ uint32_t line_exchange(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t launch, bool recalled)
{
    const line_lap l(a, op);
    const uint64_t first = (uint64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const uint64_t ahead = SHUNT_LINE_AHEAD * l.step;
    line_result<T, Op, differ> result = {};
    poll state = line_begin<T, Op, differ>(a, op, l, first, launch, recalled, result);

    if (state != POLL_OK)
        return state == POLL_ABORTED ? SHUNT_DONE_ABORTED : SHUNT_DONE_AGAIN;
    for (uint64_t i = first; i < l.units; i += l.step) {
        if (i != first && (state = result.receive(a, op, l, i, false)) != POLL_OK)
            break;
        /* What reads lines again must do so first: to have sent the next unit says that they may be overwritten. */
        if (shunt_moves<Op>)
            result.store(a, op, l, i);
        if ((launch == 0 || l.together) && i + ahead < l.units)
            line_send<T, differ>(a, op, l, i + ahead);
        if (!shunt_moves<Op>)
            result.store(a, op, l, i);
    }
    return state == POLL_OK ? SHUNT_DONE_OK : SHUNT_DONE_ABORTED;
}

template <class T, class Op, bool differ>
static __device__ uint32_t ll_either(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t launch, bool recalled)
{
    return op.lines ? line_exchange<T, Op, differ>(a, op, launch, recalled) : ll_exchange<T, Op, differ>(a, op, launch, recalled);
}

/* The kernel: the operation that it was launched for, then those that it is ordered to do. */
template <class T, class Op, bool differ> static __device__ void ll_run(const shunt_ll_args &a)
{
    shunt_order &order = linger_order();
    uint32_t sequence = a.linger.sequence, window_ns = a.linger.window_ns;

    if (block_skipped(a.head))
        return;
    const bool recalled = block_begin(a.to[a.head.me], a.head);
    linger_count_anew(a);
    block_end(a.head, a.op.ticket, ll_either<T, Op, differ>(a, a.op, a.head.launch, recalled));
    linger_count(a);
    while (window_ns != 0 && linger_next(a, ++sequence, window_ns, &order)) {
        const shunt_ll_op op = order.op;
        window_ns = order.window_ns;
        block_end(a.head, op.ticket, ll_either<T, Op, differ>(a, op, 0, false));
        linger_count(a);
    }
}

#endif
