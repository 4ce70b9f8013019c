/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every kernel on the CPU against a loop: all types, operations and shapes, any alignment, odd counts, in place.
 *
 * The ranks are threads with their scratch and buffers in this process. They play the host: expand the plan, launch,
 * launch again what left early. A batch of operations runs without a pause between them, so that ranks run ahead of
 * each other as they do in an application.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "coll/algo.h"
#include "cuda/kargs.h"
#include "cuda/types.h"
#include "sim/kernel.h"
}

#include "elements.h"

#define MOST_RANKS 8
#define MOST_BYTES (48u << 10) /* of a vector */
#define LL_BYTES   (4 * MOST_BYTES)
#define RING_BYTES (256u << 10)
#define LINE_BYTES (2 * MOST_BYTES)
#define LINES_AT   (SHUNT_SCRATCH_DATA + 2 * (MOST_RANKS - 1) * (uint64_t)LL_BYTES)
#define RINGS      (LINES_AT + 2 * (MOST_RANKS - 1) * (uint64_t)LINE_BYTES)
#define SCRATCH    (RINGS + (MOST_RANKS - 1) * SHUNT_PLAN_AREAS * (uint64_t)RING_BYTES)
#define GUARD      64 /* bytes around a buffer that nobody may touch */

static const struct sim_kernel *(*find_kernel)(const char *name);

/* ---- one operation ---- */

enum shape { LL, LINES, ONESHOT, TWOSHOT, ZERO_COPY, SHAPES };
static const char *const shape_names[] = {"LL", "LL128", "oneshot", "twoshot", "twoshot zero-copy"};

struct operation {
    shape how;
    shunt_type type;
    shunt_op op;
    size_t count;
    bool in_place;
    unsigned in_shift, out_shift, shift_step; /* addresses modulo 16; the latter differs from rank to rank */
    unsigned blocks, threads, chunk, depth;
    uint64_t window; /* ns */
    bool short_slots; /* LL128: of one lap */
    int late;        /* a rank that starts only when another has left early; -1: none */
    unsigned left;   /* how often a kernel has left early */
    /* made from these */
    size_t bytes;
    std::vector<char> memory[MOST_RANKS], before[MOST_RANKS], wanted;
    char *in[MOST_RANKS], *out[MOST_RANKS];
    const struct sim_kernel *kernel;
};

static bool is_ll(shape how)
{
    return how == LL || how == LINES;
}

static char *at_shift(char *p, unsigned shift)
{
    return p + (16 - (uintptr_t)p % 16) % 16 + GUARD + shift % 16;
}

static void prepare(operation *o, unsigned n)
{
    shunt_type type;
    o->bytes = o->count * shunt_type_size(o->type);
    assert_true(shunt_kernel_find(o->type, o->op, &type));
    std::string name = std::string(is_ll(o->how) ? "shunt_ll_" : "shunt_plan_") + shunt_type_name(type) + "_";
    for (const char *c = shunt_op_name(o->op); *c; c++)
        name += (char)(*c - 'a' + 'A');
    o->kernel = find_kernel(name.c_str());
    if (!o->kernel)
        fail_msg("there is no kernel %s", name.c_str());
    for (unsigned r = 0; r < n; r++) {
        size_t half = o->bytes + 2 * GUARD + 32;
        o->memory[r].resize(2 * half);
        for (char &c : o->memory[r])
            c = (char)rng();
        o->in[r] = at_shift(o->memory[r].data(), o->in_shift + r * o->shift_step);
        o->out[r] = o->in_place ? o->in[r] : at_shift(o->memory[r].data() + half, o->out_shift + r * o->shift_step);
        rules[o->type].fill(o->in[r], o->count);
        o->before[r] = o->memory[r];
    }
    o->wanted.resize(o->bytes);
    rules[o->type].combine(o->op, n, o->in, o->wanted.data(), o->count);
}

