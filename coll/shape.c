/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shape of an operation: which algorithm, with which grid and chunks; pure.
 *
 * The figures in tuning() come from two H200 joined by NVLink (doc/results/); for more ranks one-shot ends earlier,
 * because its traffic grows with the number of ranks.
 */
#include "coll/select.h"

/* Bytes from one rank to another up to which a protocol is the best, when it may be chosen. */
struct tuning {
    uint64_t ll;    /* LL, where LL128 may come after it */
    uint64_t lines; /* LL128 */
    uint64_t ll_alone;
};

/* Of Allreduce in one hop, of which two-shot does less. */
static struct tuning tune_allreduce(int n)
{
    if (n <= 2)
        return (struct tuning){ .ll = 64 << 10, .lines = 16 << 20, .ll_alone = 3 << 19 };
    if (n <= 4)
        return (struct tuning){ .ll = 32 << 10, .lines = 512 << 10, .ll_alone = 64 << 10 };
    return (struct tuning){ .ll = 16 << 10, .lines = 256 << 10, .ll_alone = 32 << 10 };
}

/* Sums of larger blocks are as fast through rings, which carry no flags: of 128 MiB between two, 220 us for 233. */
#define SUMS_TO (24 << 20)

/* Of the others. Whoever sends and receives alike may go round in the slots, and needs nothing else. */
static struct tuning tune(unsigned coll, int n)
{
    struct tuning best = tune_allreduce(n);

    if (coll == SHUNT_COLL_ALLREDUCE)
        return best;
    best.lines = coll == SHUNT_COLL_REDUCE_SCATTER || coll == SHUNT_COLL_REDUCE_SCATTER_BLOCK ? SUMS_TO : UINT64_MAX;
    best.ll_alone = 3 << 19;
    return best;
}

/*
 * Where some pairs go by host memory. Words of LL are written, read and cleared there, three times 4/3 of the data; chunks
 * are written and read once, but take the time of two signals more.
 */
static uint64_t hosted_ll(int n)
{
    return n <= 2 ? 64 << 10 : n <= 4 ? 32 << 10 : 16 << 10;
}

/* There each rank's link to host memory is what limits, so that what goes to all should leave, and come, once. */
#define HOSTED_RING_FROM (256 << 10)

static int hosted_algo(const struct shunt_demand *demand)
{
    if (demand->coll == SHUNT_COLL_ALLREDUCE && demand->n == 2)
        return SHUNT_ALGO_ALLREDUCE_oneshot; /* as many bytes as two-shot, in one hop */
    if (demand->n == 2 || demand->bytes < HOSTED_RING_FROM)
        return SHUNT_ALGO_AUTO;
    if (demand->coll == SHUNT_COLL_BCAST)
        return SHUNT_ALGO_BCAST_ring;
    return demand->coll == SHUNT_COLL_REDUCE && !demand->rounds ? (int)SHUNT_ALGO_REDUCE_ring : SHUNT_ALGO_AUTO;
}

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* One unit per thread as long as the grid allows. */
static uint32_t ll_blocks(uint64_t bytes, uint32_t max_blocks)
{
    uint64_t per_block = (uint64_t)SHUNT_LL_UNIT * SHUNT_LL_THREADS, blocks = (bytes + per_block - 1) / per_block;

    return least(blocks < 1 ? 1 : blocks, max_blocks);
}

/* The same for the warps of LL128; 0: not possible. A message that does not fit into its slot needs room for a lap. */
static uint32_t line_blocks(const struct shunt_demand *demand, uint64_t bytes, uint32_t threads,
                            const struct shunt_layout *layout)
{
    uint64_t units = SHUNT_LINE_UNITS(bytes), room = layout->line_bytes / SHUNT_LINE_WIRE;
    uint32_t warps = threads / 32, blocks = least((units + warps - 1) / warps, demand->max_blocks);

    if (units <= room)
        return blocks;
    if (!shunt_coll_mutual(demand->coll) || demand->spans)
        return 0;
    uint32_t most = least(blocks, room / (SHUNT_LINE_LAP * warps));
    /* So few warps do not fill the links, as rings do. */
    return 2 * most >= blocks || demand->proto == SHUNT_PROTO_LL128 ? most : 0;
}

