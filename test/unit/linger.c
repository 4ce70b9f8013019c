/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders to a kernel that lingers: a thread plays the kernel as linger.cuh has it, with pauses at random, and every
 * operation must be done once and in order, by the kernel that lingers or by the next one. And when kernels linger.
 */
#include "cuda/linger.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <cmocka.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/unit/fake_stream.h"

enum { AUTO, OFF, ON, OPERATIONS = 20000, SECONDS = 20, MOST_ORDERS = 64 };

/* ---- the kernel ---- */

static _Alignas(128) char pinned[SHUNT_LINGER_BYTES];

/* What a launch hands over, and what the stream does: one kernel after the other. */
struct launched {
    struct shunt_ll_args args;
    unsigned seed;
};
static _Atomic uint64_t done; /* ticket of the last operation */
static _Atomic int running;

static void do_operation(const struct shunt_ll_op *op)
{
    if (op->ticket != atomic_load(&done) + 1 || op->bytes != op->ticket * 3 || op->in != (void *)(uintptr_t)op->ticket)
        abort(); /* twice, out of order, or of two orders' words */
    atomic_store(&done, op->ticket);
}

/* All words of the order, read in any order, if all have its number. */
static bool order_read(const struct shunt_linger_args *args, uint32_t sequence, unsigned *seed, struct shunt_order *order)
{
    char data[sizeof *order];
    unsigned first = (unsigned)rand_r(seed) % SHUNT_ORDER_WORDS;

    for (unsigned k = 0; k < SHUNT_ORDER_WORDS; k++) {
        const struct shunt_order_word *word = &args->order[(first + k) % SHUNT_ORDER_WORDS];
        if (__atomic_load_n(&word->sequence, __ATOMIC_ACQUIRE) != sequence)
            return false;
        memcpy(data + 12 * ((first + k) % SHUNT_ORDER_WORDS), word->data, 12);
    }
    memcpy(order, data, sizeof *order);
    return true;
}

static void dawdle(unsigned *seed)
{
    if (rand_r(seed) % 16 == 0)
        sched_yield();
}

static void *kernel(void *context)
{
    struct launched *launched = context;
    const struct shunt_linger_args *args = &launched->args.linger;
    uint32_t sequence = args->sequence + 1;
    struct shunt_order order = {.op = launched->args.op};
    unsigned *seed = &launched->seed;

#define SAY(taken, word) __atomic_store_n(args->state, SHUNT_LINGER_STATE(taken, args->generation, word), __ATOMIC_RELEASE)
    do_operation(&order.op);
    while (args->window_ns != 0) {
        bool come = false;
        for (int polls = rand_r(seed) % 64; polls >= 0 && !come; polls--) {
            come = order_read(args, sequence, seed, &order);
            dawdle(seed);
        }
        if (!come) {
            SAY(sequence - 1, SHUNT_LINGER_LEAVING);
            atomic_thread_fence(memory_order_seq_cst);
            if (!order_read(args, sequence, seed, &order)) {
                SAY(sequence - 1, SHUNT_LINGER_GONE);
                break;
            }
            SAY(sequence, SHUNT_LINGER_ALIVE);
        }
        if (order.kind == SHUNT_ORDER_QUIT) {
            SAY(sequence, SHUNT_LINGER_GONE);
            break;
        }
        sequence++;
        do_operation(&order.op);
    }
    free(launched);
    atomic_store(&running, 0);
    return NULL;
}

/* ---- the host ---- */

static struct shunt_device device;
static struct shunt_gpu gpu;
static const int slots[2] = {0, 1};

static unsigned orders; /* that the kernel which lingers has been given */

struct call {
    struct shunt_plan plan;
    struct shunt_launch launch;
    struct shunt_ll_args args;
};

static void make_call(struct call *call, uint64_t ticket)
{
    *call = (struct call){
        .plan = {.n = 2, .me = 0, .flags = SHUNT_PLAN_LL, .blocks = 1, .bytes = ticket * 3},
        .launch = {.type = SHUNT_TYPE_F32, .op = SHUNT_OP_SUM, .legacy_idle = true, .slots = slots,
                   .grid = 1, .threads = 32},
        .args = {.op = {.in = (void *)(uintptr_t)ticket, .bytes = ticket * 3, .ticket = ticket}},
    };
    call->launch.plan = &call->plan;
}

