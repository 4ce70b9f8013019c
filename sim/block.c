/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a block: fibers that take turns, meet at barriers and end.
 *
 * While a block runs, exactly one of its fibers does; the others of its ring wait for their turn, and those that wait
 * at a barrier are in that meeting's list instead. The last to come puts them back and goes on itself.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/block.h"
#include "sim/schedule.h"

uint32_t sim_random(struct sim_launch *launch)
{
    uint64_t x = launch->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    launch->random = x;
    return (uint32_t)(x >> 32);
}

void sim_fail(const char *format, ...)
{
    struct sim_launch *l = sim_running;
    char what[512], line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (l && l->block)
        snprintf(line, sizeof line, "shunt-sim: kernel %s, block %u,%u,%u, thread %u,%u,%u: %s\n", l->name,
                 l->block->index.x, l->block->index.y, l->block->index.z, l->fiber->tid.x, l->fiber->tid.y,
                 l->fiber->tid.z, what);
    else
        snprintf(line, sizeof line, "shunt-sim: %s%s: %s\n", l ? "kernel " : "", l ? l->name : "kernels", what);
    fputs(line, stderr);
    sim_say_seed();
    fflush(stderr);
    abort();
}

void sim_fail_align(const void *p, unsigned align)
{
    sim_fail("misaligned access: %p is not a multiple of %u", p, align);
}

static void ring_insert(struct sim_fiber **ring, struct sim_fiber *fiber)
{
    if (!*ring) {
        *ring = fiber->next = fiber->prev = fiber;
        return;
    }
    fiber->next = *ring;
    fiber->prev = (*ring)->prev;
    fiber->prev->next = fiber->next->prev = fiber;
}

static void ring_remove(struct sim_fiber *fiber)
{
    fiber->prev->next = fiber->next;
    fiber->next->prev = fiber->prev;
}

/* Put the fibers of `list` between `fiber` and its successor. */
static void ring_splice(struct sim_fiber *fiber, struct sim_fiber *list)
{
    struct sim_fiber *last = list->prev;
    last->next = fiber->next;
    fiber->next->prev = last;
    fiber->next = list;
    list->prev = fiber;
}

static void fiber_main(void);

/* Go on in fiber `f` of the running block; returns when `from` has its turn again. */
static void run_fiber(struct sim_launch *l, struct sim_context *from, struct sim_fiber *f)
{
    l->fiber = f;
    l->from = from;
    if (!f->stack) {
        f->stack = sim_stack_get(&l->stacks);
        if (!f->stack)
            sim_fail("no memory for the stacks of its threads");
        sim_context_make(&f->context, f->stack, fiber_main);
    }
    sim_context_switch(from, &f->context);
}

void sim_block_resume(struct sim_launch *l, struct sim_block *block)
{
    l->block = block;
    block->spins = 0;
    run_fiber(l, &l->home, block->current);
}

/* Give the turn to another block; this one goes on with the fiber after the running one. */
static void leave_block(struct sim_launch *l)
{
    struct sim_fiber *f = l->fiber;
    l->block->current = f->next;
    sim_context_switch(&f->context, &l->home);
}

static void yield(struct sim_launch *l)
{
    struct sim_fiber *f = l->fiber;
    if (f->next != f)
        run_fiber(l, &f->context, f->next);
}

void sim_spin(void)
{
    struct sim_launch *l = sim_running;
    struct sim_block *block = l->block;
    l->fiber->stale |= !l->fiber->acquiring;
    if (block->stores)
        sim_stores_leak(l);
    if (++block->spins >= block->runnable)
        leave_block(l);
    else
        yield(l);
}

/* At every so many accesses: let another fiber run, or now and then another block. */
static void preempt(struct sim_launch *l)
{
    if (--l->until_switch != 0)
        return;
    uint32_t random = sim_random(l);
    l->until_switch = 1 + random % 256;
    if (random >> 16 & 15)
        yield(l);
    else
        leave_block(l);
}

void sim_before_load(const void *p, unsigned bytes)
{
    struct sim_launch *l = sim_running;
    preempt(l);
    l->fiber->acquiring = false;
    sim_stores_settle(l, p, bytes);
}

