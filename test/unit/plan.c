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

#define MAX_RANKS 33

/* One team of one block of one rank: where it is in its program. */
struct team {
    uint64_t iteration;
    uint32_t step;
    int ended;
    int waited; /* for anything */
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
    /* rank r's memory, and as it has to be when its last team has ended */
    uint32_t *memory[MAX_RANKS], *wanted[MAX_RANKS];
    uint64_t words;
    uint32_t ended[MAX_RANKS]; /* teams */
    uint32_t frozen; /* a rank that has not begun; n: none */
    int wrong;
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
        uint64_t offset, bytes = shunt_plan_ref_span(plan, from, block, chunk, &offset);
        uint64_t there;
        /* Where a peer's slice lies, only its own plan knows. */
        const struct shunt_plan *its = to.space == SHUNT_SPACE_OUT ? &m->plans[to.rank] : plan;
        assert_int_equal(bytes, shunt_plan_ref_span(its, to, block, chunk, &there));
        memcpy(address(m, plan, to, there, block, chunk), address(m, plan, from, offset, block, chunk), bytes);
    }
}

static void reduce(struct machine *m, const struct shunt_plan *plan, const struct shunt_step *step, uint32_t block,
                   uint64_t chunk)
{
    const struct shunt_ref *refs = &plan->refs[step->first_ref];
    uint64_t offsets[MAX_RANKS], there, bytes = shunt_plan_ref_span(plan, refs[step->n_in], block, chunk, &there);

    for (uint32_t k = 0; k < step->n_in; k++)
        assert_int_equal(bytes, shunt_plan_ref_span(plan, refs[k], block, chunk, &offsets[k]));
    for (uint64_t i = 0; i < bytes / 4; i++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < step->n_in; k++) {
            uint32_t x = ((uint32_t *)address(m, plan, refs[k], offsets[k], block, chunk))[i];
            sum = k == 0 ? x : combine(sum, x);
        }
        for (uint32_t k = 0; k < step->n_out; k++)
            ((uint32_t *)address(m, plan, refs[step->n_in + k], there, block, chunk))[i] = sum;
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

static int waits(const struct shunt_step *step, uint64_t chunk)
{
    return (step->wait[0].ranks != 0 && chunk >= step->wait[0].depth) ||
           (step->wait[1].ranks != 0 && chunk >= step->wait[1].depth);
}

/* Let one team do one step. 0: it waits. */
static int advance(struct machine *m, uint32_t rank, uint32_t b, uint32_t t)
{
    const struct shunt_plan *plan = &m->plans[rank];
    struct team *team = &m->teams[(rank * m->blocks + b) * SHUNT_PLAN_TEAMS + t];
    const struct shunt_step *step = &plan->steps[team->step];
    uint64_t chunk = team->iteration - step->lag;

    if (rank == m->frozen)
        return 0;
    if (plan->n_steps == 0) { /* a rank that neither sends nor receives */
        team->ended = true;
        m->ended[rank]++;
        return 1;
    }
    if (step->team == t && team->iteration >= step->lag && chunk < shunt_plan_chunks(plan)) {
        if (!ready(m, plan, step, b, chunk))
            return 0;
        team->waited |= waits(step, chunk);
        do_step(m, plan, step, b, chunk);
    }
    if (++team->step == plan->n_steps) {
        team->step = 0;
        team->ended = ++team->iteration == iterations(plan, t);
        if (team->ended && m->teams[(rank * m->blocks + b) * SHUNT_PLAN_TEAMS + !t].ended)
            next_operation(m, plan, b);
        m->ended[rank] += (uint32_t)team->ended;
        if (m->ended[rank] == m->blocks * SHUNT_PLAN_TEAMS)
            m->wrong += memcmp(m->memory[rank], m->wanted[rank], 4 * m->words) != 0;
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
        if (looked == total && m->frozen < m->n)
            return;
        assert_true(looked < total);
    }
}

/* One rank has not begun, and nobody can move: a team of the others that hangs has not had its first wait, or is not there. */
static int nobody_hangs(const struct machine *m)
{
    for (uint32_t at = 0; at < m->n * m->blocks * SHUNT_PLAN_TEAMS; at++) {
        if (!m->teams[at].ended && m->teams[at].waited)
            return 0;
    }
    return 1;
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
                out[i] = combine(out[i], m->in[q][from + i]);
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
                         .words = 2 * shape->n * block_elements(ask) + 1, .frozen = frozen };

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
    struct ask ask = { algo, { n, flags, blocks, chunk, 2 + n % 3, (uint32_t)elements % n, 4 * elements, NULL }, in_place, 0 };

    if (algo->coll == SHUNT_COLL_ALLTOALL && strcmp(algo->name, "copy") == 0)
        ask.in_place = 0; /* nobody may write where another still reads */

    if (!one_case(&ask, -1, NULL))
        fail_msg("%s %s of %u ranks, %zu elements, %u blocks, chunk %u, flags %u, root %u%s", shunt_coll_name(algo->coll),
                 algo->name, n, (size_t)elements, blocks, chunk, flags, ask.shape.root, in_place ? ", in place" : "");
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
    return strcmp(algo->name, "copy") != 0 && (is_mutual(algo->coll) || strcmp(algo->name, "ring") == 0);
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
        for (uint32_t n = 2; n < 9 && hears_from_all(&shunt_algos[a]); n++) {
            for (uint32_t root = 0; root < n; root++) {
                struct ask ask = { &shunt_algos[a], { n, 0, 2, 16, 2, root, 4 * 300, NULL }, 1, 0 };
                if (!nobody_waits_for(&ask, -1, NULL))
                    fail_msg("%s %s of %u ranks, root %u", shunt_coll_name(ask.algo->coll), ask.algo->name, n, root);
            }
        }
    }
}

