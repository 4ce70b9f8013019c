/* SPDX-License-Identifier: BSD-3-Clause */
/* The board, rule by rule. */
#include "base/board.h"

#include "test/unit/rounds.h"

/* ---- arrival and decision ---- */

/* For every number of ranks: the last to arrive decides, for all, once, on all posts. */
static void test_all_arrive(void **state)
{
    (void)state;
    for (int n = 1; n <= MOST; n++) {
        before(NULL);
        open_all("all", n);
        for (uint64_t turn = 1; turn <= 3; turn++) {
            for (int i = 0; i < n; i++) {
                assert_int_equal(decider.calls, turn - 1);
                arrive((i + (int)turn) % n);
                expect((i + (int)turn) % n, i < n - 1 ? SHUNT_ROUND_UNDECIDED : SHUNT_ROUND_RUN);
            }
            assert_int_equal(decider.calls, turn);
            assert_int_equal(decider.n, n);
            for (int i = 0; i < n; i++) {
                expect(i, SHUNT_ROUND_RUN);
                const struct shunt_verdict *verdict = shunt_round_verdict(&rounds[i]);
                assert_int_equal(verdict->ticket, turn);
                assert_int_equal(verdict->algo, 3);
                assert_int_equal(verdict->blocks, 7);
                assert_int_equal(verdict->chunk, 4096);
                for (int k = 0; k < n; k++)
                    assert_int_equal(shunt_round_post(&rounds[i], k)->count, 1000 + k);
                assert_int_equal(decider.counts[i], 1000 + i);
            }
            assert_int_equal(pool_use().posts, n);
            for (int i = 0; i < n; i++)
                leave(i);
            assert_int_equal(pool_use().posts, 0);
        }
        assert_int_equal(after(NULL), 0);
    }
    size = 0;
}

/* Rule 5: tickets are the node's, over all boards; a staged operation takes none. */
static void test_tickets(void **state)
{
    (void)state;
    open_all("tickets", 2);
    struct shunt_board *first[2] = {board[0], board[1]}, *second[2];
    assert_int_equal(open_one(0, 2, 2, &second[0]), SHUNT_OK);
    assert_int_equal(open_one(1, 2, 2, &second[1]), SHUNT_OK);
    struct shunt_round open[2];
    arrive(0);
    open[0] = rounds[0];
    board[0] = second[0], board[1] = second[1];
    arrive(1);
    arrive(0);
    assert_int_equal(shunt_round_verdict(&rounds[0])->ticket, 1);
    decider.run = false;
    decider.reason = SHUNT_REASON_MISMATCH;
    leave(0);
    leave(1);
    arrive(0);
    arrive(1);
    expect_stage(0, SHUNT_REASON_MISMATCH);
    expect_stage(1, SHUNT_REASON_MISMATCH);
    leave(0);
    leave(1);
    decider.run = true;
    board[0] = first[0], board[1] = first[1];
    arrive(1);
    assert_int_equal(shunt_round_verdict(&rounds[1])->ticket, 2);
    assert_int_equal(shunt_round_verdict(&open[0])->ticket, 2);
    shunt_round_leave(&open[0]);
    leave(1);
    shunt_board_close(second[0]);
    shunt_board_close(second[1]);
}

/* ---- hosts ---- */

/* Rules 1, 3, 4: before or after the arrivals, a member on the host makes all stage, each by its own look. */
static void test_host_rank(void **state)
{
    (void)state;
    open_all("host", 3);
    shunt_board_pass(board[1]);
    arrive(0);
    arrive(2);
    expect_stage(0, SHUNT_REASON_PEER_ON_HOST);
    expect_stage(2, SHUNT_REASON_PEER_ON_HOST);
    leave(0);
    leave(2);
    arrive(0);
    arrive(2);
    expect(0, SHUNT_ROUND_UNDECIDED);
    shunt_board_pass(board[1]);
    expect_stage(2, SHUNT_REASON_PEER_ON_HOST);
    expect_stage(0, SHUNT_REASON_PEER_ON_HOST);
    leave(0);
    leave(2);
    arrive(0);
    arrive(1);
    arrive(2);
    expect(0, SHUNT_ROUND_RUN);
    for (int i = 0; i < 3; i++)
        leave(i);
    assert_int_equal(decider.calls, 1);
    for (int i = 0; i < 3; i++)
        shunt_board_pass(board[i]);
    shunt_board_pass(NULL);
    arrive(2); /* all are at operation 4 */
    expect(2, SHUNT_ROUND_UNDECIDED);
    shunt_board_pass(board[0]);
    expect_stage(2, SHUNT_REASON_PEER_ON_HOST);
    leave(2);
    shunt_board_pass(board[1]);
}

