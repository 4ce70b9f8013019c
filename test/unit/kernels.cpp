/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every kernel on the CPU against a loop: all types, operations and shapes, all collectives, any alignment, odd counts, in
 * place.
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

#include "cuda/steps.h"
#include "operation.h"

#define LL_BYTES   (4 * MOST_BYTES)
#define RING_BYTES (256u << 10)
#define LINE_BYTES (2 * MOST_BYTES)
#define LINES_AT   (SHUNT_SCRATCH_DATA + 2 * (MOST_RANKS - 1) * (uint64_t)LL_BYTES)
#define RINGS      (LINES_AT + 2 * (MOST_RANKS - 1) * (uint64_t)LINE_BYTES)
#define HOST_RINGS LINES_AT
#define HOST_RING_BYTES (16u << 10)
#define HOST_SCRATCH (HOST_RINGS + (MOST_RANKS - 1) * SHUNT_PLAN_AREAS * (uint64_t)HOST_RING_BYTES)
#define SCRATCH    (RINGS + (MOST_RANKS - 1) * SHUNT_PLAN_AREAS * (uint64_t)RING_BYTES)

/* ---- the ranks: what the host does for a kernel ---- */

struct rank_state {
    uint64_t done[SHUNT_GRID];
    uint32_t abort;
    char *scratch, *host; /* for those it reaches, and for the others */
};