static std::string describe(const operation &o, unsigned n)
{
    char text[512];
    snprintf(text, sizeof text,
             "%s %s of %zu %s on %u ranks%s, %u x %u threads, chunk %u, depth %u, addresses mod 16: in %u, out %u, + %u "
             "per rank",
             shape_names[o.how], shunt_op_name(o.op), o.count, shunt_type_name(o.type), n,
             o.in_place ? ", in place" : "", o.blocks, o.threads, o.chunk, o.depth, o.in_shift, o.out_shift,
             o.shift_step);
    return text;
}

/* The result, the same bits everywhere; what is around it and the input as before. */
static void check(operation *o, unsigned n)
{
    for (unsigned r = 0; r < n; r++) {
        size_t bad = rules[o->type].difference(o->out[r], o->wanted.data(), o->count);
        if (bad < o->count)
            fail_msg("%s: element %zu of rank %u is wrong", describe(*o, n).c_str(), bad, r);
        if (memcmp(o->out[r], o->out[0], o->bytes) != 0)
            fail_msg("%s: ranks 0 and %u have different bits", describe(*o, n).c_str(), r);
        memcpy(o->before[r].data() + (o->out[r] - o->memory[r].data()), o->out[r], o->bytes);
        if (o->before[r] != o->memory[r])
            fail_msg("%s: rank %u has written outside of its result", describe(*o, n).c_str(), r);
    }
}

/* ---- the ranks: what the host does for a kernel ---- */

struct rank_state {
    uint64_t done[SHUNT_GRID];
    uint32_t abort;
    char *scratch;
};

struct world {
    unsigned n;
    uint64_t ticket;
    unsigned ll_turn;
    rank_state ranks[MOST_RANKS];
};

struct rank_batch {
    world *w;
    unsigned me, seed;
    std::vector<operation> *operations;
    pthread_t thread;
};

static void fill_head(world *w, unsigned me, uint64_t ticket, shunt_khead *head)
{
    rank_state *r = &w->ranks[me];
    head->ticket = ticket;
    head->done = r->done;
    head->abort = &r->abort;
    head->n = (uint8_t)w->n;
    head->me = (uint8_t)me;
}

static void fill_ll(world *w, unsigned me, const operation &o, uint64_t ticket, unsigned turn, shunt_ll_args *a)
{
    a->op.in = o.in[me];
    a->op.out = o.out[me];
    a->op.bytes = o.bytes;
    a->op.ticket = ticket;
    a->op.turns = turn ? ~0u : 0;
    a->op.lines = o.how == LINES;
    a->ll_bytes = LL_BYTES;
    a->lines = LINES_AT;
    /* Often no more room than for a lap, so that the message goes round */
    uint32_t lap = SHUNT_LINE_LAP * (o.blocks * o.threads / 32);
    a->line_bytes = LINE_BYTES;
    a->line_room = o.short_slots ? lap : LINE_BYTES / SHUNT_LINE_WIRE;
    for (unsigned q = 0; q < w->n; q++) {
        a->scratch[q] = w->ranks[q].scratch;
        a->channel[q] = (uint8_t)q;
    }
}

static void fill_step(const shunt_step &from, shunt_kstep *to)
{
    to->raise = (uint16_t)from.raise;
    for (int i = 0; i < 2; i++) {
        to->wait_ranks[i] = (uint16_t)from.wait[i].ranks;
        to->wait_signal[i] = from.wait[i].signal;
        to->wait_depth[i] = from.wait[i].depth;
    }
    to->first_ref = from.first_ref;
    to->n_in = from.n_in;
    to->n_out = from.n_out;
    to->kind = from.kind;
    to->team = from.team;
    to->lag = from.lag;
    to->raise_signal = from.raise_signal;
}

