/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of SHUNT_ALLREDUCE, the shapes that selection makes of any size, and which posts contradict each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/conf.h"
#include "coll/select.h"
#include "cuda/peer.h"
#include "test/unit/collectives.h"

#define ONESHOT SHUNT_ALGO_ALLREDUCE_oneshot
#define TWOSHOT SHUNT_ALGO_ALLREDUCE_twoshot

static int parsed(const char *text, uint64_t bytes)
{
    struct shunt_ranges ranges;

    assert_true(shunt_ranges_parse(SHUNT_COLL_ALLREDUCE, text, &ranges));
    return shunt_ranges_find(&ranges, bytes);
}

static void words(void **state)
{
    (void)state;
    assert_int_equal(parsed("auto", 5), SHUNT_ALGO_AUTO);
    assert_int_equal(parsed("staged", 5), SHUNT_ALGO_STAGED);
    assert_int_equal(parsed("oneshot", 1ull << 40), ONESHOT);
    assert_int_equal(parsed("oneshot:0-256k,twoshot:256k-", (256 << 10) - 1), ONESHOT);
    assert_int_equal(parsed("oneshot:0-256k,twoshot:256k-", 256 << 10), TWOSHOT);
    assert_int_equal(parsed("twoshot:1m-2M", (1 << 20) - 1), SHUNT_ALGO_AUTO);
    assert_int_equal(parsed("twoshot:1m-2M", 1 << 20), TWOSHOT);
    assert_int_equal(parsed("twoshot:-8,staged:8-", 7), TWOSHOT);
    assert_int_equal(parsed("twoshot:-8,staged:8-", 8), SHUNT_ALGO_STAGED);
    assert_int_equal(parsed("oneshot:0-100,twoshot", 50), ONESHOT); /* the first that holds a size wins */
}

static void refused_words(void **state)
{
    static const char *const bad[] = { "",           "one",         "oneshot,",    "oneshot:",     "oneshot:5",
                                       "oneshot:5-4", "oneshot:4-4", "oneshot 1-2", "oneshot:1-2x", "oneshot:a-b",
                                       "oneshot:-1--2", ",",         "autos",       "oneshot:99999999t-" };
    struct shunt_ranges ranges;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(shunt_ranges_parse(SHUNT_COLL_ALLREDUCE, bad[i], &ranges));
        assert_int_equal(shunt_ranges_find(&ranges, 5), SHUNT_ALGO_AUTO);
    }
}

static void too_many_ranges(void **state)
{
    char text[20 * 12] = "auto";
    struct shunt_ranges ranges;

    (void)state;
    for (int i = 0; i < SHUNT_RANGES; i++)
        strcat(text, ",auto");
    assert_false(shunt_ranges_parse(SHUNT_COLL_ALLREDUCE, text, &ranges));
}

static void check_lines(const struct shunt_demand *d, const struct shunt_layout *layout, const struct shunt_verdict *v)
{
    bool direct = v->algo == TWOSHOT;
    uint64_t slice = (d->bytes / (uint64_t)d->n + 16) / 16 * 16;
    uint64_t units = SHUNT_LINE_UNITS(direct ? slice : d->bytes), room = layout->line_bytes / SHUNT_LINE_WIRE;
    uint64_t warps = (direct ? SHUNT_LINE_DIRECT : SHUNT_LINE_THREADS) / 32;

    assert_true(v->flags & SHUNT_PLAN_LL);
    assert_true(!direct || (v->flags & SHUNT_PLAN_ZERO_COPY));
    assert_true(!direct || slice * ((uint64_t)d->n - 1) < d->bytes); /* no slice is empty */
    assert_true(v->blocks <= d->max_blocks);
    assert_true(units <= room || (is_mutual(d->coll) && !d->spans && SHUNT_LINE_LAP * v->blocks * warps <= room));
    assert_true((v->blocks - 1) * warps < units); /* none without work */
    assert_true(v->blocks == d->max_blocks || v->blocks * warps >= units || units > room);
}

