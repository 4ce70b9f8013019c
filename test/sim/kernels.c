/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libshunt-simkernels.so for the tests of the simulated driver: kernels that are ordinary
 * functions.
 */
#include "sim/kernel.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* add(p, n, value): every block and thread counts once, so that a wrong grid shows */
static void run_add(void *const *args, const unsigned grid[3], const unsigned block[3],
                    unsigned shared)
{
    uint32_t *p = *(uint32_t *const *)args[0];
    uint64_t n = *(const uint64_t *)args[1];
    uint8_t value = *(const uint8_t *)args[2];
    for (uint64_t i = 0; i < n; i++)
        p[i] += value * grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2] + shared;
}

/* wait(p, value): until the word is that */
static void run_wait(void *const *args, const unsigned grid[3], const unsigned block[3],
                     unsigned shared)
{
    (void)grid, (void)block, (void)shared;
    volatile uint32_t *p = *(volatile uint32_t *const *)args[0];
    while (*p != *(const uint32_t *)args[1])
        sched_yield();
}

static void run_abort(void *const *args, const unsigned grid[3], const unsigned block[3],
                      unsigned shared)
{
    (void)args, (void)grid, (void)block, (void)shared;
    abort();
}

static const unsigned add_sizes[] = {8, 8, 1, 0}, wait_sizes[] = {8, 4, 0}, no_sizes[] = {0};
static const struct sim_kernel kernels[] = {
    {"add", run_add, add_sizes},
    {"wait", run_wait, wait_sizes},
    {"give_up", run_abort, no_sizes},
};

__attribute__((visibility("default"))) const struct sim_kernel *sim_kernel_find(const char *name)
{
    for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].name, name))
            return &kernels[i];
    return NULL;
}