/* A member may be any number of operations ahead, also by more than the ring has entries. */
static void test_far_ahead(void **state)
{
    (void)state;
    open_all("ahead", 2);
    assert_false(shunt_board_ahead(board[0], 1));
    for (int i = 0; i < 1000; i++)
        shunt_board_pass(board[1]);
    assert_true(shunt_board_ahead(board[0], 1));
    assert_false(shunt_board_ahead(board[1], 0));
    arrive(1); /* its operation 1000 */
    for (int i = 0; i < 1000; i++) {
        if (arrive_flags(0, 0) == SHUNT_OK) {
            expect_stage(0, SHUNT_REASON_PEER_ON_HOST);
            leave(0);
        } else {
            assert_int_equal(i % 256, 1000 % 256); /* the entry is in use for operation 1000 */
            assert_int_equal(reasons[0], SHUNT_REASON_BOARD_FULL);
        }
    }
    assert_false(shunt_board_ahead(board[0], 0));
    arrive(0);
    expect(0, SHUNT_ROUND_RUN);
    expect(1, SHUNT_ROUND_RUN);
    leave(0);
    leave(1);
}

/* Rule 2: an operation that is staged already: a latecomer does not arrive, and knows why, also when all have left. */
static void test_late(void **state)
{
    (void)state;
    open_all("late", 3);
    arrive(0);
    shunt_round_veto(&rounds[0], SHUNT_REASON_NO_IPC);
    assert_int_equal(arrive_not(1), SHUNT_REASON_NO_IPC);
    expect_stage(0, SHUNT_REASON_NO_IPC);
    leave(0);
    assert_int_equal(arrive_not(2), SHUNT_REASON_NO_IPC);
    for (int i = 0; i < 3; i++)
        arrive(i);
    expect(1, SHUNT_ROUND_RUN);
    for (int i = 0; i < 3; i++)
        leave(i);
}

/* ---- veto ---- */

static void test_veto(void **state)
{
    (void)state;
    open_all("veto", 3);
    arrive(0);
    arrive(1);
    shunt_round_veto(&rounds[1], SHUNT_REASON_NO_DEVICE_MEMORY);
    shunt_round_veto(&rounds[0], SHUNT_REASON_NO_IPC); /* the first counts */
    expect_stage(0, SHUNT_REASON_NO_DEVICE_MEMORY);
    expect_stage(1, SHUNT_REASON_NO_DEVICE_MEMORY);
    leave(0);
    leave(1);
    shunt_board_pass(board[2]);
    for (int i = 0; i < 3; i++)
        arrive(i);
    shunt_round_veto(&rounds[1], SHUNT_REASON_NO_IPC); /* decided */
    for (int i = 0; i < 3; i++) {
        expect(i, SHUNT_ROUND_RUN);
        leave(i);
    }
}

/* Without a reason, or by leaving before the decision: still a veto, and still not a fresh entry for the latecomer. */
static void test_veto_by_leaving(void **state)
{
    (void)state;
    open_all("leaving", 2);
    arrive(0);
    shunt_round_veto(&rounds[0], SHUNT_REASON_NONE);
    leave(0);
    assert_int_equal(arrive_not(1), SHUNT_REASON_PEER_VETO);
    arrive(0);
    leave(0);
    assert_int_equal(arrive_not(1), SHUNT_REASON_PEER_VETO);
}

