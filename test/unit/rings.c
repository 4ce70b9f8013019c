/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings, trees, leaders, estimates: against brute force up to 8 GPUs, by their laws on all machines and up to 64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "machines.h"
#include "topo/graph.h"

static struct shunt_topo topo;
static struct shunt_ring rings[SHUNT_TOPO_RINGS];

static void assert_all_once(const uint8_t *order, int n)
{
    uint64_t seen = 0;

    for (int i = 0; i < n; i++) {
        assert_in_range(order[i], 0, n - 1);
        assert_int_equal(seen >> order[i] & 1, 0);
        seen |= 1ull << order[i];
    }
}

/* ---- cycles ---- */

static void try_all(const uint32_t *width, int n, uint8_t *order, int length, unsigned taken, uint32_t *least, uint64_t *sum)
{
    if (length == n) {
        uint64_t its_sum;
        uint32_t its = shunt_cycle_width(width, n, order, &its_sum);
        if (its > *least || (its == *least && its_sum > *sum)) {
            *least = its;
            *sum = its_sum;
        }
        return;
    }
    for (int p = 1; p < n; p++) {
        if (taken >> p & 1)
            continue;
        order[length] = (uint8_t)p;
        try_all(width, n, order, length + 1, taken | 1u << p, least, sum);
    }
}

static void assert_best(const uint32_t *width, int n)
{
    uint8_t order[SHUNT_TOPO_GPUS] = { 0 }, any[SHUNT_TOPO_GPUS] = { 0 };
    uint32_t least = 0;
    uint64_t sum = 0, its_sum;

    try_all(width, n, any, 1, 1, &least, &sum);
    bool found = shunt_cycle_best(width, n, order);
    assert_int_equal(found, n == 1 || least > 0);
    if (!found)
        return;
    assert_all_once(order, n);
    assert_int_equal(shunt_cycle_width(width, n, order, &its_sum), least);
    assert_int_equal(its_sum, sum);
}

static void test_best_of_random(void **state)
{
    (void)state;
    unsigned seed = 3;
    uint32_t width[8 * 8];

    for (int round = 0; round < 400; round++) {
        int n = 1 + round % 8, kinds = 1 + rand_r(&seed) % 5, holes = rand_r(&seed) % 3;
        memset(width, 0, sizeof width);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < i; j++)
                width[i * n + j] = width[j * n + i] =
                    rand_r(&seed) % 4 < holes ? 0 : 10 * (1 + (uint32_t)rand_r(&seed) % (uint32_t)kinds);
        assert_best(width, n);
    }
}

static void test_best_of_machines(void **state)
{
    (void)state;
    uint32_t width[SHUNT_TOPO_GPUS * SHUNT_TOPO_GPUS];

    for (int m = 0; m < MACHINES; m++) {
        machine_load(machines[m].name, &topo);
        if (topo.n > 8)
            continue;
        for (int level = LEVEL_LOC; level <= LEVEL_SYS; level++) {
            const struct shunt_topo_limits limits = { .p2p_level = level };
            for (int i = 0; i < topo.n * topo.n; i++)
                width[i] = i / topo.n == i % topo.n ? 0 : shunt_topo_width(&topo, &limits, i / topo.n, i % topo.n);
            assert_best(width, topo.n);
        }
    }
}

/* Islands of GPUs in a shuffled order: a good ring enters and leaves each island once. */
static void test_many_points(void **state)
{
    (void)state;
    uint32_t width[SHUNT_TOPO_GPUS * SHUNT_TOPO_GPUS];
    uint8_t order[SHUNT_TOPO_GPUS];
    uint64_t sum;

    for (int n = 9; n <= SHUNT_TOPO_GPUS; n++) {
        int islands = 3, between = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                width[i * n + j] = i == j ? 0 : i % islands == j % islands ? 100 : 10;
        if (n > 13 && n < 17)
            continue; /* the same as 13, only slower */
        assert_true(shunt_cycle_best(width, n, order));
        assert_all_once(order, n);
        assert_int_equal(shunt_cycle_width(width, n, order, &sum), 10);
        for (int i = 0; i < n; i++)
            between += order[i] % islands != order[(i + 1) % n] % islands;
        assert_int_equal(between, islands);
    }
}

/* ---- rings of machines ---- */

static int rings_at(const char *name, int level)
{
    const struct shunt_topo_limits limits = { .p2p_level = level };

    machine_load(name, &topo);
    int n = shunt_topo_rings(&topo, &limits, rings);
    for (int r = 0; r < n; r++)
        assert_all_once(rings[r].order, topo.n);
    return n;
}

