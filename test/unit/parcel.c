/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose turn it is with a parcel: every change from every state, two that race, and which one is dropped. */
#include "base/clock.h"
#include "base/parcel.h"

#include <pthread.h>

#include "test/unit/rounds.h"

static struct shunt_parcels *page(int viewer, int owner)
{
    return shunt_arena_parcels(arena[viewer], shunt_arena_slot(arena[viewer], owner));
}

static void leave_all(void)
{
    for (int i = 0; i < size; i++)
        shunt_arena_leave(arena[i]);
}

static void test_states(void **state)
{
    (void)state;
    struct shunt_parcel_note note = {.comm = 5, .bytes = 1000, .tag = 3, .dest = 1};
    join_all("states", 2);
    uint64_t number = shunt_parcel_expose(page(0, 0), 7, &note);
    assert_int_equal(shunt_parcel_look(page(1, 0), 7, number), SHUNT_PARCEL_EXPOSED);
    assert_int_equal(page(1, 0)->list[7].note.bytes, 1000);
    for (int from = SHUNT_PARCEL_FREE; from < SHUNT_PARCEL_GONE; from++) {
        bool is = from == SHUNT_PARCEL_EXPOSED;
        assert_int_equal(shunt_parcel_turn(page(1, 0), 7, number, from, from), is);
    }
    assert_false(shunt_parcel_turn(page(1, 0), 7, number + 1, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_PULLING));
    assert_int_equal(shunt_parcel_look(page(1, 0), 7, number + 1), SHUNT_PARCEL_GONE);
    assert_true(shunt_parcel_turn(page(1, 0), 7, number, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_PULLING));
    assert_false(shunt_parcel_turn(page(0, 0), 7, number, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_MOVING));
    assert_true(shunt_parcel_turn(page(1, 0), 7, number, SHUNT_PARCEL_PULLING, SHUNT_PARCEL_DONE));
    uint64_t next = shunt_parcel_expose(page(0, 0), 7, &note);
    assert_int_equal(next, number + 1);
    assert_int_equal(shunt_parcel_look(page(1, 0), 7, number), SHUNT_PARCEL_GONE);
    assert_int_equal(shunt_parcel_look(page(1, 1), 7, next), SHUNT_PARCEL_GONE); /* another process's */
    leave_all();
}

static void test_token(void **state)
{
    (void)state;
    uint64_t a[2], b[2];
    join_all("token", 2);
    shunt_arena_token(arena[0], a);
    shunt_arena_token(arena[1], b);
    assert_memory_equal(a, b, sizeof a);
    assert_true(a[0] != 0 || a[1] != 0);
    leave_all();
}

static uint64_t held_number;

static bool is_held(void *context, uint32_t index, uint64_t number)
{
    (void)index;
    (void)context;
    return number == held_number;
}

/* The oldest of its kind that the receiver has not got. */
static bool drop(struct shunt_parcels *parcels, const struct shunt_parcel_note *like)
{
    struct shunt_parcel_note note;
    uint64_t number;
    uint32_t index;
    bool found = shunt_parcel_find(parcels, like, is_held, NULL, &note, &index, &number);

    if (found)
        shunt_parcel_discard(parcels, index, number);
    return found;
}

static void test_drop(void **state)
{
    (void)state;
    struct shunt_parcel_note note = {.comm = 5, .tag = 3, .dest = 1};
    uint64_t number[4];
    join_all("drop", 2);
    held_number = 0;
    assert_false(drop(page(1, 0), &note));
    static const uint32_t places[4] = {9, 2, 5, 7};
    for (int i = 0; i < 4; i++) {
        struct shunt_parcel_note one = note;
        one.order = 10 + i;
        one.tag = i == 1 ? 4 : 3;
        for (int again = 0; again <= i; again++) /* so that numbers differ */
            number[i] = shunt_parcel_expose(page(0, 0), places[i], &one);
    }
    held_number = number[0];
    assert_true(shunt_parcel_turn(page(0, 0), 5, number[2], SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_MOVED));
    assert_true(drop(page(1, 0), &note));
    assert_int_equal(shunt_parcel_look(page(0, 0), 5, number[2]), SHUNT_PARCEL_DONE);
    assert_int_equal(shunt_parcel_look(page(0, 0), 9, number[0]), SHUNT_PARCEL_EXPOSED);
    assert_int_equal(shunt_parcel_look(page(0, 0), 2, number[1]), SHUNT_PARCEL_EXPOSED);
    assert_true(drop(page(1, 0), &note));
    assert_int_equal(shunt_parcel_look(page(0, 0), 7, number[3]), SHUNT_PARCEL_DONE);
    assert_false(drop(page(1, 0), &note));
    leave_all();
}

/* Sender and receiver at the same time: one of them gets it, and the receiver sees what the sender has moved. */
#define ROUNDS  20000
#define SECONDS 3.0 /* where processors are few there are fewer rounds */
#define OVER    UINT64_MAX
static _Atomic uint64_t current;
static int copied;

static void *receive_all(void *context)
{
    int *pulled = context;

    for (uint64_t number = 1, now;; number++) {
        while ((now = atomic_load(&current)) != number && now != OVER)
            sched_yield();
        if (now == OVER)
            return NULL;
        if (shunt_parcel_turn(page(1, 0), 0, number, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_PULLING)) {
            (*pulled)++;
            shunt_parcel_turn(page(1, 0), 0, number, SHUNT_PARCEL_PULLING, SHUNT_PARCEL_DONE);
        } else {
            while (shunt_parcel_look(page(1, 0), 0, number) != SHUNT_PARCEL_MOVED)
                sched_yield();
            if (copied != (int)number)
                *pulled = -ROUNDS;
            shunt_parcel_turn(page(1, 0), 0, number, SHUNT_PARCEL_MOVED, SHUNT_PARCEL_DONE);
        }
    }
}

static void test_race(void **state)
{
    (void)state;
    struct shunt_parcel_note note = {.dest = 1};
    pthread_t thread;
    const double end = shunt_seconds() + SECONDS;
    int pulled = 0, moved = 0, rounds = 0;
    join_all("race", 2);
    atomic_store(&current, 0);
    assert_int_equal(pthread_create(&thread, NULL, receive_all, &pulled), 0);
    for (uint64_t i = 1; i <= ROUNDS && shunt_seconds() < end; i++, rounds++) {
        uint64_t number = shunt_parcel_expose(page(0, 0), 0, &note);
        assert_int_equal(number, i);
        atomic_store(&current, number);
        if (shunt_parcel_turn(page(0, 0), 0, number, SHUNT_PARCEL_EXPOSED, SHUNT_PARCEL_MOVING)) {
            copied = (int)number;
            shunt_parcel_turn(page(0, 0), 0, number, SHUNT_PARCEL_MOVING, SHUNT_PARCEL_MOVED);
            moved++;
        }
        while (shunt_parcel_look(page(0, 0), 0, number) != SHUNT_PARCEL_DONE)
            sched_yield();
    }
    atomic_store(&current, OVER);
    pthread_join(thread, NULL);
    assert_int_equal(pulled + moved, rounds);
    assert_true(rounds > 0);
    leave_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_states, before),
        cmocka_unit_test_setup(test_token, before),
        cmocka_unit_test_setup(test_drop, before),
        cmocka_unit_test_setup(test_race, before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
