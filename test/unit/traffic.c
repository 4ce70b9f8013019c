/* SPDX-License-Identifier: BSD-3-Clause */
/* What each plan sends over each link, counted from its steps, against what its algorithm is said to send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "coll/routes.h"
#include "coll/select.h"
#include "machines.h"

enum { MOST = 16, CHUNK = 4096, DEPTH = 2 };

static uint64_t sent[MOST][MOST]; /* [from][to] bytes */

static void count_step(const struct shunt_plan *plan, const struct shunt_step *step, uint32_t block, uint64_t turn)
{
    const uint32_t copies = step->kind == SHUNT_STEP_COPY, refs = copies ? 2u * step->n_in : step->n_in + step->n_out;
    uint64_t offset;

    for (uint32_t i = copies ? 1 : step->n_in; i < refs; i += copies ? 2 : 1) {
        const struct shunt_ref to = plan->refs[step->first_ref + i];
        /* A slice is known by where it comes from; in scratch it has none of its own. */
        const struct shunt_ref from = plan->refs[step->first_ref + (copies ? i - 1 : 0)];
        if (to.rank != plan->me)
            sent[plan->me][to.rank] += shunt_plan_step_span(plan, step, from, block, turn, &offset);
    }
}

static void count(const struct shunt_algo *algo, const struct shunt_shape *shape)
{
    static struct shunt_plan plan;

    memset(sent, 0, sizeof sent);
    for (uint32_t me = 0; me < shape->n; me++) {
        algo->write(shape, me, &plan);
        for (uint32_t block = 0; block < plan.blocks; block++)
            for (uint64_t turn = 0; turn < shunt_plan_turns(&plan); turn++)
                for (uint32_t k = 0; k < plan.n_steps; k++)
                    if (shunt_plan_does(&plan, &plan.steps[k], block, turn))
                        count_step(&plan, &plan.steps[k], block, turn);
    }
}

static const struct shunt_algo *find(unsigned coll, const char *name)
{
    for (int i = 0; i < SHUNT_NALGOS; i++)
        if (shunt_algos[i].coll == coll && strcmp(shunt_algos[i].name, name) == 0)
            return &shunt_algos[i];
    fail();
    return NULL;
}

static struct shunt_shape shape_of(uint32_t n, uint64_t bytes)
{
    return (struct shunt_shape){ .n = n, .blocks = 12, .chunk = CHUNK, .depth = DEPTH, .bytes = bytes };
}

static uint64_t total(uint32_t from, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t to = 0; to < n; to++)
        bytes += sent[from][to];
    return bytes;
}

/* Each sends 2 (n - 1) / n vectors, or n - 1 blocks: the least there can be. */
static void test_least(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MOST; n++) {
        const uint64_t block = 96 << 10, vector = n * block;
        struct shunt_shape all = shape_of(n, vector), part = shape_of(n, block);
        static const char *const words[] = { "ring", "twoshot" };
        for (int w = 0; w < 2; w++) {
            count(find(SHUNT_COLL_ALLREDUCE, words[w]), &all);
            for (uint32_t r = 0; r < n; r++)
                assert_int_equal(total(r, n), 2 * (n - 1) * block);
        }
        static const unsigned halves[] = { SHUNT_COLL_ALLGATHER, SHUNT_COLL_REDUCE_SCATTER_BLOCK };
        for (int h = 0; h < 2; h++) {
            count(find(halves[h], "ring"), &part);
            for (uint32_t r = 0; r < n; r++)
                assert_int_equal(total(r, n), (n - 1) * block);
        }
        count(find(SHUNT_COLL_ALLREDUCE, "oneshot"), &all);
        for (uint32_t r = 0; r < n; r++)
            assert_int_equal(total(r, n), (n - 1) * vector);
    }
}