/* A veto that comes while the last to arrive decides: it wins, the ticket is not given again. */
static void test_veto_during_decision(void **state)
{
    (void)state;
    open_all("during", 2);
    arrive(0);
    decider.veto = &rounds[0];
    arrive(1);
    decider.veto = NULL;
    expect_stage(0, SHUNT_REASON_NO_IPC);
    expect_stage(1, SHUNT_REASON_NO_IPC);
    leave(1);
    leave(0);
    arrive(0);
    arrive(1);
    assert_int_equal(shunt_round_verdict(&rounds[0])->ticket, 2);
    leave(0);
    leave(1);
}

/* Rule 4: 30 seconds, never under SHUNT_REPRODUCIBLE. */
static void test_timeout(void **state)
{
    (void)state;
    open_all("timeout", 2);
    arrive(0);
    rounds[0].since -= 29;
    for (int i = 0; i < 100; i++)
        expect(0, SHUNT_ROUND_UNDECIDED);
    conf.reproducible = true;
    rounds[0].since -= 1000;
    for (int i = 0; i < 100; i++)
        expect(0, SHUNT_ROUND_UNDECIDED);
    conf.reproducible = false;
    for (int i = 0; i < 100 && shunt_round_poll(&rounds[0]) == SHUNT_ROUND_UNDECIDED; i++)
        continue;
    expect_stage(0, SHUNT_REASON_TIMEOUT);
    assert_int_equal(arrive_not(1), SHUNT_REASON_TIMEOUT);
    leave(0);
}

/* ---- staged after all ---- */

static enum shunt_round_state yield(int rank)
{
    return shunt_round_yield(&rounds[rank]);
}

/* Rule 5a: once all have yielded; not if one has ended the operation, and not before it is decided. */
static void test_recall(void **state)
{
    (void)state;
    open_all("recall", 3);
    arrive(0);
    shunt_round_recall(&rounds[0], SHUNT_REASON_NO_ROOM);
    assert_false(shunt_round_recalled(&rounds[0]));
    arrive(1);
    arrive(2);
    shunt_round_recall(&rounds[2], SHUNT_REASON_NO_ROOM);
    assert_true(shunt_round_recalled(&rounds[0]));
    assert_int_equal(yield(1), SHUNT_ROUND_RUN);
    assert_int_equal(yield(2), SHUNT_ROUND_RUN);
    expect(2, SHUNT_ROUND_RUN);
    assert_int_equal(yield(0), SHUNT_ROUND_STAGE);
    for (int i = 0; i < 3; i++) {
        expect_stage(i, SHUNT_REASON_NO_ROOM);
        leave(i);
    }
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 3; i++)
            arrive(i);
        if (turn == 0)
            shunt_round_recall(&rounds[0], SHUNT_REASON_NO_ROOM);
        leave(2); /* it has ended it */
        if (turn == 1)
            shunt_round_recall(&rounds[0], SHUNT_REASON_NO_ROOM);
        assert_false(shunt_round_recalled(&rounds[0]));
        assert_int_equal(yield(0), SHUNT_ROUND_RUN);
        assert_int_equal(yield(1), SHUNT_ROUND_RUN);
        expect(1, SHUNT_ROUND_RUN);
        leave(0);
        leave(1);
    }
    for (int i = 0; i < 600; i++) { /* what was yielded before does not count */
        for (int k = 0; k < 3; k++)
            arrive(k);
        shunt_round_recall(&rounds[1], SHUNT_REASON_NO_ROOM);
        assert_int_equal(yield(i % 3), SHUNT_ROUND_RUN);
        for (int k = 0; k < 3; k++)
            leave(k);
    }
}

/* ---- neutral ranks ---- */

