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

#define MAX_RANKS 33

/* One team of one block of one rank: where it is in its program. */
struct team {
    uint64_t iteration;
    uint32_t step;
    int ended;
};

/* A whole machine. counters[owner][sender][block][signal]; scratch[owner][slot][area][block][place] of chunk bytes. */
struct machine {
    uint32_t n, blocks;
    struct shunt_plan plans[MAX_RANKS];
    uint32_t *in[MAX_RANKS], *out[MAX_RANKS];
    struct team *teams; /* [rank][block][team] */
    uint64_t *counters;
    char *scratch;
    uint64_t seed;
};

static uint32_t combine(uint32_t a, uint32_t b)
{
    return a * 3 + b;
}

static uint32_t draw(struct machine *m, uint32_t below)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->seed >> 33) % below;
}

static uint64_t *counter(struct machine *m, uint32_t owner, uint32_t sender, uint32_t block, uint32_t signal)
{
    return &m->counters[((uint64_t)(owner * m->n + sender) * m->blocks + block) * SHUNT_PLAN_SIGNALS + signal];
}

static char *address(struct machine *m, const struct shunt_plan *plan, struct shunt_ref ref, uint64_t offset,
                     uint32_t block, uint64_t chunk)
{
    switch (ref.space) {
    case SHUNT_SPACE_IN:
        return (char *)m->in[plan->me] + offset;
    case SHUNT_SPACE_OUT:
        return (char *)m->out[ref.rank] + offset;
    default: {
        uint64_t ring = ((uint64_t)ref.rank * m->n + ref.slot) * SHUNT_PLAN_AREAS + ref.space - SHUNT_SPACE_SCRATCH0;
        return m->scratch + ((ring * m->blocks + block) * plan->depth + chunk % plan->depth) * plan->chunk;
    }
    }
}

static int ready(struct machine *m, const struct shunt_plan *plan, const struct shunt_step *step, uint32_t block,
                 uint64_t chunk)
{
    for (int w = 0; w < 2; w++) {
        for (uint32_t q = 0; q < plan->n; q++) {
            if (!(step->wait[w].ranks >> q & 1) || chunk + 1 <= step->wait[w].depth)
                continue;
            if (*counter(m, plan->me, q, block, step->wait[w].signal) < chunk + 1 - step->wait[w].depth)
                return 0;
        }
    }
    return 1;
}

static void copy_pairs(struct machine *m, const struct shunt_plan *plan, const struct shunt_step *step, uint32_t block,
                       uint64_t chunk)
{
    for (uint32_t k = 0; k < step->n_in; k++) {
        struct shunt_ref from = plan->refs[step->first_ref + 2 * k], to = plan->refs[step->first_ref + 2 * k + 1];
        uint64_t offset, bytes = shunt_plan_span(plan, from.slice, block, chunk, &offset);
        assert_int_equal(from.slice, to.space == SHUNT_SPACE_OUT ? to.slice : from.slice);
        memcpy(address(m, plan, to, offset, block, chunk), address(m, plan, from, offset, block, chunk), bytes);
    }
}

static void reduce(struct machine *m, const struct shunt_plan *plan, const struct shunt_step *step, uint32_t block,
                   uint64_t chunk)
{
    const struct shunt_ref *refs = &plan->refs[step->first_ref];
    uint64_t offset, bytes = shunt_plan_span(plan, refs[0].slice, block, chunk, &offset);

    for (uint64_t i = 0; i < bytes / 4; i++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < step->n_in; k++) {
            uint32_t x = ((uint32_t *)address(m, plan, refs[k], offset, block, chunk))[i];
            sum = k == 0 ? x : combine(sum, x);
        }
        for (uint32_t k = 0; k < step->n_out; k++)
            ((uint32_t *)address(m, plan, refs[step->n_in + k], offset, block, chunk))[i] = sum;
    }
}

/* What the next operation may do as soon as this block has ended: write to its rings in area 0 of all others. */
static void next_operation(struct machine *m, const struct shunt_plan *plan, uint32_t block)
{
    for (uint32_t q = 0; q < plan->n; q++) {
        struct shunt_ref ref = { .space = SHUNT_SPACE_SCRATCH0, .rank = (uint8_t)q, .slot = (uint8_t)plan->me };
        if (q != plan->me)
            memset(address(m, plan, ref, 0, block, 0), 0xee, plan->depth * plan->chunk);
    }
}

