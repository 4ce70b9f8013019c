/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pointers are surely host memory, that is: which are never shown to the driver. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/driver.h"
#include "cuda/gpu.h"

enum { STACK_BYTES = 256 << 10, PAGE = 4096 };

struct shunt_driver shunt_driver;

bool shunt_gpu_in_use(void)
{
    return false;
}

static bool is_host(const void *p)
{
    return shunt_gpu_surely_host(p, p);
}

/* A page mapped `below` bytes under the calling frame. */
static void *map_below(size_t below)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0) & -(uintptr_t)PAGE;
    void *p = mmap((void *)(here - below), PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static void own_stack_and_heap(void **state)
{
    int local = 0;
    void *small = sbrk(PAGE); /* as malloc takes it, if no sanitizer does it in its place */

    (void)state;
    assert_ptr_not_equal(small, (void *)-1);
    assert_true(is_host(&local));
    assert_true(is_host(small));
}

static void mappings_are_not(void **state)
{
    void *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int local = 0;

    (void)state;
    assert_false(is_host(p));
    assert_false(shunt_gpu_surely_host(&local, p));
    assert_false(shunt_gpu_surely_host(p, &local));
    munmap(p, PAGE);
}

/* The process has no limit of its stack: see main. */
static void what_comes_below_an_unlimited_stack_is_not(void **state)
{
    struct rlimit limit;
    int local = 0;

    (void)state;
    assert_true(is_host(&local)); /* the stack's bounds are known from here on */
    assert_int_equal(getrlimit(RLIMIT_STACK, &limit), 0);
    assert_true(limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= 1u << 30);
    void *p = map_below((size_t)512 << 20);
    assert_false(is_host(p));
    assert_true(is_host(&local));
    munmap(p, PAGE);
}

static void *look_from_thread(void *of_main)
{
    int local = 0;

    return (void *)(uintptr_t)(is_host(&local) && !is_host(of_main));
}

static void stacks_of_threads(void **state)
{
    pthread_t thread;
    void *right;
    int local = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, look_from_thread, &local), 0);
    assert_int_equal(pthread_join(thread, &right), 0);
    assert_non_null(right);
}

static struct {
    ucontext_t caller, coroutine;
    void *below; /* between the coroutine's stack and the thread's */
    bool surely_host;
} fiber;

static void look_from_coroutine(void)
{
    fiber.surely_host = is_host(fiber.below);
}

static void coroutines(void **state)
{
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(stack, MAP_FAILED);
    fiber.below = map_below((size_t)256 << 20);
    assert_int_equal(getcontext(&fiber.coroutine), 0);
    fiber.coroutine.uc_stack.ss_sp = stack;
    fiber.coroutine.uc_stack.ss_size = STACK_BYTES;
    fiber.coroutine.uc_link = &fiber.caller;
    makecontext(&fiber.coroutine, look_from_coroutine, 0);
    assert_int_equal(swapcontext(&fiber.caller, &fiber.coroutine), 0);
    assert_false(fiber.surely_host);
    munmap(fiber.below, PAGE);
    munmap(stack, STACK_BYTES);
}

/* Start again with a stack as large as may be: the limit counts when a program starts. */
static void unlimit(char **argv)
{
    struct rlimit limit;

    if (getenv("UNLIMITED") != NULL || getrlimit(RLIMIT_STACK, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_STACK, &limit);
    setenv("UNLIMITED", "1", 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_stack_and_heap),
        cmocka_unit_test(mappings_are_not),
        cmocka_unit_test(what_comes_below_an_unlimited_stack_is_not),
        cmocka_unit_test(stacks_of_threads),
        cmocka_unit_test(coroutines),
    };

    (void)argc;
    unlimit(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
