/* SPDX-License-Identifier: BSD-3-Clause */
/* The writers' side of the handle map; map.h says how it works. */
#include "mpi/map.h"

#include <stdlib.h>

enum { FIRST_BITS = 6 };

static struct shunt_map_table *create_table(unsigned bits, struct shunt_map_table *older)
{
    size_t n = (size_t)1 << bits;
    struct shunt_map_table *table = calloc(1, sizeof *table + n * sizeof table->slots[0]);

    if (!table)
        return NULL;
    table->older = older;
    table->shift = 64 - bits;
    table->mask = n - 1;
    return table;
}

/* The slot that has `key`, or NULL. Called with the lock. */
static struct shunt_map_slot *find_slot(struct shunt_map_table *table, uintptr_t key)
{
    for (size_t i = shunt_map_home(table, key); table->slots[i].key != SHUNT_MAP_EMPTY; i = (i + 1) & table->mask)
        if (table->slots[i].key == key)
            return &table->slots[i];
    return NULL;
}

/* Enter a key that is not there. Called with the lock and with room. */
static void add_slot(struct shunt_map_table *table, uintptr_t key, void *value)
{
    size_t i = shunt_map_home(table, key);

    while (table->slots[i].key > SHUNT_MAP_GONE)
        i = (i + 1) & table->mask;
    if (table->slots[i].key == SHUNT_MAP_EMPTY)
        table->used++;
    atomic_store_explicit(&table->slots[i].value, value, memory_order_relaxed);
    /* Release: a reader that sees the key sees the value and what it points to. */
    atomic_store_explicit(&table->slots[i].key, key, memory_order_release);
}

/* Replace a table that is half full by one twice the size, without its GONE slots. Called with the lock. */
static enum shunt_status make_room(struct shunt_map *map)
{
    struct shunt_map_table *old = map->table;

    if (old && (old->used + 1) * 2 <= old->mask + 1)
        return SHUNT_OK;
    struct shunt_map_table *table = create_table(old ? 64 - old->shift + 1 : FIRST_BITS, old);
    if (!table)
        return SHUNT_ERR_MEMORY;
    for (size_t i = 0; old && i <= old->mask; i++)
        if (old->slots[i].key > SHUNT_MAP_GONE)
            add_slot(table, old->slots[i].key, old->slots[i].value);
    atomic_store_explicit(&map->table, table, memory_order_release);
    return SHUNT_OK;
}

enum shunt_status shunt_map_put(struct shunt_map *map, uintptr_t key, void *value, void **old_p)
{
    enum shunt_status status = SHUNT_OK;

    *old_p = NULL;
    pthread_mutex_lock(&map->lock);
    struct shunt_map_slot *slot = map->table ? find_slot(map->table, key) : NULL;
    if (slot) {
        *old_p = slot->value;
        atomic_store_explicit(&slot->value, value, memory_order_release);
    } else if ((status = make_room(map)) == SHUNT_OK) {
        add_slot(map->table, key, value);
        map->live++;
    }
    pthread_mutex_unlock(&map->lock);
    return status;
}

/* Called with the lock. */
static void drop_slot(struct shunt_map *map, struct shunt_map_slot *slot)
{
    struct shunt_map_table *table = map->table;
    size_t i = slot - table->slots;

    /* A program may ask for a handle that is EMPTY or GONE: it finds such a slot, and in it nothing. */
    atomic_store_explicit(&slot->value, NULL, memory_order_relaxed);
    atomic_store_explicit(&slot->key, SHUNT_MAP_GONE, memory_order_release);
    map->live--;
    /* No chain passes a slot whose successor is empty, so the GONE ones before an EMPTY one can be used anew. */
    if (table->slots[(i + 1) & table->mask].key != SHUNT_MAP_EMPTY)
        return;
    for (; table->slots[i].key == SHUNT_MAP_GONE; i = (i - 1) & table->mask) {
        atomic_store_explicit(&table->slots[i].key, SHUNT_MAP_EMPTY, memory_order_release);
        table->used--;
    }
}

void *shunt_map_remove(struct shunt_map *map, uintptr_t key, const void *only)
{
    void *value = NULL;

    pthread_mutex_lock(&map->lock);
    struct shunt_map_slot *slot = map->table ? find_slot(map->table, key) : NULL;
    if (slot && (!only || slot->value == only)) {
        value = slot->value;
        drop_slot(map, slot);
    }
    pthread_mutex_unlock(&map->lock);
    return value;
}

void *shunt_map_pop(struct shunt_map *map)
{
    void *value = NULL;

    pthread_mutex_lock(&map->lock);
    struct shunt_map_table *table = map->table;
    for (size_t i = 0; map->live > 0 && !value && i <= table->mask; i++) {
        if (table->slots[i].key > SHUNT_MAP_GONE) {
            value = table->slots[i].value;
            drop_slot(map, &table->slots[i]);
        }
    }
    pthread_mutex_unlock(&map->lock);
    return value;
}

void shunt_map_abandon(struct shunt_map *map)
{
    atomic_store_explicit(&map->table, NULL, memory_order_release);
}
