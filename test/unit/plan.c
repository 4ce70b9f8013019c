/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every algorithm's plan, for 2 to 33 ranks and odd sizes, run in one process against a loop.
 *
 * The runner here does what the kernel does, one step of one block at a time, in random order over all blocks of all
 * ranks: a wait that is missing shows as wrong data, one too many as a deadlock. The operation does not commute, so a
 * wrong order of ranks shows as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "coll/algo.h"
#include "test/unit/collectives.h"
#include "test/unit/plan_run.h"

static struct shunt_shape shape_of(uint32_t n, uint32_t flags, uint32_t blocks, uint32_t chunk, uint32_t depth, uint32_t root,
                                   uint64_t bytes)
{
    return (struct shunt_shape){ .n = n, .flags = flags, .blocks = blocks, .chunk = chunk, .depth = depth, .root = root,
                                 .bytes = bytes };
}

/* So many rings, the ranks in an order of its own in each: 0 none, the ranks as they are. */
static void take_ways(struct shunt_shape *shape, uint32_t ways)
{
    static uint8_t order[SHUNT_PLAN_WAYS][SHUNT_PLAN_RANKS];
    struct machine m = { .seed = shape->n * 7u + shape->bytes };

    for (uint32_t w = 0; w < ways; w++) {
        for (uint32_t k = 0; k < shape->n; k++) { /* put at a random place among those before it */
            uint32_t at = draw(&m, k + 1);
            order[w][k] = order[w][at];
            order[w][at] = (uint8_t)k;
        }
    }
    shape->ways = ways;
    shape->order = order;
}

/* What a case asks for. */
struct ask {
    const struct shunt_algo *algo;
    struct shunt_shape shape;
    int in_place;
    uint64_t salt; /* of the random order */
};

static uint64_t block_elements(const struct ask *ask)
{
    return ask->shape.bytes / 4;
}

/* One memory for each rank: the send buffer, the receive buffer, in place one; a guard at the end. */
static void fill(struct machine *m, const struct ask *ask)
{
    uint32_t **memory = m->memory;
    uint64_t most = ask->shape.n * block_elements(ask);

    for (uint32_t r = 0; r < m->n; r++) {
        memory[r] = malloc(4 * (2 * most + 1));
        for (uint64_t i = 0; i <= 2 * most; i++)
            memory[r][i] = draw(m, 1u << 30);
        int at = block_in_place(ask->algo->coll, ask->shape.root, r);
        int64_t begin = ask->in_place ? at * (int64_t)block_elements(ask) : 0;
        m->out[r] = memory[r] + (ask->in_place ? 0 : most);
        m->in[r] = memory[r];
        if (begin > 0)
            m->in[r] += begin;
        else if (begin < 0)
            m->out[r] = memory[r] - begin - block_elements(ask);
        if (ask->algo->coll == SHUNT_COLL_BCAST)
            m->out[r] = m->in[r];
    }
}

/* Rank r's memory as it has to be in the end. */
static void expect(const struct machine *m, const struct ask *ask, uint32_t r, uint32_t *const *before, uint32_t *wanted)
{
    unsigned coll = ask->algo->coll;
    uint64_t block = block_elements(ask), most = m->n * block;
    uint32_t *out = wanted + (m->out[r] - before[r]);

    memcpy(wanted, before[r], 4 * (2 * most + 1));
    for (uint32_t b = 0; b < blocks_out(coll, m->n, ask->shape.root, r); b++) {
        if (!combines(coll)) {
            memcpy(out + b * block, moved_block(coll, ask->shape.root, r, b, (char *const *)m->in, 4 * block), 4 * block);
            continue;
        }
        uint64_t from = scatters_sums(coll) ? r * block : 0;
        for (uint64_t i = 0; i < block; i++) {
            out[i] = m->in[0][from + i];
            for (uint32_t q = 1; q <= last_operand(coll, m->n, r); q++)
                out[i] = combine(m, out[i], m->in[q][from + i]);
        }
    }
}

static void write_plans(struct machine *m, const struct ask *ask)
{
    for (uint32_t r = 0; r < m->n; r++) {
        ask->algo->write(&ask->shape, r, &m->plans[r]);
        assert_true(m->plans[r].n_steps <= SHUNT_PLAN_STEPS && m->plans[r].n_refs <= SHUNT_PLAN_REFS);
    }
}

/* Take a wait away from all plans. Answers how many had it. */
static int break_plans(struct machine *m, uint32_t step, uint32_t wait)
{
    int broken = 0;

    for (uint32_t r = 0; r < m->n; r++) {
        if (step >= m->plans[r].n_steps || m->plans[r].steps[step].wait[wait].ranks == 0)
            continue;
        m->plans[r].steps[step].wait[wait].ranks = 0;
        broken++;
    }
    return broken;
}