/* As start_ll in launch.c does it. Answers whether a kernel that lingered got it. */
static bool start(struct call *call, unsigned seed)
{
    pthread_t thread;

    if (shunt_linger_serve(&device, &call->launch, &call->args)) {
        orders++;
        assert_true(orders <= MOST_ORDERS);
        return true;
    }
    orders = 0;
    shunt_linger_args(&call->launch, &call->args.linger);
    while (atomic_load(&running)) /* the stream */
        sched_yield();
    struct launched *launched = malloc(sizeof *launched);
    assert_non_null(launched);
    *launched = (struct launched){call->args, seed};
    atomic_store(&running, 1);
    assert_int_equal(pthread_create(&thread, NULL, kernel, launched), 0);
    pthread_detach(thread);
    shunt_linger_launched(&call->launch, &call->args);
    return false;
}

static void finish(uint64_t ticket)
{
    while (atomic_load(&done) != ticket)
        sched_yield();
}

static int set_up(void **state)
{
    (void)state;
    shunt_driver.cuStreamQuery = query_stream;
    device.gpu = &gpu;
    memset(pinned, 0, sizeof pinned);
    atomic_store(&done, 0);
    shunt_linger_open(pinned);
    return 0;
}

static int quit(void **state)
{
    (void)state;
    shunt_linger_quit(&device);
    while (atomic_load(&running))
        sched_yield();
    assert_false(shunt_linger_maybe());
    return 0;
}

static void every_operation_once(void **state)
{
    const time_t end = time(NULL) + SECONDS; /* where others have the processors, each yield takes long */
    uint64_t served = 0, ticket;
    unsigned seed = 7;

    (void)state;
    conf.linger = ON;
    for (ticket = 1; ticket <= OPERATIONS && time(NULL) < end; ticket++) {
        struct call call;
        make_call(&call, ticket);
        if (rand_r(&seed) % 64 == 0)
            call.launch.legacy_idle = false; /* must be launched */
        bool must_launch = !call.launch.legacy_idle;
        bool taken = start(&call, seed);
        assert_false(taken && must_launch);
        served += taken;
        finish(ticket);
        for (int pause = rand_r(&seed) % 32; pause > 0; pause--)
            dawdle(&seed);
    }
    assert_in_range(served, ticket / 200, ticket - ticket / 100); /* both ways have been gone */
}

/* Another operation, type, set of ranks, or a grid that does not suit: the kernel leaves. */
static void only_what_it_was_launched_for(void **state)
{
    static const int others[2] = {0, 2};
    static const struct shunt_spans spans = {.in[1] = {16, 8}, .out[1] = {0, 4}}, moved = {.in[1] = {24, 8}, .out[1] = {0, 4}};

    (void)state;
    conf.linger = ON;
    for (int difference = 0; difference < 9; difference++) {
        struct call call;
        uint64_t ticket = atomic_load(&done) + 1;
        make_call(&call, ticket);
        call.plan.spans = difference >= 7 ? &spans : NULL;
        start(&call, 1);
        finish(ticket);
        make_call(&call, ++ticket);
        switch (difference) {
        case 0: call.launch.op = SHUNT_OP_MAX; break;
        case 1: call.launch.type = SHUNT_TYPE_I32; break;
        case 2: call.launch.slots = others; break;
        case 3: call.plan.blocks = 2; break;
        case 4: call.launch.managed = true; break;
        case 5: call.launch.launches = 1; break;
        case 6: call.plan.spans = &spans; break;
        case 7: call.plan.spans = &moved; break;
        case 8: break;
        }
        assert_false(shunt_linger_serve(&device, &call.launch, &call.args));
        assert_false(shunt_linger_maybe());
    }
}