void sim_hold_store(void *p, const void *value, unsigned bytes, unsigned word)
{
    struct sim_launch *l = sim_running;
    preempt(l);
    for (unsigned i = 0; i < bytes; i += word)
        sim_stores_put(l, (char *)p + i, (const char *)value + i, word);
}

/* Who waits where, for the line that says why the running block cannot go on. */
static void fail_stuck(struct sim_launch *l)
{
    struct sim_block *block = l->block;
    const struct sim_meeting *m = &block->barrier;
    for (unsigned w = 0; w * 32 < l->threads && !m->count; w++)
        m = &block->warps[w];
    l->fiber = m->waiting;
    sim_fail("the barrier at %s:%d cannot be reached by all: %u threads wait there, %u have ended, %u wait elsewhere",
             m->file, m->line, m->count, l->threads - block->live, block->live - m->count);
}

/* All have come to meeting m: those who wait can run again. `after` is a fiber of the ring, NULL if it is empty. */
static struct sim_fiber *complete(struct sim_launch *l, struct sim_meeting *m, struct sim_fiber *after)
{
    struct sim_fiber *list = m->waiting;
    /* Not of warps: they also meet in every round of a poll, to agree that nothing has come. */
    if (m == &l->block->barrier) {
        l->progress++;
        l->block->spins = 0;
    }
    m->result = m->sum;
    m->epoch++;
    if (list) {
        struct sim_fiber *f = list;
        do {
            f->stale &= !m->acquired;
            f = f->next;
        } while (f != list);
        if (after)
            ring_splice(after, list);
        else
            after = list;
    }
    l->block->runnable += m->count;
    m->waiting = NULL;
    m->count = m->sum = 0;
    m->acquired = false;
    return after;
}

/* The running fiber comes to m, which needs `needed` of them; returns when all have come. */
static void meet(struct sim_launch *l, struct sim_meeting *m, unsigned needed, bool predicate, const char *file,
                 int line)
{
    struct sim_block *block = l->block;
    struct sim_fiber *f = l->fiber, *next = f->next;
    if (m->count && (m->line != line || (m->file != file && strcmp(m->file, file) != 0)))
        sim_fail("divergent barrier: this thread has come to %s:%d, others wait at %s:%d", file, line, m->file,
                 m->line);
    m->file = file;
    m->line = line;
    m->sum += predicate;
    m->acquired |= !f->stale;
    if (m->count + 1 == needed) {
        f->stale &= !m->acquired;
        complete(l, m, f);
        if (block->stores && sim_random(l) % 2)
            yield(l);
        return;
    }
    if (m == &block->barrier)
        block->spins = 0;
    m->count++;
    block->runnable--;
    if (next == f)
        next = NULL;
    ring_remove(f);
    ring_insert(&m->waiting, f);
    if (!next)
        fail_stuck(l);
    run_fiber(l, &f->context, next);
}

unsigned sim_barrier(bool predicate, const char *file, int line)
{
    struct sim_launch *l = sim_running;
    struct sim_block *block = l->block;
    meet(l, &block->barrier, block->live, predicate, file, line);
    return block->barrier.result;
}

/* The lanes of `mask` that the running thread's warp has. */
static unsigned lanes_of(const struct sim_launch *l, unsigned mask)
{
    unsigned first = l->fiber->number / 32 * 32, lanes = l->threads - first;
    return lanes < 32 ? mask & ((1u << lanes) - 1) : mask;
}

void sim_warp_barrier(unsigned mask, const char *file, int line)
{
    struct sim_launch *l = sim_running;
    struct sim_meeting *m = &l->block->warps[l->fiber->number / 32];
    if (!(mask >> l->fiber->number % 32 & 1))
        sim_fail("%s:%d: the mask %#x of lanes is without the calling one", file, line, mask);
    if (m->count && m->mask != mask)
        sim_fail("%s:%d: the mask of lanes is %#x here, and %#x where others wait", file, line, mask, m->mask);
    m->mask = mask;
    meet(l, m, (unsigned)__builtin_popcount(lanes_of(l, mask)), false, file, line);
}

