/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-shot with a flag in every 128 bytes (LL128): as LL (ll.cuh), but 15 of 16 bytes are data, so that it is the best
 * way from where the link's rate counts to where two-shot sends so much less that its fences pay.
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
 * As in LL, nothing is written before the first units have arrived. Of a message that fits, a block that leaves has sent
 * everything, and decides alone; else all blocks of a launch go on or leave alike (launch_goes).
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

/* The lane's vectors of unit i; zero past the end. */
template <class T> static __device__ __forceinline__ line_unit line_load(const shunt_ll_op &op, uint64_t i)
{
    const bool aligned = (uintptr_t)op.in % 16 == 0;
    line_unit unit = {};

#pragma unroll
    for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++) {
        uint64_t at = i * SHUNT_LINE_UNIT + 16 * line_vector(k);
        if (line_has_flag() && k >= 2)
            continue;
        if (aligned && at + 16 <= op.bytes) {
            unit.v[k] = gpu_load_user_vec((const char *)op.in + at);
            continue;
        }
        T x[16 / sizeof(T)] = {};
#pragma unroll
        for (uint32_t j = 0; j < 16 / sizeof(T); j++) {
            if (at + j * sizeof(T) < op.bytes)
                x[j] = gpu_load_user((const T *)((const char *)op.in + at) + j);
        }
        memcpy(&unit.v[k], x, 16);
    }
    return unit;
}

template <class T>
static __device__ __forceinline__ void line_store(const shunt_ll_op &op, uint64_t i, const line_unit &unit)
{
    const bool aligned = (uintptr_t)op.out % 16 == 0;

#pragma unroll
    for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++) {
        uint64_t at = i * SHUNT_LINE_UNIT + 16 * line_vector(k);
        if (line_has_flag() && k >= 2)
            continue;
        if (aligned && at + 16 <= op.bytes) {
            gpu_store_vec((char *)op.out + at, unit.v[k]);
            continue;
        }
        T x[16 / sizeof(T)];
        memcpy(x, &unit.v[k], 16);
#pragma unroll
        for (uint32_t j = 0; j < 16 / sizeof(T); j++) {
            if (at + j * sizeof(T) < op.bytes)
                gpu_store((T *)((char *)op.out + at) + j, x[j]);
        }
    }
}

/* How the units of an operation lie in a slot. */
struct line_lap {
    uint64_t units; /* of the message */
    uint32_t step;  /* warps of the grid */
    uint32_t lap;   /* units that lie in the slot at a time */
    bool wraps;

    __device__ __forceinline__ line_lap(const shunt_ll_args &a, const shunt_ll_op &op)
        : units(SHUNT_LINE_UNITS(op.bytes)), step(gridDim.x * (blockDim.x / 32))
    {
        wraps = units > a.line_room;
        lap = wraps ? a.line_room / step * step : a.line_room;
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

template <class T>
static __device__ __forceinline__ void line_send(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l,
                                                 uint64_t i)
{
    line_unit rows = line_pack(line_load<T>(op, i), l.flag(op, i));

    for (uint32_t k = 1; k < a.head.n; k++)
        gpu_lines_store<SHUNT_LINE_ROWS>(line_address(a, op, ll_peer(a, k), a.head.me, l.place(i)), rows.v);
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

/* Unit i of all ranks, combined in rank order. */
template <class T, class Op>
static __device__ __forceinline__ poll line_combine(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l,
                                                    uint64_t i, bool may_leave, line_unit *sum)
{
    const line_unit mine = line_load<T>(op, i);
    patience wait(may_leave);
    shunt_total<T, Op, gpu_vec> total[SHUNT_LINE_ROWS] = {};

    for (uint32_t q = 0; q < a.head.n; q++) {
        line_unit theirs = mine;
        if (q != a.head.me) {
            poll state = line_receive(a, op, l, i, q, wait, &theirs);
            if (state != POLL_OK)
                return state;
        }
#pragma unroll
        for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++) {
            if (q == 0)
                total[k].first(theirs.v[k]);
            else
                total[k].next(theirs.v[k]);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < SHUNT_LINE_ROWS; k++)
        sum->v[k] = total[k].value();
    return POLL_OK;
}

/*
 * The first unit of each warp; a warp that has none is content. OK: the block goes on. Else it leaves; of a message that
 * does not wrap it has sent all then. The answers of a block's threads may differ.
 */
template <class T, class Op>
static __device__ poll line_begin(const shunt_ll_args &a, const shunt_ll_op &op, const line_lap &l, uint64_t first,
                                  uint32_t launch, line_unit *sum)
{
    const uint64_t ahead = SHUNT_LINE_AHEAD * l.step;
    bool has = first < l.units;

    for (uint64_t i = first; i < first + ahead && i < l.units && launch == 0; i += l.step)
        line_send<T>(a, op, l, i);
    poll state = has ? line_combine<T, Op>(a, op, l, first, true, sum) : POLL_OK;
    bool missing = __syncthreads_or(state != POLL_OK);
    if (l.wraps) {
        if (!launch_goes(a.scratch[a.head.me], op.ticket, launch, !missing))
            return state == POLL_ABORTED ? state : POLL_LATE;
        if (state != POLL_OK)
            state = line_combine<T, Op>(a, op, l, first, false, sum);
        missing = missing && __syncthreads_or(state != POLL_OK);
    } else if (missing && launch == 0) {
        for (uint64_t i = first + ahead; i < l.units; i += l.step)
            line_send<T>(a, op, l, i);
    }
    return missing && state == POLL_OK ? POLL_LATE : state;
}

/* As ll_allreduce. */
template <class T, class Op>
static __device__ uint32_t line_allreduce(const shunt_ll_args &a, const shunt_ll_op &op, uint32_t launch)
{
    const line_lap l(a, op);
    const uint64_t first = (uint64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const uint64_t ahead = SHUNT_LINE_AHEAD * l.step;
    line_unit sum = {};
    poll state = line_begin<T, Op>(a, op, l, first, launch, &sum);

    if (state != POLL_OK)
        return state == POLL_ABORTED ? SHUNT_DONE_ABORTED : SHUNT_DONE_AGAIN;
    for (uint64_t i = first; i < l.units; i += l.step) {
        if (i != first && line_combine<T, Op>(a, op, l, i, false, &sum) != POLL_OK)
            return SHUNT_DONE_ABORTED;
        if ((launch == 0 || l.wraps) && i + ahead < l.units)
            line_send<T>(a, op, l, i + ahead);
        line_store<T>(op, i, sum);
    }
    return SHUNT_DONE_OK;
}

template <class T, class Op> static __device__ uint32_t ll_either(const shunt_ll_args &a, const shunt_ll_op &op,
                                                                   uint32_t launch)
{
    return op.lines ? line_allreduce<T, Op>(a, op, launch) : ll_allreduce<T, Op>(a, op, launch);
}

/* The kernel: the operation that it was launched for, then those that it is ordered to do. */
template <class T, class Op> static __device__ void ll_run(const shunt_ll_args &a)
{
    shunt_order &order = linger_order();
    uint32_t sequence = a.linger.sequence, window_ns = a.linger.window_ns;

    if (block_skipped(a.head))
        return;
    block_end(a.head, a.op.ticket, ll_either<T, Op>(a, a.op, a.head.launch));
    while (window_ns != 0 && linger_next(a, ++sequence, window_ns, &order)) {
        const shunt_ll_op op = order.op;
        window_ns = order.window_ns;
        block_end(a.head, op.ticket, ll_either<T, Op>(a, op, 0));
    }
}

#endif
