/* SPDX-License-Identifier: BSD-3-Clause */
/* The handle map: against a plain array, with chains that collide, and read by threads while others write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mpi/map.h"

enum { KEYS = 300, STEPS = 40000, THREADS = 4, OWN = 40, ROUNDS = 3000 };

static uintptr_t key_of(unsigned i)
{
    return 0x44000000u + i; /* like handles: dense */
}

/* Random puts and removals; every key is looked up all the time. */
static void test_like_array(void **state)
{
    (void)state;
    static struct shunt_map map = SHUNT_MAP_INITIALIZER;
    static int there[KEYS];
    unsigned seed = 1;

    assert_null(shunt_map_find(&map, key_of(0)));
    for (int step = 0; step < STEPS; step++) {
        unsigned i = rand_r(&seed) % KEYS;
        void *old;
        if (rand_r(&seed) % 2) {
            assert_int_equal(shunt_map_put(&map, key_of(i), &there[i], &old), SHUNT_OK);
            assert_ptr_equal(old, there[i] ? &there[i] : NULL);
            there[i] = 1;
        } else {
            assert_null(shunt_map_remove(&map, key_of(i), &map)); /* another value: stays */
            assert_ptr_equal(shunt_map_remove(&map, key_of(i), NULL), there[i] ? &there[i] : NULL);
            there[i] = 0;
        }
        assert_null(shunt_map_find(&map, SHUNT_MAP_EMPTY)); /* what a program may take for a handle */
        assert_null(shunt_map_find(&map, SHUNT_MAP_GONE));
        unsigned look = rand_r(&seed) % KEYS;
        assert_ptr_equal(shunt_map_find(&map, key_of(look)), there[look] ? &there[look] : NULL);
    }
    for (unsigned i = 0; i < KEYS; i++)
        assert_ptr_equal(shunt_map_find(&map, key_of(i)), there[i] ? &there[i] : NULL);
    int *value;
    while ((value = shunt_map_pop(&map)))
        *value = 0;
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(there[i], 0);
}

/* Many handles, a few at a time: the table must not grow. */
static void test_no_growth(void **state)
{
    (void)state;
    static struct shunt_map map = SHUNT_MAP_INITIALIZER;
    void *old;

    for (unsigned i = 0; i < 100000; i++) {
        assert_int_equal(shunt_map_put(&map, key_of(i), &map, &old), SHUNT_OK);
        if (i >= 4)
            assert_ptr_equal(shunt_map_remove(&map, key_of(i - 4), NULL), &map);
    }
    assert_true(map.table->mask < 512);
}

struct worker {
    struct shunt_map *map;
    unsigned number;
    int wrong;
};

/* Each thread has keys of its own, which it alone enters, looks up and removes, among everybody else's. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    int values[OWN];
    unsigned seed = worker->number;
    void *old;

    for (int round = 0; round < ROUNDS; round++) {
        unsigned first = rand_r(&seed) % (KEYS - OWN);
        for (unsigned i = 0; i < OWN; i++) {
            uintptr_t key = key_of((first + i) * THREADS + worker->number);
            if (shunt_map_put(worker->map, key, &values[i], &old) != SHUNT_OK || old)
                worker->wrong++;
        }
        for (unsigned i = 0; i < OWN; i++) {
            uintptr_t key = key_of((first + i) * THREADS + worker->number);
            if (shunt_map_find(worker->map, key) != &values[i])
                worker->wrong++;
            if (shunt_map_remove(worker->map, key, NULL) != &values[i])
                worker->wrong++;
            if (shunt_map_find(worker->map, key))
                worker->wrong++;
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static struct shunt_map map = SHUNT_MAP_INITIALIZER;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ &map, i, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    assert_int_equal(map.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_array),
        cmocka_unit_test(test_no_growth),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