uint64_t sim_warp_exchange(unsigned mask, uint64_t value, unsigned lane, const char *file, int line)
{
    struct sim_launch *l = sim_running;
    struct sim_fiber *f = l->fiber;
    unsigned first = f->number / 32 * 32;
    f->exchange = value;
    sim_warp_barrier(mask, file, line);
    if (lanes_of(l, mask) >> lane & 1)
        value = l->block->fibers[first + lane].exchange;
    sim_warp_barrier(mask, file, line); /* nobody brings the next word before all have read this one */
    return value;
}

unsigned sim_warp_ballot(unsigned mask, bool predicate, const char *file, int line)
{
    struct sim_launch *l = sim_running;
    struct sim_fiber *f = l->fiber;
    unsigned first = f->number / 32 * 32, votes = 0;
    f->exchange = predicate;
    sim_warp_barrier(mask, file, line);
    for (unsigned lanes = lanes_of(l, mask); lanes; lanes &= lanes - 1) {
        unsigned lane = (unsigned)__builtin_ctz(lanes);
        votes |= (unsigned)l->block->fibers[first + lane].exchange << lane;
    }
    sim_warp_barrier(mask, file, line);
    return votes;
}

/* The running fiber has ended: who runs next in its block; NULL if the block has ended. */
static struct sim_fiber *end_fiber(struct sim_launch *l)
{
    struct sim_block *block = l->block;
    struct sim_fiber *f = l->fiber, *next = f->next == f ? NULL : f->next;
    struct sim_meeting *m = &block->barrier;
    ring_remove(f);
    block->live--;
    block->runnable--;
    block->spins = 0;
    l->progress++;
    if (m->count && m->count == block->live)
        next = complete(l, m, next); /* a barrier waits for those who have not ended */
    if (!next && block->live)
        fail_stuck(l);
    return next;
}

/*
 * What runs on a fiber's stack: the kernel, for one thread after the other as long as the next has not begun. So a
 * kernel without barriers needs one stack and no switch.
 */
static void fiber_main(void)
{
    struct sim_launch *l = sim_running;
    sim_context_entered(l->from);
    for (;;) {
        l->body(l->args);
        struct sim_stack *stack = l->fiber->stack;
        struct sim_fiber *next = end_fiber(l);
        if (!next || next->stack) {
            sim_stack_put(&l->stacks, stack);
            l->fiber = next;
            sim_context_leave(next ? &next->context : &l->home);
        }
        next->stack = stack;
#ifdef SIM_ASAN
        next->context = (struct sim_context){0};
        next->context.bottom = stack->bottom;
        next->context.size = (size_t)((char *)stack->top - (char *)stack->bottom);
#endif
        l->fiber = next;
    }
}

static bool allocate_block(struct sim_launch *l, struct sim_block *b)
{
    b->fibers = calloc(l->threads, sizeof *b->fibers);
    b->warps = calloc((l->threads + 31) / 32, sizeof *b->warps);
    b->shared = l->shared_bytes ? malloc(l->shared_bytes) : NULL;
    return b->fibers && b->warps && (b->shared || !l->shared_bytes);
}

struct sim_block *sim_block_start(struct sim_launch *l, unsigned number, bool mean)
{
    struct sim_dim3 grid = l->grid_dim, dim = l->block_dim;
    struct sim_block *b = calloc(1, sizeof *b);
    if (!b || !allocate_block(l, b) || (mean && !(b->stores = sim_stores_new())))
        sim_fail("no memory for a block");
    b->index = (struct sim_dim3){number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    b->live = b->runnable = l->threads;
    /* Shared memory begins with whatever was there. */
    if (l->shared_bytes)
        memset(b->shared, mean ? (int)(sim_random(l) | 0x80) : 0, l->shared_bytes);
    unsigned warps = (l->threads + 31) / 32, rotate = mean ? sim_random(l) % warps * 32 : 0;
    for (unsigned i = 0; i < l->threads; i++) {
        unsigned n = (i + rotate) % l->threads;
        struct sim_fiber *f = &b->fibers[n];
        f->number = n;
        f->tid = (struct sim_dim3){n % dim.x, n / dim.x % dim.y, n / dim.x / dim.y};
        ring_insert(&b->current, f);
    }
    return b;
}

void sim_block_end(struct sim_launch *l, struct sim_block *b)
{
    if (b->stores)
        sim_stores_drain(l, b);
    free(b->stores);
    free(b->shared);
    free(b->warps);
    free(b->fibers);
    free(b);
}
