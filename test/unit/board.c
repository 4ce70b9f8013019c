/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The board, rule by rule. No call of a board ever waits, so one thread can be all ranks, in any order one likes: each
 * rank is a view of its own. Processes stand for ranks where one has to die.
 */
#include "base/board.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <time.h>

#include "base/conf.h"
#include "test/unit/ranks.h"

enum { MOST = 16 };

static struct shunt_conf conf;
static struct shunt_arena *arena[MOST];
static struct shunt_board *board[MOST];
static int size;

/* ---- the decider ---- */

static struct {
    int calls, n;
    uint64_t counts[MOST];
    bool run;
    enum shunt_reason reason;
    struct shunt_round *veto; /* vetoed meanwhile by another */
} decider;

static bool decide(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    assert_ptr_equal(context, &decider);
    decider.calls++;
    decider.n = n;
    for (int i = 0; i < n; i++)
        decider.counts[i] = posts[i]->count;
    if (decider.veto)
        shunt_round_veto(decider.veto, SHUNT_REASON_NO_IPC);
    verdict->algo = 3;
    verdict->blocks = 7;
    verdict->chunk = 4096;
    verdict->reason = decider.reason;
    return decider.run;
}

/* ---- ranks ---- */

static int before(void **state)
{
    (void)state;
    conf = *shunt_conf;
    conf.arena_size = 8 << 20;
    conf.reproducible = false;
    shunt_conf_use(&conf);
    memset(&decider, 0, sizeof decider);
    decider.run = true;
    size = 0;
    return 0;
}

/* n views, sealed, no board yet. */
static void join_all(const char *job, int n)
{
    size = n;
    for (int i = 0; i < n; i++) {
        ranks_be(job, i, n);
        assert_int_equal(shunt_arena_join(&arena[i]), SHUNT_OK);
        shunt_arena_set_world(arena[i], i, n);
    }
    for (int i = 0; i < n; i++)
        shunt_arena_seal(arena[i]);
}

static enum shunt_status open_one(int rank, uint64_t key, int n, struct shunt_board **board_p)
{
    int slots[MOST];
    for (int i = 0; i < n; i++)
        slots[i] = shunt_arena_slot(arena[rank], i);
    return shunt_board_open(arena[rank], (struct shunt_key){{key, ~key}}, n, slots, rank, board_p);
}

