/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of measurements: the fit, times between and beyond what was measured, the fastest for each size, the text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/algo.h"
#include "coll/select.h"
#include "coll/tune.h"
#include "topo/graph.h"

static struct shunt_tune tune, again;

static const uint64_t sizes[] = { 64, 1024, 8192, 65536, 1 << 20, 1 << 24 };
enum { SIZES = sizeof sizes / sizeof *sizes };

static void assert_near(double a, double b, double part)
{
    if (!(fabs(a - b) <= part * fabs(b)))
        fail_msg("%g is not %g", a, b);
}

/* A way whose time is a start and bytes over a width, but for some noise. */
static void add_row(struct shunt_tune_group *group, int algo, unsigned proto, double start, double width, double noise)
{
    struct shunt_tune_row *row = &group->rows[group->n_rows++];

    *row = (struct shunt_tune_row){ .coll = (uint8_t)shunt_algos[algo].coll, .proto = (uint8_t)proto, .algo = algo, .n = SIZES };
    for (int i = 0; i < SIZES; i++) {
        row->bytes[i] = sizes[i];
        row->us[i] = (start + (double)sizes[i] / width) * (1 + (i % 2 ? noise : -noise));
    }
}

static void make_table(void)
{
    memset(&tune, 0, sizeof tune);
    tune.machine = 0x1234;
    tune.n_groups = 1;
    tune.groups[0].hash = 0x99;
    tune.groups[0].ranks = 4;
    add_row(&tune.groups[0], SHUNT_ALGO_ALLREDUCE_oneshot, SHUNT_PROTO_LL, 5, 10000, 0);
    add_row(&tune.groups[0], SHUNT_ALGO_ALLREDUCE_twoshot, SHUNT_PROTO_AUTO, 10, 100000, 0);
    add_row(&tune.groups[0], SHUNT_ALGO_ALLREDUCE_ring, SHUNT_PROTO_AUTO, 60, 300000, 0);
    tune.links[tune.n_links++] = (struct shunt_tune_link){ SHUNT_LINK_PIX, 2.5, 4.5, 23000 };
    tune.links[tune.n_links++] = (struct shunt_tune_link){ SHUNT_LINK_BY_HOST, 4, 7, 9000 };
    shunt_tune_finish(&tune);
}

static void test_fit(void **state)
{
    double us[SIZES], start, width;

    (void)state;
    for (int noisy = 0; noisy < 2; noisy++) {
        for (int i = 0; i < SIZES; i++)
            us[i] = (7 + (double)sizes[i] / 20000) * (noisy ? i % 2 ? 1.05 : 0.95 : 1);
        shunt_tune_fit(sizes, us, SIZES, &start, &width);
        assert_near(start, 7, noisy ? 0.1 : 1e-6);
        assert_near(width, 20000, noisy ? 0.1 : 1e-6);
    }
    /* Through 0 rather than below it; no width where larger is not slower; one size alone. */
    for (int i = 0; i < SIZES; i++)
        us[i] = 1e-6 + (double)sizes[i] / 20000 * (i == 0 ? 0.1 : 1);
    shunt_tune_fit(sizes, us, SIZES, &start, &width);
    assert_true(start >= 0 && start < 1);
    for (int i = 0; i < SIZES; i++)
        us[i] = 9;
    shunt_tune_fit(sizes, us, SIZES, &start, &width);
    assert_near(start, 9, 1e-9);
    assert_true(isinf(width) || width > 1e9);
    shunt_tune_fit(sizes, us, 1, &start, &width);
    assert_near(start, 9, 1e-9);
}

static void test_times(void **state)
{
    (void)state;
    make_table();
    const struct shunt_tune_row *row = &tune.groups[0].rows[1];
    assert_near(shunt_tune_time(row, 8), row->us[0], 1e-9);
    for (int i = 0; i < SIZES; i++)
        assert_near(shunt_tune_time(row, sizes[i]), row->us[i], 1e-9);
    for (uint64_t bytes = 64; bytes < 1ull << 34; bytes *= 3) /* the line itself, between and beyond */
        assert_near(shunt_tune_time(row, bytes), 10 + (double)bytes / 100000, 0.01);
}

/* Where the lines cross: 5 + b/10000 = 10 + b/100000 at 55.6 kB, 10 + b/100000 = 60 + b/300000 at 7.5 MB. */
static void test_best(void **state)
{
    (void)state;
    make_table();
    for (uint64_t bytes = 1; bytes < 1ull << 36; bytes += bytes / 3 + 1) {
        const struct shunt_tune_row *row = shunt_tune_best(&tune.groups[0], SHUNT_COLL_ALLREDUCE, bytes, false);
        const struct shunt_tune_row *ordered = shunt_tune_best(&tune.groups[0], SHUNT_COLL_ALLREDUCE, bytes, true);
        assert_int_not_equal(ordered->algo, SHUNT_ALGO_ALLREDUCE_ring);
        if (bytes < 45000)
            assert_int_equal(row->algo, SHUNT_ALGO_ALLREDUCE_oneshot);
        else if (bytes > 70000 && bytes < 6000000)
            assert_int_equal(row->algo, SHUNT_ALGO_ALLREDUCE_twoshot);
        else if (bytes > 9000000)
            assert_int_equal(row->algo, SHUNT_ALGO_ALLREDUCE_ring);
    }
    assert_null(shunt_tune_best(&tune.groups[0], SHUNT_COLL_BCAST, 1024, false));
    assert_null(shunt_tune_group(&tune, 0x98));
    assert_null(shunt_tune_group(NULL, 0x99));
    assert_ptr_equal(shunt_tune_group(&tune, 0x99), &tune.groups[0]);
}

