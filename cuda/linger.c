/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders to a kernel that lingers, and whether one should; see linger.h.
 *
 * The handshake: the host writes an order, then looks at the state; a kernel that wants to leave says LEAVING, then looks
 * for an order. With a full fence between the two on both sides at least one sees the other, so no order is lost: ALIVE,
 * the kernel has it or will see it; LEAVING, it will say one of the others; GONE, it has it if it says so by the number,
 * else nobody will. (The host may have slept while the kernel did the operation and left: without the number it would be
 * done twice. doc/model/linger.pml.)
 */
#include "cuda/linger.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "cuda/rest.h"

enum { AUTO, OFF }; /* words of SHUNT_LINGER; the third is "on" */

#define GAPS        8     /* pauses that are looked at */
#define GAP_NS      4000  /* their median up to which kernels linger */
#define WINDOW_NS   10000 /* how long one lingers: what a driver call that waits for the GPU may be held up */
#define ORDERS      64    /* that a kernel gets at most: who waits for its end must not wait for the whole burst */
#define LOST_LOOKS  4096  /* looks at a state that does not change, between two questions to the driver */

static struct {
    struct shunt_order_word *order; /* pinned */
    _Atomic uint64_t *state;        /* pinned */
    uint32_t sequence;              /* of the last order */
    uint32_t generation;            /* of the last kernel, 30 bits */
    /* the kernel that lingers, as far as known */
    _Atomic bool alive;
    enum shunt_type type;
    enum shunt_op op;
    uint32_t n, me, blocks, threads;
    int slots[SHUNT_KRANKS];
    struct shunt_exchange exchange;
    char *outs[SHUNT_KRANKS];
    bool differ; /* its slices do, and are those of `spans` */
    struct shunt_spans spans;
    uint32_t orders; /* that it has been given */
} linger;

static struct {
    _Atomic uint64_t returned; /* when the last call returned */
    _Atomic uint32_t gaps[GAPS];
    _Atomic uint32_t calls;
    struct shunt_rest rest; /* under the lock */
} pace;

void shunt_linger_open(void *pinned)
{
    linger.order = pinned;
    linger.state = (_Atomic uint64_t *)((char *)pinned + 128); /* the GPU writes there: not the line that it reads */
    linger.alive = false;
}

/* ---- whether ---- */

void shunt_linger_call(void)
{
    uint64_t gap = shunt_nanoseconds() - atomic_load_explicit(&pace.returned, memory_order_relaxed);
    uint32_t i = atomic_fetch_add_explicit(&pace.calls, 1, memory_order_relaxed) % GAPS;

    atomic_store_explicit(&pace.gaps[i], gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX, memory_order_relaxed);
}

void shunt_linger_return(void)
{
    atomic_store_explicit(&pace.returned, shunt_nanoseconds(), memory_order_relaxed);
}

static uint32_t median_gap(void)
{
    uint32_t gaps[GAPS];

    for (int i = 0; i < GAPS; i++) {
        uint32_t gap = atomic_load_explicit(&pace.gaps[i], memory_order_relaxed);
        int at = i;
        for (; at > 0 && gaps[at - 1] > gap; at--)
            gaps[at] = gaps[at - 1];
        gaps[at] = gap;
    }
    return gaps[GAPS / 2];
}

static uint32_t window_ns(void)
{
    if (shunt_conf->linger != AUTO)
        return shunt_conf->linger == OFF ? 0 : WINDOW_NS;
    if (atomic_load_explicit(&pace.calls, memory_order_relaxed) < GAPS)
        return 0;
    if (shunt_rest_holds(&pace.rest))
        return 0;
    return median_gap() <= GAP_NS ? WINDOW_NS : 0;
}

/* ---- orders ---- */

bool shunt_linger_maybe(void)
{
    return atomic_load_explicit(&linger.alive, memory_order_relaxed);
}

static void give_order(const struct shunt_order *order)
{
    uint32_t words[SHUNT_ORDER_WORDS * 3];

    memcpy(words, order, sizeof words);
    linger.sequence++;
    for (int i = 0; i < SHUNT_ORDER_WORDS; i++) {
        memcpy(linger.order[i].data, words + 3 * i, sizeof linger.order[i].data);
        /* Release: who sees the number sees the word's data; one read fetches both. */
        __atomic_store_n(&linger.order[i].sequence, linger.sequence, __ATOMIC_RELEASE);
    }
    /* Before the look at the state: see above. */
    atomic_thread_fence(memory_order_seq_cst);
}

/* Has the stream nothing left to do, or nothing that it could? */
static bool stream_ended(struct shunt_device *device)
{
    return shunt_driver.cuStreamQuery(device->gpu->stream) != CUDA_ERROR_NOT_READY;
}

/*
 * After an order: has the kernel taken it, or will it? `quit`: it was to leave, which is waited for. Then, and when it
 * has left by itself, it is not alive any more.
 */