static void fill_plan(world *w, unsigned me, const operation &o, shunt_plan_args *a)
{
    const shunt_shape shape = {w->n,    o.how == ZERO_COPY ? (uint32_t)SHUNT_PLAN_ZERO_COPY : 0,
                               o.blocks, o.chunk, o.depth, o.bytes};
    shunt_plan plan;
    shunt_algos[o.how == ONESHOT ? SHUNT_ALGO_ALLREDUCE_oneshot : SHUNT_ALGO_ALLREDUCE_twoshot].write(&shape, me, &plan);
    a->in = o.in[me];
    a->bytes = plan.bytes;
    a->slice_bytes = plan.slice_bytes;
    a->part_bytes = plan.part_bytes;
    a->rings = RINGS;
    a->ring_bytes = RING_BYTES;
    a->chunk = plan.chunk;
    a->depth = plan.depth;
    a->stride = plan.chunk + 16;
    a->n_steps = plan.n_steps;
    for (unsigned q = 0; q < w->n; q++) {
        a->out[q] = o.out[q];
        a->scratch[q] = w->ranks[q].scratch;
        a->channel[q] = (uint8_t)q;
        a->align[q] = (uint8_t)((uintptr_t)o.in[q] % 16);
    }
    for (unsigned s = 0; s < plan.n_steps; s++)
        fill_step(plan.steps[s], &a->steps[s]);
    memcpy(a->refs, plan.refs, plan.n_refs * sizeof *a->refs);
}

/* What the blocks of a launch have answered; those that have ended need not run again. False: not what they should. */
static bool look(rank_state *r, operation &o, unsigned grid, shunt_khead *head)
{
    for (unsigned b = 0; b < grid; b++) {
        uint64_t code = r->done[b] & 3, *skip = &head->skip[b / 64], bit = 1ull << b % 64;
        if (*skip & bit)
            continue;
        if (r->done[b] >> 2 != head->ticket || (code != SHUNT_DONE_OK && code != SHUNT_DONE_AGAIN))
            return false;
        if (code == SHUNT_DONE_OK)
            *skip |= bit;
        else
            __atomic_add_fetch(&o.left, 1, __ATOMIC_RELAXED);
        r->done[b] = 0;
    }
    return true;
}

/* A host is late now and then. */
static void dawdle(rank_batch *b)
{
    if (rand_r(&b->seed) % 4 == 0)
        usleep((unsigned)rand_r(&b->seed) % 2000);
}

/* Launch until no block has left early. */
static bool launch(rank_batch *b, operation &o, shunt_khead *head, void *args)
{
    rank_state *r = &b->w->ranks[b->me];
    const unsigned grid[3] = {is_ll(o.how) ? o.blocks : o.blocks * SHUNT_PLAN_TEAMS, 1, 1};
    const unsigned block[3] = {o.threads, 1, 1};
    void *const list[] = {args};
    const uint64_t all = (1ull << grid[0]) - 1;
    while (o.late == (int)head->me && !__atomic_load_n(&o.left, __ATOMIC_RELAXED))
        usleep(100);
    for (head->window_ns = o.window; head->skip[0] != all; head->window_ns = head->window_ns * 2 + 1000) {
        o.kernel->run(list, grid, block, 0);
        if (!look(r, o, grid[0], head))
            return false;
        head->launch++;
        dawdle(b);
    }
    return true;
}

static void *run_rank(void *context)
{
    auto *b = static_cast<rank_batch *>(context);
    world *w = b->w;
    uint64_t ticket = w->ticket;
    unsigned turn = w->ll_turn;
    for (operation &o : *b->operations) {
        bool good;
        ticket++;
        dawdle(b);
        if (is_ll(o.how)) {
            shunt_ll_args args = {};
            turn ^= 1;
            fill_head(w, b->me, ticket, &args.head);
            fill_ll(w, b->me, o, ticket, turn, &args);
            good = launch(b, o, &args.head, &args);
        } else {
            shunt_plan_args args = {};
            fill_head(w, b->me, ticket, &args.head);
            fill_plan(w, b->me, o, &args);
            good = launch(b, o, &args.head, &args);
        }
        if (!good)
            abort(); /* the others would wait for this rank */
    }
    return nullptr;
}

static world *make_world(unsigned n)
{
    world *w = new world();
    w->n = n;
    for (unsigned r = 0; r < n; r++) {
        w->ranks[r].scratch = static_cast<char *>(aligned_alloc(64, SCRATCH));
        assert_non_null(w->ranks[r].scratch);
        memset(w->ranks[r].scratch, 0, SCRATCH);
    }
    return w;
}

