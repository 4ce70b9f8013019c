/* SPDX-License-Identifier: BSD-3-Clause */
/* Boards of more than 16 members, which arrive by a tree: groups of 8 and a root. */
#include "base/board.h"

#include "test/unit/rounds.h"

static void all_arrive_but(int n, int missing)
{
    for (int i = 0; i < n; i++)
        if (i != missing)
            arrive(i);
}

/* A member on the host is seen by its own group, or, if it is the first of its group, by all; so all stage in the end. */
static void test_host_rank(void **state)
{
    (void)state;
    for (int host = 0; host < 20; host++) {
        before(NULL);
        open_all("host", 20);
        for (int late = 0; late < 2; late++) {
            if (!late)
                shunt_board_pass(board[host]);
            all_arrive_but(20, host);
            for (int i = 0; late && i < 20; i++)
                if (i != host)
                    expect(i, SHUNT_ROUND_UNDECIDED);
            if (late)
                shunt_board_pass(board[host]);
            for (int turn = 0; turn < 2; turn++)
                for (int i = 0; i < 20; i++)
                    if (i != host)
                        shunt_round_poll(&rounds[i]);
            for (int i = 0; i < 20; i++)
                if (i != host) {
                    expect_stage(i, SHUNT_REASON_PEER_ON_HOST);
                    leave(i);
                }
            assert_int_equal(pool_use().posts, 0);
        }
        for (int i = 0; i < 20; i++)
            arrive(i);
        expect(host, SHUNT_ROUND_RUN);
        for (int i = 0; i < 20; i++)
            leave(i);
        assert_int_equal(decider.calls, 1);
        assert_int_equal(after(NULL), 0);
    }
    size = 0;
}

/* A group of which nobody arrives has nobody who looks after it. */
static void test_host_groups(void **state)
{
    (void)state;
    open_all("groups", 24);
    for (int i = 8; i < 16; i++)
        shunt_board_pass(board[i]);
    for (int i = 0; i < 8; i++)
        arrive(i);
    for (int i = 0; i < 8; i++)
        expect_stage(i, SHUNT_REASON_PEER_ON_HOST);
    for (int i = 0; i < 7; i++)
        leave(i);
    /* latecomers of a group in which nobody is: staged at once, or when they look */
    for (int i = 16; i < 24; i++) {
        if (arrive_flags(i, 0) == SHUNT_OK) {
            expect_stage(i, SHUNT_REASON_PEER_ON_HOST);
            leave(i);
        } else {
            assert_int_equal(reasons[i], SHUNT_REASON_PEER_ON_HOST);
        }
    }
    leave(7);
    assert_int_equal(pool_use().posts, 0);
}

/* A latecomer of the same group, of another, before and after all have left: the reason of the first veto. */
static void test_late(void **state)
{
    (void)state;
    open_all("late", 17);
    arrive(0);
    shunt_round_veto(&rounds[0], SHUNT_REASON_NO_IPC);
    for (int i = 1; i < 16; i += 7) {
        if (arrive_flags(i, 0) == SHUNT_OK) {
            expect_stage(i, SHUNT_REASON_NO_IPC);
            leave(i);
        } else {
            assert_int_equal(reasons[i], SHUNT_REASON_NO_IPC);
        }
    }
    expect_stage(0, SHUNT_REASON_NO_IPC);
    leave(0);
    assert_int_equal(arrive_not(2), SHUNT_REASON_NO_IPC);
    if (arrive_flags(16, 0) == SHUNT_OK) {
        expect_stage(16, SHUNT_REASON_NO_IPC);
        leave(16);
    }
    assert_int_equal(pool_use().posts, 0);
}

static void test_veto(void **state)
{
    (void)state;
    open_all("veto", 18);
    for (int i = 0; i < 17; i++)
        arrive(i);
    shunt_round_veto(&rounds[9], SHUNT_REASON_NO_DEVICE_MEMORY);
    shunt_round_veto(&rounds[1], SHUNT_REASON_NO_IPC); /* the first counts */
    for (int i = 0; i < 17; i++)
        expect_stage(i, SHUNT_REASON_NO_DEVICE_MEMORY);
    for (int i = 0; i < 17; i++)
        leave(i);
    shunt_board_pass(board[17]);
    /* that comes while the last to arrive decides */
    for (int i = 0; i < 17; i++)
        arrive(i);
    decider.veto = &rounds[3];
    arrive(17);
    decider.veto = NULL;
    leave(3);
    for (int i = 0; i < 18; i++)
        if (i != 3) {
            expect_stage(i, SHUNT_REASON_NO_IPC);
            leave(i);
        }
    /* decided */
    for (int i = 0; i < 18; i++)
        arrive(i);
    shunt_round_veto(&rounds[3], SHUNT_REASON_NO_IPC);
    for (int i = 0; i < 18; i++) {
        expect(i, SHUNT_ROUND_RUN);
        leave(i);
    }
}

static void test_neutral(void **state)
{
    (void)state;
    open_all("neutral", 17);
    shunt_arena_set_device_used(arena[0]);
    for (int i = 0; i < 17; i++)
        assert_int_equal(arrive_flags(i, SHUNT_POST_NEUTRAL), SHUNT_OK);
    for (int i = 0; i < 17; i++) {
        expect_stage(i, SHUNT_REASON_NEUTRAL);
        leave(i);
    }
    for (int i = 0; i < 17; i++)
        assert_int_equal(arrive_flags(i, i == 8 ? 0 : SHUNT_POST_NEUTRAL), SHUNT_OK);
    for (int i = 0; i < 17; i++) {
        expect(i, SHUNT_ROUND_RUN);
        leave(i);
    }
}