/* In one hop with flags in the payload, if the message and the links allow it. */
static bool ll_shape(const struct shunt_demand *demand, const struct shunt_layout *layout, struct shunt_verdict *verdict)
{
    const struct tuning best = tune(demand->coll, demand->n);
    const uint64_t from = demand->proto == SHUNT_PROTO_LL128 ? 0 : best.ll, bytes = demand->bytes;
    /* Both by name: as far as there is room. */
    const bool asked = demand->wanted != SHUNT_ALGO_AUTO && demand->proto != SHUNT_PROTO_AUTO;
    const uint64_t to = demand->hosted ? hosted_ll(demand->n) : asked ? UINT64_MAX : best.ll_alone;
    uint32_t lines = 0;

    if (demand->proto == SHUNT_PROTO_SIMPLE || demand->meets)
        return false;
    if (demand->spans && shunt_coll_has(demand->coll, SHUNT_TRAIT_COMBINES)) /* no such kernels */
        return false;
    if ((demand->can & SHUNT_PLAN_LINES) && demand->proto != SHUNT_PROTO_LL && bytes > from && (asked || bytes <= best.lines))
        lines = line_blocks(demand, bytes, SHUNT_LINE_THREADS, layout);
    if (lines == 0 && (bytes > to || bytes > layout->ll_bytes / 4 * 3))
        return false;
    verdict->flags |= SHUNT_PLAN_LL | (lines != 0 ? SHUNT_PLAN_LINES : 0);
    verdict->blocks = lines != 0 ? lines : ll_blocks(bytes, demand->max_blocks);
    verdict->chunk = 16;
    return true;
}

/*
 * Two-shot with lines on the way to those who add, and their results straight to the receive buffers. From so many
 * bytes on: the slices must not be smaller than their rounding, and lines of less are not worth the end that it has.
 */
#define DIRECT_FROM   (256 << 10)
#define DIRECT_BETTER (6 << 20) /* than one hop, on two GPUs */
#define DIRECT_TO     (24 << 20) /* beyond, sums through rings are as fast */

static bool direct_shape(const struct shunt_demand *demand, const struct shunt_layout *layout,
                         struct shunt_verdict *verdict)
{
    const uint32_t needs = SHUNT_PLAN_LINES | SHUNT_PLAN_ZERO_COPY;
    uint64_t slice = (demand->bytes / (uint64_t)demand->n + 16) / 16 * 16;

    if ((demand->can & needs) != needs || demand->proto == SHUNT_PROTO_LL || demand->proto == SHUNT_PROTO_SIMPLE || demand->bytes < DIRECT_FROM ||
        (demand->bytes > DIRECT_TO && demand->proto != SHUNT_PROTO_LL128))
        return false;
    verdict->blocks = line_blocks(demand, slice, SHUNT_LINE_DIRECT, layout);
    verdict->flags = SHUNT_PLAN_LL | needs;
    verdict->chunk = 16;
    return verdict->blocks != 0;
}

/*
 * Enough blocks to fill the links, but no more than have work; chunks as large as the rings hold. `hops`: of a chunk, which
 * the others overtake if there are enough of them.
 */
static void ring_shape(uint64_t slice, uint32_t hops, uint64_t ring_bytes, uint32_t max_blocks,
                       struct shunt_verdict *verdict)
{
    uint64_t blocks = slice / (8 << 10), wanted = 128 << 10;

    verdict->blocks = least(blocks < 1 ? 1 : blocks, max_blocks / SHUNT_PLAN_TEAMS);
    uint64_t room = ring_bytes / ((uint64_t)verdict->blocks * SHUNT_RING_DEPTH) / 16 * 16;
    uint64_t part = (slice / verdict->blocks + 15) / 16 * 16;
    if (hops > 1 && part / (4 * hops) < wanted)
        wanted = part / (4 * hops) < 8 << 10 ? 8 << 10 : part / (4 * hops);
    wanted = wanted < part ? wanted : part;
    wanted = wanted < 16 ? 16 : wanted;
    verdict->chunk = least(wanted, room > 256 ? room - 256 : 16) / 16 * 16;
}

