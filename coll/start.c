/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that go on after the call that began them; start.h. */
#include "coll/start.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/conf.h"
#include "coll/helper.h"
#include "coll/meet.h"
#include "coll/mismatch.h"
#include "coll/prepare.h"
#include "coll/select.h"
#include "cuda/copies.h"

#define ALIVE_SECONDS 0.01 /* between two looks whether members that are awaited live */

/* An operation whose ranks have not met yet has taken no step on its board: so it may still turn out to be one of a host rank. */
enum phase { MEETS, ARRIVED, PASSED };

struct shunt_start {
    struct shunt_work work;
    struct shunt_prepared prepared;
    struct shunt_arena *arena;
    struct shunt_board *board;
    struct shunt_spans spans[SHUNT_SPAN_WAVES]; /* of the task, if its blocks differ */
    pthread_t caller;         /* began it */
    struct shunt_start *next; /* in the pool, or of those whose ranks have not met the one that was begun later */
    enum phase phase;         /* changes from MEETS under the lock of `meetings`; what leads to it is there before it */
    enum shunt_reason reason; /* of PASSED */
    struct shunt_task task;   /* of MEETS */
    double since, looked;     /* likewise */
};

/* Those in phase MEETS, in the order of their calls. Its lock comes before the one of drive.h. */
static struct {
    pthread_mutex_t lock;
    struct shunt_start *first;
} meetings = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Those that are not in use: as many as there have been at the same time. */
static struct {
    pthread_mutex_t lock;
    struct shunt_start *first;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct shunt_start *take_start(void)
{
    pthread_mutex_lock(&pool.lock);
    struct shunt_start *start = pool.first;
    if (start != NULL)
        pool.first = start->next;
    pthread_mutex_unlock(&pool.lock);
    return start != NULL ? start : malloc(sizeof *start);
}

static void give_start(struct shunt_start *start)
{
    pthread_mutex_lock(&pool.lock);
    start->next = pool.first;
    pool.first = start;
    pthread_mutex_unlock(&pool.lock);
}

enum shunt_reason shunt_start_trouble(const struct shunt_arena *arena, const struct shunt_board *board)
{
    if (arena == NULL || board == NULL)
        return arena == NULL ? SHUNT_REASON_NO_ARENA : SHUNT_REASON_NOT_REGISTERED;
    if (shunt_board_size(board) > SHUNT_BOARD_RANKS)
        return SHUNT_REASON_TOO_MANY_RANKS;
    /* Whether all ranks have begun it when one has to go on is a matter of time, and time shall not change bits. */
    return shunt_conf->reproducible ? SHUNT_REASON_REPRODUCIBLE : SHUNT_REASON_NONE;
}

static void drop_start(struct shunt_work *work)
{
    give_start((struct shunt_start *)((char *)work - offsetof(struct shunt_start, work)));
}

/* Takes the step on the board, whatever becomes of it: answers why it did not arrive. */
static enum shunt_reason arrive(struct shunt_start *start)
{
    const struct shunt_task *task = &start->task;
    enum shunt_reason reason;
    const struct shunt_prepared *prepared = &start->prepared;
    struct shunt_select select = {
        .arena = start->arena, .slots = prepared->slots, .layout = &prepared->device->layout, .wishes = task->wishes
    };
    struct shunt_post post;

    shunt_prepare_work(task, prepared, &start->work);
    start->work.detached = true;
    start->work.drop = drop_start;
    reason = shunt_prepare_post(start->arena, start->board, prepared->device, task, &post);
    if (reason != SHUNT_REASON_NONE) {
        shunt_board_pass(start->board);
        return reason;
    }
    post.flags |= SHUNT_POST_WAKE;
    /* Nobody waits here until what the application has begun is over. */
    if (prepared->copies && prepared->legacy == SHUNT_LEGACY_IDLE && shunt_copies_possible(prepared->device))
        post.flags |= SHUNT_POST_READY;
    shunt_drive_lock();
    if (shunt_board_arrive(start->board, &post, shunt_select_decide, &select, &start->work.round, &reason) == SHUNT_OK) {
        shunt_drive_list(&start->work);
        reason = SHUNT_REASON_NONE;
    }
    shunt_drive_unlock();
    return reason;
}

/* ---- meeting, under the lock of `meetings` ---- */

static enum phase phase_of(const struct shunt_start *start)
{
    return __atomic_load_n(&start->phase, __ATOMIC_ACQUIRE);
}

/* Release: with it comes what this thread has done to it. */
static void end_meeting(struct shunt_start *start, enum shunt_reason reason)
{
    struct shunt_start **at = &meetings.first;

    while (*at != NULL && *at != start)
        at = &(*at)->next;
    if (*at != NULL)
        *at = start->next;
    start->reason = reason;
    __atomic_store_n(&start->phase, reason == SHUNT_REASON_NONE ? ARRIVED : PASSED, __ATOMIC_RELEASE);
}

static void pass(struct shunt_start *start, enum shunt_reason reason)
{
    shunt_board_pass(start->board);
    end_meeting(start, reason);
}

/* Does an operation wait that was begun on the same board before? Then its step comes first. */
static bool has_older(const struct shunt_start *start)
{
    const struct shunt_start *other = meetings.first;

    while (other != NULL && other != start && other->board != start->board)
        other = other->next;
    return other != NULL && other != start;
}

/* NOT_MET: not yet. */
static enum shunt_reason look_for_peers(struct shunt_start *start, double now)
{
    const int *slots = start->prepared.slots;
    int missing;
    enum shunt_reason reason = shunt_meet_look(start->arena, start->board, slots, &missing);

