/* SPDX-License-Identifier: BSD-3-Clause */
/* Orders to a kernel that lingers, and whether one should; see linger.h. */
#include "cuda/linger.h"

#include <string.h>

#include "cuda/orders.h"
#include "cuda/pace.h"

#define GAP_NS    4000  /* the median of pauses between calls up to which kernels linger */
#define WINDOW_NS 10000 /* how long one lingers: what a driver call that waits for the GPU may be held up */

static struct {
    struct shunt_orders orders;
    uint32_t sequence;   /* of the last order */
    uint32_t generation; /* of the last kernel, 30 bits */
    /* the kernel that lingers, as far as known */
    enum shunt_type type;
    enum shunt_op op;
    uint32_t n, me, blocks, threads;
    int slots[SHUNT_KRANKS];
    struct shunt_exchange exchange;
    char *outs[SHUNT_KRANKS];
    bool differ; /* its slices do, and are those of `spans` */
    struct shunt_spans spans;
} linger;

static struct shunt_pace pace;

void shunt_linger_open(void *pinned)
{
    linger.orders.words = pinned;
    linger.orders.state = (_Atomic uint64_t *)((char *)pinned + 128); /* the GPU writes there: not the line that it reads */
    linger.orders.alive = false;
}

void shunt_linger_call(void)
{
    shunt_pace_begin(&pace);
}

void shunt_linger_return(void)
{
    shunt_pace_end(&pace);
}

static uint32_t window_ns(void)
{
    return shunt_pace_window(&pace, GAP_NS, WINDOW_NS);
}

/* ---- orders ---- */

bool shunt_linger_maybe(void)
{
    return atomic_load_explicit(&linger.orders.alive, memory_order_relaxed);
}

void shunt_linger_forget(void)
{
    linger.orders.alive = false;
}

void shunt_linger_quit(struct shunt_device *device)
{
    const struct shunt_order order = { .kind = SHUNT_ORDER_QUIT };

    if (!shunt_linger_maybe())
        return;
    shunt_orders_quit(&linger.orders, &order, SHUNT_ORDER_WORDS, ++linger.sequence, device->gpu->stream);
    if (linger.orders.given < SHUNT_ORDERS_MOST)
        shunt_pace_miss(&pace);
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
    uint32_t window = linger.orders.given < SHUNT_ORDERS_MOST && suits(args, launch) ? window_ns() : 0;
    if (window == 0) {
        shunt_linger_quit(device);
        return false;
    }
    const struct shunt_order order = { .op = args->op, .window_ns = window, .kind = SHUNT_ORDER_RUN };
    if (!shunt_orders_give(&linger.orders, &order, SHUNT_ORDER_WORDS, ++linger.sequence, device->gpu->stream)) {
        shunt_pace_miss(&pace);
        return false;
    }
    shunt_pace_hit(&pace);
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
        .order = (const struct shunt_order_word *)linger.orders.words,
        .state = (uint64_t *)linger.orders.state,
        .generation = linger.generation,
        .sequence = linger.sequence,
        .window_ns = may ? window_ns() : 0,
    };
}

void shunt_linger_launched(const struct shunt_launch *launch, const struct shunt_ll_args *args)
{
    if (args->linger.window_ns == 0)
        return;
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
    shunt_orders_launched(&linger.orders, linger.generation);
}
