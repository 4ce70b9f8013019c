/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics: counting from several threads, and who prints what at the end, on an arena of this file's own. */
#include "base/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/board.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/parcel.h"
#include "test/unit/lines.h"

/* ---- what stats.c asks of the arena ---- */

enum { SLOTS = 8 };

struct shunt_arena {
    bool dead[SLOTS];
    _Alignas(128) unsigned char page[SLOTS][SHUNT_STATS_BYTES];
};

static int self; /* the slot that this process is */

int shunt_arena_self(const struct shunt_arena *arena)
{
    (void)arena;
    return self;
}

void *shunt_arena_stats(const struct shunt_arena *arena, int slot)
{
    return slot < SLOTS ? (void *)arena->page[slot] : NULL;
}

bool shunt_arena_alive(struct shunt_arena *arena, int slot)
{
    return !arena->dead[slot];
}

int shunt_arena_local_size(const struct shunt_arena *arena)
{
    (void)arena;
    return 2;
}

static struct shunt_parcels parcels[2];

struct shunt_parcels *shunt_arena_parcels(const struct shunt_arena *arena, int slot)
{
    (void)arena;
    return &parcels[slot];
}

/* ---- helpers ---- */

enum { ALLREDUCE, OTHER };

static const char *const colls[] = {"allreduce", "other"};
static const char *const algos[] = {"oneshot", "twoshot"};
static struct shunt_conf conf;
static struct shunt_log_state fresh = {.fd = -1, .rank = 3, .subsystems = ~0u, .file = ""};
static char host[64];

static int before(void **state)
{
    (void)state;
    conf.stats = true;
    lines_start();
    return 0;
}

static int after(void **state)
{
    (void)state;
    shunt_stats_attach(NULL);
    conf.stats = false;
    shunt_stats_finish(NULL); /* forget what was counted */
    lines_stop();
    return 0;
}

static void expect_line(bool node, const char *text)
{
    char line[256];
    if (node)
        snprintf(line, sizeof line, "shunt [%s] %s\n", host, text);
    else
        snprintf(line, sizeof line, "shunt [%s:%d rank 3] %s\n", host, (int)getpid(), text);
    assert_string_equal(lines_next(), line);
}

