/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selection: which algorithm, with which grid and chunks.
 *
 * The figures in tuning() come from two H200 joined by NVLink (doc/results/); for more ranks one-shot ends earlier,
 * because its traffic grows with the number of ranks.
 */
#include "coll/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/stats.h"
#include "coll/rows.h"
#include "coll/run.h"

static struct shunt_ranges user_ranges[SHUNT_NCOLLS]; /* empty: auto */

/* ---- the user's setting ---- */

static bool parse_size(const char **text, uint64_t *size)
{
    static const char suffixes[] = "kmgt";
    char *end;

    if (**text < '0' || **text > '9') /* no sign, no blanks */
        return false;
    uint64_t value = strtoull(*text, &end, 10);
    const char *suffix = *end != 0 ? strchr(suffixes, *end | 32) : NULL;
    unsigned shift = suffix != NULL ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    if (value > UINT64_MAX >> shift)
        return false;
    *size = value << shift;
    *text = end + (suffix != NULL);
    return true;
}

static bool parse_name(unsigned coll, const char **text, int *algo)
{
    size_t length = strcspn(*text, ":,");
    const char *name = *text;

    *text += length;
    if (length == 4 && strncmp(name, "auto", 4) == 0) {
        *algo = SHUNT_ALGO_AUTO;
        return true;
    }
    if (length == 6 && strncmp(name, "staged", 6) == 0) {
        *algo = SHUNT_ALGO_STAGED;
        return true;
    }
    for (int i = 0; i < SHUNT_NALGOS; i++) {
        if (shunt_algos[i].coll == coll && strlen(shunt_algos[i].name) == length &&
            strncmp(shunt_algos[i].name, name, length) == 0) {
            *algo = i;
            return true;
        }
    }
    return false;
}

/* One "name" or "name:from-to", either bound may be left out. */
static bool parse_range(unsigned coll, const char **text, struct shunt_range *range)
{
    *range = (struct shunt_range){ .from = 0, .to = UINT64_MAX };
    if (!parse_name(coll, text, &range->algo))
        return false;
    if (**text != ':')
        return true;
    ++*text;
    if (**text != '-' && !parse_size(text, &range->from))
        return false;
    if (**text != '-')
        return false;
    ++*text;
    if (**text != 0 && **text != ',' && !parse_size(text, &range->to))
        return false;
    return range->from < range->to;
}

bool shunt_ranges_parse(unsigned coll, const char *text, struct shunt_ranges *ranges)
{
    ranges->n = 0;
    for (;;) {
        if (ranges->n == SHUNT_RANGES || !parse_range(coll, &text, &ranges->range[ranges->n]))
            break;
        ranges->n++;
        if (*text == 0)
            return true;
        if (*text++ != ',')
            break;
    }
    ranges->n = 0;
    return false;
}

int shunt_ranges_find(const struct shunt_ranges *ranges, uint64_t bytes)
{
    for (unsigned i = 0; i < ranges->n; i++) {
        if (bytes >= ranges->range[i].from && bytes < ranges->range[i].to)
            return ranges->range[i].algo;
    }
    return SHUNT_ALGO_AUTO;
}

/* The words that the statistics print for collectives and algorithms. */
static void name_statistics(void)
{
    static const char *colls[SHUNT_NCOLLS];
    static const char *const algos[] = {
#define X(name) #name,
        SHUNT_ALGO_NAMES(X)
#undef X
    };

    for (unsigned i = 0; i < SHUNT_NCOLLS; i++)
        colls[i] = shunt_coll_name(i);
    shunt_stats_names(colls, SHUNT_NCOLLS, algos, SHUNT_NALGO_NAMES);
}

/* Say what is allowed instead: the words of algos.def, alone or by size. */
static void refuse(const char *setting, const char *value, unsigned coll)
{
    char allowed[256] = "auto, staged";
    size_t length = strlen(allowed);

    for (int i = 0; i < SHUNT_NALGOS && length < sizeof allowed; i++) {
        if (shunt_algos[i].coll == coll)
            length += (size_t)snprintf(allowed + length, sizeof allowed - length, ", %s", shunt_algos[i].name);
    }
    if (length < sizeof allowed)
        snprintf(allowed + length, sizeof allowed - length, "; each with sizes like %s:0-256k", shunt_algos[0].name);
    shunt_conf_refuse(setting, value, allowed);
}