/*
 * Run it. Answers whether all is as it should be. `without`: a wait that is taken away; *broken: from so many plans.
 * `frozen`: a rank that never begins (n: none); then what should be is that no other waits for it for ever.
 */
static int one_case_of(const struct ask *ask, uint32_t frozen, int without, int *broken)
{
    const struct shunt_shape *shape = &ask->shape;
    struct machine m = { .n = shape->n, .blocks = shape->blocks, .seed = shape->n * 1000003u + shape->bytes + ask->salt,
                         .words = 2 * shape->n * block_elements(ask) + 1, .frozen = frozen,
                         .commutes = adds_anyhow(ask->algo) };

    fill(&m, ask);
    for (uint32_t r = 0; r < m.n; r++)
        expect(&m, ask, r, m.memory, m.wanted[r] = malloc(4 * m.words));
    write_plans(&m, ask);
    if (without >= 0)
        *broken = break_plans(&m, (uint32_t)without / 2, (uint32_t)without % 2);
    m.teams = calloc(m.n * m.blocks * SHUNT_PLAN_TEAMS, sizeof *m.teams);
    m.counters = calloc((size_t)m.n * m.n * m.blocks * SHUNT_PLAN_SIGNALS, sizeof *m.counters);
    m.scratch = calloc((size_t)m.n * m.n * SHUNT_PLAN_AREAS * m.blocks * shape->depth, shape->chunk);
    run(&m);
    m.wrong += frozen < m.n && !nobody_hangs(&m);
    for (uint32_t r = 0; r < m.n; r++) {
        m.wrong += frozen == m.n && memcmp(m.memory[r], m.wanted[r], 4 * m.words) != 0;
        free(m.memory[r]);
        free(m.wanted[r]);
    }
    free(m.scratch);
    free(m.counters);
    free(m.teams);
    return m.wrong == 0;
}

static int one_case(const struct ask *ask, int without, int *broken)
{
    return one_case_of(ask, ask->shape.n, without, broken);
}

static void check_case(const struct shunt_algo *algo, uint32_t n, uint64_t elements, uint32_t blocks, uint32_t chunk,
                       uint32_t flags, int in_place)
{
    struct ask ask = { algo, shape_of(n, flags, blocks, chunk, 2 + n % 3, (uint32_t)elements % n, 4 * elements), in_place, 0 };

    take_ways(&ask.shape, elements % 5);
    if (algo->coll == SHUNT_COLL_ALLTOALL && strcmp(algo->name, "copy") == 0)
        ask.in_place = 0; /* nobody may write where another still reads */

    if (!one_case(&ask, -1, NULL))
        fail_msg("%s %s of %u ranks, %zu elements, %u blocks, chunk %u, flags %u, root %u%s", shunt_coll_name(algo->coll),
                 algo->name, n, (size_t)elements, blocks, chunk, flags, ask.shape.root, in_place ? ", in place" : "");
}

/* One hop in which some ranks hear nothing of others: it can be asked to begin with all. */
static bool may_meet(const struct shunt_algo *algo)
{
    return strcmp(algo->name, "oneshot") == 0 && !is_mutual(algo->coll) && !has_rows(algo->coll);
}

static void every_algorithm(void **state)
{
    static const uint64_t sizes[] = { 1, 2, 3, 5, 17, 64, 129, 1000 };

    (void)state;
    for (int a = 0; a < SHUNT_NALGOS; a++) {
        for (uint32_t n = 2; n <= MAX_RANKS && !has_rows(shunt_algos[a].coll); n++) {
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                uint32_t flags = s % 2 ? SHUNT_PLAN_ZERO_COPY : 0;
                if (n < 10 || sizes[s] < 1000 || shunt_algos[a].coll == SHUNT_COLL_ALLREDUCE)
                    check_case(&shunt_algos[a], n, sizes[s], 1 + n % 3, 16 << s % 3, flags, s % 3 == 0);
                if (n < 10)
                    check_case(&shunt_algos[a], n, sizes[s], 3, 32, flags ^ SHUNT_PLAN_ZERO_COPY, s % 3 != 0);
                if (n < 10 && may_meet(&shunt_algos[a]))
                    check_case(&shunt_algos[a], n, sizes[s], 2, 32, SHUNT_PLAN_MEETS, 1);
            }
        }
    }
}

/*
 * Does a kernel wait for ever only when all have begun? Those must in which everybody hears from all, and lines of ranks. (In
 * one hop from or to a root a rank hears from the root alone, and hangs if that hangs. Copy engines run nothing that waits.)
 */
static int hears_from_all(const struct shunt_algo *algo)
{
    return strcmp(algo->name, "copy") != 0 &&
           (is_mutual(algo->coll) || strcmp(algo->name, "ring") == 0 || strcmp(algo->name, "tree") == 0);
}