/* Halves go up and down: over all links 2 (n - 1) vectors, and no rank sends more than two of them. */
static void test_trees(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MOST; n++) {
        const uint64_t vector = 960 << 10;
        struct shunt_shape shape = shape_of(n, vector);
        uint64_t sum = 0;
        count(find(SHUNT_COLL_ALLREDUCE, "tree"), &shape);
        for (uint32_t r = 0; r < n; r++) {
            sum += total(r, n);
            assert_true(total(r, n) <= 2 * vector);
        }
        assert_int_equal(sum, 2 * (n - 1) * vector);
    }
}

/* On machines: a ring uses the links of its order alone, its two directions and several rings alike. */
static void test_machines(void **state)
{
    (void)state;
    static struct shunt_topo topo;
    static struct shunt_routes routes;
    const struct shunt_topo_limits limits = { .p2p_level = LEVEL_SYS };

    for (int m = 0; m < MACHINES; m++) {
        machine_load(machines[m].name, &topo);
        if (topo.n < 2 || topo.n > MOST || topo.n_nodes > 1)
            continue;
        shunt_routes_make(&topo, &limits, &routes);
        const uint32_t n = (uint32_t)topo.n;
        const uint64_t block = 768 << 10; /* divides by blocks, ways and teams */
        struct shunt_shape shape = shape_of(n, n * block);
        static uint64_t wanted[MOST][MOST];
        shape.ways = routes.ways;
        shape.order = routes.order;
        memset(wanted, 0, sizeof wanted);
        for (uint32_t way = 0; way < routes.ways; way++) {
            for (uint32_t k = 0; k < n; k++) {
                uint8_t a = routes.order[way][k], b = routes.order[way][(k + 1) % n];
                wanted[a][b] += (n - 1) * block / routes.ways;
                wanted[b][a] += (n - 1) * block / routes.ways;
            }
        }
        count(find(SHUNT_COLL_ALLREDUCE, "ring"), &shape);
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++)
                if (sent[a][b] != wanted[a][b])
                    fail_msg("%s: %zu bytes from %u to %u, not %zu", machines[m].name, (size_t)sent[a][b], a, b,
                             (size_t)wanted[a][b]);
    }
}

/* What a verdict carries of the rings is what they are. */
static void test_verdict(void **state)
{
    (void)state;
    static struct shunt_topo topo;
    static struct shunt_routes routes;
    const struct shunt_topo_limits limits = { .p2p_level = LEVEL_SYS };

    for (int m = 0; m < MACHINES; m++) {
        struct shunt_verdict verdict = { 0 };
        machine_load(machines[m].name, &topo);
        if (topo.n < 2 || topo.n > MOST)
            continue;
        shunt_routes_make(&topo, &limits, &routes);
        shunt_routes_put(&routes, topo.n, &verdict);
        assert_in_range(verdict.ways, 1, routes.ways);
        assert_true(verdict.ways == routes.ways || verdict.ways * topo.n > 16);
        for (uint32_t way = 0; way < verdict.ways; way++)
            for (uint32_t k = 0; k < (uint32_t)topo.n; k++)
                assert_int_equal(shunt_routes_rank(&verdict, (uint32_t)topo.n, way, k), routes.order[way][k]);
    }
}

/* From which size on rings are taken. */
static void test_when(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool rings;
        uint32_t ways;
    } cases[] = { { "dgx-1v", true, 3 }, { "pcie8", true, 1 }, { "hgx4", false, 3 }, { "h200x2", false, 1 },
                  { "dgx-h100", false, 1 } };
    static struct shunt_topo topo;
    static struct shunt_routes routes;
    const struct shunt_topo_limits limits = { .p2p_level = LEVEL_SYS };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine_load(cases[i].name, &topo);
        shunt_routes_make(&topo, &limits, &routes);
        if ((routes.ring_from[0] <= 64 << 20) != cases[i].rings || routes.ways != cases[i].ways)
            fail_msg("%s: from %zu on, %u ways", cases[i].name, (size_t)routes.ring_from[0], routes.ways);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least),   cmocka_unit_test(test_trees), cmocka_unit_test(test_machines),
        cmocka_unit_test(test_verdict), cmocka_unit_test(test_when),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