/* ---- blocks that differ ---- */

enum { MOST_OF_ROW = 300 }; /* elements */

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
            out[spans[r].out[q].at / 4 + i] = sums && q > 0 ? combine(out[i], from[i]) : from[i];
    }
}

/* Answers whether all is as it should be; `salt`, `without` and *broken are as in one_case. */
static bool spans_case(const struct shunt_algo *algo, uint32_t n, uint32_t blocks, uint32_t chunk, uint32_t salt, int without,
                       int *broken)
{
    static struct shunt_spans spans[SHUNT_SPAN_RANKS];
    struct shunt_shape shape = { n, 0, blocks, chunk, 2, 0, 0, NULL };
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
    return has_rows(algo->coll) || algo->coll == SHUNT_COLL_REDUCE_SCATTER;
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

/* Does the runner notice, in one of several orders, that all plans lack a wait? *broken: so many had it. */
static int notices(const struct shunt_algo *algo, int wait, int *broken)
{
    struct ask ask = { algo, { 3, 0, 2, 16, 2, 1, 4 * 1000, NULL }, strcmp(algo->name, "copy") != 0, 0 };
    int good = 1;

    for (ask.salt = 0; good && ask.salt < 50; ask.salt++)
        good = one_case(&ask, wait, broken) &&
               (!hears_from_all(algo) || ask.salt > 0 || nobody_waits_for(&ask, wait, broken));
    return !good;
}

/* The runner's own test: with a wait taken away it must notice, and else not. */
static void missing_waits_show(void **state)
{
    (void)state;
    for (int a = 0; a < SHUNT_NALGOS; a++) {
        for (int k = 0; k < 2 * SHUNT_PLAN_STEPS && !has_rows(shunt_algos[a].coll); k++) {
            int broken = 0, noticed = notices(&shunt_algos[a], k, &broken);
            if (noticed != (broken > 0))
                fail_msg("%s %s without wait %d of step %d: %s", shunt_coll_name(shunt_algos[a].coll), shunt_algos[a].name,
                         k % 2, k / 2, noticed ? "wrong all the same" : "nothing shows");
        }
    }
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
        for (int k = 0; k < 2 * SHUNT_PLAN_STEPS && may_have_spans(&shunt_algos[a]); k++) {
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
