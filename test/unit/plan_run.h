/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runner of plans for the test of them: all ranks, blocks and teams in one process, in random order. The file that includes
 * it has included what it needs.
 */
#ifndef SHUNT_TEST_UNIT_PLAN_RUN_H
#define SHUNT_TEST_UNIT_PLAN_RUN_H

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
    int commutes; /* the operation, for algorithms that add in another order */
    uint32_t ended[MAX_RANKS]; /* teams */
    int begun[MAX_RANKS];      /* what it sends is there */
    uint32_t frozen; /* a rank that has not begun; n: none */
    int wrong;
};

static uint32_t combine(const struct machine *m, uint32_t a, uint32_t b)
{
    return a * (m->commutes ? 1 : 3) + b;
}

/* Not in the order of ranks: around a ring, or up trees. */
static int adds_anyhow(const struct shunt_algo *algo)
{
    return strcmp(algo->name, "tree") == 0 || (strcmp(algo->name, "ring") == 0 && algo->coll != SHUNT_COLL_REDUCE);
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

static char *address(struct machine *m, const struct shunt_plan *plan, const struct shunt_step *step, struct shunt_ref ref,
                     uint64_t offset, uint32_t block, uint64_t turn)
{
    uint64_t place = (ref.rank == plan->me ? turn : turn + step->ahead) % plan->depth;

    switch (ref.space) {
    case SHUNT_SPACE_IN:
        return (char *)m->in[plan->me] + offset;
    case SHUNT_SPACE_OUT:
        return (char *)m->out[ref.rank] + offset;
    case SHUNT_SPACE_THEIRS: /* its owner need not have it there before, nor leave it there when it has ended */
        m->wrong += !m->begun[ref.rank] || m->ended[ref.rank] == m->blocks * SHUNT_PLAN_TEAMS;
        return (char *)m->in[ref.rank] + offset;
    default: {
        uint64_t ring = ((uint64_t)ref.rank * m->n + ref.slot) * SHUNT_PLAN_AREAS + ref.space - SHUNT_SPACE_SCRATCH0;
        return m->scratch + ((ring * m->blocks + block) * plan->depth + place) * plan->chunk;
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
        uint64_t offset, bytes = shunt_plan_step_span(plan, step, from, block, chunk, &offset);
        uint64_t there;
        /* Where a peer's slice lies, only its own plan knows. */
        const struct shunt_plan *its = to.space == SHUNT_SPACE_OUT ? &m->plans[to.rank] : plan;
        assert_int_equal(bytes, shunt_plan_step_span(its, step, to, block, chunk, &there));
        memcpy(address(m, plan, step, to, there, block, chunk), address(m, plan, step, from, offset, block, chunk), bytes);
    }
}

static void reduce(struct machine *m, const struct shunt_plan *plan, const struct shunt_step *step, uint32_t block,
                   uint64_t chunk)
{
    const struct shunt_ref *refs = &plan->refs[step->first_ref];
    uint64_t offsets[MAX_RANKS], there, bytes = shunt_plan_step_span(plan, step, refs[step->n_in], block, chunk, &there);

    for (uint32_t k = 0; k < step->n_in; k++)
        assert_int_equal(bytes, shunt_plan_step_span(plan, step, refs[k], block, chunk, &offsets[k]));
    for (uint64_t i = 0; i < bytes / 4; i++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < step->n_in; k++) {
            uint32_t x = ((uint32_t *)address(m, plan, step, refs[k], offsets[k], block, chunk))[i];
            sum = k == 0 ? x : combine(m, sum, x);
        }
        for (uint32_t k = 0; k < step->n_out; k++)
            ((uint32_t *)address(m, plan, step, refs[step->n_in + k], there, block, chunk))[i] = sum;
    }
}

/* What the next operation may do as soon as this block has ended: write to its rings in area 0 of all others. */
static void next_operation(struct machine *m, const struct shunt_plan *plan, uint32_t block)
{
    const struct shunt_step none = { .ahead = 0 };

    for (uint32_t q = 0; q < plan->n; q++) {
        struct shunt_ref ref = { .space = SHUNT_SPACE_SCRATCH0, .rank = (uint8_t)q, .slot = (uint8_t)plan->me };
        if (q != plan->me)
            memset(address(m, plan, &none, ref, 0, block, 0), 0xee, plan->depth * plan->chunk);
    }
}

static uint64_t iterations(const struct shunt_plan *plan, uint32_t t)
{
    uint64_t last_lag = 0;

    for (uint32_t k = 0; k < plan->n_steps; k++) {
        if (plan->steps[k].team == t && plan->steps[k].lag > last_lag)
            last_lag = plan->steps[k].lag;
    }
    return shunt_plan_turns(plan) + last_lag;
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
            *counter(m, q, plan->me, b, step->raise_signal) = chunk + 1 + step->ahead;
        if (step->back >> q & 1)
            *counter(m, q, plan->me, b, step->back_signal) = chunk + 1;
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
    m->begun[rank] = 1;
    if (plan->n_steps == 0) { /* a rank that neither sends nor receives */
        team->ended = true;
        m->ended[rank]++;
        return 1;
    }
    if (step->team == t && team->iteration >= step->lag && chunk < shunt_plan_turns(plan) &&
        shunt_plan_does(plan, step, b, chunk)) {
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

#endif