static uint64_t iterations(const struct shunt_plan *plan, uint32_t t)
{
    uint64_t last_lag = 0;

    for (uint32_t k = 0; k < plan->n_steps; k++) {
        if (plan->steps[k].team == t && plan->steps[k].lag > last_lag)
            last_lag = plan->steps[k].lag;
    }
    return shunt_plan_chunks(plan) + last_lag;
}

static void do_step(struct machine *m, const struct shunt_plan *plan, const struct shunt_step *step, uint32_t b,
                    uint64_t chunk)
{
    if (step->kind == SHUNT_STEP_COPY)
        copy_pairs(m, plan, step, b, chunk);
    else if (step->kind == SHUNT_STEP_REDUCE)
        reduce(m, plan, step, b, chunk);
    for (uint32_t q = 0; q < plan->n; q++) {
        if (step->raise >> q & 1)
            *counter(m, q, plan->me, b, step->raise_signal) = chunk + 1;
    }
}

/* Let one team do one step. 0: it waits. */
static int advance(struct machine *m, uint32_t rank, uint32_t b, uint32_t t)
{
    const struct shunt_plan *plan = &m->plans[rank];
    struct team *team = &m->teams[(rank * m->blocks + b) * SHUNT_PLAN_TEAMS + t];
    const struct shunt_step *step = &plan->steps[team->step];
    uint64_t chunk = team->iteration - step->lag;

    if (step->team == t && team->iteration >= step->lag && chunk < shunt_plan_chunks(plan)) {
        if (!ready(m, plan, step, b, chunk))
            return 0;
        do_step(m, plan, step, b, chunk);
    }
    if (++team->step == plan->n_steps) {
        team->step = 0;
        team->ended = ++team->iteration == iterations(plan, t);
        if (team->ended && m->teams[(rank * m->blocks + b) * SHUNT_PLAN_TEAMS + !t].ended)
            next_operation(m, plan, b);
    }
    return 1;
}

/*
 * Run to the end in random order, where for a while one team is preferred, so that it runs ahead as far as its waits
 * let it. A full round in which nobody can move is a deadlock.
 */
static void run(struct machine *m)
{
    uint32_t total = m->n * m->blocks * SHUNT_PLAN_TEAMS, ended = 0, preferred = 0;

    while (ended < total) {
        uint32_t at = draw(m, 8) ? preferred : draw(m, total), looked = 0;
        if (draw(m, 32) == 0)
            preferred = draw(m, total);
        while (looked < total) {
            struct team *team = &m->teams[at];
            uint32_t pair = at / SHUNT_PLAN_TEAMS;
            if (!team->ended && advance(m, pair / m->blocks, pair % m->blocks, at % SHUNT_PLAN_TEAMS)) {
                ended += (uint32_t)team->ended;
                break;
            }
            at = (at + 1) % total;
            looked++;
        }
        assert_true(looked < total);
    }
}

static void fill(struct machine *m, uint64_t elements, int in_place)
{
    for (uint32_t r = 0; r < m->n; r++) {
        m->in[r] = malloc(4 * elements + 4);
        m->out[r] = in_place ? m->in[r] : malloc(4 * elements + 4);
        memset(m->out[r], 0xa5, 4 * elements + 4);
        for (uint64_t i = 0; i < elements; i++)
            m->in[r][i] = draw(m, 1u << 30);
        m->out[r][elements] = 0xa5a5a5a5;
    }
}

static void check(struct machine *m, const uint32_t *expected, uint64_t elements)
{
    for (uint32_t r = 0; r < m->n; r++) {
        assert_memory_equal(m->out[r], expected, 4 * elements);
        assert_int_equal(m->out[r][elements], 0xa5a5a5a5);
    }
}