static void end_world(world *w)
{
    for (unsigned r = 0; r < w->n; r++)
        free(w->ranks[r].scratch);
    delete w;
}

/* Run the operations on all ranks and check them. */
static void run_batch(world *w, std::vector<operation> *operations)
{
    rank_batch batch[MOST_RANKS];
    for (operation &o : *operations)
        prepare(&o, w->n);
    for (unsigned r = 0; r < w->n; r++) {
        batch[r] = {w, r, (unsigned)rng(), operations, {}};
        assert_int_equal(pthread_create(&batch[r].thread, nullptr, run_rank, &batch[r]), 0);
    }
    for (unsigned r = 0; r < w->n; r++)
        pthread_join(batch[r].thread, nullptr);
    for (operation &o : *operations) {
        w->ticket++;
        w->ll_turn ^= is_ll(o.how);
        check(&o, w->n);
    }
    operations->clear();
}

/* ---- cases ---- */

static operation make_operation(shape how, unsigned type, unsigned op)
{
    operation o = {};
    o.late = -1;
    unsigned align = (unsigned)shunt_type_align((shunt_type)type);
    o.how = how;
    o.type = (shunt_type)type;
    o.op = (shunt_op)op;
    o.count = 1 + random_below(random_below(2) ? 40 : 600);
    o.in_place = random_below(3) == 0;
    o.in_shift = (unsigned)random_below(16) / align * align;
    o.out_shift = (unsigned)random_below(16) / align * align;
    o.shift_step = random_below(2) ? align : 0;
    o.blocks = 1 + (unsigned)random_below(3);
    o.threads = random_below(4) ? 32 : 64;
    o.chunk = 16u << random_below(6);
    o.depth = 2 + (unsigned)random_below(2);
    o.short_slots = random_below(2);
    o.window = random_below(4) ? 200000 : random_below(2000);
    return o;
}

static bool exists(unsigned type, unsigned op)
{
    shunt_type kernel_type;
    return shunt_kernel_find((shunt_type)type, (shunt_op)op, &kernel_type);
}

static void every_kernel(void **)
{
    std::vector<operation> operations;
    unsigned pairs = 0;
    for (unsigned n : {2u, 3u}) {
        world *w = make_world(n);
        for (unsigned type = 0; type < SHUNT_NTYPES; type++) {
            for (unsigned op = 0; op < SHUNT_NOPS; op++) {
                if (!exists(type, op))
                    continue;
                pairs++;
                for (unsigned how = 0; how < SHAPES; how++)
                    operations.push_back(make_operation((shape)how, type, op));
            }
            run_batch(w, &operations);
        }
        end_world(w);
    }
    assert_int_equal(pairs, 2 * (8 * 10 + 2 * 4 + 2 * 2 + 2 * 4 + 7 * 2));
}

/* For each size of element: every address of input and output, with few and with many elements. */
static void every_alignment(void **)
{
    std::vector<operation> operations;
    world *w = make_world(2);
    for (unsigned type : {SHUNT_TYPE_U8, SHUNT_TYPE_I16, SHUNT_TYPE_F32, SHUNT_TYPE_U64, SHUNT_TYPE_C32, SHUNT_TYPE_C64,
                          SHUNT_TYPE_BF16, SHUNT_TYPE_I16I, SHUNT_TYPE_F64I}) {
        unsigned align = (unsigned)shunt_type_align((shunt_type)type);
        unsigned op = exists(type, SHUNT_OP_SUM) ? SHUNT_OP_SUM : SHUNT_OP_MAXLOC;
        for (unsigned how = 0; how < SHAPES; how++) {
            for (unsigned in = 0; in < 16; in += align) {
                for (unsigned out = 0; out < 16; out += align) {
                    operation o = make_operation((shape)how, type, op);
                    o.in_shift = in;
                    o.out_shift = out;
                    o.shift_step = 0;
                    o.in_place = false;
                    operations.push_back(o);
                }
            }
            run_batch(w, &operations);
        }
    }
    end_world(w);
}

