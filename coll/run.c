/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a task to its end on the GPUs.
 *
 *   prepare   everything that can fail: device, scratch, peers' scratch, registrations
 *   arrive    on the board; the last rank decides
 *   drive     launch what is decided, in ticket order, one operation at a time; whoever waits does it for all threads
 *   wait      for the kernel's done word
 */
#include "coll/run.h"

#include "coll/meet.h"
#include "coll/mismatch.h"
#include "coll/plan.h"
#include "coll/prepare.h"
#include "coll/select.h"
#include "cuda/copies.h"
#include "cuda/linger.h"

static enum shunt_status wait_for_end(struct shunt_waiter *w, const struct shunt_prepared *prepared,
                                      struct shunt_work *work, struct shunt_outcome *outcome)
{
    for (;;) {
        shunt_drive(w->arena, prepared->device);
        if (shunt_work_state(work) == SHUNT_WORK_FINISHED)
            break;
        if (shunt_work_state(work) == SHUNT_WORK_ARRIVED &&
            shunt_round_poll(&work->round) == SHUNT_ROUND_STAGE) {
            outcome->reason = shunt_round_verdict(&work->round)->reason;
            if (outcome->reason == SHUNT_REASON_MISMATCH)
                shunt_mismatch_say(w->arena, &work->round);
            return SHUNT_PASS;
        }
        shunt_wait_a_little(w);
        if (w->turns % 64 == 0)
            shunt_drive_check(w, work);
    }
    outcome->algo = work->algo;
    outcome->lingered = work->launch.lingered;
    outcome->hosted = (work->plan.flags & SHUNT_PLAN_HOSTED) != 0;
    if (work->code == SHUNT_DONE_ABORTED)
        shunt_launch_abort(prepared->device, false);
    return work->status;
}

/*
 * Who copies writes as soon as the operation is decided: so what the application has begun must have ended before. It may
 * take long, as it would for a kernel of ours.
 */
static bool become_ready(struct shunt_waiter *w, struct shunt_device *device, enum shunt_legacy legacy)
{
    if (legacy == SHUNT_LEGACY_UNKNOWN || !shunt_copies_possible(device))
        return false;
    while (legacy == SHUNT_LEGACY_AWAITED && !shunt_device_passed(device))
        shunt_wait_a_little(w);
    return true;
}

/* It has arrived and is listed. Where the context has gone meanwhile, the launch finds that out. */
static void order_late(struct shunt_device *device, struct shunt_work *work)
{
    enum shunt_legacy legacy = SHUNT_LEGACY_UNKNOWN;

    shunt_device_order(device, true, &legacy);
    shunt_drive_lock();
    work->launch.legacy_idle = legacy == SHUNT_LEGACY_IDLE;
    work->unordered = false;
    shunt_drive_unlock();
}

static enum shunt_status arrive_and_wait(struct shunt_waiter *w, const struct shunt_task *task,
                                         const struct shunt_prepared *prepared, struct shunt_outcome *outcome)
{
    struct shunt_select select = { .arena = w->arena, .slots = prepared->slots, .layout = &prepared->device->layout,
                                   .wishes = task->wishes };
    struct shunt_post post;
    struct shunt_work work;

    shunt_prepare_work(task, prepared, &work);
    outcome->reason = shunt_prepare_post(w->arena, w->board, prepared->device, task, &post);
    if (outcome->reason != SHUNT_REASON_NONE) {
        shunt_board_pass(w->board);
        return SHUNT_PASS;
    }
    if (prepared->copies && become_ready(w, prepared->device, prepared->legacy))
        post.flags |= SHUNT_POST_READY;
    shunt_drive_lock();
    enum shunt_status status =
        shunt_board_arrive(w->board, &post, shunt_select_decide, &select, &work.round, &outcome->reason);
    if (status == SHUNT_OK)
        shunt_drive_list(&work);
    shunt_drive_unlock();
    if (status != SHUNT_OK)
        return status;
    if (prepared->legacy == SHUNT_LEGACY_LATER)
        order_late(prepared->device, &work);
    status = wait_for_end(w, prepared, &work, outcome);
    shunt_drive_unlist(&work);
    shunt_round_leave(&work.round);
    return status;
}

/*
 * More ranks than a kernel serves: nothing will run, but the ranks arrive all the same, so that those that do not match are
 * named before the host MPI meets them.
 */
static enum shunt_status stage_together(struct shunt_waiter *w, const struct shunt_task *task,
                                        struct shunt_outcome *outcome)
{
    struct shunt_post post = {
        .coll = (uint16_t)task->coll, .count = task->count, .type = task->type, .op = (uint16_t)task->op, .root = task->root
    };
    struct shunt_select select = { .arena = w->arena };
    struct shunt_round round;

    if (shunt_board_arrive(w->board, &post, shunt_select_decide, &select, &round, &outcome->reason) != SHUNT_OK)
        return SHUNT_PASS;
    while (shunt_round_poll(&round) == SHUNT_ROUND_UNDECIDED)
        shunt_wait_a_little(w);
    outcome->reason = shunt_round_verdict(&round)->reason;
    if (outcome->reason == SHUNT_REASON_MISMATCH)
        shunt_mismatch_say(w->arena, &round);
    shunt_round_leave(&round);
    return SHUNT_PASS;
}

enum shunt_status shunt_coll_run(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                 const struct shunt_progress *progress, struct shunt_outcome *outcome)
{
    struct shunt_waiter w = { .arena = arena, .board = board, .progress = progress, .patience = SHUNT_PATIENCE };
    struct shunt_prepared prepared;

    *outcome = (struct shunt_outcome){ .reason = SHUNT_REASON_NONE };
    if (arena == NULL || board == NULL) {
        outcome->reason = arena == NULL ? SHUNT_REASON_NO_ARENA : SHUNT_REASON_NOT_REGISTERED;
        return SHUNT_PASS;
    }
    if (shunt_board_size(board) > SHUNT_BOARD_RANKS && !task->neutral)
        return stage_together(&w, task, outcome);
    shunt_linger_call();
    outcome->reason = shunt_prepare(&w, task, true, &prepared);
    if (outcome->reason != SHUNT_REASON_NONE) {
        shunt_board_pass(board);
        return SHUNT_PASS;
    }
    enum shunt_status status = arrive_and_wait(&w, task, &prepared, outcome);
    shunt_linger_return();
    return status;
}

int shunt_coll_flush(void)
{
    /* Under the lock, as for tidying: what has not arrived has no decision that counts on open blocks. */
    shunt_drive_lock();
    int left = shunt_peers_flush(shunt_drive_idle());
    shunt_drive_unlock();
    return left;
}
