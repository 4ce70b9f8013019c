/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a kernel should wait for what comes next, for collectives (linger.c) and for messages (stay.c): when they follow
 * closely, and not for a while when that was in vain three times in a row.
 */
#ifndef SHUNT_CUDA_PACE_H
#define SHUNT_CUDA_PACE_H

#include <stdatomic.h>
#include <stdint.h>

#define SHUNT_PACE_GAPS 8 /* pauses that are looked at */

struct shunt_pace {
    _Atomic uint64_t ended; /* nanoseconds: when the last one was seen to have ended */
    _Atomic uint32_t gaps[SHUNT_PACE_GAPS];
    _Atomic uint32_t begun;
    /* after windows in vain; whoever calls has the lock of what it belongs to */
    uint32_t misses;
    uint32_t left; /* that go without */
    uint32_t next; /* how many it will be */
};

/* One begins; one has ended. Without a lock: when several threads call at the same time the pauses may be taken for anything. */
void shunt_pace_begin(struct shunt_pace *pace);
void shunt_pace_end(struct shunt_pace *pace);

/* A kernel has waited in vain; has got what it waited for. */
void shunt_pace_miss(struct shunt_pace *pace);
void shunt_pace_hit(struct shunt_pace *pace);

/* For how long a kernel should wait now, `window_ns` or 0. It does when the median of the last pauses is `gap_ns` at most. */
uint32_t shunt_pace_window(struct shunt_pace *pace, uint32_t gap_ns, uint32_t window_ns);

#endif
