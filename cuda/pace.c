/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a kernel should wait for what comes next; pace.h. */
#include "cuda/pace.h"

#include <stdbool.h>

#include "base/clock.h"
#include "base/conf.h"

enum { AUTO, OFF }; /* words of SHUNT_LINGER; the third is "on" */

/* After so many windows in vain, one after the other, so many go without; the next time twice as many. */
#define MISSES 3
#define LEAST  16
#define MOST   1024

void shunt_pace_begin(struct shunt_pace *pace)
{
    uint64_t gap = shunt_nanoseconds() - atomic_load_explicit(&pace->ended, memory_order_relaxed);
    uint32_t i = atomic_fetch_add_explicit(&pace->begun, 1, memory_order_relaxed) % SHUNT_PACE_GAPS;

    atomic_store_explicit(&pace->gaps[i], gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX, memory_order_relaxed);
}

void shunt_pace_end(struct shunt_pace *pace)
{
    atomic_store_explicit(&pace->ended, shunt_nanoseconds(), memory_order_relaxed);
}

void shunt_pace_miss(struct shunt_pace *pace)
{
    if (++pace->misses < MISSES)
        return;
    pace->misses = 0;
    pace->left = pace->next < LEAST ? LEAST : pace->next;
    pace->next = pace->left < MOST ? 2 * pace->left : MOST;
}

void shunt_pace_hit(struct shunt_pace *pace)
{
    pace->misses = pace->next = 0;
}

static bool rests(struct shunt_pace *pace)
{
    if (pace->left == 0)
        return false;
    pace->left--;
    return true;
}

static bool is_burst(struct shunt_pace *pace, uint32_t gap_ns)
{
    unsigned short_ones = 0;

    if (atomic_load_explicit(&pace->begun, memory_order_relaxed) < SHUNT_PACE_GAPS)
        return false;
    for (int i = 0; i < SHUNT_PACE_GAPS; i++)
        short_ones += atomic_load_explicit(&pace->gaps[i], memory_order_relaxed) <= gap_ns;
    return short_ones > SHUNT_PACE_GAPS / 2;
}

uint32_t shunt_pace_window(struct shunt_pace *pace, uint32_t gap_ns, uint32_t window_ns)
{
    if (shunt_conf->linger != AUTO)
        return shunt_conf->linger == OFF ? 0 : window_ns;
    return !rests(pace) && is_burst(pace, gap_ns) ? window_ns : 0;
}
