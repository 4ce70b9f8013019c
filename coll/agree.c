/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps in which nothing runs; agree.h. */
#include "coll/agree.h"

#include "coll/helper.h"
#include "coll/meet.h"
#include "coll/mismatch.h"
#include "coll/prepare.h"
#include "coll/rows.h"
#include "coll/select.h"
#include "coll/start.h"

static bool agree(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    const struct shunt_arena *arena = context;
    struct shunt_row_mismatch mismatch;
    unsigned long long a, b;

    for (int i = 1; i < n; i++) {
        if (shunt_posts_differ(posts[0], posts[i], &a, &b) != NULL) {
            verdict->reason = SHUNT_REASON_MISMATCH;
            return false;
        }
    }
    if (!shunt_rows_any(posts, n) || !shunt_rows_differ(arena, posts, n, &mismatch))
        return true;
    verdict->reason = SHUNT_REASON_MISMATCH;
    return false;
}

static enum shunt_reason await_agreement(struct shunt_waiter *w, struct shunt_round *round)
{
    enum shunt_round_state state;
    enum shunt_reason reason = SHUNT_REASON_NONE;

    while ((state = shunt_round_poll(round)) == SHUNT_ROUND_UNDECIDED)
        shunt_wait_a_little(w);
    if (state == SHUNT_ROUND_STAGE)
        reason = shunt_round_verdict(round)->reason;
    if (reason == SHUNT_REASON_MISMATCH)
        shunt_mismatch_say(w->arena, round);
    shunt_round_leave(round);
    return reason;
}

enum shunt_reason shunt_coll_agree(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                   const struct shunt_progress *progress, uint64_t *sequence)
{
    struct shunt_waiter w = { .arena = arena, .board = board, .progress = progress, .patience = SHUNT_PATIENCE };
    enum shunt_reason reason = shunt_start_trouble(arena, board), ignored;
    struct shunt_prepared prepared;
    struct shunt_round round;
    struct shunt_post post;

    if (reason == SHUNT_REASON_NONE && !shunt_helper_ensure(arena))
        reason = SHUNT_REASON_PEER_VETO;
    if (reason == SHUNT_REASON_NONE)
        reason = shunt_prepare(&w, task, false, &prepared);
    if (reason != SHUNT_REASON_NONE) {
        shunt_board_pass(board);
        return reason;
    }
    /* A buffer is offered to the peers on its second use, and of this one it is known that there will be one. */
    shunt_prepare_offer(arena, board, prepared.device, task, &post);
    reason = shunt_prepare_post(arena, board, prepared.device, task, &post);
    if (reason != SHUNT_REASON_NONE) {
        shunt_board_pass(board);
        return reason;
    }
    post.flags |= SHUNT_POST_ASKS;
    if (shunt_board_arrive(board, &post, agree, arena, &round, &reason) != SHUNT_OK)
        return reason;
    *sequence = round.sequence;
    reason = await_agreement(&w, &round);
    /* All have offered theirs before they arrived. */
    for (int q = 0; reason == SHUNT_REASON_NONE && q < shunt_board_size(board); q++)
        shunt_peer_open(arena, prepared.slots[q], &ignored);
    return reason;
}

/* Which parts is a matter of settings, so that ranks that differ in it match all the same. */
static bool agree_parts(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    if (!agree(posts, n, context, verdict))
        return false;
    verdict->reason = SHUNT_REASON_PEER_VETO;
    for (int i = 1; i < n; i++) {
        if (posts[i]->wishes != posts[0]->wishes)
            return false;
    }
    return true;
}

enum shunt_reason shunt_coll_agree_parts(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                         uint64_t each, const struct shunt_progress *progress)
{
    struct shunt_waiter w = { .arena = arena, .board = board, .progress = progress, .patience = SHUNT_PATIENCE };
    const struct shunt_post post = {
        .coll = (uint16_t)task->coll, .count = task->count, .root = task->root, .flags = SHUNT_POST_PARTS, .wishes = (uint32_t)each
    };
    enum shunt_reason reason;
    struct shunt_round round;

    return shunt_board_arrive(board, &post, agree_parts, arena, &round, &reason) == SHUNT_OK ? await_agreement(&w, &round) : reason;
}
