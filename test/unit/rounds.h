/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that share boards, for tests. No call of a board ever waits, so one thread can be all ranks, in any order one
 * likes: each rank is a view of its own.
 */
#ifndef SHUNT_TEST_UNIT_ROUNDS_H
#define SHUNT_TEST_UNIT_ROUNDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/conf.h"
#include "test/unit/ranks.h"

enum { MOST = SHUNT_TREE_RANKS };

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

static inline int before(void **state)
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
static inline void join_all(const char *job, int n)
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

static inline enum shunt_status open_one(int rank, uint64_t key, int n, struct shunt_board **board_p)
{
    int slots[MOST];
    for (int i = 0; i < n; i++)
        slots[i] = shunt_arena_slot(arena[rank], i);
    return shunt_board_open(arena[rank], (struct shunt_key){{key, ~key}}, n, slots, rank, board_p);
}

static inline void open_all(const char *job, int n)
{
    join_all(job, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(open_one(i, 1, n, &board[i]), SHUNT_OK);
}

static inline struct shunt_pool_use pool_use(void)
{
    struct shunt_pool_use use;
    shunt_pool_count(arena[0], &use);
    return use;
}

/* Nothing may be left in use. */
static inline int after(void **state)
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

static inline enum shunt_status arrive_flags(int rank, uint32_t flags)
{
    struct shunt_post post = {.flags = flags, .count = 1000 + (uint64_t)rank};
    return shunt_board_arrive(board[rank], &post, decide, &decider, &rounds[rank], &reasons[rank]);
}

static inline void arrive(int rank)
{
    assert_int_equal(arrive_flags(rank, 0), SHUNT_OK);
}

static inline enum shunt_reason arrive_not(int rank)
{
    assert_int_equal(arrive_flags(rank, 0), SHUNT_PASS);
    return reasons[rank];
}

static inline void expect(int rank, enum shunt_round_state state)
{
    assert_int_equal(shunt_round_poll(&rounds[rank]), state);
}

static inline void expect_stage(int rank, enum shunt_reason reason)
{
    expect(rank, SHUNT_ROUND_STAGE);
    assert_int_equal(shunt_round_verdict(&rounds[rank])->reason, reason);
}

static inline void leave(int rank)
{
    shunt_round_leave(&rounds[rank]);
}

#endif
