/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping on a word of shared memory.
 */
#include "sim/queue.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void sim_sleep(_Atomic uint32_t *word, uint32_t value, int ms)
{
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
    errno = saved;
}

void sim_wake(_Atomic uint32_t *word)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}