/* From rank to rank, in an order that is not that of ranks; as a line, in the order of ranks. */
static bool passes_on(uint32_t algo)
{
    return shunt_algos[algo].number == SHUNT_NAME_ring || shunt_algos[algo].number == SHUNT_NAME_tree;
}

static bool is_line(uint32_t algo)
{
    return algo == SHUNT_ALGO_BCAST_ring || algo == SHUNT_ALGO_REDUCE_ring;
}

/* May this algorithm do it? Sums of 16-bit floats are rounded once, at their end, and not at each hop. */
bool shunt_shape_allows(const struct shunt_demand *d, int algo)
{
    if (algo < 0 || !passes_on((uint32_t)algo))
        return true;
    bool reorders = shunt_coll_has(d->coll, SHUNT_TRAIT_COMBINES) && !is_line((uint32_t)algo);
    return !d->spans && !(d->rounds && shunt_coll_has(d->coll, SHUNT_TRAIT_COMBINES)) &&
           !(reorders && d->ordered);
}

/* SHUNT_ALGO_STAGED: there is none of this name. */
static int find_algo(unsigned coll, unsigned name)
{
    for (int i = 0; i < SHUNT_NALGOS; i++) {
        if (shunt_algos[i].coll == coll && shunt_algos[i].number == name)
            return i;
    }
    return SHUNT_ALGO_STAGED;
}

/* From so many bytes on copy engines, which move 391 GB/s both ways where kernels move 340, are worth their start. */
#define COPY_FROM (8 << 20)

bool shunt_shape_copies(unsigned coll, uint64_t bytes, int wanted)
{
    int copy = find_algo(coll, SHUNT_NAME_copy);

    return copy != SHUNT_ALGO_STAGED && (wanted == copy || (wanted == SHUNT_ALGO_AUTO && bytes >= COPY_FROM));
}

/*
 * From so many bytes on the root of a Reduce had better read the others' vectors itself, 366 GB/s, than have them sent with flags,
 * 341; what that takes at its beginning and end, and for a launch, is worth it then. If there are to be no flags, always.
 * Without rings chunks may be large: behind each there is a fence.
 */
#define READ_FROM  (16 << 20)
#define READ_CHUNK (16 << 20)

static bool may_read(unsigned coll, uint64_t bytes, int wanted, int proto)
{
    if (coll != SHUNT_COLL_REDUCE || (wanted != SHUNT_ALGO_AUTO && wanted != SHUNT_ALGO_REDUCE_oneshot))
        return false;
    return proto == SHUNT_PROTO_SIMPLE || (proto == SHUNT_PROTO_AUTO && bytes >= READ_FROM);
}

static void read_shape(const struct shunt_demand *d, struct shunt_verdict *verdict)
{
    verdict->blocks = d->max_blocks / SHUNT_PLAN_TEAMS;
    uint64_t part = (d->bytes / SHUNT_PLAN_TEAMS / verdict->blocks + 31) / 16 * 16;
    verdict->chunk = least(part, READ_CHUNK);
    verdict->flags = SHUNT_PLAN_ZERO_COPY;
}

/* Bytes that the blocks share: of a slice, or of the half of one that a team has. */
static uint64_t slice_of(const struct shunt_demand *d, uint32_t algo)
{
    const uint64_t n = (uint64_t)d->n;

    if (algo == SHUNT_ALGO_ALLREDUCE_twoshot)
        return d->bytes / n;
    if (algo == SHUNT_ALGO_ALLREDUCE_ring)
        return d->bytes / n / SHUNT_PLAN_TEAMS;
    return passes_on(algo) && !is_line(algo) ? d->bytes / SHUNT_PLAN_TEAMS : d->bytes;
}