struct world {
    unsigned n;
    bool apart; /* ranks of which one is odd and the other even do not reach each other */
    uint64_t ticket;
    unsigned ll_turn;
    rank_state ranks[MOST_RANKS];
    uint64_t ended[MOST_RANKS]; /* atomic: ticket of the last operation that has ended there */
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

static void write_plan(world *w, unsigned me, const operation &o, shunt_plan *plan)
{
    static const uint32_t flags[] = {SHUNT_PLAN_LL, SHUNT_PLAN_LL | SHUNT_PLAN_LINES, 0,
                                     SHUNT_PLAN_LL | SHUNT_PLAN_LINES | SHUNT_PLAN_ZERO_COPY, 0, SHUNT_PLAN_ZERO_COPY, 0, 0};
    const char *name = o.how == TREE ? "tree" : o.how == RING ? "ring" : o.how >= DIRECT ? "twoshot" : "oneshot";
    shunt_shape shape = {};
    shape.n = w->n;
    shape.flags = flags[o.how];
    shape.blocks = o.blocks;
    shape.chunk = o.chunk;
    shape.depth = o.depth;
    shape.root = o.root;
    shape.bytes = o.bytes;
    uint8_t order[SHUNT_PLAN_WAYS][SHUNT_PLAN_RANKS]; /* turned by one from way to way, and turned around in every other */
    for (unsigned way = 0; way < SHUNT_PLAN_WAYS; way++)
        for (unsigned k = 0; k < w->n; k++)
            order[way][way % 2 ? w->n - 1 - k : k] = (uint8_t)((k + way) % w->n);
    shape.ways = (uint32_t)o.count % (SHUNT_PLAN_WAYS + 1);
    shape.order = order;
    for (const shunt_algo &algo : shunt_algos) {
        if (algo.coll != o.coll || strcmp(algo.name, name) != 0)
            continue;
        algo.write(&shape, me, plan);
        return;
    }
    fail();
}

static bool is_hosted(const world *w, unsigned a, unsigned b)
{
    return w->apart && (a + b) % 2;
}

/* Where each writes to this rank and it writes to each. Answers with whom it goes by host memory. */
template <class Args> static uint32_t fill_places(world *w, unsigned me, Args *a)
{
    uint32_t hosted = 0;
    for (unsigned q = 0; q < w->n; q++) {
        bool host = is_hosted(w, me, q);
        hosted |= (uint32_t)host << q;
        a->to[q] = host ? w->ranks[q].host : w->ranks[q].scratch;
        a->from[q] = host ? w->ranks[me].host : w->ranks[me].scratch;
        a->channel[q] = (uint8_t)q;
    }
    return hosted;
}

static void fill_ll(world *w, unsigned me, const operation &o, uint64_t ticket, unsigned turn, shunt_ll_args *a)
{
    shunt_plan plan;
    write_plan(w, me, o, &plan);
    shunt_exchange_of(&plan, &a->exchange);
    shunt_exchange_op(&plan, o.in[me], o.out[me], ticket, &a->exchange, &a->op);
    a->op.turns = turn ? ~0u : 0;
    a->ll_bytes = LL_BYTES;
    a->lines = LINES_AT;
    fill_places(w, me, a);
    /* Often no more room than for a lap, so that the message goes round */
    uint32_t lap = SHUNT_LINE_LAP * (o.blocks * o.threads / 32);
    a->line_bytes = LINE_BYTES;
    a->line_room = o.short_slots && is_mutual(o.coll) ? lap : LINE_BYTES / SHUNT_LINE_WIRE;
    for (unsigned q = 0; q < w->n; q++) {
        a->outs[q] = o.out[q];
    }
}

static void fill_plan(world *w, unsigned me, const operation &o, shunt_plan_args *a)
{
    shunt_plan plan;
    write_plan(w, me, o, &plan);
    a->in = o.in[me];
    shunt_plan_args_of(&plan, a);
    a->stride = plan.chunk + 16;
    a->rings[0] = RINGS;
    a->ring_bytes[0] = RING_BYTES;
    a->rings[1] = HOST_RINGS;
    a->ring_bytes[1] = HOST_RING_BYTES;
    a->hosted = fill_places(w, me, a);
    for (unsigned q = 0; q < w->n; q++) {
        a->out[q] = o.out[q];
        a->align[q] = (uint8_t)((uintptr_t)o.in[q] % 16);
    }
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

/*
 * Wait until everybody has read what came through the slots of this turn: as the host does for operations in which not
 * all have heard from all since.
 */
static void wait_for_slots(world *w, uint64_t last, uint64_t heard)
{
    for (unsigned q = 0; q < w->n && last >= heard; q++) {
        while (__atomic_load_n(&w->ended[q], __ATOMIC_ACQUIRE) < last)
            usleep(50);
    }
}

static void *run_rank(void *context)
{
    auto *b = static_cast<rank_batch *>(context);
    world *w = b->w;
    uint64_t ticket = w->ticket, sent[2] = {0, 0}, heard = ticket + 1; /* who begins a batch has seen the one before */
    unsigned turn = w->ll_turn;
    for (operation &o : *b->operations) {
        bool good;
        ticket++;
        dawdle(b);
        if (is_ll(o.how)) {
            shunt_ll_args args = {};
            turn ^= 1;
            wait_for_slots(w, sent[turn], heard);
            sent[turn] = ticket;
            heard = is_mutual(o.coll) ? ticket : heard;
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
        __atomic_store_n(&w->ended[b->me], ticket, __ATOMIC_RELEASE);
    }
    return nullptr;
}

static char *make_scratch(size_t bytes)
{
    char *scratch = static_cast<char *>(aligned_alloc(64, bytes));
    assert_non_null(scratch);
    memset(scratch, 0, bytes);
    return scratch;
}

static world *make_world(unsigned n, bool apart = false)
{
    world *w = new world();
    w->n = n;
    w->apart = apart;
    for (unsigned r = 0; r < n; r++) {
        w->ranks[r].scratch = make_scratch(SCRATCH);
        if (apart)
            w->ranks[r].host = make_scratch(HOST_SCRATCH);
    }
    return w;
}

static void end_world(world *w)
{
    for (unsigned r = 0; r < w->n; r++) {
        free(w->ranks[r].scratch);
        free(w->ranks[r].host);
    }
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
    o.coll = SHUNT_COLL_ALLREDUCE;
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
    if (how == DIRECT && o.count < 256) /* no slice may be empty */
        o.count += 256;
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
                if (!exists(type, op) || op == SHUNT_OP_MOVE)
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

/* So many operations of all collectives, each with other types and operations, by all shapes that suit them. */
static void run_collectives(unsigned n, bool apart, unsigned count)
{
    static const unsigned pairs[][2] = {{SHUNT_TYPE_F32, SHUNT_OP_SUM}, {SHUNT_TYPE_I16, SHUNT_OP_MAX},
                                        {SHUNT_TYPE_BF16, SHUNT_OP_SUM}, {SHUNT_TYPE_F64I, SHUNT_OP_MINLOC}};
    static const unsigned units[] = {SHUNT_TYPE_U8, SHUNT_TYPE_U16, SHUNT_TYPE_U32, SHUNT_TYPE_U64};
    std::vector<operation> operations;
    world *w = make_world(n, apart);
    for (unsigned i = 0; i < count; i++) {
        unsigned coll = shunt_algos[i % SHUNT_NALGOS].coll, pick = i / SHUNT_NALGOS % 4;
        if (has_rows(coll)) /* check_random has those */
            continue;
        bool adds = combines(coll);
        shape how = apart ? random_below(2) ? LL : ONESHOT : (shape)random_below(3); /* lines do not go by host memory */
        operation o = make_operation(how, adds ? pairs[pick][0] : units[pick],
                                     adds ? pairs[pick][1] : (unsigned)SHUNT_OP_MOVE);
        bool ring = strcmp(shunt_algos[i % SHUNT_NALGOS].name, "ring") == 0;
        bool tree = strcmp(shunt_algos[i % SHUNT_NALGOS].name, "tree") == 0;
        if ((ring || tree) && adds && (tree || coll != SHUNT_COLL_REDUCE) && pick % 3 == 0)
            o = make_operation(how, SHUNT_TYPE_I32, SHUNT_OP_SUM); /* to the last bit alike in whatever order */
        o.coll = coll;
        o.root = (unsigned)random_below(n);
        if ((ring || tree) && o.type != SHUNT_TYPE_BF16)
            o.how = ring ? RING : TREE;
        if (apart && strcmp(shunt_algos[i % SHUNT_NALGOS].name, "twoshot") == 0)
            o.how = TWOSHOT;
        if (i % 16 == 0)
            o.count = MOST_BYTES / shunt_type_size(o.type) / 8;
        operations.push_back(o);
    }
    run_batch(w, &operations);
    end_world(w);
}

static void every_collective(void **)
{
    for (unsigned n : {2u, 3u, 5u})
        run_collectives(n, false, 24 * SHUNT_NALGOS);
}

/* Between some ranks, or all, by host memory. */
static void pairs_that_do_not_reach_each_other(void **)
{
    for (unsigned n : {2u, 3u, 4u})
        run_collectives(n, true, 12 * SHUNT_NALGOS);
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
        o.count = o.how == LINES || o.how == DIRECT ? 6000 : 300; /* LL128: so many that it goes round */
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
        cmocka_unit_test(many_ranks),        cmocka_unit_test(every_collective),  cmocka_unit_test(nan_from_any_rank),
        cmocka_unit_test(kernels_that_leave), cmocka_unit_test(pairs_that_do_not_reach_each_other),
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
