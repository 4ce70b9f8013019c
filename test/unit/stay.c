/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders to a kernel that fetches and stays: a thread plays its block 0 as stay.cuh has it, with pauses at random, and every
 * copy must be made once and in order, by the kernel that stays or by the next one. And when kernels stay.
 */
#include "cuda/stay.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/unit/fake_stream.h"

enum { AUTO, OFF, ON, COPIES = 20000, SECONDS = 20, MOST_ORDERS = 64 };

/* ---- the kernel ---- */

static _Alignas(64) uint64_t pinned[SHUNT_STAY_WORDS];
static struct shunt_stay stay;
static _Atomic uint32_t done; /* the last copy, counted from 1 on */
static _Atomic int running;

struct launched {
    uint64_t number;
    uint32_t copy, window;
    unsigned seed;
};

static void do_copies(uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (first + i != atomic_fetch_add(&done, 1) + 1)
            abort(); /* twice, out of order, or of two orders' words */
}

static bool read_order(uint32_t sequence, struct shunt_fetch_order *order)
{
    unsigned words = 3;

    for (unsigned i = 0; i < words; i++) {
        const uint32_t *word = stay.orders.words + 4 * i;
        if (__atomic_load_n(&word[3], __ATOMIC_ACQUIRE) != sequence)
            return false;
        memcpy((char *)order + 12 * i, word, 12);
        if (i == 0 && order->n > 1)
            words = 1 + 2 * order->n;
    }
    return true;
}

static void dawdle(unsigned *seed)
{
    if (rand_r(seed) % 16 == 0)
        sched_yield();
}

static void say(uint64_t generation, uint32_t taken, uint32_t word)
{
    atomic_store_explicit(stay.orders.state, SHUNT_STAY_STATE(taken, generation, word), memory_order_release);
}

/* False: it leaves. */
static bool await(const struct launched *launched, uint32_t sequence, unsigned *seed, struct shunt_fetch_order *order)
{
    for (int polls = rand_r(seed) % 64; polls >= 0; polls--) {
        if (read_order(sequence, order))
            return order->n > 0;
        dawdle(seed);
    }
    say(launched->number, sequence - 1, SHUNT_STAY_LEAVING);
    atomic_thread_fence(memory_order_seq_cst);
    if (!read_order(sequence, order)) {
        order->n = 1; /* none: it says itself what it has taken */
        say(launched->number, sequence - 1, SHUNT_STAY_GONE);
        return false;
    }
    say(launched->number, sequence, SHUNT_STAY_ALIVE);
    return order->n > 0;
}

static void *kernel(void *context)
{
    struct launched *launched = context;
    uint32_t sequence = (uint32_t)launched->number + 1;
    struct shunt_fetch_order order;

    do_copies(launched->copy, 1);
    while (launched->window != 0) {
        if (!await(launched, sequence, &launched->seed, &order)) {
            if (order.n == 0)
                say(launched->number, sequence, SHUNT_STAY_GONE);
            break;
        }
        do_copies(order.copies[0].to[0], order.n);
        sequence++;
    }
    free(launched);
    atomic_store(&running, 0);
    return NULL;
}

/* ---- the host ---- */

static uint64_t number;
static unsigned orders; /* that the kernel which stays has been given */

/* n copies from the one with this number on; of a launch, one. Answers how many, and whether they were ordered. */
static uint32_t start(uint32_t copy, uint32_t n, unsigned seed, bool *ordered)
{
    struct shunt_fetch_order order = { .n = (uint16_t)n, .blocks = 1, .piece = UINT32_MAX };
    pthread_t thread;

    for (uint32_t i = 0; i < n; i++)
        order.copies[i].to[0] = copy + i;
    shunt_stay_begin(&stay);
    *ordered = stay.orders.alive && shunt_stay_give(&stay, &order, ++number, NULL);
    if (*ordered) {
        assert_true(++orders <= MOST_ORDERS);
        return n;
    }
    orders = 0;
    struct launched *launched = malloc(sizeof *launched);
    assert_non_null(launched);
    number++;
    *launched = (struct launched){ number, copy, shunt_stay_launch(&stay, number), seed };
    while (atomic_load(&running)) /* the stream */
        sched_yield();
    atomic_store(&running, 1);
    assert_int_equal(pthread_create(&thread, NULL, kernel, launched), 0);
    pthread_detach(thread);
    return 1;
}

static void finish(uint32_t copy)
{
    while (atomic_load(&done) < copy)
        sched_yield();
    shunt_stay_end(&stay);
}

static int set_up(void **state)
{
    (void)state;
    shunt_driver.cuStreamQuery = query_stream;
    memset(pinned, 0, sizeof pinned);
    atomic_store(&done, 0);
    shunt_stay_open(&stay, pinned);
    number = 0;
    return 0;
}

