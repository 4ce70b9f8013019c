/* SPDX-License-Identifier: BSD-3-Clause */
/* Where boards and rings come from, when they are free again, and what happens when there are none. */
#include "base/board.h"

#include "test/unit/rounds.h"

/* One member closes before another opens, as when communicators are freed at once. */
static void test_close_before_open(void **state)
{
    (void)state;
    join_all("early", 2);
    assert_int_equal(open_one(0, 7, 2, &board[0]), SHUNT_OK);
    shunt_board_pass(board[0]);
    shunt_board_close(board[0]);
    board[0] = NULL;
    assert_int_equal(pool_use().boards, 1);
    assert_int_equal(open_one(1, 7, 2, &board[1]), SHUNT_OK);
    arrive(1);
    expect_stage(1, SHUNT_REASON_PEER_ON_HOST);
    shunt_board_close(board[1]); /* under an operation: it lives until that is left */
    board[1] = NULL;
    assert_int_equal(pool_use().boards, 1);
    leave(1);
    assert_int_equal(pool_use().boards, 0);
    assert_int_equal(pool_use().rings, 0);
}

static void test_facts(void **state)
{
    (void)state;
    open_all("facts", 3);
    assert_int_equal(shunt_board_size(board[1]), 3);
    assert_int_equal(shunt_board_rank(board[1]), 1);
    assert_int_equal(shunt_board_slot(board[1], 2), shunt_arena_slot(arena[0], 2));
}

/* More members than can arrive: it counts, and takes nothing of the arena. */
static void test_large(void **state)
{
    (void)state;
    join_all("large", 2);
    int slots[SHUNT_TREE_RANKS + 1] = {0};
    assert_int_equal(shunt_board_open(arena[0], (struct shunt_key){{3, 3}}, SHUNT_TREE_RANKS + 1, slots, 16, &board[0]),
                     SHUNT_OK);
    assert_int_equal(pool_use().boards, 0);
    shunt_board_pass(board[0]);
    assert_int_equal(arrive_not(0), SHUNT_REASON_TOO_MANY_RANKS);
    assert_false(shunt_board_ahead(board[0], 0));
    assert_int_equal(shunt_board_size(board[0]), SHUNT_TREE_RANKS + 1);
}

/* Two communicators of one key: nobody uses the board, nobody waits for ever. */
static void test_key_clash(void **state)
{
    (void)state;
    open_all("clash", 3);
    struct shunt_board *other = (void *)1;
    arrive(0);
    expect(0, SHUNT_ROUND_UNDECIDED);
    assert_int_equal(open_one(2, 1, 2, &other), SHUNT_ERR_LIMIT);
    assert_ptr_equal(other, (void *)1);
    expect_stage(0, SHUNT_REASON_BOARD_FULL);
    leave(0);
    assert_int_equal(arrive_not(1), SHUNT_REASON_BOARD_FULL);
}

/* A member that has no memory for its own part: the others' arrivals stage. */
static void test_refuse_after_open(void **state)
{
    (void)state;
    join_all("refuse", 2);
    assert_int_equal(open_one(0, 9, 2, &board[0]), SHUNT_OK);
    arrive(0);
    shunt_pool_refuse(arena[1], (struct shunt_key){{9, ~9ull}}, 2);
    expect_stage(0, SHUNT_REASON_BOARD_FULL);
    leave(0);
    assert_int_equal(arrive_not(0), SHUNT_REASON_BOARD_FULL);
}