/* Slices that differ are those of the kernel, wherever they are kept. */
static void slices_as_before(void **state)
{
    struct shunt_spans spans = {.in[1] = {16, 8}, .out[1] = {0, 4}}, same = spans;
    bool taken = false;

    (void)state;
    conf.linger = ON;
    same.in[2].bytes = 1; /* of no rank */
    for (unsigned i = 0; i < OPERATIONS && !taken; i++) {
        struct call call;
        uint64_t ticket = atomic_load(&done) + 1;
        make_call(&call, ticket);
        call.plan.spans = i % 2 == 0 ? &spans : &same;
        taken = start(&call, i);
        finish(ticket);
    }
    assert_true(taken);
}

/* A kernel that is slow to leave finds the order after all, does it, and ends while the driver is being asked for it. */
static struct shunt_linger_args slow;

static void take_and_end(void)
{
    *slow.state = SHUNT_LINGER_STATE(slow.sequence + 1, slow.generation, SHUNT_LINGER_GONE);
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
        struct call call;
        make_call(&call, 1);
        shunt_linger_args(&call.launch, &call.args.linger);
        shunt_linger_launched(&call.launch, &call.args);
        slow = call.args.linger;
        *slow.state = SHUNT_LINGER_STATE(slow.sequence, slow.generation, SHUNT_LINGER_LEAVING);
        meanwhile = taken ? take_and_end : end_silently;
        make_call(&call, 2);
        assert_int_equal(shunt_linger_serve(&device, &call.launch, &call.args), taken);
        assert_false(shunt_linger_maybe());
        meanwhile = NULL;
    }
}

static uint32_t window_of(uint32_t flags)
{
    struct shunt_plan plan = {.flags = SHUNT_PLAN_LL | flags};
    struct shunt_launch launch = {.launches = 0, .plan = &plan};
    struct shunt_linger_args args;

    shunt_linger_args(&launch, &args);
    return args.window_ns;
}

static uint32_t window(void)
{
    return window_of(0);
}

static void calls(int n, long pause_ns)
{
    for (int i = 0; i < n; i++) {
        shunt_linger_return();
        if (pause_ns != 0)
            nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        shunt_linger_call();
    }
}

/* What earlier tests have left: a pause that is not over, and how long the next one would be. */
static void forget(void)
{
    struct call call;
    uint64_t ticket = atomic_load(&done);

    conf.linger = ON;
    do {
        make_call(&call, ++ticket);
        bool served = start(&call, (unsigned)ticket);
        finish(ticket);
        if (served)
            break;
    } while (true);
    quit(NULL);
    conf.linger = AUTO;
    calls(16, 0);
    while (window() == 0)
        calls(16, 0); /* again: this thread may have lost its processor in the last ones */
}

static void when_they_linger(void **state)
{
    (void)state;
    forget();
    calls(16, 1000000);
    assert_int_equal(window(), 0); /* calls are far apart */
    calls(16, 0);
    assert_in_range(window(), 1, 10000);
    conf.linger = ON;
    assert_int_equal(window_of(SHUNT_PLAN_HOSTED), 0); /* GPUs that meet in host memory */
    conf.linger = OFF;
    assert_int_equal(window(), 0);
}

/* Kernels that nobody orders anything from cost a pause without, and each time in a row twice as long a one. */
static void vain_windows(void **state)
{
    (void)state;
    forget();
    for (int rest = 16; rest <= 64; rest *= 2) {
        int vain = 0, without = 1;
        do {
            struct call call;
            make_call(&call, atomic_load(&done) + 1);
            start(&call, 1);
            finish(call.args.op.ticket);
            quit(NULL);
            vain++;
        } while (window() != 0);
        assert_in_range(vain, 2, 3); /* forget() has ended with one */
        while (window() == 0)
            without++;
        assert_int_equal(without, rest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_operation_once, set_up, quit),
        cmocka_unit_test_setup_teardown(only_what_it_was_launched_for, set_up, quit),
        cmocka_unit_test_setup_teardown(slices_as_before, set_up, quit),
        cmocka_unit_test_setup_teardown(kernel_that_ends_meanwhile, set_up, quit),
        cmocka_unit_test_setup_teardown(when_they_linger, set_up, quit),
        cmocka_unit_test_setup_teardown(vain_windows, set_up, quit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