/* How far each chunk has to go while the next ones follow; around rings the next one follows when the first is there. */
static uint32_t hops_of(const struct shunt_demand *d, uint32_t algo)
{
    uint32_t levels = 1;

    while (1u << levels < (uint32_t)d->n + 2)
        levels++;
    if (is_line(algo))
        return (uint32_t)d->n;
    return shunt_algos[algo].number == SHUNT_NAME_tree ? (d->coll == SHUNT_COLL_ALLREDUCE ? 2 : 1) * levels : 1;
}

/* The ring of a collective that has one around the best ring, and may use it; SHUNT_ALGO_STAGED: there is none. */
static int find_ring(const struct shunt_demand *d)
{
    int ring = find_algo(d->coll, SHUNT_NAME_ring);

    return ring >= 0 && !is_line((uint32_t)ring) && shunt_shape_allows(d, ring) ? ring : SHUNT_ALGO_STAGED;
}

/* What the machine suggests, where nothing else has been asked for. */
static int routed_algo(const struct shunt_demand *d)
{
    if (d->routes == NULL || (d->can & SHUNT_PLAN_LINES) || find_ring(d) == SHUNT_ALGO_STAGED)
        return SHUNT_ALGO_AUTO;
    return d->bytes >= d->routes->ring_from[d->coll != SHUNT_COLL_ALLREDUCE] ? find_ring(d) : SHUNT_ALGO_AUTO;
}

static void take_routes(const struct shunt_demand *d, struct shunt_verdict *verdict)
{
    verdict->ways = 0;
    if (d->routes == NULL || !passes_on(verdict->algo) || is_line(verdict->algo))
        return;
    shunt_routes_put(d->routes, d->n, verdict);
}

void shunt_select_shape(const struct shunt_demand *demand, const struct shunt_layout *layout,
                        struct shunt_verdict *verdict)
{
    struct shunt_demand d = *demand;
    const int oneshot = find_algo(d.coll, SHUNT_NAME_oneshot), copy = find_algo(d.coll, SHUNT_NAME_copy);
    const uint32_t common = (d.hosted ? SHUNT_PLAN_HOSTED : 0) | (d.meets ? SHUNT_PLAN_MEETS : 0);

    if (d.wanted == SHUNT_ALGO_AUTO)
        d.wanted = routed_algo(&d);
    if (d.hosted && d.wanted == SHUNT_ALGO_AUTO)
        d.wanted = hosted_algo(&d);
    const bool any = d.wanted == SHUNT_ALGO_AUTO;
    if (shunt_shape_copies(d.coll, d.bytes, d.wanted) && (d.can & SHUNT_PLAN_ZERO_COPY)) {
        *verdict = (struct shunt_verdict){ .bytes = verdict->bytes, .waves = verdict->waves, .algo = (uint8_t)copy,
                                           .blocks = 1, .chunk = 16,
                                           .flags = SHUNT_PLAN_ENGINES | SHUNT_PLAN_ZERO_COPY };
        return;
    }
    if (copy != SHUNT_ALGO_STAGED && d.wanted == copy)
        d.wanted = oneshot;
    if (d.max_blocks > SHUNT_GRID)
        d.max_blocks = SHUNT_GRID;
    verdict->algo = (uint8_t)(any ? oneshot : d.wanted);
    verdict->flags = (uint16_t)common;
    if (verdict->algo == SHUNT_ALGO_REDUCE_oneshot && (d.can & SHUNT_PLAN_READS)) {
        read_shape(&d, verdict);
        return;
    }
    if ((int)verdict->algo == oneshot && ll_shape(&d, layout, verdict))
        return;
    if (any && d.coll == SHUNT_COLL_ALLREDUCE)
        verdict->algo = SHUNT_ALGO_ALLREDUCE_twoshot;
    bool twoshot = verdict->algo == SHUNT_ALGO_ALLREDUCE_twoshot;
    if (twoshot && direct_shape(&d, layout, verdict))
        return;
    verdict->flags = (uint16_t)(common | (twoshot ? d.can & SHUNT_PLAN_ZERO_COPY : 0));
    take_routes(&d, verdict);
    bool by_host = verdict->ways > 0 ? d.routes->hosted || shunt_algos[verdict->algo].number != SHUNT_NAME_ring : true;
    uint64_t ring_bytes = d.hosted && by_host && layout->host_ring_bytes < layout->ring_bytes ? layout->host_ring_bytes :
                                                                                                 layout->ring_bytes;
    ring_shape(slice_of(&d, verdict->algo), hops_of(&d, verdict->algo), ring_bytes, d.max_blocks, verdict);
}

