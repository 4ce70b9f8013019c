/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of a fetch whose kernel does not answer: the driver is the test's, and so are the words that blocks write. */
#include "cuda/fetcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "test/unit/fake_query.h"

enum { LAUNCH = 4, ORDER = 6 };

const unsigned char shunt_pack_fatbin[1];
const unsigned long shunt_pack_fatbin_size;

static _Atomic uint64_t words[SHUNT_FETCHER_WORDS];

enum shunt_status shunt_cuda_check(CUresult result, int level, const char *call)
{
    (void)level;
    (void)call;
    return result == CUDA_SUCCESS ? SHUNT_OK : SHUNT_ERR_CUDA;
}

/* As for a kernel that has begun, and so is not called back. */
enum shunt_recalled shunt_recall_look(struct shunt_recall *recall, struct shunt_gpu *gpu,
                                      const struct shunt_recall_words *at, uint64_t key, double now)
{
    (void)recall;
    (void)gpu;
    (void)at;
    (void)now;
    assert_int_equal(key, LAUNCH);
    return SHUNT_RECALL_RUNS;
}

static void say_done(unsigned block, uint64_t number)
{
    atomic_store(&words[SHUNT_STAY_WORDS + block], SHUNT_FETCH_DONE(number, true));
}

/* A kernel that stays, and has been ordered to do something by two blocks, the first of which has. */
static struct shunt_fetcher ordered(void)
{
    struct shunt_fetcher fetcher = {
        .ready = true,
        .done = words + SHUNT_STAY_WORDS,
        .args.launch = LAUNCH,
        .n = 2,
        .awaited = 2,
        .number = ORDER,
        .ordered = true,
        .stay.orders.alive = true,
    };

    shunt_driver.cuStreamQuery = query_stream;
    say_done(0, ORDER);
    say_done(1, LAUNCH);
    return fetcher;
}

static void the_last_is_done_meanwhile(void)
{
    say_done(1, ORDER);
}

static void nothing_is_done_any_more(void)
{
}

static void kernel_that_runs(void **state)
{
    struct shunt_fetcher fetcher = ordered();

    (void)state;
    meanwhile = NULL;
    assert_int_equal(shunt_fetcher_hurry(&fetcher, NULL), SHUNT_AGAIN);
    assert_true(fetcher.stay.orders.alive);
}

static void kernel_that_ends_with_all_done(void **state)
{
    struct shunt_fetcher fetcher = ordered();

    (void)state;
    meanwhile = the_last_is_done_meanwhile;
    assert_int_equal(shunt_fetcher_hurry(&fetcher, NULL), SHUNT_AGAIN);
    assert_true(shunt_fetcher_done(&fetcher));
}

/* Block 0 has passed an order on, and then that it leaves, before another block had looked: that has missed the order. */
static void kernel_that_ends_with_something_undone(void **state)
{
    struct shunt_fetcher fetcher = ordered();

    (void)state;
    meanwhile = nothing_is_done_any_more;
    assert_false(shunt_fetcher_done(&fetcher));
    assert_int_equal(shunt_fetcher_hurry(&fetcher, NULL), SHUNT_PASS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_that_runs),
        cmocka_unit_test(kernel_that_ends_with_all_done),
        cmocka_unit_test(kernel_that_ends_with_something_undone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
