/* SPDX-License-Identifier: BSD-3-Clause */
/* Orders to a kernel that stays, and whether one should; see stay.h. */
#include "cuda/stay.h"

#define GAP_NS    30000 /* the median of pauses up to which a kernel stays: a message there and one back, with launches */
#define WINDOW_NS 30000 /* how long it stays: what a driver call that waits for the GPU may be held up */

void shunt_stay_open(struct shunt_stay *stay, void *pinned)
{
    *stay = (struct shunt_stay){ .orders.words = pinned };
    stay->orders.state = (_Atomic uint64_t *)((uint64_t *)pinned + SHUNT_STAY_WORDS - 8);
}

void shunt_stay_begin(struct shunt_stay *stay)
{
    shunt_pace_begin(&stay->pace);
}

void shunt_stay_end(struct shunt_stay *stay)
{
    shunt_pace_end(&stay->pace);
}

uint32_t shunt_stay_launch(struct shunt_stay *stay, uint64_t number)
{
    uint32_t window = shunt_pace_window(&stay->pace, GAP_NS, WINDOW_NS);

    stay->launch = number;
    if (window != 0)
        shunt_orders_launched(&stay->orders, (uint32_t)number);
    else
        stay->orders.alive = false;
    return window;
}

bool shunt_stay_give(struct shunt_stay *stay, struct shunt_fetch_order *order, uint64_t number, CUstream stream)
{
    const unsigned words = order->n > 1 ? 1 + 2 * order->n : 3;

    if (stay->orders.alive && stay->orders.given == SHUNT_ORDERS_MOST)
        shunt_stay_quit(stay, number, stream);
    if (!stay->orders.alive)
        return false;
    order->window_ns = WINDOW_NS;
    if (!shunt_orders_give(&stay->orders, order, words, (uint32_t)number, stream)) {
        shunt_pace_miss(&stay->pace);
        return false;
    }
    shunt_pace_hit(&stay->pace);
    return true;
}

void shunt_stay_quit(struct shunt_stay *stay, uint64_t number, CUstream stream)
{
    const struct shunt_fetch_order order = { .n = 0 };

    if (!stay->orders.alive)
        return;
    shunt_orders_quit(&stay->orders, &order, 3, (uint32_t)number, stream);
    if (stay->orders.given == 0)
        shunt_pace_miss(&stay->pace);
}