    if (reason != SHUNT_REASON_NOT_MET || now - start->looked < ALIVE_SECONDS)
        return reason;
    start->looked = now;
    for (int q = 0; q < shunt_board_size(start->board); q++) {
        if (!shunt_arena_alive(start->arena, slots[q]))
            return SHUNT_REASON_PEER_VETO;
    }
    return now - start->since > SHUNT_PATIENCE ? SHUNT_REASON_TIMEOUT : reason;
}

static void try_to_meet(struct shunt_start *start, double now)
{
    if (has_older(start))
        return;
    enum shunt_reason reason = look_for_peers(start, now);
    if (reason == SHUNT_REASON_NONE)
        end_meeting(start, arrive(start));
    else if (reason != SHUNT_REASON_NOT_MET)
        pass(start, reason);
}

static void pass_older(const struct shunt_board *board, const struct shunt_start *up_to)
{
    struct shunt_start *next;

    for (struct shunt_start *start = meetings.first; start != NULL; start = next) {
        next = start->next;
        if (start->board == board)
            pass(start, SHUNT_REASON_OVERTAKEN);
        if (start == up_to)
            return;
    }
}

bool shunt_starts_meet(const struct shunt_board *board)
{
    pthread_mutex_lock(&meetings.lock);
    struct shunt_start *start = meetings.first;
    while (start != NULL && start->board != board)
        start = start->next;
    pthread_mutex_unlock(&meetings.lock);
    return start != NULL;
}

void shunt_starts_pass(const struct shunt_board *board)
{
    pthread_mutex_lock(&meetings.lock);
    pass_older(board, NULL);
    pthread_mutex_unlock(&meetings.lock);
}

bool shunt_starts_look(void)
{
    pthread_mutex_lock(&meetings.lock);
    double now = meetings.first != NULL && !shunt_drive_closed() ? shunt_seconds() : 0;
    struct shunt_start *next;
    for (struct shunt_start *start = now != 0 ? meetings.first : NULL; start != NULL; start = next) {
        next = start->next;
        try_to_meet(start, now);
    }
    bool any = meetings.first != NULL && now != 0;
    pthread_mutex_unlock(&meetings.lock);
    return any;
}

void shunt_starts_close(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1; /* as in shunt_drive_close */
    if (pthread_mutex_timedlock(&meetings.lock, &until) == 0)
        pthread_mutex_unlock(&meetings.lock);
}

/* ---- beginning ---- */

/* In the order of calls. */
static void enter_meetings(struct shunt_start *start)
{
    struct shunt_start **at = &meetings.first;

    pthread_mutex_lock(&meetings.lock);
    while (*at != NULL)
        at = &(*at)->next;
    start->next = NULL;
    start->since = start->looked = shunt_seconds();
    start->phase = MEETS;
    *at = start;
    try_to_meet(start, start->since);
    pthread_mutex_unlock(&meetings.lock);
}

static void fill_start(struct shunt_start *start, struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task)
{
    start->arena = arena;
    start->board = board;
    start->caller = pthread_self();
    start->task = *task;
    start->work.state = SHUNT_WORK_ARRIVED;
    if (task->spans != NULL) { /* the caller's end with the call */
        memcpy(start->spans, task->spans, task->waves * sizeof *task->spans);
        start->task.spans = start->spans;
    }
}

enum shunt_status shunt_coll_start(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                   struct shunt_start **start_p, enum shunt_reason *reason)
{
    struct shunt_start *start = NULL;

