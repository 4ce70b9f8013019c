/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A map from handles to pointers that is read without a lock, in 2-3 ns.
 *
 * Open addressing with linear probing. Writers hold the mutex. An entry never moves and a chain is never cut: a removed
 * entry becomes GONE, and EMPTY again only when what follows it is EMPTY. So a reader finds every key whose insertion
 * happened before the look-up and which is not being removed, whatever happens to other keys meanwhile. A table that is
 * too full is replaced; old ones are kept, for readers may still be in them (together they are smaller than the current).
 */
#ifndef SHUNT_MPI_MAP_H
#define SHUNT_MPI_MAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { SHUNT_MAP_EMPTY = 0, SHUNT_MAP_GONE = 1 }; /* no entry may have these keys */

struct shunt_map_slot {
    _Atomic uintptr_t key;
    void *_Atomic value;
};

struct shunt_map_table {
    struct shunt_map_table *older;
    unsigned shift; /* 64 - log2(number of slots) */
    size_t mask;    /* number of slots - 1 */
    size_t used;    /* slots that are not EMPTY; only writers look */
    struct shunt_map_slot slots[];
};

struct shunt_map {
    struct shunt_map_table *_Atomic table; /* NULL: empty */
    size_t live;
    pthread_mutex_t lock;
};

#define SHUNT_MAP_INITIALIZER { .lock = PTHREAD_MUTEX_INITIALIZER }

static inline size_t shunt_map_home(const struct shunt_map_table *table, uintptr_t key)
{
    return ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> table->shift;
}

/* The value of `key`, or NULL; also of the keys that no entry may have. */
static inline void *shunt_map_find(struct shunt_map *map, uintptr_t key)
{
    /* Acquire: pairs with the release of a new table, so that its slots are seen. */
    struct shunt_map_table *table = atomic_load_explicit(&map->table, memory_order_acquire);
    if (!table)
        return NULL;
    for (size_t i = shunt_map_home(table, key);; i = (i + 1) & table->mask) {
        /* Acquire: pairs with the release in put, which has written the value before. */
        uintptr_t here = atomic_load_explicit(&table->slots[i].key, memory_order_acquire);
        if (here == key)
            return atomic_load_explicit(&table->slots[i].value, memory_order_relaxed);
        if (here == SHUNT_MAP_EMPTY)
            return NULL;
    }
}

/* Enter `value` under `key`; what was there before goes to *old_p (NULL if nothing). */
enum shunt_status shunt_map_put(struct shunt_map *map, uintptr_t key, void *value, void **old_p);

/* Take `key` out and answer its value; NULL if it is not there or, where `only` is given, is not that value. */
void *shunt_map_remove(struct shunt_map *map, uintptr_t key, const void *only);

/* Take out any one entry and answer its value; NULL if there is none. */
void *shunt_map_pop(struct shunt_map *map);

/* Forget everything without a lock and without freeing: for fork children, whose memory is a snapshot. */
void shunt_map_abandon(struct shunt_map *map);

#endif
