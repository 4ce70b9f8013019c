/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application's kernel that has the whole GPU until a word in memory is not 0: no block of another launch begins
 * meanwhile. It is the kernel "hog", whatever code the application brings for it.
 */
#include <stdint.h>
#include <time.h>

#include "sim/register.h"
#include "sim/schedule.h"

static int hogs;

bool sim_gpu_taken(void)
{
    return __atomic_load_n(&hogs, __ATOMIC_ACQUIRE) != 0;
}

static void hog(void *const *args, const unsigned grid[3], const unsigned block[3], unsigned dynamic_shared)
{
    const uint32_t *word = *(const uint32_t *const *)args[0];

    (void)grid, (void)block, (void)dynamic_shared;
    __atomic_add_fetch(&hogs, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    __atomic_sub_fetch(&hogs, 1, __ATOMIC_ACQ_REL);
}

__attribute__((constructor)) static void start(void)
{
    static const unsigned sizes[] = {sizeof(uint64_t), 0};
    static struct sim_registered registered = {.kernel = {"hog", hog, sizes}};
    sim_kernel_register(&registered);
}