/* What a kernel relies on, for any size, number of ranks and GPU. */
static void check_shape(const struct shunt_demand *d, const struct shunt_layout *layout)
{
    struct shunt_verdict v = { 0 };

    shunt_select_shape(d, layout, &v);
    bool copy = d->wanted >= 0 && shunt_algos[d->wanted].number == SHUNT_NAME_copy;
    assert_true(v.algo < SHUNT_NALGOS);
    /* Copies need receive buffers that are open; else it is the one hop. */
    assert_true(d->wanted < 0 || v.algo == (uint32_t)d->wanted || (copy && !(d->can & SHUNT_PLAN_ZERO_COPY)));
    assert_int_equal(shunt_algos[v.algo].coll, d->coll);
    assert_in_range(v.blocks, 1, SHUNT_GRID);
    if (v.algo == SHUNT_ALGO_REDUCE_oneshot && (v.flags & SHUNT_PLAN_ZERO_COPY)) { /* it needs no rings */
        assert_true((d->can & SHUNT_PLAN_READS) && v.flags == SHUNT_PLAN_ZERO_COPY);
        assert_true(v.blocks * SHUNT_PLAN_TEAMS <= d->max_blocks);
        assert_true(d->bytes / v.blocks / SHUNT_PLAN_TEAMS / v.chunk < 1 << SHUNT_CHUNK_BITS);
        return;
    }
    assert_true((v.flags & ~d->can & ~(uint32_t)(SHUNT_PLAN_LL | SHUNT_PLAN_ENGINES | SHUNT_PLAN_HOSTED)) == 0);
    assert_int_equal(d->hosted, (v.flags & SHUNT_PLAN_HOSTED) != 0);
    if (v.flags & SHUNT_PLAN_ENGINES) {
        assert_int_equal(shunt_algos[v.algo].number, SHUNT_NAME_copy);
        assert_true(v.flags & SHUNT_PLAN_ZERO_COPY);
        return;
    }
    if (v.flags & SHUNT_PLAN_LINES) {
        check_lines(d, layout, &v);
        return;
    }
    if (v.flags & SHUNT_PLAN_LL) {
        uint64_t units = (d->bytes + SHUNT_LL_UNIT - 1) / SHUNT_LL_UNIT;
        assert_int_not_equal(v.algo, TWOSHOT);
        assert_true(v.blocks <= d->max_blocks);
        assert_true(units * SHUNT_LL_WORDS * 16 <= layout->ll_bytes);
        return;
    }
    assert_true(v.blocks <= SHUNT_PLAN_BLOCKS && v.blocks * SHUNT_PLAN_TEAMS <= d->max_blocks);
    assert_true(v.chunk >= 16 && v.chunk % 16 == 0);
    assert_true((uint64_t)v.blocks * SHUNT_RING_DEPTH * (v.chunk + 128) <= layout->ring_bytes);
    assert_true(!d->hosted || (uint64_t)v.blocks * SHUNT_RING_DEPTH * (v.chunk + 128) <= layout->host_ring_bytes);
    assert_true(!(v.flags & SHUNT_PLAN_ZERO_COPY) || v.algo == TWOSHOT);
}

/* One collective's algorithms and sizes. */
static void check_collective(unsigned coll, int n, const struct shunt_layout *layout)
{
    static const uint32_t grids[] = { 128, 2, 37 };

    for (int wanted = SHUNT_ALGO_AUTO; wanted < SHUNT_NALGOS; wanted++) {
        if (wanted >= 0 && shunt_algos[wanted].coll != coll)
            continue;
        for (uint64_t bytes = 1; bytes < 1ull << 40; bytes = bytes * 3 + 1) {
            for (uint32_t k = 0; k < 18; k++) { /* of three grids, neither ZERO_COPY nor LINES, one of the two, both; hosted; reads */
                struct shunt_demand d = { .coll = coll, .n = n, .bytes = bytes, .wanted = wanted, .can = k / 3 % 4 * 2,
                                          .max_blocks = grids[k % 3], .hosted = k / 3 == 4, .spans = has_rows(coll) };
                if (k / 3 == 5)
                    d.can = SHUNT_PLAN_LINES | SHUNT_PLAN_READS;
                check_shape(&d, layout);
            }
        }
    }
}

static void shapes(void **state)
{
    static const struct shunt_layout layouts[] = {
        { .ll_bytes = 2 << 20, .line_bytes = 8 << 20, .ring_bytes = 27 << 20, .host_ring_bytes = 6 << 20 },
        { .ll_bytes = 512 << 10, .line_bytes = 6 << 20, .ring_bytes = 4 << 20, .host_ring_bytes = 800 << 10 },
        { .ll_bytes = 256 << 10, .line_bytes = 100 << 10, .ring_bytes = 1 << 20, .host_ring_bytes = 2 << 20 },
    };

    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        for (int n = 2; n <= SHUNT_KRANKS; n++) {
            for (int a = 0; a < SHUNT_NALGOS; a++)
                check_collective(shunt_algos[a].coll, n, &layouts[l]);
        }
    }
}