static int nobody_waits_for(const struct ask *ask, int without, int *broken)
{
    for (uint32_t frozen = 0; frozen < ask->shape.n; frozen++) {
        if (!one_case_of(ask, frozen, without, broken))
            return 0;
    }
    return 1;
}

static void who_has_not_begun(void **state)
{
    (void)state;
    for (int a = 0; a < SHUNT_NALGOS; a++) {
        const uint32_t flags = may_meet(&shunt_algos[a]) ? SHUNT_PLAN_MEETS : 0;
        for (uint32_t n = 2; n < 9 && (hears_from_all(&shunt_algos[a]) || flags != 0); n++) {
            for (uint32_t root = 0; root < n; root++) {
                struct ask ask = { &shunt_algos[a], shape_of(n, flags, 2, 16, 2, root, 4 * 300), 1, 0 };
                if (!nobody_waits_for(&ask, -1, NULL))
                    fail_msg("%s %s of %u ranks, root %u", shunt_coll_name(ask.algo->coll), ask.algo->name, n, root);
            }
        }
    }
}

/* ---- blocks that differ ---- */

enum { MOST_OF_ROW = 300, MOST_STEPS = 4 }; /* elements; of plans of such blocks */

/* Random blocks, many of them empty, in the order of ranks with gaps between; of sums each rank's block on all alike. */
static void draw_spans(struct machine *m, bool sums, struct shunt_spans *spans, uint64_t *largest)
{
    uint64_t out[SHUNT_SPAN_RANKS] = { 0 }, columns[SHUNT_SPAN_RANKS];

    for (uint32_t q = 0; q < m->n; q++)
        columns[q] = draw(m, 4) ? 4 * draw(m, MOST_OF_ROW) : 0;
    for (uint32_t p = 0; p < m->n; p++) {
        uint64_t in = 0;
        for (uint32_t q = 0; q < m->n; q++) {
            uint64_t bytes = sums ? columns[q] : draw(m, 4) ? 4 * draw(m, MOST_OF_ROW) : 0;
            spans[p].in[q] = (struct shunt_span){ in, bytes };
            spans[q].out[p] = (struct shunt_span){ sums ? 0 : out[q], bytes };
            in += bytes + 4 * draw(m, 3);
            out[q] += bytes + 4 * draw(m, 3);
            *largest = bytes > *largest ? bytes : *largest;
        }
    }
}

static void expect_spans(const struct machine *m, bool sums, const struct shunt_spans *spans, uint32_t r, uint32_t *wanted)
{
    uint32_t *out = wanted + (m->out[r] - m->memory[r]);

    memcpy(wanted, m->memory[r], 4 * m->words);
    for (uint32_t q = 0; q < m->n; q++) {
        const uint32_t *from = m->in[q] + spans[q].in[r].at / 4;
        uint64_t count = spans[r].out[q].bytes / 4;
        for (uint64_t i = 0; i < count; i++)
            out[spans[r].out[q].at / 4 + i] = sums && q > 0 ? combine(m, out[i], from[i]) : from[i];
    }
}

/* Answers whether all is as it should be; `salt`, `without` and *broken are as in one_case. */
static bool spans_case(const struct shunt_algo *algo, uint32_t n, uint32_t blocks, uint32_t chunk, uint32_t salt, int without,
                       int *broken)
{
    static struct shunt_spans spans[SHUNT_SPAN_RANKS];
    struct shunt_shape shape = shape_of(n, 0, blocks, chunk, 2, 0, 0);
    struct machine m = { .n = n, .blocks = blocks, .seed = n * 1000003u + chunk + algo->coll + salt * 7919u,
                         .words = 2 * n * (MOST_OF_ROW + 3), .frozen = n };
    bool sums = scatters_sums(algo->coll);

    memset(spans, 0, sizeof spans);
    draw_spans(&m, sums, spans, &shape.bytes);
    for (uint32_t r = 0; r < n; r++) {
        m.memory[r] = m.in[r] = malloc(4 * m.words);
        m.out[r] = m.in[r] + m.words / 2;
        for (uint64_t i = 0; i < m.words; i++)
            m.memory[r][i] = draw(&m, 1u << 30);
    }
    for (uint32_t r = 0; r < n; r++) {
        expect_spans(&m, sums, spans, r, m.wanted[r] = malloc(4 * m.words));
        shape.spans = &spans[r];
        algo->write(&shape, r, &m.plans[r]);
    }
    if (without >= 0)
        *broken = break_plans(&m, (uint32_t)without / 2, (uint32_t)without % 2);
    m.teams = calloc(n * blocks * SHUNT_PLAN_TEAMS, sizeof *m.teams);
    m.counters = calloc((size_t)n * n * blocks * SHUNT_PLAN_SIGNALS, sizeof *m.counters);
    m.scratch = calloc((size_t)n * n * SHUNT_PLAN_AREAS * blocks * shape.depth, chunk);
    run(&m);
    for (uint32_t r = 0; r < n; r++) {
        m.wrong += memcmp(m.memory[r], m.wanted[r], 4 * m.words) != 0;
        free(m.memory[r]);
        free(m.wanted[r]);
    }
    free(m.scratch);
    free(m.counters);
    free(m.teams);
    return !m.wrong;
}