/* No NVLink is in two rings, and a ring with lanes has one at each hop. */
static void assert_disjoint(int n)
{
    static int used[SHUNT_TOPO_GPUS][SHUNT_TOPO_GPUS];

    memset(used, 0, sizeof used);
    for (int r = 0; r < n; r++) {
        for (int i = 0; rings[r].lanes && i < topo.n; i++) {
            int a = rings[r].order[i], b = rings[r].order[(i + 1) % topo.n];
            int lo = a < b ? a : b, hi = a < b ? b : a;
            assert_int_equal(topo.links[lo][hi].kind, SHUNT_LINK_NVL);
            used[lo][hi] += rings[r].lanes;
            assert_true(used[lo][hi] <= topo.links[lo][hi].lanes || topo.n == 2);
        }
    }
}

static void test_rings_of_machines(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int level, rings, lanes;
        bool both;
        uint32_t width;
    } cases[] = {
        { "dgx-1v", LEVEL_SYS, 3, 1, true, 19000 }, /* 6 links of each GPU: no more than 3, and all 3 there are */
        { "dgx-1v", LEVEL_LOC, 1, 0, false, 8000 },
        { "hgx4", LEVEL_NVL, 6, 1, true, 19000 },
        { "dgx-h100", LEVEL_SYS, 1, 18, false, 18 * 19000 },
        { "dgx-a100", LEVEL_SYS, 1, 12, false, 12 * 19000 },
        { "h200x2", LEVEL_SYS, 1, 18, false, 18 * 19000 },
        { "rtx4090x8-p2p", LEVEL_SYS, 1, 0, false, 14000 },
        { "rtx4090x8", LEVEL_SYS, 1, 0, false, 8000 },
        { "pcie8", LEVEL_SYS, 1, 0, false, 9000 },
        { "pairs4", LEVEL_SYS, 1, 0, false, 8000 },
        { "nodes-8-8", LEVEL_SYS, 1, 0, false, 6000 },
        { "one", LEVEL_SYS, 1, 0, false, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = rings_at(cases[i].name, cases[i].level);
        if (n != cases[i].rings || rings[0].lanes != cases[i].lanes || rings[0].both != cases[i].both ||
            rings[0].width != cases[i].width)
            fail_msg("%s: %d rings, of %d lanes, %d, %u MB/s", cases[i].name, n, rings[0].lanes, rings[0].both,
                     rings[0].width);
        assert_disjoint(n);
    }
}

/* Hops between sockets, or nodes, are as few as can be. */
static void test_few_far_hops(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum shunt_link_kind far;
        int hops;
    } cases[] = { { "pcie8", SHUNT_LINK_SYS, 2 },       { "rtx4090x8-p2p", SHUNT_LINK_NODE, 2 },
                  { "nodes-8x4", SHUNT_LINK_NET, 4 },     { "nodes-8-8", SHUNT_LINK_NET, 2 },   { "nodes-7-8", SHUNT_LINK_NET, 2 },
                  { "nodes-1-2", SHUNT_LINK_NET, 2 },   { "pairs4", SHUNT_LINK_NODE, 2 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int hops = 0;
        assert_int_equal(rings_at(cases[i].name, LEVEL_SYS), 1);
        for (int k = 0; k < topo.n; k++)
            hops += topo.links[rings[0].order[k]][rings[0].order[(k + 1) % topo.n]].kind == cases[i].far;
        assert_int_equal(hops, cases[i].hops);
    }
}

/* ---- trees ---- */

static int children(const struct shunt_tree *tree, int i)
{
    return (tree->child[i][0] != SHUNT_TREE_NONE) + (tree->child[i][1] != SHUNT_TREE_NONE);
}

static void check_tree(const struct shunt_tree *tree, int n)
{
    int edges = 0;

    assert_int_equal(tree->parent[tree->root], SHUNT_TREE_NONE);
    for (int i = 0; i < n; i++) {
        int at = i, steps = 0;
        for (; tree->parent[at] != SHUNT_TREE_NONE; at = tree->parent[at])
            assert_in_range(++steps, 1, n);
        assert_int_equal(at, tree->root);
        edges += children(tree, i);
        for (int c = 0; c < 2; c++)
            if (tree->child[i][c] != SHUNT_TREE_NONE)
                assert_int_equal(tree->parent[tree->child[i][c]], i);
    }
    assert_int_equal(edges, n - 1);
}

static void test_trees(void **state)
{
    (void)state;
    for (int n = 1; n <= SHUNT_TOPO_GPUS; n++) {
        uint8_t order[SHUNT_TOPO_GPUS];
        struct shunt_tree trees[2];
        int limit = 1;
        for (int i = 0; i < n; i++)
            order[i] = (uint8_t)(n % 3 == 0 ? n - 1 - i : n % 2 ? i * 2 % n : i); /* any order will do */
        assert_all_once(order, n);
        shunt_trees_make(order, n, trees);
        while (1 << limit < n + 1)
            limit++;
        for (int t = 0; t < 2; t++) {
            check_tree(&trees[t], n);
            assert_in_range(shunt_tree_depth(&trees[t], n), 0, limit);
        }
        for (int i = 0; i < n; i++)
            assert_true(children(&trees[0], i) == 0 || children(&trees[1], i) == 0);
    }
}

