/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of all waits and measurements: monotonic, about 20 ns a look, never set. */
#ifndef SHUNT_BASE_CLOCK_H
#define SHUNT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t shunt_nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double shunt_seconds(void)
{
    return 1e-9 * (double)shunt_nanoseconds();
}

#endif