/* A rank's scratch is as large with many peers as with one, and holds every shape. */
static void bounded_scratch(void **state)
{
    (void)state;
    for (int n = 2; n <= SHUNT_KRANKS; n++) {
        struct shunt_layout layout = shunt_layout_make(n);
        assert_in_range(layout.total, shunt_conf->scratch_size * 3 / 4, shunt_conf->scratch_size);
        assert_in_range(layout.host_total, shunt_conf->shm_size * 3 / 4, shunt_conf->shm_size);
        for (int a = 0; a < SHUNT_NALGOS; a++)
            check_collective(shunt_algos[a].coll, n, &layout);
    }
    assert_int_equal(shunt_layout_make(1000).total, shunt_layout_make(SHUNT_KRANKS).total);
}

static const char *hosted_way(unsigned coll, int n, uint64_t bytes, bool rounds)
{
    static const struct shunt_layout layout = { .ll_bytes = 2 << 20, .ring_bytes = 27 << 20, .host_ring_bytes = 6 << 20 };
    const struct shunt_demand d = { coll, n, bytes, SHUNT_ALGO_AUTO, 0, SHUNT_GRID, .hosted = true, .rounds = rounds };
    struct shunt_verdict v = { 0 };

    shunt_select_shape(&d, &layout, &v);
    return v.flags & SHUNT_PLAN_LL ? "LL" : shunt_algos[v.algo].name;
}

/* By host memory each link should carry as little as can be. */
static void hosted(void **state)
{
    (void)state;
    assert_string_equal(hosted_way(SHUNT_COLL_ALLREDUCE, 2, 64 << 10, false), "LL");
    assert_string_equal(hosted_way(SHUNT_COLL_ALLREDUCE, 2, (64 << 10) + 4, false), "oneshot");
    assert_string_equal(hosted_way(SHUNT_COLL_ALLREDUCE, 2, 1 << 30, false), "oneshot");
    assert_string_equal(hosted_way(SHUNT_COLL_ALLREDUCE, 8, 8 << 10, true), "LL");
    assert_string_equal(hosted_way(SHUNT_COLL_ALLREDUCE, 3, 1 << 20, true), "twoshot");
    assert_string_equal(hosted_way(SHUNT_COLL_BCAST, 2, 1 << 20, false), "oneshot");
    assert_string_equal(hosted_way(SHUNT_COLL_BCAST, 3, 1 << 20, true), "ring");
    assert_string_equal(hosted_way(SHUNT_COLL_BCAST, 3, 100 << 10, false), "oneshot");
    assert_string_equal(hosted_way(SHUNT_COLL_REDUCE, 3, 1 << 20, false), "ring");
    assert_string_equal(hosted_way(SHUNT_COLL_REDUCE, 3, 1 << 20, true), "oneshot"); /* rounded once */
    assert_string_equal(hosted_way(SHUNT_COLL_ALLTOALL, 8, 16 << 20, false), "oneshot");
}

static void differing_posts(void **state)
{
    struct shunt_post x = { .coll = SHUNT_COLL_ALLREDUCE, .count = 7, .type = SHUNT_TYPE_F32, .op = SHUNT_OP_SUM }, y = x;
    unsigned long long a = 0, b = 0;

    (void)state;
    y.flags = SHUNT_POST_IN_PLACE; /* what may differ */
    y.send.align = 4;
    y.gpu = 1;
    assert_null(shunt_posts_differ(&x, &y, &a, &b));
    y.count = 8;
    assert_string_equal(shunt_posts_differ(&x, &y, &a, &b), "count");
    assert_true(a == 7 && b == 8);
    y = x;
    y.flags = SHUNT_POST_ASKS;
    assert_string_equal(shunt_posts_differ(&x, &y, &a, &b), "form");
    y = x;
    y.op = SHUNT_OP_MAX;
    assert_string_equal(shunt_posts_differ(&x, &y, &a, &b), "operation");
    y = x;
    y.root = 1;
    assert_string_equal(shunt_posts_differ(&x, &y, &a, &b), "root");
    y = x;
    y.type = SHUNT_TYPE_I32;
    assert_string_equal(shunt_posts_differ(&x, &y, &a, &b), "element type");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),  cmocka_unit_test(refused_words),   cmocka_unit_test(too_many_ranges),
        cmocka_unit_test(shapes), cmocka_unit_test(differing_posts), cmocka_unit_test(hosted),
        cmocka_unit_test(bounded_scratch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