static void one_case(const struct shunt_algo *algo, uint32_t n, uint64_t elements, uint32_t blocks, uint32_t chunk,
                     uint32_t flags, int in_place)
{
    struct machine m = { .n = n, .blocks = blocks, .seed = n * 1000003u + elements };
    struct shunt_shape shape = { n, flags, blocks, chunk, 2 + n % 3, 4 * elements };
    uint32_t *expected = malloc(4 * elements + 4);

    fill(&m, elements, in_place);
    for (uint64_t i = 0; i < elements; i++) {
        expected[i] = m.in[0][i];
        for (uint32_t r = 1; r < n; r++)
            expected[i] = combine(expected[i], m.in[r][i]);
    }
    for (uint32_t r = 0; r < n; r++) {
        algo->write(&shape, r, &m.plans[r]);
        assert_true(m.plans[r].n_steps <= SHUNT_PLAN_STEPS && m.plans[r].n_refs <= SHUNT_PLAN_REFS);
    }
    m.teams = calloc(n * blocks * SHUNT_PLAN_TEAMS, sizeof *m.teams);
    m.counters = calloc((size_t)n * n * blocks * SHUNT_PLAN_SIGNALS, sizeof *m.counters);
    m.scratch = malloc((size_t)n * n * SHUNT_PLAN_AREAS * blocks * shape.depth * chunk);
    run(&m);
    check(&m, expected, elements);
    for (uint32_t r = 0; r < n; r++) {
        if (!in_place)
            free(m.out[r]);
        free(m.in[r]);
    }
    free(m.scratch);
    free(m.counters);
    free(m.teams);
    free(expected);
}

static void every_algorithm(void **state)
{
    static const uint64_t sizes[] = { 1, 2, 3, 5, 17, 64, 129, 1000 };

    (void)state;
    for (int a = 0; a < SHUNT_NALGOS; a++) {
        for (uint32_t n = 2; n <= MAX_RANKS; n++) {
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                uint32_t flags = s % 2 ? SHUNT_PLAN_ZERO_COPY : 0;
                one_case(&shunt_algos[a], n, sizes[s], 1 + n % 3, 16 << s % 3, flags, s % 3 == 0);
                if (n < 10)
                    one_case(&shunt_algos[a], n, sizes[s], 3, 32, flags ^ SHUNT_PLAN_ZERO_COPY, s % 3 != 0);
            }
        }
    }
}

/* The runner's own test: with a wait taken away it must notice. */
static int broken_plan(struct shunt_plan *plan, uint32_t step, uint32_t wait)
{
    if (step >= plan->n_steps || plan->steps[step].wait[wait].ranks == 0)
        return 0;
    plan->steps[step].wait[wait].ranks = 0;
    return 1;
}

static void missing_waits_show(void **state)
{
    struct shunt_shape shape = { 3, 0, 2, 16, 2, 4 * 1000 };

    (void)state;
    for (int a = 0; a < SHUNT_NALGOS; a++) {
        for (uint32_t k = 0; k < 2 * SHUNT_PLAN_STEPS; k++) {
            struct machine m = { .n = 3, .blocks = 2, .seed = 1 };
            int broken = 0, wrong = 0;
            fill(&m, 1000, 0);
            for (uint32_t r = 0; r < 3; r++) {
                shunt_algos[a].write(&shape, r, &m.plans[r]);
                broken += broken_plan(&m.plans[r], k / 2, k % 2);
            }
            m.teams = calloc(6 * SHUNT_PLAN_TEAMS, sizeof *m.teams);
            m.counters = calloc(9 * 2 * SHUNT_PLAN_SIGNALS, sizeof *m.counters);
            m.scratch = calloc(9 * SHUNT_PLAN_AREAS * 2 * 2, 16);
            run(&m);
            for (uint32_t r = 0; r < 3; r++) {
                for (int i = 0; i < 1000; i++)
                    wrong += m.out[r][i] != combine(combine(m.in[0][i], m.in[1][i]), m.in[2][i]);
            }
            assert_true(broken == 0 ? wrong == 0 : wrong > 0);
            for (uint32_t r = 0; r < 3; r++) {
                free(m.in[r]);
                free(m.out[r]);
            }
            free(m.scratch);
            free(m.counters);
            free(m.teams);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(missing_waits_show),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