static struct shunt_arena *new_arena(void)
{
    void *arena = mmap(NULL, sizeof(struct shunt_arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    return arena;
}

static void drop_arena(struct shunt_arena *arena)
{
    munmap(arena, sizeof *arena);
}

/* As the process of `slot`: attach, count once, and finish if it should. */
static void live_as(struct shunt_arena *arena, int slot, bool finish)
{
    self = slot;
    shunt_stats_attach(arena);
    shunt_stats_count(ALLREDUCE, SHUNT_PATH_GPU, SHUNT_REASON_NONE, 1000);
    if (finish)
        shunt_stats_finish(arena);
}

/* ---- tests ---- */

static void test_table_of_a_process(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++)
        shunt_stats_count(ALLREDUCE, SHUNT_PATH_STAGED, i < 2 ? SHUNT_REASON_USER_OP : SHUNT_REASON_PEER_ON_HOST, 8);
    shunt_stats_count(ALLREDUCE, SHUNT_PATH_GPU + 1, SHUNT_REASON_NONE, (uint64_t)1 << 40);
    shunt_stats_count(ALLREDUCE, SHUNT_PATH_GPU + 5, SHUNT_REASON_NONE, 1);
    shunt_stats_count(ALLREDUCE, SHUNT_PATH_HOST, SHUNT_REASON_NONE, 0);
    shunt_stats_count(ALLREDUCE, SHUNT_PATH_LOCAL, SHUNT_REASON_NONE, 5);
    shunt_stats_count(OTHER, SHUNT_PATH_GPU, SHUNT_REASON_NONE, 7);
    shunt_stats_count(7, SHUNT_PATH_HOST, SHUNT_REASON_NONE, 7);
    shunt_stats_finish(NULL);
    expect_line(false, "statistics of 1 process:");
    expect_line(false, "  allreduce host                   1 calls                0 bytes");
    expect_line(false, "  allreduce staged                12 calls               96 bytes");
    expect_line(false, "  allreduce local                  1 calls                5 bytes");
    expect_line(false, "  allreduce twoshot                1 calls    1099511627776 bytes");
    expect_line(false, "  allreduce algorithm5             1 calls                1 bytes");
    expect_line(false, "  allreduce: 10 staged: a rank passed host memory");
    expect_line(false, "  allreduce: 2 staged: a user-defined operation");
    expect_line(false, "  other     oneshot                1 calls                7 bytes");
    expect_line(false, "  collective7 host                   1 calls                7 bytes");
    assert_string_equal(lines_next(), "");
    shunt_stats_finish(NULL); /* what was printed is gone */
    expect_line(false, "statistics of 1 process:");
    expect_line(false, "  no collective was called");
}

static void test_always_staged(void **state)
{
    (void)state;
    shunt_stats_count(SHUNT_STATS_COLLS + 1, SHUNT_PATH_STAGED, SHUNT_REASON_NO_ALGORITHM, 5);
    shunt_stats_count(SHUNT_STATS_COLLS + 1, SHUNT_PATH_STAGED, SHUNT_REASON_NO_ALGORITHM, 6);
    shunt_stats_count(SHUNT_STATS_COLLS + 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE, 6);
    shunt_stats_count(SHUNT_STATS_COLLS + SHUNT_STATS_STAGED, SHUNT_PATH_STAGED, SHUNT_REASON_NO_ALGORITHM, 6);
    shunt_stats_finish(NULL);
    expect_line(false, "statistics of 1 process:");
    expect_line(false, "  collective22 staged                 2 calls               11 bytes");
    expect_line(false, "  collective22: 2 staged: no device algorithm for this call yet");
}

static void test_out_of_range(void **state)
{
    (void)state;
    shunt_stats_count(SHUNT_STATS_COLLS, 0, SHUNT_REASON_NONE, 1);
    shunt_stats_count(0, SHUNT_NPATHS, SHUNT_REASON_NONE, 1);
    shunt_stats_count(0, 0, SHUNT_NREASONS, 1);
    shunt_stats_finish(NULL);
    expect_line(false, "statistics of 1 process:");
    expect_line(false, "  no collective was called");
}

static void test_silent_unless_asked(void **state)
{
    (void)state;
    conf.stats = false;
    struct shunt_arena *arena = new_arena();
    live_as(arena, 0, true);
    shunt_stats_finish(NULL);
    assert_string_equal(lines_next(), "");
    drop_arena(arena);
}

static void test_last_prints_the_sum(void **state)
{
    (void)state;
    struct shunt_arena *arena = new_arena();
    shunt_stats_count(ALLREDUCE, SHUNT_PATH_STAGED, SHUNT_REASON_NO_ARENA, 9); /* before there is an arena: kept */
    live_as(arena, 1, false);
    live_as(arena, 2, false);
    live_as(arena, 0, true);
    self = 2;
    shunt_stats_finish(arena);
    assert_string_equal(lines_next(), "");
    self = 1;
    shunt_stats_finish(arena);
    expect_line(true, "statistics of 3 processes:");
    expect_line(true, "  allreduce staged                 1 calls                9 bytes");
    expect_line(true, "  allreduce oneshot                3 calls             3000 bytes");
    expect_line(true, "  allreduce: 1 staged: no shared memory between the ranks of this node");
    assert_string_equal(lines_next(), "");
    drop_arena(arena);
}

static void test_dead_and_strangers_are_not_waited_for(void **state)
{
    (void)state;
    struct shunt_arena *arena = new_arena(); /* slots 5 to 7 never attach */
    for (int slot = 4; slot >= 0; slot--)
        live_as(arena, slot, slot < 4);
    assert_string_equal(lines_next(), ""); /* 4 has not finished yet */
    arena->dead[4] = true;
    self = 0;
    shunt_stats_finish(arena);
    expect_line(true, "statistics of 5 processes:");
    expect_line(true, "  allreduce oneshot                5 calls             5000 bytes");
    assert_string_equal(lines_next(), "");
    drop_arena(arena);
}

/* The counters must not be touched once they are left: this arena is unmapped. */
static void test_counting_after_the_end(void **state)
{
    (void)state;
    struct shunt_arena *arena = new_arena();
    live_as(arena, 0, true);
    drop_arena(arena);
    shunt_stats_count(ALLREDUCE, SHUNT_PATH_HOST, SHUNT_REASON_NONE, 1);
    assert_int_equal(lines_count(), 2);
}

enum { THREADS = 4, CALLS = 100000 };

static void *count_calls(void *unused)
{
    (void)unused;
    for (int i = 0; i < CALLS; i++)
        shunt_stats_count(ALLREDUCE, SHUNT_PATH_STAGED, SHUNT_REASON_TYPE, 2);
    return NULL;
}

static void test_threads_lose_nothing(void **state)
{
    (void)state;
    struct shunt_arena *arena = new_arena();
    shunt_stats_attach(arena);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_calls, NULL), 0);
    count_calls(NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    shunt_stats_finish(arena);
    expect_line(true, "statistics of 1 process:");
    expect_line(true, "  allreduce staged            500000 calls          1000000 bytes");
    expect_line(true, "  allreduce: 500000 staged: an element type without a GPU kernel");
    drop_arena(arena);
}

/* All finish at once: exactly one prints, and it has everybody's counts. */
static void test_processes_finish_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        struct shunt_arena *arena = new_arena();
        for (int slot = 0; slot < SLOTS; slot++) {
            self = slot;
            shunt_stats_attach(arena);
        }
        shunt_stats_attach(NULL);
        pid_t child[SLOTS];
        for (int slot = 0; slot < SLOTS; slot++) {
            child[slot] = fork();
            if (child[slot] == 0) {
                live_as(arena, slot, true);
                _exit(0);
            }
        }
        for (int slot = 0; slot < SLOTS; slot++)
            waitpid(child[slot], NULL, 0);
        expect_line(true, "statistics of 8 processes:");
        expect_line(true, "  allreduce oneshot                8 calls             8000 bytes");
        assert_string_equal(lines_next(), "");
        drop_arena(arena);
    }
}

int main(void)
{
    gethostname(host, sizeof host);
    host[strcspn(host, ".")] = '\0';
    shunt_conf_use(&conf);
    shunt_log_use(&fresh);
    shunt_stats_names(colls, 2, algos, 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table_of_a_process, before, after),
        cmocka_unit_test_setup_teardown(test_always_staged, before, after),
        cmocka_unit_test_setup_teardown(test_out_of_range, before, after),
        cmocka_unit_test_setup_teardown(test_silent_unless_asked, before, after),
        cmocka_unit_test_setup_teardown(test_last_prints_the_sum, before, after),
        cmocka_unit_test_setup_teardown(test_dead_and_strangers_are_not_waited_for, before, after),
        cmocka_unit_test_setup_teardown(test_counting_after_the_end, before, after),
        cmocka_unit_test_setup_teardown(test_threads_lose_nothing, before, after),
        cmocka_unit_test_setup_teardown(test_processes_finish_at_once, before, after),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