/* Rules 5 and 8. */
static void test_neutral(void **state)
{
    (void)state;
    open_all("neutral", 2);
    assert_int_equal(arrive_flags(0, SHUNT_POST_NEUTRAL), SHUNT_PASS);
    assert_int_equal(reasons[0], SHUNT_REASON_NEUTRAL);
    assert_true(shunt_board_ahead(board[1], 0)); /* as a host rank */
    arrive(1); /* which raises the flag */
    assert_true(shunt_arena_device_used(arena[0]));
    expect_stage(1, SHUNT_REASON_PEER_ON_HOST);
    leave(1);
    assert_int_equal(arrive_flags(0, SHUNT_POST_NEUTRAL), SHUNT_OK);
    arrive(1);
    expect(0, SHUNT_ROUND_RUN);
    expect(1, SHUNT_ROUND_RUN);
    leave(0);
    leave(1);
    assert_int_equal(decider.calls, 1);
    assert_int_equal(arrive_flags(1, SHUNT_POST_NEUTRAL), SHUNT_OK);
    assert_int_equal(arrive_flags(0, SHUNT_POST_NEUTRAL), SHUNT_OK);
    expect_stage(0, SHUNT_REASON_NEUTRAL);
    expect_stage(1, SHUNT_REASON_NEUTRAL);
    leave(0);
    leave(1);
    assert_int_equal(decider.calls, 1);
}

/* ---- reuse ---- */

/* Rule 7: the entry is used again when all have left, not before; the posts of those who have not stay. */
static void test_reuse(void **state)
{
    (void)state;
    open_all("reuse", 2);
    arrive(0);
    arrive(1);
    struct shunt_round old = rounds[0];
    leave(1);
    for (int i = 1; i < 256; i++) {
        arrive(1);
        arrive(0);
        expect(1, SHUNT_ROUND_RUN);
        leave(1);
        leave(0);
    }
    assert_int_equal(arrive_not(1), SHUNT_REASON_BOARD_FULL);
    assert_int_equal(shunt_round_poll(&old), SHUNT_ROUND_RUN);
    assert_int_equal(shunt_round_verdict(&old)->ticket, 1);
    assert_int_equal(shunt_round_post(&old, 1)->count, 1001);
    shunt_round_leave(&old);
    arrive(0);
    expect_stage(0, SHUNT_REASON_PEER_ON_HOST);
    leave(0);
    for (int i = 0; i < 600; i++) {
        arrive(i & 1);
        arrive(~i & 1);
        expect(0, SHUNT_ROUND_RUN);
        leave(0);
        leave(1);
    }
}

/* Many operations under way on one board, decided in any order, and left in another. */
static void test_many_open(void **state)
{
    (void)state;
    enum { OPEN = 256 };
    static struct shunt_round open[2][OPEN];
    open_all("open", 2);
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < OPEN; i++) {
            arrive(rank);
            open[rank][i] = rounds[rank];
        }
    assert_int_equal(pool_use().posts, 2 * OPEN);
    assert_int_equal(arrive_not(0), SHUNT_REASON_BOARD_FULL);
    shunt_board_pass(board[1]);
    for (int i = 0; i < OPEN; i++) {
        int k = i * 37 % OPEN;
        assert_int_equal(shunt_round_poll(&open[0][k]), SHUNT_ROUND_RUN);
        assert_int_equal(shunt_round_verdict(&open[1][k])->ticket, k + 1);
        shunt_round_leave(&open[k & 1][k]);
        shunt_round_leave(&open[~k & 1][k]);
    }
    assert_int_equal(pool_use().posts, 0);
}

/* Posts that are all taken: nobody arrives, everybody passes. */
static void test_no_posts(void **state)
{
    (void)state;
    open_all("noposts", 2);
    uint32_t most = pool_use().posts_most;
    for (uint32_t i = 0; i < most; i++)
        assert_true(shunt_post_take(arena[i & 1]) >= 0);
    assert_int_equal(arrive_not(0), SHUNT_REASON_BOARD_FULL);
    assert_true(shunt_board_ahead(board[1], 0));
    shunt_post_give(arena[0], 5);
    arrive(1);
    expect_stage(1, SHUNT_REASON_PEER_ON_HOST);
    leave(1);
    for (uint32_t i = 0; i < most; i++)
        if (i != 5)
            shunt_post_give(arena[0], i);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(test_all_arrive), TEST(test_tickets), TEST(test_host_rank), TEST(test_far_ahead),
        TEST(test_late), TEST(test_veto), TEST(test_veto_by_leaving),
        TEST(test_veto_during_decision), TEST(test_timeout), TEST(test_recall), TEST(test_neutral), TEST(test_reuse),
        TEST(test_many_open), TEST(test_no_posts),
    };
    return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}
