/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of many nodes: no way is below the bounds, times grow with bytes, and the plan is near them or says why not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topo/nodes.h"

static const int sizes[] = {2, 3, 5, 8, 12, 16, 37, 64, 100, 127, 256, 500, 1000, 1024};
static const struct shunt_cluster shapes[] = {
    {0, 8, 8, 50000, 370000}, {0, 1, 1, 50000, 370000}, {0, 8, 1, 50000, 370000}, {0, 4, 8, 50000, 100000}, {0, 2, 1, 1250, 20000}};

static double bound(const struct shunt_cluster *c, double bytes)
{
    return fmax(shunt_wide_latency_bound(c), shunt_wide_bandwidth_bound(c, bytes));
}

static void each(void (*look)(const struct shunt_cluster *))
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
            struct shunt_cluster c = shapes[s];
            c.nodes = sizes[n];
            look(&c);
        }
}

static void look_at_times(const struct shunt_cluster *c)
{
    for (enum shunt_wide way = 0; way < SHUNT_NWIDE; way++) {
        double before = 0;
        for (double bytes = 8; bytes <= 1 << 30; bytes *= 2) {
            double time = shunt_wide_time(c, way, bytes);
            assert_true(isfinite(time) && time >= before);
            assert_true(time >= bound(c, bytes) * (1 - 1e-9));
            before = time;
        }
    }
}

/* No way is faster than what must be, and none gets faster with more bytes. */
static void test_bounds(void **state)
{
    (void)state;
    each(look_at_times);
}

static void look_at_plan(const struct shunt_cluster *c)
{
    for (double bytes = 8; bytes <= 1 << 30; bytes *= 2) {
        enum shunt_wide plan = shunt_wide_plan(c, bytes);
        double time = shunt_wide_time(c, plan, bytes);
        for (enum shunt_wide way = 0; way < SHUNT_NWIDE; way++)
            assert_true(time <= shunt_wide_time(c, way, bytes));
        assert_int_equal(shunt_wide_why(c, bytes) == NULL, time <= SHUNT_WIDE_FAR * bound(c, bytes));
    }
}

/* The plan is the fastest, and has a reason where it is far from the bounds, and only there. */
static void test_plan(void **state)
{
    (void)state;
    each(look_at_plan);
}

/* Of eight GPUs and eight NICs of 400 Gb/s: near the bounds at both ends, from 2 to 1024 nodes. */
static void test_ends(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        struct shunt_cluster c = shapes[0];
        c.nodes = sizes[n];
        for (double bytes = 8; bytes <= 8192; bytes *= 2)
            assert_null(shunt_wide_why(&c, bytes));
        for (double bytes = 1 << 28; bytes <= 1 << 30; bytes *= 2)
            assert_null(shunt_wide_why(&c, bytes));
    }
}

/* A hop among many nodes is longer than one among two, so the more bytes, the fewer nodes are in one. */
static void test_radix(void **state)
{
    (void)state;
    struct shunt_cluster c = shapes[0];
    c.nodes = 1024;
    int before = c.nodes;
    for (double bytes = 8; bytes <= 1 << 24; bytes *= 4) {
        int radix = shunt_wide_radix(&c, bytes);
        assert_in_range(radix, 2, before);
        before = radix;
    }
    assert_true(shunt_wide_radix(&c, 8) > 8);
    c.nodes = 2;
    assert_int_equal(shunt_wide_radix(&c, 8), 2);
}

/* Two nodes of one GPU and one NIC: what one can work out by hand, from the constants of a start and a hop. */
static void test_two(void **state)
{
    (void)state;
    struct shunt_cluster c = {2, 1, 1, 50000, 370000};
    double small = shunt_wide_time(&c, SHUNT_WIDE_DOUBLING, 0);
    assert_true(fabs(shunt_wide_time(&c, SHUNT_WIDE_DOUBLING, 5e6) - small - 100) < 1e-6);
    assert_true(fabs(shunt_wide_bandwidth_bound(&c, 5e6) - shunt_wide_bandwidth_bound(&c, 0) - 100) < 1e-6);
    assert_true(fabs(shunt_wide_latency_bound(&c) - small) < 1e-6);
}

static void test_words(void **state)
{
    (void)state;
    for (enum shunt_wide a = 0; a < SHUNT_NWIDE; a++) {
        assert_true(*shunt_wide_text(a));
        for (enum shunt_wide b = 0; b < a; b++)
            assert_string_not_equal(shunt_wide_word(a), shunt_wide_word(b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds), cmocka_unit_test(test_plan),
                                       cmocka_unit_test(test_ends),   cmocka_unit_test(test_radix),
                                       cmocka_unit_test(test_two),    cmocka_unit_test(test_words)};
    return cmocka_run_group_tests_name("cluster", tests, NULL, NULL);
}