/* Time, and members that have gone. */
static void test_timeout(void **state)
{
    (void)state;
    open_all("timeout", 17);
    for (int i = 1; i < 17; i++)
        arrive(i);
    rounds[16].since -= 29;
    for (int i = 0; i < 100; i++)
        expect(16, SHUNT_ROUND_UNDECIDED);
    rounds[16].since -= 1000;
    for (int i = 0; i < 100 && shunt_round_poll(&rounds[16]) == SHUNT_ROUND_UNDECIDED; i++)
        continue;
    for (int i = 1; i < 17; i++) {
        expect_stage(i, SHUNT_REASON_TIMEOUT);
        leave(i);
    }
    assert_int_equal(arrive_not(0), SHUNT_REASON_TIMEOUT);
}

/* Entries are used again when all groups have left, not before. */
static void test_reuse(void **state)
{
    (void)state;
    enum { N = 17 };
    struct shunt_round old[N];
    open_all("reuse", N);
    for (int i = 0; i < N; i++) {
        arrive(i);
        old[i] = rounds[i];
    }
    for (int i = 1; i < N; i++)
        shunt_round_leave(&old[i]);
    for (int k = 1; k < SHARED_TREES; k++) {
        for (int i = 0; i < N; i++)
            arrive(i);
        for (int i = 0; i < N; i++) {
            expect(i, SHUNT_ROUND_RUN);
            leave(i);
        }
    }
    assert_int_equal(arrive_not(1), SHUNT_REASON_BOARD_FULL);
    assert_int_equal(shunt_round_poll(&old[0]), SHUNT_ROUND_RUN);
    assert_int_equal(shunt_round_verdict(&old[0])->ticket, 1);
    assert_int_equal(shunt_round_post(&old[0], 16)->count, 1016);
    shunt_round_leave(&old[0]);
    assert_int_equal(pool_use().posts, 0);
    for (int i = 0; i < N; i++)
        if (i != 1)
            shunt_board_pass(board[i]);
    for (int k = 0; k < 5 * SHARED_TREES; k++) {
        for (int i = 0; i < N; i++)
            arrive((i + k) % N);
        for (int i = 0; i < N; i++) {
            expect(i, SHUNT_ROUND_RUN);
            leave(i);
        }
    }
}

/* ---- chance ---- */

static unsigned draw(unsigned *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

/* Members as far apart as they like, in any order: all come to the same end, and what nobody doubts runs. */
static void random_walk(int n, unsigned seed)
{
    enum { OPERATIONS = 60 };
    enum { NOT_YET, HOST, STAGED, RAN };
    static unsigned char end[OPERATIONS][MOST];
    int next[MOST] = {0}, done = 0;
    bool in[MOST] = {0};
    unsigned random = seed;
    memset(end, 0, sizeof end);
    before(NULL);
    open_all("walk", n);
    shunt_arena_set_device_used(arena[0]);
    while (done < n) {
        int i = (int)(draw(&random) % (unsigned)n);
        if (in[i]) {
            if (next[i] % 4 == 1 && draw(&random) % 64 == 0)
                shunt_round_veto(&rounds[i], SHUNT_REASON_NO_IPC);
            enum shunt_round_state is = shunt_round_poll(&rounds[i]);
            if (is == SHUNT_ROUND_UNDECIDED)
                continue;
            end[next[i]][i] = is == SHUNT_ROUND_RUN ? RAN : STAGED;
            for (int k = 0; is == SHUNT_ROUND_RUN && k < n; k++)
                assert_int_equal(shunt_round_post(&rounds[i], k)->count, 1000 + k);
            if (is == SHUNT_ROUND_STAGE)
                assert_int_not_equal(shunt_round_verdict(&rounds[i])->reason, SHUNT_REASON_NONE);
            leave(i);
            in[i] = false;
            done += ++next[i] == OPERATIONS;
        } else if (next[i] < OPERATIONS) {
            /* of every other operation, some are on the host */
            bool host = next[i] % 4 == 3 && draw(&random) % 16 == 0;
            if (!host && arrive_flags(i, 0) == SHUNT_OK) {
                in[i] = true;
                continue;
            }
            if (host)
                shunt_board_pass(board[i]);
            end[next[i]][i] = HOST;
            done += ++next[i] == OPERATIONS;
        }
    }
    for (int s = 0; s < OPERATIONS; s++) {
        bool ran = end[s][0] == RAN;
        for (int i = 0; i < n; i++)
            assert_int_equal(end[s][i] == RAN, ran);
        assert_true(ran || s % 2);
    }
    assert_int_equal(pool_use().posts, 0);
    assert_int_equal(after(NULL), 0);
    size = 0;
}

static void test_random_walks(void **state)
{
    (void)state;
    static const int sizes[] = {17, 20, 24, 33, 64};
    for (unsigned i = 0; i < 20; i++)
        random_walk(sizes[i % 5], i + 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(test_host_rank), TEST(test_host_groups), TEST(test_late),    TEST(test_veto),
        TEST(test_neutral),   TEST(test_timeout),     TEST(test_reuse),   TEST(test_random_walks),
    };
    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
