/* SPDX-License-Identifier: BSD-3-Clause */
/* Meeting members that take their steps at different times. Rank 0 of three looks; what it sees of the others is written down here. */
#include "coll/meet.h"

#include "cuda/peer.h"
#include "test/unit/rounds.h"

enum { RANKS = 3 };

/* Of each rank: its state at each look, the last one from then on; how often it has been looked at. */
static struct {
    const enum shunt_peer_state *states;
    int n, looks;
    enum shunt_reason reason;
} peers[RANKS];

static int slots[RANKS];
static int turns; /* of waiting */

enum shunt_peer_state shunt_peer_open(struct shunt_arena *its_arena, int slot, enum shunt_reason *reason)
{
    int q = 0;

    assert_ptr_equal(its_arena, arena[0]);
    while (slots[q] != slot)
        q++;
    int look = peers[q].looks++;
    *reason = peers[q].reason;
    return peers[q].states[look < peers[q].n ? look : peers[q].n - 1];
}

void shunt_wait_a_little(struct shunt_waiter *w)
{
    w->turns++;
    assert_true(++turns < 1000);
}

#define SEEN(q, why, ...)                                                                          \
    do {                                                                                           \
        static const enum shunt_peer_state seen[] = { __VA_ARGS__ };                               \
        peers[q].states = seen;                                                                    \
        peers[q].n = sizeof seen / sizeof *seen;                                                   \
        peers[q].looks = 0;                                                                        \
        peers[q].reason = why;                                                                     \
    } while (0)

static int begin(void **state)
{
    before(state);
    open_all("meet", RANKS);
    turns = 0;
    for (int q = 0; q < RANKS; q++)
        slots[q] = shunt_arena_slot(arena[0], q);
    SEEN(0, SHUNT_REASON_NONE, SHUNT_PEER_OPEN);
    return 0;
}

static enum shunt_reason wait_for_all(void)
{
    struct shunt_waiter w = { .arena = arena[0], .board = board[0], .patience = 30 };

    return shunt_meet_wait(&w, slots);
}

/* Everybody takes part after all, so that nothing is left on the boards. */
static void end_round(void)
{
    for (int q = 0; q < RANKS - 1; q++)
        arrive(q);
    for (int q = 0; q < RANKS; q++)
        leave(q);
}

static void test_all_have_met(void **state)
{
    (void)state;
    SEEN(1, SHUNT_REASON_NONE, SHUNT_PEER_OPEN);
    SEEN(2, SHUNT_REASON_NONE, SHUNT_PEER_OPEN);
    assert_int_equal(wait_for_all(), SHUNT_REASON_NONE);
    assert_int_equal(turns, 0);
    assert_int_equal(peers[1].looks, 1);
}

/* One has arrived, and its link proves to be good at the second look. That says nothing of the other, which is late. */
static void test_one_is_ahead_and_one_is_late(void **state)
{
    (void)state;
    SEEN(1, SHUNT_REASON_NONE, SHUNT_PEER_MISSING, SHUNT_PEER_MISSING, SHUNT_PEER_MET, SHUNT_PEER_MET, SHUNT_PEER_OPEN);
    SEEN(2, SHUNT_REASON_NONE, SHUNT_PEER_MET, SHUNT_PEER_OPEN);
    arrive(2);
    assert_int_equal(wait_for_all(), SHUNT_REASON_NONE);
    assert_int_equal(peers[1].looks, 5);
    end_round();
}

/* One has passed this operation and has not met us: it is on host memory. */
static void test_one_is_on_host_memory(void **state)
{
    (void)state;
    SEEN(1, SHUNT_REASON_NONE, SHUNT_PEER_OPEN);
    for (int met = 0; met < 2; met++) {
        if (met)
            SEEN(2, SHUNT_REASON_NONE, SHUNT_PEER_MET);
        else
            SEEN(2, SHUNT_REASON_NONE, SHUNT_PEER_MISSING);
        shunt_board_pass(board[2]);
        assert_int_equal(wait_for_all(), SHUNT_REASON_PEER_ON_HOST);
        shunt_board_pass(board[0]);
        shunt_board_pass(board[1]);
    }
}

/* The first refusal counts, and the others have been looked at all the same: they may wait for what we do in it. */
static void test_one_is_refused(void **state)
{
    (void)state;
    SEEN(1, SHUNT_REASON_NO_P2P, SHUNT_PEER_REFUSED);
    SEEN(2, SHUNT_REASON_NONE, SHUNT_PEER_MET);
    assert_int_equal(wait_for_all(), SHUNT_REASON_NO_P2P);
    assert_int_equal(peers[2].looks, 1);
    SEEN(1, SHUNT_REASON_NONE, SHUNT_PEER_MET);
    SEEN(2, SHUNT_REASON_LOST_WRITES, SHUNT_PEER_REFUSED);
    assert_int_equal(wait_for_all(), SHUNT_REASON_LOST_WRITES);
}

static void test_one_look(void **state)
{
    int missing = -1;

    (void)state;
    SEEN(1, SHUNT_REASON_NONE, SHUNT_PEER_MISSING, SHUNT_PEER_OPEN);
    SEEN(2, SHUNT_REASON_NONE, SHUNT_PEER_OPEN);
    assert_int_equal(shunt_meet_look(arena[0], board[0], slots, &missing), SHUNT_REASON_NOT_MET);
    assert_int_equal(missing, 1);
    assert_int_equal(shunt_meet_look(arena[0], board[0], slots, &missing), SHUNT_REASON_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_have_met, begin, after),
        cmocka_unit_test_setup_teardown(test_one_is_ahead_and_one_is_late, begin, after),
        cmocka_unit_test_setup_teardown(test_one_is_on_host_memory, begin, after),
        cmocka_unit_test_setup_teardown(test_one_is_refused, begin, after),
        cmocka_unit_test_setup_teardown(test_one_look, begin, after),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