/* What the header promises of the default size: 2000 communicators of 8 ranks, hundreds of them with rings. */
static void test_capacity(void **state)
{
    (void)state;
    enum { MANY = 2000, RANKS = 8, RINGS = 200 };
    static struct shunt_board *many[RANKS][MANY];
    join_all("capacity", RANKS);
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < MANY; i++)
            assert_int_equal(open_one(rank, (uint64_t)i * 0x9e3779b97f4a7c15u, RANKS, &many[rank][i]), SHUNT_OK);
    assert_int_equal(pool_use().boards, MANY);
    struct shunt_post post = {.count = 1};
    for (int i = 0; i < RINGS; i++)
        for (int rank = 0; rank < RANKS; rank++) {
            assert_int_equal(
                shunt_board_arrive(many[rank][i], &post, decide, &decider, &rounds[rank], &reasons[rank]), SHUNT_OK);
            if (rank == RANKS - 1)
                for (int k = 0; k < RANKS; k++) {
                    expect(k, SHUNT_ROUND_RUN);
                    leave(k);
                }
        }
    assert_int_equal(pool_use().rings, RINGS);
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < MANY; i++)
            shunt_board_close(many[rank][i]);
}

static void open_narrow(int rank, uint64_t key, struct shunt_board **board_p)
{
    int slots[] = {shunt_arena_slot(arena[rank], 0), shunt_arena_slot(arena[rank], 1)};

    assert_int_equal(shunt_board_open_narrow(arena[rank], (struct shunt_key){{key, ~key}}, 2, slots, rank, board_p), SHUNT_OK);
}

/* Narrow boards take little, and are as good as others for few operations at a time. */
static void test_narrow(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    static struct shunt_board *many[2][MANY];
    join_all("narrow", 2);
    for (int times = 0; times < 2; times++) {
        for (int i = 0; i < MANY; i++)
            for (int rank = 0; rank < 2; rank++)
                open_narrow(rank, 1000 + (uint64_t)i, &many[rank][i]);
        for (int i = 0; i < MANY; i++) {
            for (int rank = 0; rank < 2; rank++) {
                board[rank] = many[rank][i];
                arrive(rank);
            }
            for (int rank = 0; rank < 2; rank++) {
                expect(rank, SHUNT_ROUND_RUN);
                leave(rank);
            }
        }
        assert_int_equal(pool_use().boards, MANY);
        assert_int_equal(pool_use().rings, 0);
        for (int rank = 0; rank < 2; rank++)
            for (int i = 0; i < MANY; i++)
                shunt_board_close(many[rank][i]);
        assert_int_equal(pool_use().boards, 0);
    }
    memset(board, 0, sizeof board);
}

/* Who has not left an operation makes the one that gets its entry again be staged, and nothing else. */
static void test_narrow_and_late(void **state)
{
    (void)state;
    struct shunt_round late;

    join_all("narrowlate", 2);
    for (int rank = 0; rank < 2; rank++)
        open_narrow(rank, 5, &board[rank]);
    for (int k = 0; k < 40; k++) {
        for (int rank = 0; rank < 2; rank++) {
            if (k % 8 == 4)
                assert_int_equal(arrive_not(rank), SHUNT_REASON_BOARD_FULL);
            else
                arrive(rank);
        }
        if (k % 8 == 0)
            late = rounds[1];
        for (int rank = 0; rank < 2 && k % 8 != 4; rank++) {
            expect(rank, SHUNT_ROUND_RUN);
            if (rank == 0 || k % 8 != 0)
                leave(rank);
        }
        if (k % 8 == 4)
            shunt_round_leave(&late);
    }
}

/* No ring left: as a host rank. A ring that is given back serves the next. */
static void test_no_rings(void **state)
{
    (void)state;
    conf.arena_size = 1 << 20;
    static struct shunt_board *many[2][256];
    join_all("norings", 2);
    int rings = (int)pool_use().rings_most;
    assert_true(rings > 2 && rings < 200);
    for (int i = 0; i <= rings; i++)
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(open_one(rank, 100 + (uint64_t)i, 2, &many[rank][i]), SHUNT_OK);
            board[rank] = many[rank][i];
            if (i < rings)
                arrive(rank);
            else
                assert_int_equal(arrive_not(rank), SHUNT_REASON_BOARD_FULL);
            if (i < rings && rank == 1) {
                leave(0);
                leave(1);
            }
        }
    for (int rank = 0; rank < 2; rank++)
        shunt_board_close(many[rank][1]);
    for (int rank = 0; rank < 2; rank++)
        arrive(rank);
    expect(0, SHUNT_ROUND_RUN);
    leave(0);
    leave(1);
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i <= rings; i++)
            if (i != 1)
                shunt_board_close(many[rank][i]);
    memset(board, 0, sizeof board);
}

