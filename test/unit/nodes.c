/* SPDX-License-Identifier: BSD-3-Clause */
/* SHUNT_NODE: one machine as several nodes. Views of this process stand for ranks. */
#include "base/clock.h"
#include "base/board.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <time.h>

#include "base/conf.h"
#include "test/unit/ranks.h"

static struct shunt_conf conf;

static int before(void **state)
{
    (void)state;
    ranks_forget();
    conf = *shunt_conf;
    conf.node = "";
    conf.arena_size = 8 << 20;
    shunt_conf_use(&conf);
    return 0;
}

static const char *const TEXTS[] = {"left", "left", "right", "", "right"};
enum { RANKS = 5 };

static void be_on(const char *node)
{
    conf.node = node;
}

/*
 * Ranks 0, 1 and 2, 4 and 3 of one machine are on three nodes: nobody waits for those of the others, finds them, or has
 * anything in common with them.
 */
static void test_virtual_nodes(void **state)
{
    (void)state;
    struct shunt_arena *arena[RANKS];
    uint64_t number[RANKS][2];
    for (int rank = 0; rank < RANKS; rank++) {
        be_on(TEXTS[rank]);
        arena[rank] = ranks_view("texts", rank, RANKS);
        assert_int_equal(arena[rank]->machine != NULL, *TEXTS[rank] != 0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        shunt_arena_set_world(arena[rank], rank, RANKS);
    double start = shunt_seconds();
    for (int rank = 0; rank < RANKS; rank++)
        shunt_arena_seal(arena[rank]);
    assert_true(shunt_seconds() - start < 0.5);
    for (int rank = 0; rank < RANKS; rank++) {
        int found = 0;
        shunt_arena_node(arena[rank], number[rank]);
        for (int other = 0; other < RANKS; other++) {
            bool same = strcmp(TEXTS[rank], TEXTS[other]) == 0;
            assert_int_equal(shunt_arena_slot(arena[rank], other) >= 0, same);
            found += same;
        }
        assert_null(arena[rank]->machine);
        assert_true(shunt_arena_local_size(arena[rank]) >= found);
        if (*TEXTS[rank])
            assert_int_equal(shunt_arena_local_size(arena[rank]), found);
    }
    assert_memory_equal(number[0], number[1], sizeof number[0]);
    assert_memory_equal(number[2], number[4], sizeof number[0]);
    assert_memory_not_equal(number[0], number[2], sizeof number[0]);
    assert_memory_not_equal(number[0], number[3], sizeof number[0]);
    for (int rank = 0; rank < RANKS; rank++) {
        shunt_arena_leave(arena[rank]);
        be_on(TEXTS[rank]);
        assert_int_equal(ranks_files("texts"), 0);
    }
    be_on("");
    assert_int_equal(ranks_files("texts"), 0);
}

/* A rank of the machine that never comes may belong to any of the nodes: a second for all of them, and no more. */
static void test_virtual_missing(void **state)
{
    (void)state;
    struct shunt_arena *arena[2];
    for (int rank = 0; rank < 2; rank++) {
        be_on(rank ? "b" : "a");
        arena[rank] = ranks_view("gap", rank, 3);
        shunt_arena_set_world(arena[rank], rank, 3);
    }
    double start = shunt_seconds();
    for (int rank = 0; rank < 2; rank++)
        shunt_arena_seal(arena[rank]);
    assert_true(shunt_seconds() - start > 0.9 && shunt_seconds() - start < 2);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(shunt_arena_slot(arena[rank], rank), 0);
        assert_int_equal(shunt_arena_slot(arena[rank], 1 - rank), -1);
        shunt_arena_leave(arena[rank]);
    }
    assert_int_equal(ranks_files("gap"), 0);
    be_on("");
    assert_int_equal(ranks_files("gap"), 0);
}

/* One that ends before anything is sealed leaves neither arena's file behind, nor does it hold up the others. */
static void test_virtual_unsealed(void **state)
{
    (void)state;
    be_on("a");
    shunt_arena_leave(ranks_view("early", 0, 2));
    assert_int_equal(ranks_files("early"), 0);
    be_on("");
    assert_int_equal(ranks_files("early"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, before)
    const struct CMUnitTest tests[] = {TEST(test_virtual_nodes), TEST(test_virtual_missing),
                                       TEST(test_virtual_unsealed)};
    return cmocka_run_group_tests_name("nodes", tests, NULL, NULL);
}
