/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long kernels do not wait for the next call when they have waited in vain: for collectives (linger.c) and for messages
 * (stay.c). After three windows in vain, one after the other, so many calls go without; the next time twice as many.
 *
 * Not synchronized: whoever calls has the lock of what it belongs to.
 */
#ifndef SHUNT_CUDA_REST_H
#define SHUNT_CUDA_REST_H

#include <stdbool.h>
#include <stdint.h>

#define SHUNT_REST_MISSES 3
#define SHUNT_REST_LEAST  16
#define SHUNT_REST_MOST   1024

struct shunt_rest {
    uint32_t misses;
    uint32_t left; /* calls that go without */
    uint32_t next; /* how many it will be */
};

/* A kernel has waited in vain. */
static inline void shunt_rest_miss(struct shunt_rest *rest)
{
    if (++rest->misses < SHUNT_REST_MISSES)
        return;
    rest->misses = 0;
    rest->left = rest->next < SHUNT_REST_LEAST ? SHUNT_REST_LEAST : rest->next;
    rest->next = rest->left < SHUNT_REST_MOST ? 2 * rest->left : SHUNT_REST_MOST;
}

/* One has got what it waited for. */
static inline void shunt_rest_hit(struct shunt_rest *rest)
{
    rest->misses = rest->next = 0;
}

/* At a call: does it go without? */
static inline bool shunt_rest_holds(struct shunt_rest *rest)
{
    if (rest->left == 0)
        return false;
    rest->left--;
    return true;
}

#endif