/* The ways through the loops that only long vectors take. */
static void long_vectors(void **)
{
    std::vector<operation> operations;
    world *w = make_world(4);
    for (unsigned type : {SHUNT_TYPE_I8, SHUNT_TYPE_F32, SHUNT_TYPE_F64, SHUNT_TYPE_F16}) {
        for (unsigned how = 0; how < SHAPES; how++) {
            for (unsigned chunk : {1024u, 16384u}) {
                operation o = make_operation((shape)how, type, SHUNT_OP_SUM);
                o.count = MOST_BYTES / shunt_type_size(o.type) - random_below(7);
                o.chunk = chunk;
                o.threads = chunk == 1024 ? 32 : 512;
                o.shift_step = 0;
                if (chunk == 16384)
                    o.out_shift = o.in_shift; /* whole vectors all the way */
                operations.push_back(o);
            }
        }
    }
    run_batch(w, &operations);
    end_world(w);
}

static void many_ranks(void **)
{
    std::vector<operation> operations;
    for (unsigned n : {5u, 8u}) {
        world *w = make_world(n);
        for (unsigned i = 0; i < 12; i++) {
            unsigned op = random_below(2) ? SHUNT_OP_SUM : SHUNT_OP_MAX;
            operations.push_back(make_operation((shape)(i % SHAPES), i % 2 ? SHUNT_TYPE_F32 : SHUNT_TYPE_I16, op));
        }
        run_batch(w, &operations);
        end_world(w);
    }
}

/* NaN comes through MIN and MAX from whichever rank, and through nothing that is not NaN there. */
static void nan_from_any_rank(void **)
{
    std::vector<operation> operations;
    world *w = make_world(3);
    static const unsigned pairs[][2] = {
        {SHUNT_TYPE_F64, SHUNT_OP_MIN},     {SHUNT_TYPE_F64, SHUNT_OP_MAX},     {SHUNT_TYPE_BF16, SHUNT_OP_MIN},
        {SHUNT_TYPE_F64I, SHUNT_OP_MINLOC}, {SHUNT_TYPE_F32F, SHUNT_OP_MAXLOC},
    };
    for (unsigned how = 0; how < SHAPES; how++)
        for (const unsigned *pair : pairs) {
            operations.push_back(make_operation((shape)how, pair[0], pair[1]));
            operations.back().count = 300; /* of which about one in forty is NaN on one rank or more */
        }
    run_batch(w, &operations);
    end_world(w);
}

/* A block whose peers are late leaves, writes nothing, and goes on where it was when it is launched again. */
static void kernels_that_leave(void **)
{
    std::vector<operation> operations;
    world *w = make_world(3);
    for (unsigned i = 0; i < 48; i++) {
        operations.push_back(make_operation((shape)(i % SHAPES), SHUNT_TYPE_I32, SHUNT_OP_SUM));
        operation &o = operations.back();
        o.in_place = i / SHAPES % 2;
        o.count = o.how == LINES ? 6000 : 300; /* LL128: so many that it goes round */
        o.chunk = 64; /* more chunks than a ring has places */
        o.window = 0;
        o.late = (int)random_below(w->n);
    }
    run_batch(w, &operations);
    end_world(w);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel),      cmocka_unit_test(every_alignment),   cmocka_unit_test(long_vectors),
        cmocka_unit_test(many_ranks),        cmocka_unit_test(nan_from_any_rank), cmocka_unit_test(kernels_that_leave),
    };
    const char *folder = getenv("builddir");
    std::string path = std::string(folder ? folder : ".") + "/.libs/libshunt-simkernels.so";
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *reinterpret_cast<void **>(&find_kernel) = dlsym(library, "sim_kernel_find");
    setenv("SHUNT_SIM_MEAN", "1", 0);
    setenv("SHUNT_SIM_SEED", "1", 0);
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