static void check_spans(const struct shunt_algo *algo, uint32_t n, uint32_t blocks, uint32_t chunk)
{
    if (!spans_case(algo, n, blocks, chunk, 0, -1, NULL))
        fail_msg("%s %s of %u ranks, %u blocks, chunk %u", shunt_coll_name(algo->coll), algo->name, n, blocks, chunk);
}

static bool may_have_spans(const struct shunt_algo *algo)
{
    return has_rows(algo->coll) || (algo->coll == SHUNT_COLL_REDUCE_SCATTER && strcmp(algo->name, "ring") != 0);
}

static void every_spans(void **state)
{
    (void)state;
    for (int a = 0; a < SHUNT_NALGOS; a++) {
        for (uint32_t n = 2; n <= SHUNT_SPAN_RANKS && may_have_spans(&shunt_algos[a]); n++) {
            check_spans(&shunt_algos[a], n, 1 + n % 3, 16 << n % 4);
            check_spans(&shunt_algos[a], n, 1, 4096);
        }
    }
}

/* Does the runner notice, in one of several orders, that all plans of n ranks lack a wait? *broken: so many had it. */
static int notices_of(const struct shunt_algo *algo, uint32_t n, uint32_t flags, int wait, int *broken)
{
    struct ask ask = { algo, shape_of(n, flags, 2, 16, 2, 1, 4 * 1000), strcmp(algo->name, "copy") != 0, 0 };
    int good = 1;

    for (ask.salt = 0; good && ask.salt < 50; ask.salt++)
        good = one_case(&ask, wait, broken) &&
               (!hears_from_all(algo) || ask.salt > 0 || nobody_waits_for(&ask, wait, broken));
    return !good;
}

/* Some waits matter only in trees of some height. */
static int notices(const struct shunt_algo *algo, uint32_t flags, int wait, int *broken)
{
    return notices_of(algo, 3, flags, wait, broken) || (*broken > 0 && strcmp(algo->name, "tree") == 0 &&
                                                        notices_of(algo, 7, flags, wait, broken));
}

static int steps_of(const struct shunt_algo *algo, uint32_t flags)
{
    static struct shunt_plan plan;
    struct shunt_shape shape = shape_of(3, flags, 2, 16, 2, 1, 4 * 1000);

    algo->write(&shape, 1, &plan);
    return (int)plan.n_steps;
}

static void missing_waits_of(const struct shunt_algo *algo, uint32_t flags)
{
    for (int k = 0; k < 2 * steps_of(algo, flags); k++) {
        int broken = 0, noticed = notices(algo, flags, k, &broken);
        if (noticed != (broken > 0))
            fail_msg("%s %s, flags %u, without wait %d of step %d: %s", shunt_coll_name(algo->coll), algo->name, flags, k % 2,
                     k / 2, noticed ? "wrong all the same" : "nothing shows");
    }
}

/* The runner's own test: with a wait taken away it must notice, and else not. */
static void missing_waits_show(void **state)
{
    (void)state;
    for (int a = 0; a < SHUNT_NALGOS; a++) {
        if (!has_rows(shunt_algos[a].coll))
            missing_waits_of(&shunt_algos[a], 0);
    }
    missing_waits_of(&shunt_algos[SHUNT_ALGO_REDUCE_oneshot], SHUNT_PLAN_ZERO_COPY);
}

static bool notices_of_spans(const struct shunt_algo *algo, int wait, int *broken)
{
    bool good = true;

    for (uint32_t salt = 1; good && salt < 50; salt++)
        good = spans_case(algo, 3, 2, 16, salt, wait, broken);
    return !good;
}

static void missing_waits_of_spans_show(void **state)
{
    (void)state;
    for (int a = 0; a < SHUNT_NALGOS; a++) {
        for (int k = 0; k < 2 * MOST_STEPS && may_have_spans(&shunt_algos[a]); k++) {
            int broken = 0;
            bool noticed = notices_of_spans(&shunt_algos[a], k, &broken);
            if (noticed != (broken > 0))
                fail_msg("%s %s of blocks that differ without wait %d of step %d: %s", shunt_coll_name(shunt_algos[a].coll),
                         shunt_algos[a].name, k % 2, k / 2, noticed ? "wrong all the same" : "nothing shows");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(every_spans),
        cmocka_unit_test(missing_waits_show),
        cmocka_unit_test(missing_waits_of_spans_show),
        cmocka_unit_test(who_has_not_begun),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