/*
 * The arena is full: the first member to ask gets no board, so the others must not either, even if there is room by
 * then; they would wait for it. Later keys are served again.
 */
static void test_full(void **state)
{
    (void)state;
    enum { MANY = 4000 };
    conf.arena_size = 512 << 10;
    static struct shunt_board *many[2][MANY];
    join_all("full", 2);
    int got = 0;
    while (open_one(0, 1000 + (uint64_t)got, 2, &many[0][got]) == SHUNT_OK)
        assert_true(++got < MANY);
    for (int i = 0; i < got; i++)
        assert_int_equal(open_one(1, 1000 + (uint64_t)i, 2, &many[1][i]), SHUNT_OK);
    shunt_board_close(many[0][0]);
    shunt_board_close(many[1][0]); /* room for one */
    assert_int_equal(open_one(1, 1000 + (uint64_t)got, 2, &many[1][0]), SHUNT_ERR_LIMIT);
    assert_int_equal(open_one(1, 5, 2, &many[1][0]), SHUNT_OK);
    assert_int_equal(open_one(0, 5, 2, &many[0][0]), SHUNT_OK);
    for (int i = 0; i < got; i++) {
        shunt_board_close(many[0][i]);
        shunt_board_close(many[1][i]);
    }
    /* the refused key is forgotten: both have asked */
    assert_int_equal(open_one(0, 1000 + (uint64_t)got, 2, &board[0]), SHUNT_OK);
    assert_int_equal(open_one(1, 1000 + (uint64_t)got, 2, &board[1]), SHUNT_OK);
}

/* More refused keys than can be remembered: no new boards for anybody, those that exist serve on. */
static void test_full_for_ever(void **state)
{
    (void)state;
    enum { MANY = 4000 };
    conf.arena_size = 512 << 10;
    static struct shunt_board *many[MANY];
    join_all("forever", 2);
    int got = 0;
    while (open_one(0, 1000 + (uint64_t)got, 2, &many[got]) == SHUNT_OK)
        assert_true(++got < MANY);
    for (int i = 1; i <= SHARED_REFUSED; i++)
        assert_int_equal(open_one(0, 1000 + (uint64_t)(got + i), 2, &board[0]), SHUNT_ERR_LIMIT);
    for (int i = 0; i < got; i++) {
        assert_int_equal(open_one(1, 1000 + (uint64_t)i, 2, &board[1]), SHUNT_OK);
        shunt_board_close(board[1]);
        shunt_board_close(many[i]);
    }
    assert_int_equal(pool_use().boards, 0);
    board[1] = NULL;
    assert_int_equal(open_one(1, 1000 + (uint64_t)(got + SHARED_REFUSED), 2, &board[1]), SHUNT_ERR_LIMIT);
    assert_int_equal(open_one(1, 2, 2, &board[1]), SHUNT_ERR_LIMIT);
    assert_int_equal(open_one(0, 2, 2, &board[0]), SHUNT_ERR_LIMIT);
}

/* The launcher told a rank wrongly: what waits stages, nobody arrives any more. */
static void test_broken(void **state)
{
    (void)state;
    open_all("broken", 3);
    arrive(0);
    expect(0, SHUNT_ROUND_UNDECIDED);
    shunt_arena_set_world(arena[1], 2, 3);
    expect_stage(0, SHUNT_REASON_NO_ARENA);
    leave(0);
    assert_int_equal(arrive_not(2), SHUNT_REASON_NO_ARENA);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(test_close_before_open), TEST(test_facts), TEST(test_large), TEST(test_key_clash),
        TEST(test_refuse_after_open), TEST(test_capacity), TEST(test_narrow), TEST(test_narrow_and_late), TEST(test_no_rings), TEST(test_full),
        TEST(test_full_for_ever), TEST(test_broken),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
