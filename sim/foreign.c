/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory of other processes that is mapped in this executor: which addresses, and whose. */
#include <pthread.h>
#include <stdint.h>

#include "sim/executor.h"

#define MOST 1024 /* those beyond count as own */

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct {
    uint64_t address, bytes;
    int pid;
} ranges[MOST];
static int n;

void sim_foreign_add(uint64_t address, uint64_t bytes, int pid)
{
    pthread_rwlock_wrlock(&lock);
    if (n < MOST) {
        ranges[n].address = address;
        ranges[n].bytes = bytes;
        ranges[n++].pid = pid;
    }
    pthread_rwlock_unlock(&lock);
}

void sim_foreign_remove(uint64_t address)
{
    pthread_rwlock_wrlock(&lock);
    for (int i = 0; i < n; i++)
        if (ranges[i].address == address)
            ranges[i--] = ranges[--n];
    pthread_rwlock_unlock(&lock);
}

int sim_foreign_owner(uint64_t address)
{
    int pid = 0;

    pthread_rwlock_rdlock(&lock);
    for (int i = 0; i < n && !pid; i++)
        if (address - ranges[i].address < ranges[i].bytes)
            pid = ranges[i].pid;
    pthread_rwlock_unlock(&lock);
    return pid;
}
