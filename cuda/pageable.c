/* SPDX-License-Identifier: BSD-3-Clause */
/* Lazily touched host memory; pageable.h. */
#include "cuda/pageable.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

/* Each carries its size in a page before it. */
#define SIZE_PAGE 4096

enum { SPARES = 128, WASTE = 4 }; /* kept without pages; of such memory no call gets more than so many times what it needs */

static struct {
    pthread_mutex_t lock;
    void *touched;        /* one with pages */
    void *spares[SPARES]; /* with the first page only */
    unsigned n;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static size_t *size_of(void *memory)
{
    return (size_t *)((char *)memory - SIZE_PAGE);
}

/* With the lock held. */
static void *take_spare(size_t bytes)
{
    for (unsigned i = kept.n; i-- > 0;) {
        void *memory = kept.spares[i];
        if (*size_of(memory) < bytes || *size_of(memory) / WASTE > bytes)
            continue;
        kept.spares[i] = kept.spares[--kept.n];
        return memory;
    }
    return NULL;
}

void *shunt_pageable_get(size_t bytes)
{
    void *memory;

    pthread_mutex_lock(&kept.lock);
    memory = take_spare(bytes);
    if (memory == NULL && kept.touched != NULL && *size_of(kept.touched) >= bytes) {
        memory = kept.touched;
        kept.touched = NULL;
    }
    pthread_mutex_unlock(&kept.lock);
    if (memory != NULL)
        return memory;
    memory = mmap(NULL, bytes + SIZE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    memory = (char *)memory + SIZE_PAGE;
    *size_of(memory) = bytes;
    return memory;
}

static void unmap(void *memory)
{
    if (memory != NULL)
        munmap((char *)memory - SIZE_PAGE, *size_of(memory) + SIZE_PAGE);
}

/* With the lock held. Answers what is too much. */
static void *keep(void *memory, bool touched)
{
    void *smaller = memory;

    if (!touched && kept.n < SPARES) {
        kept.spares[kept.n++] = memory;
        return NULL;
    }
    if (touched && (kept.touched == NULL || *size_of(kept.touched) < *size_of(memory))) {
        smaller = kept.touched;
        kept.touched = memory;
    }
    return smaller;
}

void shunt_pageable_put(void *memory, bool touched)
{
    pthread_mutex_lock(&kept.lock);
    memory = keep(memory, touched);
    pthread_mutex_unlock(&kept.lock);
    unmap(memory);
}

void shunt_pageable_close(void)
{
    pthread_mutex_lock(&kept.lock);
    unmap(kept.touched);
    kept.touched = NULL;
    while (kept.n > 0)
        unmap(kept.spares[--kept.n]);
    pthread_mutex_unlock(&kept.lock);
}