bool shunt_select_copies(const struct shunt_wishes *wishes, unsigned coll, uint64_t bytes)
{
    return shunt_shape_copies(coll, bytes, shunt_wishes_algo(wishes, coll, bytes));
}

bool shunt_select_zero_copy(const struct shunt_wishes *wishes, unsigned coll, uint64_t bytes)
{
    return (coll == SHUNT_COLL_ALLREDUCE && bytes >= 512 << 10) || shunt_select_copies(wishes, coll, bytes);
}

bool shunt_select_reads(const struct shunt_wishes *wishes, unsigned coll, uint64_t bytes)
{
    return may_read(coll, bytes, shunt_wishes_algo(wishes, coll, bytes), shunt_wishes_of(wishes)->proto);
}

bool shunt_shape_reads(const struct shunt_demand *demand)
{
    return !demand->hosted && may_read(demand->coll, demand->bytes, demand->wanted, demand->proto);
}

/* Is it worth asking whether these links keep lines whole? */
bool shunt_shape_asks_lines(const struct shunt_demand *demand)
{
    return !demand->hosted && (demand->bytes > tune(demand->coll, demand->n).ll || demand->proto != SHUNT_PROTO_AUTO);
}

/*
 * From here on two-shot is better than one hop, if it may store straight into receive buffers: so whether they are open
 * is asked only then. (Who has not opened a block is noted as missed, and is offered it again.)
 */
bool shunt_shape_asks_zero_copy(const struct shunt_demand *demand, const struct shunt_verdict *verdict)
{
    return !demand->hosted && demand->coll == SHUNT_COLL_ALLREDUCE &&
           (verdict->algo == SHUNT_ALGO_ALLREDUCE_twoshot ||
            (demand->wanted == SHUNT_ALGO_AUTO && demand->n == 2 && demand->bytes > DIRECT_BETTER));
}

/* Rings and trees have an order; without lines of LL128, which are for links that are alike, rings may be the better way. */
bool shunt_shape_asks_routes(const struct shunt_demand *demand)
{
    if (demand->wanted >= 0)
        return passes_on((uint32_t)demand->wanted) && !is_line((uint32_t)demand->wanted);
    return demand->wanted == SHUNT_ALGO_AUTO && demand->n > 2 && !(demand->can & SHUNT_PLAN_LINES) &&
           demand->bytes > tune(demand->coll, demand->n).ll && find_ring(demand) != SHUNT_ALGO_STAGED;
}

void shunt_shape_tune(struct shunt_demand *d, uint64_t hash)
{
    const struct shunt_tune_group *group = shunt_tune_group(d->tune, hash);
    const unsigned coll = d->coll == SHUNT_COLL_REDUCE_SCATTER ? SHUNT_COLL_REDUCE_SCATTER_BLOCK : d->coll;

    if (group == NULL || d->wanted != SHUNT_ALGO_AUTO || d->spans || shunt_shape_copies(d->coll, d->bytes, d->wanted) || shunt_shape_reads(d))
        return;
    const struct shunt_tune_row *row = shunt_tune_best(group, coll, d->bytes, d->ordered);
    int algo = row != NULL ? find_algo(d->coll, shunt_algos[row->algo].number) : SHUNT_ALGO_STAGED;
    if (algo == SHUNT_ALGO_STAGED || !shunt_shape_allows(d, algo))
        return;
    d->wanted = algo;
    if (d->proto == SHUNT_PROTO_AUTO)
        d->proto = row->proto;
}

void shunt_shape_zero_copy(struct shunt_demand *demand, const struct shunt_layout *layout, struct shunt_verdict *verdict)
{
    demand->can |= SHUNT_PLAN_ZERO_COPY;
    demand->wanted = SHUNT_ALGO_ALLREDUCE_twoshot;
    shunt_select_shape(demand, layout, verdict);
}
