/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders to a kernel that stays; stay.h.
 *
 * The handshake is that of linger.c: the host writes an order, then looks at the state; the kernel says that it is leaving,
 * then looks for an order; with a full fence between the two on both sides at least one sees the other.
 */
#include "cuda/stay.h"

#include <string.h>

#include "base/board.h"
#include "base/clock.h"
#include "base/conf.h"

enum { AUTO, OFF }; /* words of SHUNT_LINGER; the third is "on" */

#define GAP_NS     30000 /* the median of pauses up to which a kernel stays: a message there and one back, with launches */
#define WINDOW_NS  30000 /* how long it stays: what a driver call that waits for the GPU may be held up */
#define ORDERS     64    /* that a kernel gets at most: who waits for its end must not wait for the whole burst */
#define LOST_LOOKS 4096  /* looks at a state that does not change, between two questions to the driver */

void shunt_stay_open(struct shunt_stay *stay, void *pinned)
{
    *stay = (struct shunt_stay){ .order = pinned };
    stay->state = (_Atomic uint64_t *)((uint64_t *)pinned + SHUNT_STAY_WORDS - 8);
}

/* ---- whether ---- */

void shunt_stay_begin(struct shunt_stay *stay)
{
    uint64_t gap = shunt_nanoseconds() - stay->ended;

    stay->gaps[stay->fetches++ % SHUNT_STAY_GAPS] = gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX;
}

void shunt_stay_end(struct shunt_stay *stay)
{
    stay->ended = shunt_nanoseconds();
}

/* Has at least half of the last pauses been short? */
static bool is_burst(const struct shunt_stay *stay)
{
    unsigned few = 0;

    for (int i = 0; i < SHUNT_STAY_GAPS; i++)
        few += stay->gaps[i] <= GAP_NS;
    return stay->fetches >= SHUNT_STAY_GAPS && few > SHUNT_STAY_GAPS / 2;
}

static uint32_t window_of(const struct shunt_stay *stay)
{
    if (shunt_conf->linger != AUTO)
        return shunt_conf->linger == OFF ? 0 : WINDOW_NS;
    return is_burst(stay) ? WINDOW_NS : 0;
}

uint32_t shunt_stay_launch(struct shunt_stay *stay, uint64_t number)
{
    uint32_t window = 0;

    if (shunt_conf->linger != AUTO || !shunt_rest_holds(&stay->rest))
        window = window_of(stay);
    stay->alive = window != 0;
    stay->launch = number;
    stay->orders = 0;
    return window;
}

/* ---- orders ---- */

static void write_order(const struct shunt_stay *stay, const struct shunt_fetch_order *order, uint32_t sequence)
{
    const unsigned words = order->n > 1 ? 1 + 2 * order->n : 3;

    /* The head comes last, since who finds it looks for the others. */
    for (unsigned i = words; i-- > 0;) {
        memcpy(stay->order[i].data, (const char *)order + i * sizeof stay->order[i].data, sizeof stay->order[i].data);
        /* Release: who sees the number sees the word's data; one read fetches both. */
        __atomic_store_n(&stay->order[i].sequence, sequence, __ATOMIC_RELEASE);
    }
    /* Before the look at the state: see above. */
    atomic_thread_fence(memory_order_seq_cst);
}

/* After an order: has the kernel taken it, or will it? `quit`: it was to leave, which is waited for. */
static bool was_taken(struct shunt_stay *stay, uint32_t sequence, bool quit, CUstream stream)
{
    unsigned spins = 0;

    for (uint32_t looks = 1;; looks++) {
        /* One that has ended without a word, with its context or by a fault, says nothing any more. Asked before the look. */
        bool ended = looks % LOST_LOOKS == 0 && shunt_driver.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
        uint64_t state = atomic_load_explicit(stay->state, memory_order_acquire);
        /* What an earlier kernel has said last stands there until this one says something. */
        bool own = (uint32_t)state >> 2 == ((uint32_t)stay->launch & 0x3fffffff);
        uint32_t word = own ? (uint32_t)state & 3 : SHUNT_STAY_ALIVE;
        if (word == SHUNT_STAY_ALIVE && !quit && !ended)
            return true;
        if (word == SHUNT_STAY_GONE || ended) {
            stay->alive = false;
            return word == SHUNT_STAY_GONE && (uint32_t)(state >> 32) == sequence;
        }
        shunt_board_relax(&spins);
    }
}

bool shunt_stay_give(struct shunt_stay *stay, struct shunt_fetch_order *order, uint64_t number, CUstream stream)
{
    if (!stay->alive)
        return false;
    order->window_ns = ++stay->orders < ORDERS ? WINDOW_NS : 0;
    write_order(stay, order, (uint32_t)number);
    if (!was_taken(stay, (uint32_t)number, false, stream)) {
        shunt_rest_miss(&stay->rest);
        return false;
    }
    shunt_rest_hit(&stay->rest);
    if (order->window_ns == 0)
        stay->alive = false;
    return true;
}

void shunt_stay_quit(struct shunt_stay *stay, uint64_t number, CUstream stream)
{
    struct shunt_fetch_order order = { .n = 0 };

    if (!stay->alive)
        return;
    write_order(stay, &order, (uint32_t)number);
    was_taken(stay, (uint32_t)number, true, stream);
    if (stay->orders == 0)
        shunt_rest_miss(&stay->rest);
}