    *reason = shunt_start_trouble(arena, board);
    if (*reason == SHUNT_REASON_NONE && (!shunt_helper_ensure(arena) || (start = take_start()) == NULL))
        *reason = SHUNT_REASON_PEER_VETO;
    if (*reason == SHUNT_REASON_NONE) {
        fill_start(start, arena, board, task);
        *reason = shunt_prepare_own(arena, board, task, &start->prepared);
    }
    if (*reason == SHUNT_REASON_NONE) {
        enter_meetings(start);
        *reason = phase_of(start) == PASSED ? start->reason : SHUNT_REASON_NONE;
    } else {
        shunt_starts_pass(board);
        shunt_board_pass(board);
    }
    if (*reason != SHUNT_REASON_NONE) {
        if (start != NULL)
            give_start(start);
        return SHUNT_PASS;
    }
    /* Who arrives last launches at once; the other thread then has only to find the end. */
    if (phase_of(start) == ARRIVED)
        shunt_drive(arena, start->prepared.device);
    shunt_helper_nudge(arena);
    *start_p = start;
    return SHUNT_OK;
}

/*
 * To launch may wait in the driver, for as long as another thread sits in a call that waits for the whole GPU. Who has begun the
 * operation has asked for that. Any other thread is in some call of MPI whose end that wait may depend on.
 */
static bool may_launch(const struct shunt_start *start)
{
    return pthread_equal(start->caller, pthread_self()) || shunt_drive_closed();
}

/* Held, as its end may be found by another thread, which then leaves the round. */
static enum shunt_start_state look_held(struct shunt_start *start)
{
    enum shunt_work_state state = shunt_work_state(&start->work);
    enum shunt_round_state round =
        state == SHUNT_WORK_ARRIVED ? shunt_round_poll(&start->work.round) : SHUNT_ROUND_RUN;

    if (round != SHUNT_ROUND_RUN)
        return round == SHUNT_ROUND_STAGE ? SHUNT_START_STAGED : SHUNT_START_UNDECIDED;
    return state == SHUNT_WORK_FINISHED ? SHUNT_START_DONE : SHUNT_START_RUNS;
}

/* Is it still one whose ranks have not met, after a look? Only who may launch looks: to meet takes calls of the driver, too. */
static bool still_meets(struct shunt_start *start)
{
    /* Whoever has the lock may be in the driver: then he looks. */
    if (phase_of(start) == MEETS && may_launch(start) && pthread_mutex_trylock(&meetings.lock) == 0) {
        if (phase_of(start) == MEETS)
            try_to_meet(start, shunt_seconds());
        pthread_mutex_unlock(&meetings.lock);
    }
    return phase_of(start) == MEETS;
}

enum shunt_start_state shunt_start_look(struct shunt_start *start)
{
    if (still_meets(start))
        return SHUNT_START_UNDECIDED;
    if (phase_of(start) == PASSED)
        return SHUNT_START_STAGED;
    if (shunt_work_state(&start->work) != SHUNT_WORK_FINISHED && may_launch(start))
        shunt_drive(start->arena, start->prepared.device);
    shunt_drive_hold();
    enum shunt_start_state state = look_held(start);
    shunt_drive_release();
    return state;
}

void shunt_start_veto(struct shunt_start *start)
{
    if (phase_of(start) == MEETS) {
        pthread_mutex_lock(&meetings.lock);
        if (phase_of(start) == MEETS)
            pass_older(start->board, start);
        pthread_mutex_unlock(&meetings.lock);
    }
    if (phase_of(start) == PASSED)
        return;
    shunt_drive_hold();
    if (shunt_work_state(&start->work) == SHUNT_WORK_ARRIVED)
        shunt_round_veto(&start->work.round, SHUNT_REASON_OVERTAKEN);
    shunt_drive_release();
}

const struct shunt_board *shunt_start_board(const struct shunt_start *start)
{
    return start->board;
}

enum shunt_status shunt_start_end(struct shunt_start *start, struct shunt_outcome *outcome)
{
    struct shunt_work *work = &start->work;
    struct shunt_arena *arena = start->arena; /* once it is dropped, others give it back */

    *outcome = (struct shunt_outcome){ .reason = start->reason };
    if (phase_of(start) == PASSED) {
        give_start(start);
        return SHUNT_PASS;
    }
    /* Held: of what is staged a member may be found dead at this moment, and the operation be ended for that. */
    shunt_drive_hold();
    const bool finished = shunt_work_state(work) == SHUNT_WORK_FINISHED;
    if (!finished) {
        outcome->reason = shunt_round_verdict(&work->round)->reason;
        if (outcome->reason == SHUNT_REASON_MISMATCH)
            shunt_mismatch_say(arena, &work->round);
        /* Release: who takes it out comes after all that was done with it. */
        __atomic_store_n(&work->dropped, true, __ATOMIC_RELEASE);
    }
    shunt_drive_release();
    if (!finished) {
        shunt_drive_drop(arena);
        return SHUNT_PASS;
    }
    enum shunt_status status = work->status;
    outcome->algo = work->algo;
    outcome->lingered = work->launch.lingered;
    outcome->hosted = (work->plan.flags & SHUNT_PLAN_HOSTED) != 0;
    give_start(start);
    return status;
}