static void open_all(const char *job, int n)
{
    join_all(job, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(open_one(i, 1, n, &board[i]), SHUNT_OK);
}

static struct shunt_pool_use pool_use(void)
{
    struct shunt_pool_use use;
    shunt_pool_count(arena[0], &use);
    return use;
}

/* Nothing may be left in use. */
static int after(void **state)
{
    (void)state;
    if (!size)
        return 0;
    for (int i = 0; i < size; i++)
        shunt_board_close(board[i]);
    struct shunt_pool_use use = pool_use();
    int left = use.boards || use.rings || use.posts;
    for (int i = 0; i < size; i++)
        shunt_arena_leave(arena[i]);
    memset(board, 0, sizeof board);
    ranks_forget();
    if (left)
        fprintf(stderr, "left in use: %u boards, %u rings, %u posts\n", use.boards, use.rings, use.posts);
    return left;
}

static struct shunt_round rounds[MOST];
static enum shunt_reason reasons[MOST];

static enum shunt_status arrive_flags(int rank, uint32_t flags)
{
    struct shunt_post post = {.flags = flags, .count = 1000 + (uint64_t)rank};
    return shunt_board_arrive(board[rank], &post, decide, &decider, &rounds[rank], &reasons[rank]);
}

static void arrive(int rank)
{
    assert_int_equal(arrive_flags(rank, 0), SHUNT_OK);
}

static enum shunt_reason arrive_not(int rank)
{
    assert_int_equal(arrive_flags(rank, 0), SHUNT_PASS);
    return reasons[rank];
}

static void expect(int rank, enum shunt_round_state state)
{
    assert_int_equal(shunt_round_poll(&rounds[rank]), state);
}

static void expect_stage(int rank, enum shunt_reason reason)
{
    expect(rank, SHUNT_ROUND_STAGE);
    assert_int_equal(shunt_round_verdict(&rounds[rank])->reason, reason);
}

static void leave(int rank)
{
    shunt_round_leave(&rounds[rank]);
}

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

/* Rule 6: tickets are the node's, over all boards; a staged operation takes none. */
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

/* Rules 2, 4, 5: before or after the arrivals, a member on the host makes all stage, each by its own look. */
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

/* Rule 3: an operation that is staged already: a latecomer does not arrive, and knows why, also when all have left. */
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

/* Rule 5: 30 seconds, never under SHUNT_REPRODUCIBLE. */
static void test_timeout(void **state)
{
    (void)state;
    open_all("timeout", 2);
    arrive(0);
    rounds[0].since -= 29;
    expect(0, SHUNT_ROUND_UNDECIDED);
    conf.reproducible = true;
    rounds[0].since -= 1000;
    expect(0, SHUNT_ROUND_UNDECIDED);
    conf.reproducible = false;
    expect_stage(0, SHUNT_REASON_TIMEOUT);
    assert_int_equal(arrive_not(1), SHUNT_REASON_TIMEOUT);
    leave(0);
}

/* ---- neutral ranks ---- */

/* Rules 6 and 12. */
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

/* Rule 10: the entry is used again when all have left, not before; the posts of those who have not stay. */
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

/* ---- boards ---- */

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
    int slots[17] = {0};
    assert_int_equal(shunt_board_open(arena[0], (struct shunt_key){{3, 3}}, 17, slots, 16, &board[0]), SHUNT_OK);
    assert_int_equal(pool_use().boards, 0);
    shunt_board_pass(board[0]);
    assert_int_equal(arrive_not(0), SHUNT_REASON_TOO_MANY_RANKS);
    assert_false(shunt_board_ahead(board[0], 0));
    assert_int_equal(shunt_board_size(board[0]), 17);
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

/* ---- the dead ---- */

static struct {
    _Atomic int step;
} *scene;

static void nap(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static bool decide_and_die(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    (void)posts, (void)n, (void)context, (void)verdict;
    raise(SIGKILL);
    return true;
}

/* Rank 1 in a process of its own. *context: arrive and be killed, be killed while deciding, or leave in order. */
enum fate { KILLED_WAITING, KILLED_DECIDING, LEAVES };

static void mortal(int rank, void *context)
{
    const enum fate fate = *(enum fate *)context;
    RANK_CHECK(shunt_arena_join(&arena[rank]) == SHUNT_OK);
    shunt_arena_set_world(arena[rank], rank, 3);
    shunt_arena_seal(arena[rank]);
    RANK_CHECK(open_one(rank, 1, 3, &board[rank]) == SHUNT_OK);
    while (!scene->step)
        nap(1);
    struct shunt_post post = {.count = 1};
    if (fate == LEAVES) {
        shunt_board_close(board[rank]);
        shunt_arena_leave(arena[rank]);
        _exit(0);
    }
    shunt_board_arrive(board[rank], &post, decide_and_die, NULL, &rounds[rank], &reasons[rank]);
    scene->step = 2;
    for (;;)
        nap(1000);
}

/* Ranks 0 and 2 here, rank 1 a process with its fate. */
static pid_t start_mortal(const char *job, enum fate *fate)
{
    scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene != MAP_FAILED);
    pid_t pid = ranks_start(job, 1, 3, mortal, fate);
    for (int rank = 0; rank < 3; rank += 2) {
        ranks_be(job, rank, 3);
        assert_int_equal(shunt_arena_join(&arena[rank]), SHUNT_OK);
        shunt_arena_set_world(arena[rank], rank, 3);
    }
    for (int rank = 0; rank < 3; rank += 2) {
        shunt_arena_seal(arena[rank]);
        assert_int_equal(open_one(rank, 1, 3, &board[rank]), SHUNT_OK);
    }
    return pid;
}

static void end_mortal(void)
{
    for (int rank = 0; rank < 3; rank += 2) {
        shunt_board_close(board[rank]);
        shunt_arena_leave(arena[rank]);
    }
    memset(board, 0, sizeof board);
    munmap(scene, sizeof *scene);
}

/* The wait ends soon after the death, not after 30 seconds. */
static void wait_for_stage(int rank)
{
    unsigned spins = 0;
    time_t end = time(NULL) + 5;
    while (shunt_round_poll(&rounds[rank]) == SHUNT_ROUND_UNDECIDED) {
        assert_true(time(NULL) < end);
        shunt_board_relax(&spins);
    }
    expect_stage(rank, SHUNT_REASON_PEER_VETO);
}

static void test_killed_waiting(void **state)
{
    (void)state;
    enum fate fate = KILLED_WAITING;
    pid_t pid = start_mortal("waiting", &fate);
    scene->step = 1;
    arrive(0);
    while (scene->step != 2)
        nap(1);
    nap(30);
    expect(0, SHUNT_ROUND_UNDECIDED);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    wait_for_stage(0);
    assert_int_equal(arrive_not(2), SHUNT_REASON_PEER_VETO);
    leave(0);
    end_mortal();
}

/* With the launch lock in its hands: the others get the lock, and the tickets go on. */
static void test_killed_deciding(void **state)
{
    (void)state;
    enum fate fate = KILLED_DECIDING;
    pid_t pid = start_mortal("deciding", &fate);
    arrive(0);
    arrive(2);
    scene->step = 1;
    waitpid(pid, NULL, 0);
    wait_for_stage(0);
    wait_for_stage(2);
    leave(0);
    leave(2);
    struct shunt_board *three[3] = {board[0], NULL, board[2]};
    int slots[2] = {shunt_arena_slot(arena[0], 0), shunt_arena_slot(arena[0], 2)};
    struct shunt_key key = {{77, 78}};
    assert_int_equal(shunt_board_open(arena[0], key, 2, slots, 0, &board[0]), SHUNT_OK);
    assert_int_equal(shunt_board_open(arena[2], key, 2, slots, 1, &board[2]), SHUNT_OK);
    arrive(0);
    arrive(2);
    expect(0, SHUNT_ROUND_RUN);
    assert_true(shunt_round_verdict(&rounds[0])->ticket >= 1);
    leave(0);
    leave(2);
    shunt_board_close(board[0]);
    shunt_board_close(board[2]);
    memcpy(board, three, sizeof three);
    end_mortal();
}

/* A member that has left in order will not come either. */
static void test_left(void **state)
{
    (void)state;
    enum fate fate = LEAVES;
    pid_t pid = start_mortal("left", &fate);
    arrive(0);
    arrive(2);
    scene->step = 1;
    assert_true(ranks_end(pid));
    wait_for_stage(2);
    expect_stage(0, SHUNT_REASON_PEER_VETO);
    leave(0);
    leave(2);
    end_mortal();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(test_all_arrive), TEST(test_tickets), TEST(test_host_rank), TEST(test_far_ahead), TEST(test_late),
        TEST(test_veto), TEST(test_veto_by_leaving), TEST(test_veto_during_decision), TEST(test_timeout),
        TEST(test_neutral), TEST(test_reuse), TEST(test_many_open), TEST(test_no_posts), TEST(test_close_before_open),
        TEST(test_facts), TEST(test_large), TEST(test_key_clash), TEST(test_refuse_after_open), TEST(test_capacity),
        TEST(test_no_rings), TEST(test_full), TEST(test_full_for_ever), TEST(test_broken), TEST(test_killed_waiting),
        TEST(test_killed_deciding), TEST(test_left),
    };
    return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}