void shunt_select_start(void)
{
    name_statistics();
#define COLLECTIVE(ID, word, ...)                                                                  \
    if (!shunt_ranges_parse(SHUNT_COLL_##ID, shunt_conf->word, &user_ranges[SHUNT_COLL_##ID]))     \
        refuse("SHUNT_" #ID, shunt_conf->word, SHUNT_COLL_##ID);
#include "coll/colls.def"
#undef COLLECTIVE
}

int shunt_select_wanted(unsigned coll, uint64_t bytes)
{
    return shunt_ranges_find(&user_ranges[coll], bytes);
}

/* ---- the shape ---- */

enum { PROTO_AUTO, PROTO_LL, PROTO_LL128 }; /* words of SHUNT_PROTO */

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

/* Of the others. Whoever sends and receives alike may go round in the slots, and needs nothing else. */
static struct tuning tune(unsigned coll, int n)
{
    struct tuning best = tune_allreduce(n);

    if (coll == SHUNT_COLL_ALLREDUCE)
        return best;
    best.lines = UINT64_MAX;
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
    return 2 * most >= blocks || shunt_conf->proto == PROTO_LL128 ? most : 0;
}

/* In one hop with flags in the payload, if the message and the links allow it. */
static bool ll_shape(const struct shunt_demand *demand, const struct shunt_layout *layout, struct shunt_verdict *verdict)
{
    const struct tuning best = tune(demand->coll, demand->n);
    const uint64_t from = shunt_conf->proto == PROTO_LL128 ? 0 : best.ll, bytes = demand->bytes;
    const uint64_t to = demand->hosted ? hosted_ll(demand->n) : best.ll_alone;
    uint32_t lines = 0;

    if (demand->spans && shunt_coll_has(demand->coll, SHUNT_TRAIT_COMBINES)) /* no such kernels */
        return false;
    if ((demand->can & SHUNT_PLAN_LINES) && shunt_conf->proto != PROTO_LL && bytes > from && bytes <= best.lines)
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

    if ((demand->can & needs) != needs || shunt_conf->proto == PROTO_LL || demand->bytes < DIRECT_FROM ||
        (demand->bytes > DIRECT_TO && shunt_conf->proto != PROTO_LL128))
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

static bool wants_copies(unsigned coll, uint64_t bytes, int wanted)
{
    int copy = find_algo(coll, SHUNT_NAME_copy);

    return copy != SHUNT_ALGO_STAGED && (wanted == copy || (wanted == SHUNT_ALGO_AUTO && bytes >= COPY_FROM));
}

void shunt_select_shape(const struct shunt_demand *demand, const struct shunt_layout *layout,
                        struct shunt_verdict *verdict)
{
    struct shunt_demand d = *demand;
    const int oneshot = find_algo(d.coll, SHUNT_NAME_oneshot), copy = find_algo(d.coll, SHUNT_NAME_copy);
    const uint32_t hosted = d.hosted ? SHUNT_PLAN_HOSTED : 0;

    if (d.hosted && d.wanted == SHUNT_ALGO_AUTO)
        d.wanted = hosted_algo(&d);
    const bool any = d.wanted == SHUNT_ALGO_AUTO;
    if (wants_copies(d.coll, d.bytes, d.wanted) && (d.can & SHUNT_PLAN_ZERO_COPY)) {
        *verdict = (struct shunt_verdict){ .ticket = verdict->ticket, .bytes = verdict->bytes, .algo = (uint32_t)copy,
                                           .blocks = 1, .chunk = 16,
                                           .flags = SHUNT_PLAN_ENGINES | SHUNT_PLAN_ZERO_COPY };
        return;
    }
    if (copy != SHUNT_ALGO_STAGED && d.wanted == copy)
        d.wanted = oneshot;
    if (d.max_blocks > SHUNT_GRID)
        d.max_blocks = SHUNT_GRID;
    verdict->algo = (uint32_t)(any ? oneshot : d.wanted);
    verdict->flags = hosted;
    if ((int)verdict->algo == oneshot && ll_shape(&d, layout, verdict))
        return;
    if (any && d.coll == SHUNT_COLL_ALLREDUCE)
        verdict->algo = SHUNT_ALGO_ALLREDUCE_twoshot;
    bool twoshot = verdict->algo == SHUNT_ALGO_ALLREDUCE_twoshot;
    if (twoshot && direct_shape(&d, layout, verdict))
        return;
    verdict->flags = hosted | (twoshot ? d.can & SHUNT_PLAN_ZERO_COPY : 0);
    bool passed_on = shunt_algos[verdict->algo].number == SHUNT_NAME_ring;
    uint64_t ring_bytes =
        d.hosted && layout->host_ring_bytes < layout->ring_bytes ? layout->host_ring_bytes : layout->ring_bytes;
    ring_shape(twoshot ? d.bytes / (uint64_t)d.n : d.bytes, passed_on ? (uint32_t)d.n : 1, ring_bytes, d.max_blocks,
               verdict);
}

bool shunt_select_copies(unsigned coll, uint64_t bytes)
{
    return wants_copies(coll, bytes, shunt_select_wanted(coll, bytes));
}

bool shunt_select_zero_copy(unsigned coll, uint64_t bytes)
{
    return (coll == SHUNT_COLL_ALLREDUCE && bytes >= 512 << 10) || shunt_select_copies(coll, bytes);
}

/* ---- the decision ---- */

const char *shunt_posts_differ(const struct shunt_post *x, const struct shunt_post *y, unsigned long long *a,
                               unsigned long long *b)
{
    const bool rows = x->row != 0 || y->row != 0; /* which say more of counts */
    const struct {
        const char *name;
        unsigned long long a, b;
    } fields[] = {
        { "collective", x->coll, y->coll },
        { "form", x->flags & SHUNT_POST_ASKS, y->flags & SHUNT_POST_ASKS },
        { "count", rows ? 0 : x->count, rows ? 0 : y->count },
        { "element type", x->type, y->type },
        { "operation", x->op, y->op },
        { "root", (unsigned)x->root, (unsigned)y->root },
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].a != fields[i].b) {
            *a = fields[i].a;
            *b = fields[i].b;
            return fields[i].name;
        }
    }
    return NULL;
}

/* Does rank `from` send anything to another one? */
static bool sends(const struct shunt_select *select, const struct shunt_post *const *posts, int from, int to, bool rows)
{
    if (rows)
        return from != to && shunt_rows_sent(select->arena, posts, from, to) != 0;
    return shunt_coll_sends(posts[0]->coll, from, to, posts[0]->root);
}

/* Has everybody opened the receive buffers of those to whom he sends? */
static bool all_opened(const struct shunt_select *select, const struct shunt_post *const *posts, int n)
{
    bool rows = shunt_rows_any(posts, n);

    for (int owner = 0; owner < n; owner++) {
        for (int user = 0; user < n; user++) {
            if (sends(select, posts, user, owner, rows) &&
                !shunt_peer_opened(select->arena, select->slots[user], select->slots[owner], posts[owner]->recv.reg))
                return false;
        }
    }
    return true;
}

/* Do all links keep lines whole? */
static bool all_whole_lines(const struct shunt_select *select, int n)
{
    for (int owner = 0; owner < n; owner++) {
        for (int user = 0; user < n; user++) {
            if (user != owner &&
                !shunt_peer_whole_lines(select->arena, select->slots[user], select->slots[owner]))
                return false;
        }
    }
    return true;
}

/* Is it worth asking whether these links keep lines whole? */
static bool asks_lines(const struct shunt_demand *demand)
{
    return !demand->hosted && (demand->bytes > tune(demand->coll, demand->n).ll || shunt_conf->proto != PROTO_AUTO);
}

/*
 * From here on two-shot is better than one hop, if it may store straight into receive buffers: so whether they are open
 * is asked only then. (Who has not opened a block is noted as missed, and is offered it again.)
 */
static bool asks_zero_copy(const struct shunt_demand *demand, const struct shunt_verdict *verdict)
{
    return !demand->hosted && demand->coll == SHUNT_COLL_ALLREDUCE &&
           (verdict->algo == SHUNT_ALGO_ALLREDUCE_twoshot ||
            (demand->wanted == SHUNT_ALGO_AUTO && demand->n == 2 && demand->bytes > DIRECT_BETTER));
}

/*
 * Are all buffers ready, and is none to be overwritten that a peer still has to read? That is so in place, where what comes
 * takes the place of what goes.
 */
static bool all_ready(const struct shunt_post *const *posts, int n)
{
    for (int i = 0; i < n; i++) {
        if (!(posts[i]->flags & SHUNT_POST_READY) ||
            (shunt_collectives[posts[i]->coll].in_place == SHUNT_IN_PLACE_ITS_ROWS &&
             (posts[i]->flags & SHUNT_POST_IN_PLACE)))
            return false;
    }
    return true;
}

/* The shape that these posts get, whose ranks match. */
static void find_shape(const struct shunt_select *select, const struct shunt_post *const *posts,
                       struct shunt_demand *demand, struct shunt_verdict *verdict)
{
    if (asks_lines(demand) && all_whole_lines(select, demand->n))
        demand->can |= SHUNT_PLAN_LINES;
    if (!demand->hosted && wants_copies(demand->coll, demand->bytes, demand->wanted) && all_ready(posts, demand->n) &&
        all_opened(select, posts, demand->n))
        demand->can |= SHUNT_PLAN_ZERO_COPY;
    shunt_select_shape(demand, select->layout, verdict);
    if (!asks_zero_copy(demand, verdict) || !all_opened(select, posts, demand->n))
        return;
    demand->can |= SHUNT_PLAN_ZERO_COPY;
    demand->wanted = SHUNT_ALGO_ALLREDUCE_twoshot;
    shunt_select_shape(demand, select->layout, verdict);
}

/* What the rows of all come to. False: the verdict has the reason. */
static bool read_rows(const struct shunt_select *select, const struct shunt_post *const *posts, struct shunt_demand *demand,
                      struct shunt_verdict *verdict)
{
    struct shunt_row_mismatch mismatch;

    if (shunt_rows_differ(select->arena, posts, demand->n, &mismatch)) {
        verdict->reason = SHUNT_REASON_MISMATCH;
        return false;
    }
    demand->spans = true;
    demand->bytes = verdict->bytes = shunt_rows_largest(select->arena, posts, demand->n);
    verdict->reason = SHUNT_REASON_NEUTRAL;
    return demand->bytes != 0;
}

bool shunt_select_decide(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    const struct shunt_select *select = context;
    struct shunt_demand demand = {
        .coll = posts[0]->coll,
        .n = n,
        .bytes = posts[0]->count * shunt_type_size(posts[0]->type),
        .max_blocks = SHUNT_GRID,
    };

    for (int i = 0; i < n; i++) {
        unsigned long long a, b;
        if (shunt_posts_differ(posts[0], posts[i], &a, &b) != NULL) {
            verdict->reason = SHUNT_REASON_MISMATCH;
            return false;
        }
        demand.max_blocks = least(posts[i]->max_blocks, demand.max_blocks);
    }
    if (n > SHUNT_BOARD_RANKS) {
        verdict->reason = SHUNT_REASON_TOO_MANY_RANKS;
        return false;
    }
    if (shunt_rows_any(posts, n) && !read_rows(select, posts, &demand, verdict))
        return false;
    demand.wanted = shunt_select_wanted(demand.coll, demand.bytes);
    demand.hosted = shunt_peers_hosted(select->arena, select->slots, n);
    /* Sums of 16-bit floats are rounded once, at their end, and not at each hop. */
    demand.rounds = posts[0]->type == SHUNT_TYPE_F16 || posts[0]->type == SHUNT_TYPE_BF16;
    if (demand.rounds && demand.wanted == SHUNT_ALGO_REDUCE_ring)
        demand.wanted = SHUNT_ALGO_AUTO;
    if (demand.wanted == SHUNT_ALGO_STAGED) {
        verdict->reason = SHUNT_REASON_SETTING;
        return false;
    }
    find_shape(select, posts, &demand, verdict);
    return true;
}