static bool order_taken(struct shunt_device *device, bool quit)
{
    unsigned spins = 0;

    for (uint32_t looks = 1;; looks++) {
        /*
         * A kernel that has ended without a word, with its context or by a fault, will not say any more. Asked before
         * the look, which then sees what one that has ended in order said last.
         */
        bool ended = looks % LOST_LOOKS == 0 && stream_ended(device);
        uint64_t state = atomic_load_explicit(linger.state, memory_order_acquire);
        if (state == SHUNT_LINGER_STATE(state >> 32, linger.generation, SHUNT_LINGER_ALIVE) && !quit && !ended)
            return true;
        bool gone = state == SHUNT_LINGER_STATE(state >> 32, linger.generation, SHUNT_LINGER_GONE);
        if (gone || ended) {
            atomic_store_explicit(&linger.alive, false, memory_order_relaxed);
            return gone && state >> 32 == linger.sequence;
        }
        shunt_board_relax(&spins);
    }
}

void shunt_linger_forget(void)
{
    atomic_store_explicit(&linger.alive, false, memory_order_relaxed);
}

void shunt_linger_quit(struct shunt_device *device)
{
    struct shunt_order order = { .kind = SHUNT_ORDER_QUIT };

    if (!shunt_linger_maybe())
        return;
    give_order(&order);
    order_taken(device, true);
    if (linger.orders < ORDERS)
        shunt_rest_miss(&pace.rest);
}

/* A grid that suits: many blocks that idle cost more than a launch saves. One that goes round, or ends together, must be that of all. */
static bool grid_suits(const struct shunt_ll_args *args, const struct shunt_plan *plan, unsigned threads)
{
    if (args->exchange.direct || (args->op.lines && SHUNT_LINE_UNITS(args->op.bytes) > args->line_room))
        return plan->blocks == linger.blocks && threads == linger.threads;
    return plan->blocks <= linger.blocks && (linger.blocks <= 8 || plan->blocks * 2 >= linger.blocks) &&
           threads <= linger.threads;
}

/* An order has no room for slices that differ: they must be those that the kernel was launched with. */
static bool spans_suit(const struct shunt_plan *plan)
{
    const struct shunt_spans *spans = plan->spans;

    if (spans == NULL || !linger.differ)
        return spans == NULL && !linger.differ;
    return memcmp(spans->in, linger.spans.in, plan->n * sizeof *spans->in) == 0 &&
           memcmp(spans->out, linger.spans.out, plan->n * sizeof *spans->out) == 0;
}

/* The same kernel for the same ranks, of which each sends and receives as before. */
static bool suits(const struct shunt_ll_args *args, const struct shunt_launch *launch)
{
    const struct shunt_plan *plan = launch->plan;

    return launch->launches == 0 && launch->legacy_idle && !launch->managed && launch->type == linger.type &&
           launch->op == linger.op && plan->n == linger.n && plan->me == linger.me &&
           memcmp(launch->slots, linger.slots, plan->n * sizeof *linger.slots) == 0 &&
           memcmp(&args->exchange, &linger.exchange, sizeof linger.exchange) == 0 &&
           memcmp(args->outs, linger.outs, sizeof linger.outs) == 0 && spans_suit(plan) &&
           grid_suits(args, plan, launch->threads);
}

bool shunt_linger_serve(struct shunt_device *device, struct shunt_launch *launch, const struct shunt_ll_args *args)
{
    if (!shunt_linger_maybe())
        return false;
    uint32_t window = linger.orders < ORDERS && suits(args, launch) ? window_ns() : 0;
    if (window == 0) {
        shunt_linger_quit(device);
        return false;
    }
    struct shunt_order order = { .op = args->op, .window_ns = window, .kind = SHUNT_ORDER_RUN };
    give_order(&order);
    linger.orders++;
    if (!order_taken(device, false)) {
        shunt_rest_miss(&pace.rest);
        return false;
    }
    shunt_rest_hit(&pace.rest);
    launch->grid = linger.blocks;
    launch->threads = linger.threads;
    return true;
}

/* ---- launches ---- */

void shunt_linger_args(const struct shunt_launch *launch, struct shunt_linger_args *args)
{
    /* The CPU may have no access to managed memory while any kernel runs (concurrentManagedAccess). */
    bool may = launch->launches == 0 && !launch->managed && !(launch->plan->flags & SHUNT_PLAN_HOSTED);

    /* One number is left out: the kernel before may have told its blocks to leave under the next one. */
    linger.sequence++;
    linger.generation = (linger.generation + 1) & 0x3fffffff;
    *args = (struct shunt_linger_args){
        .order = linger.order,
        .state = (uint64_t *)linger.state,
        .generation = linger.generation,
        .sequence = linger.sequence,
        .window_ns = may ? window_ns() : 0,
    };
    atomic_store_explicit(linger.state, SHUNT_LINGER_STATE(linger.sequence, linger.generation, SHUNT_LINGER_ALIVE),
                          memory_order_release);
}

void shunt_linger_launched(const struct shunt_launch *launch, const struct shunt_ll_args *args)
{
    if (args->linger.window_ns == 0)
        return;
    linger.orders = 0;
    linger.type = launch->type;
    linger.op = launch->op;
    linger.n = launch->plan->n;
    linger.me = launch->plan->me;
    linger.blocks = launch->grid;
    linger.threads = launch->threads;
    memcpy(linger.slots, launch->slots, linger.n * sizeof *linger.slots);
    linger.exchange = args->exchange;
    memcpy(linger.outs, args->outs, sizeof linger.outs);
    linger.differ = launch->plan->spans != NULL;
    if (linger.differ)
        linger.spans = *launch->plan->spans;
    atomic_store_explicit(&linger.alive, true, memory_order_relaxed);
}