static int quit(void **state)
{
    (void)state;
    shunt_stay_quit(&stay, ++number, NULL);
    assert_false(stay.orders.alive);
    while (atomic_load(&running))
        sched_yield();
    return 0;
}

static void every_copy_once(void **state)
{
    const time_t end = time(NULL) + SECONDS; /* where others have the processors, each yield takes long */
    uint32_t served = 0, launched = 0, copy = 1;
    unsigned seed = 7;

    (void)state;
    conf.linger = ON;
    while (copy <= COPIES && time(NULL) < end) {
        bool ordered;
        if (rand_r(&seed) % 64 == 0)
            shunt_stay_quit(&stay, ++number, NULL);
        copy += start(copy, 1 + (uint32_t)rand_r(&seed) % SHUNT_FETCH_COPIES, seed, &ordered);
        served += ordered;
        launched += !ordered;
        finish(copy - 1);
        for (int pause = rand_r(&seed) % 32; pause > 0; pause--)
            dawdle(&seed);
    }
    assert_true(served > copy / 2000 && launched > copy / 2000); /* both ways have been gone */
}

/* A kernel that is slow to leave finds the order after all, does it, and ends while the driver is being asked for it. */
static void take_and_end(void)
{
    say(stay.launch, (uint32_t)number, SHUNT_STAY_GONE);
}

/* A kernel whose context has gone says nothing any more. */
static void end_silently(void)
{
}

static void kernel_that_ends_meanwhile(void **state)
{
    (void)state;
    conf.linger = ON;
    for (int taken = 0; taken < 2; taken++) {
        struct shunt_fetch_order order = { .n = 1, .blocks = 1 };
        shunt_stay_launch(&stay, ++number);
        assert_true(stay.orders.alive);
        say(stay.launch, (uint32_t)number, SHUNT_STAY_LEAVING);
        meanwhile = taken ? take_and_end : end_silently;
        number++;
        assert_int_equal(shunt_stay_give(&stay, &order, number, NULL), taken);
        assert_false(stay.orders.alive);
        meanwhile = NULL;
    }
}

/* What the kernel before has said last does not count: it may be written only now. */
static void words_of_the_kernel_before(void **state)
{
    struct shunt_fetch_order order = { .n = 1, .blocks = 1 };

    (void)state;
    conf.linger = ON;
    number++;
    say(number, (uint32_t)number, SHUNT_STAY_GONE);
    shunt_stay_launch(&stay, ++number);
    assert_true(shunt_stay_give(&stay, &order, ++number, NULL));
    say(stay.launch, (uint32_t)number, SHUNT_STAY_GONE);
    assert_false(shunt_stay_give(&stay, &order, ++number, NULL));
}

static void fetches(int n, long pause_ns)
{
    for (int i = 0; i < n; i++) {
        shunt_stay_end(&stay);
        if (pause_ns != 0)
            nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
        shunt_stay_begin(&stay);
    }
}

static uint32_t window(void)
{
    uint32_t found = shunt_stay_launch(&stay, ++number);

    stay.orders.alive = false;
    return found;
}

static void when_they_stay(void **state)
{
    (void)state;
    conf.linger = AUTO;
    assert_int_equal(window(), 0); /* nothing is known yet */
    fetches(16, 1000000);
    assert_int_equal(window(), 0); /* messages are far apart */
    do
        fetches(16, 0); /* again: this thread may have lost its processor in the last ones */
    while (window() == 0);
    assert_in_range(window(), 1, 30000);
    conf.linger = OFF;
    assert_int_equal(window(), 0);
}

/* Kernels that nobody orders anything from cost a rest without, and each time in a row twice as long a one. */
static void vain_windows(void **state)
{
    (void)state;
    conf.linger = AUTO;
    do
        fetches(16, 0);
    while (window() == 0);
    for (int rest = 16; rest <= 64; rest *= 2) {
        int vain = 0, without = 0;
        while (shunt_stay_launch(&stay, ++number) != 0) {
            say(stay.launch, (uint32_t)number, SHUNT_STAY_GONE);
            shunt_stay_quit(&stay, ++number, NULL);
            vain++;
        }
        assert_int_equal(vain, 3);
        for (without = 1; shunt_stay_launch(&stay, ++number) == 0; without++)
            continue;
        assert_int_equal(without, rest);
        say(stay.launch, (uint32_t)number, SHUNT_STAY_GONE);
        shunt_stay_quit(&stay, ++number, NULL);
        stay.pace.misses = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_copy_once, set_up, quit),
        cmocka_unit_test_setup_teardown(kernel_that_ends_meanwhile, set_up, quit),
        cmocka_unit_test_setup_teardown(words_of_the_kernel_before, set_up, quit),
        cmocka_unit_test_setup_teardown(when_they_stay, set_up, quit),
        cmocka_unit_test_setup_teardown(vain_windows, set_up, quit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