static void test_text(void **state)
{
    char error[160];

    (void)state;
    make_table();
    char *text = shunt_tune_print(&tune);
    assert_non_null(text);
    assert_int_equal(shunt_tune_parse(text, &again, error), SHUNT_OK);
    assert_int_not_equal(again.hash, 0);
    assert_int_equal(again.machine, tune.machine);
    assert_int_equal(again.n_links, 2);
    assert_int_equal(again.links[1].kind, SHUNT_LINK_BY_HOST);
    assert_int_equal(again.groups[0].n_rows, 3);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(again.groups[0].rows[r].algo, tune.groups[0].rows[r].algo);
        assert_int_equal(again.groups[0].rows[r].proto, tune.groups[0].rows[r].proto);
        for (int i = 0; i < SIZES; i++)
            assert_near(again.groups[0].rows[r].us[i], tune.groups[0].rows[r].us[i], 0.01);
    }
    free(text);
}

/* Whatever letter is changed or wherever it ends: refused, but for the hash's own line end. */
static void test_damage(void **state)
{
    char error[160];

    (void)state;
    make_table();
    char *text = shunt_tune_print(&tune);
    const size_t length = strlen(text);
    for (size_t i = 0; i + 1 < length; i++) {
        const char before = text[i];
        text[i] = before == '7' ? '8' : '7';
        assert_int_equal(shunt_tune_parse(text, &again, error), SHUNT_ERR_INVALID);
        assert_true(strlen(error) > 5);
        text[i] = before;
    }
    for (size_t i = 0; i < length; i += 7) {
        const char before = text[i];
        text[i] = 0;
        assert_int_equal(shunt_tune_parse(text, &again, error), SHUNT_ERR_INVALID);
        text[i] = before;
    }
    assert_int_equal(shunt_tune_parse(text, &again, error), SHUNT_OK);
    free(text);
}

/* Measured links take the place of the model's constants. */
static void test_links(void **state)
{
    static struct shunt_topo pair = { .n = 2, .n_nodes = 1 };
    const struct shunt_topo_limits direct = { .p2p_level = SHUNT_LINK_SYS }, hosted = { .p2p_disable = true };
    const struct shunt_link_cost before = *shunt_link_cost(SHUNT_LINK_PIX), host = *shunt_link_cost(SHUNT_LINK_BY_HOST);

    (void)state;
    make_table();
    pair.links[0][1] = pair.links[1][0] = (struct shunt_link){ SHUNT_LINK_PIX, 0 };
    double us = shunt_topo_estimate(&pair, &direct, NULL, 0, SHUNT_NAME_oneshot, 1 << 20);
    for (int i = 0; i < tune.n_links; i++)
        shunt_topo_correct(tune.links[i].kind, tune.links[i].flag, tune.links[i].fenced, tune.links[i].width / 2);
    assert_int_equal(shunt_topo_width(&pair, &direct, 0, 1), 11500);
    assert_int_equal(shunt_topo_width(&pair, &hosted, 0, 1), 4500);
    assert_true(shunt_topo_estimate(&pair, &direct, NULL, 0, SHUNT_NAME_oneshot, 1 << 20) > us * 1.5);
    shunt_topo_correct(SHUNT_LINK_PIX, before.flag, before.fenced, before.width);
    shunt_topo_correct(SHUNT_LINK_BY_HOST, host.flag, host.fenced, host.width);
}

/* What a table says is what the shape has, where nothing else is asked for and nothing forbids it. */
static void test_shape(void **state)
{
    const struct shunt_layout layout = shunt_layout_make(4);
    struct shunt_demand d = { .coll = SHUNT_COLL_ALLREDUCE, .n = 4, .bytes = 16 << 20, .wanted = SHUNT_ALGO_AUTO,
                              .max_blocks = SHUNT_GRID };
    struct shunt_verdict verdict = { 0 };

    (void)state;
    make_table();
    struct shunt_demand at = d;
    at.tune = &tune;
    shunt_shape_tune(&at, 0x98); /* another group */
    assert_int_equal(at.wanted, SHUNT_ALGO_AUTO);
    shunt_shape_tune(&at, 0x99);
    shunt_select_shape(&at, &layout, &verdict);
    assert_int_equal(verdict.algo, SHUNT_ALGO_ALLREDUCE_ring);
    for (int why = 0; why < 2; why++) { /* rank order; floats that round at each hop */
        at = d;
        at.tune = &tune;
        at.ordered = why == 0;
        at.rounds = why == 1;
        shunt_shape_tune(&at, 0x99);
        assert_int_not_equal(at.wanted, SHUNT_ALGO_ALLREDUCE_ring);
    }
    at = d;
    at.tune = &tune;
    at.bytes = 1000;
    shunt_shape_tune(&at, 0x99);
    assert_int_equal(at.proto, SHUNT_PROTO_LL);
    at = d;
    at.tune = &tune;
    at.wanted = SHUNT_ALGO_ALLREDUCE_tree; /* the user's wish */
    shunt_shape_tune(&at, 0x99);
    assert_int_equal(at.wanted, SHUNT_ALGO_ALLREDUCE_tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),  cmocka_unit_test(test_times),  cmocka_unit_test(test_best),
        cmocka_unit_test(test_text), cmocka_unit_test(test_damage), cmocka_unit_test(test_shape),
        cmocka_unit_test(test_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