/* ---- leaders, NICs ---- */

static void test_leaders(void **state)
{
    (void)state;
    machine_load("smi-a40", &topo);
    assert_int_equal(shunt_topo_leader(&topo, 0), 1); /* PIX */
    assert_int_equal(shunt_topo_nic(&topo, 0), 0);
    assert_int_equal(shunt_topo_nic(&topo, 3), 1);
    machine_load("nodes-7-8", &topo);
    assert_int_equal(shunt_topo_leader(&topo, 0), 0);
    assert_int_equal(shunt_topo_leader(&topo, 1), 7);
    assert_int_equal(shunt_topo_leader(&topo, 2), -1);
    for (int i = 0; i < topo.n; i++)
        assert_int_equal(shunt_topo_nic(&topo, i), i); /* each its own */
    machine_load("dgx-a100", &topo);
    for (int i = 0; i < topo.n; i++)
        assert_int_equal(shunt_topo_nic(&topo, i), i); /* both of a pair are as near */
    machine_load("h200x2", &topo);
    assert_int_equal(shunt_topo_leader(&topo, 0), 0);
    assert_int_equal(shunt_topo_nic(&topo, 1), -1);
}

/* ---- estimates ---- */

static bool staged; /* GPUs do not meet in host memory */

static double estimate(const char *name, int level, enum shunt_algo_name model, uint64_t bytes)
{
    const struct shunt_topo_limits limits = { .p2p_level = level, .shm_disable = staged };
    int n = rings_at(name, level);

    return shunt_topo_estimate(&topo, &limits, rings, n, model, bytes);
}

static void test_estimates(void **state)
{
    (void)state;
    for (int m = 0; m < MACHINES; m++) {
        for (int model = 0; model <= SHUNT_NAME_staged; model++) {
            if (model == SHUNT_NAME_copy)
                continue;
            double before = 0;
            for (uint64_t bytes = 8; bytes <= 1u << 30; bytes *= 8) {
                double now = estimate(machines[m].name, LEVEL_SYS, (enum shunt_algo_name)model, bytes);
                assert_true(now > 0 && now >= before);
                before = now;
            }
        }
    }
    /* Whoever does not reach all others, not even in host memory, cannot send to all. */
    staged = true;
    assert_true(isinf(estimate("rtx4090x8", LEVEL_SYS, SHUNT_NAME_oneshot, 8)));
    assert_true(isinf(estimate("dgx-h100", LEVEL_LOC, SHUNT_NAME_twoshot, 8)));
    staged = false;
    assert_false(isinf(estimate("rtx4090x8", LEVEL_SYS, SHUNT_NAME_oneshot, 8)));
    assert_false(isinf(estimate("dgx-h100", LEVEL_LOC, SHUNT_NAME_twoshot, 8)));
    assert_true(isinf(estimate("nodes-8-8", LEVEL_SYS, SHUNT_NAME_oneshot, 8)));
    assert_false(isinf(estimate("nodes-8-8", LEVEL_SYS, SHUNT_NAME_ring, 8)));
    /* One hop when small, slices when large; rings where not all pairs are joined. */
    assert_true(estimate("dgx-h100", LEVEL_SYS, SHUNT_NAME_oneshot, 8) < estimate("dgx-h100", LEVEL_SYS, SHUNT_NAME_twoshot, 8));
    assert_true(estimate("dgx-h100", LEVEL_SYS, SHUNT_NAME_twoshot, 1 << 28) <
                estimate("dgx-h100", LEVEL_SYS, SHUNT_NAME_oneshot, 1 << 28));
    assert_true(estimate("dgx-1v", LEVEL_SYS, SHUNT_NAME_ring, 1 << 28) <
                estimate("dgx-1v", LEVEL_SYS, SHUNT_NAME_twoshot, 1 << 28));
    /* Two H200: 340 GB/s of each other's half, twice. */
    double us = estimate("h200x2", LEVEL_SYS, SHUNT_NAME_twoshot, 1 << 30);
    assert_true(us > 2800 && us < 3500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_of_random),    cmocka_unit_test(test_best_of_machines),
        cmocka_unit_test(test_many_points),       cmocka_unit_test(test_rings_of_machines),
        cmocka_unit_test(test_few_far_hops),      cmocka_unit_test(test_trees),
        cmocka_unit_test(test_leaders),           cmocka_unit_test(test_estimates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
