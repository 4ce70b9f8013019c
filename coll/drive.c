/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of this process's operations; drive.h. */
#include "coll/drive.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/conf.h"
#include "coll/plan.h"
#include "coll/rows.h"
#include "coll/select.h"
#include "cuda/copies.h"

/* How long to wait between two pokes of the host MPI's progress, and between two looks at the peers' health. */
#define POKE_SECONDS   50e-6
#define HEALTH_SECONDS 0.1

static struct {
    pthread_mutex_t lock;
    struct shunt_work *arrived; /* all that have arrived and not left */
    struct shunt_work *running; /* the one whose kernel is in flight */
    atomic_bool closed; /* for those that are detached: see shunt_drive_close */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Nested in the other, which may be held by a thread that is in the driver for long. */
static pthread_mutex_t rounds = PTHREAD_MUTEX_INITIALIZER;

/* ---- waiting ---- */

void shunt_wait_a_little(struct shunt_waiter *w)
{
    shunt_board_relax(&w->spins);
    if (++w->turns % 64 != 0)
        return;
    double now = shunt_seconds();
    if (now - w->poked > POKE_SECONDS) {
        if (w->poked != 0 && w->progress != NULL)
            w->progress->poke(w->progress->context);
        w->poked = now;
    }
}

/* ---- launching, under the lock ---- */

static void take_ticket(struct shunt_work *work)
{
    const struct shunt_verdict *verdict = shunt_round_verdict(&work->round);

    work->launch.ticket = verdict->ticket;
    work->last = verdict->ticket + (verdict->waves > 1 ? verdict->waves - 1u : 0);
}

/* The decided operation with the smallest ticket that is not launched. */
static struct shunt_work *next_work(void)
{
    struct shunt_work *best = NULL;

    /* Twice: while the first look went round, an operation already seen undecided may have got a smaller ticket. */
    for (int look = 0; look < 2; look++) {
        for (struct shunt_work *work = process.arrived; work != NULL; work = work->next) {
            if (work->state != SHUNT_WORK_ARRIVED || shunt_round_poll(&work->round) != SHUNT_ROUND_RUN)
                continue;
            take_ticket(work);
            if (best == NULL || work->launch.ticket < best->launch.ticket)
                best = work;
        }
        if (best == NULL || process.arrived->next == NULL)
            break;
    }
    return best;
}

/* This rank's blocks of the wave under way. */
static const struct shunt_spans *spans_now(const struct shunt_work *work)
{
    static const struct shunt_spans nothing;

    return work->spans == NULL ? NULL : work->wave < work->waves ? &work->spans[work->wave] : &nothing;
}

static void write_plan(const struct shunt_arena *arena, struct shunt_work *work)
{
    const struct shunt_verdict *verdict = shunt_round_verdict(&work->round);
    const struct shunt_post *mine = shunt_round_post(&work->round, shunt_board_rank(work->round.board));
    uint8_t order[SHUNT_PLAN_WAYS][SHUNT_PLAN_RANKS];
    struct shunt_shape shape = {
        .n = (uint32_t)shunt_board_size(work->round.board),
        .flags = verdict->flags,
        .blocks = verdict->blocks,
        .chunk = verdict->chunk,
        .depth = SHUNT_RING_DEPTH,
        .root = (uint32_t)mine->root,
        .bytes = work->spans ? verdict->bytes : mine->count * shunt_type_size(mine->type),
        .ways = verdict->ways,
        .order = order,
        .spans = spans_now(work),
    };

    for (uint32_t way = 0; way < verdict->ways; way++)
        for (uint32_t k = 0; k < shape.n; k++)
            order[way][k] = shunt_routes_rank(verdict, shape.n, way, k);
    shunt_algos[verdict->algo].write(&shape, (uint32_t)shunt_board_rank(work->round.board), &work->plan);
    for (uint32_t q = 0; q < shape.n; q++)
        work->posts[q] = shunt_round_post(&work->round, (int)q);
    for (uint32_t q = 0; q < shape.n && work->spans; q++)
        work->rows[q] = shunt_rows_of(arena, work->posts[q], work->wave);
    work->launch.plan = &work->plan;
    work->launch.posts = work->posts;
    work->launch.rows = work->rows;
    /* Whose result depends on all has heard from all when it ends, be it by way of others. */
    work->unheard = work->spans == NULL && shunt_coll_mutual(mine->coll) ? 0 : shunt_launch_unheard(&work->plan);
    work->writers = shunt_launch_writers(&work->plan);
    work->planned = true;
}

static void take_out(struct shunt_work *work)
{
    struct shunt_work **at = &process.arrived;

    while (*at != NULL && *at != work)
        at = &(*at)->next;
    if (*at != NULL)
        *at = work->next;
}

/* A kernel that was told to end has. */
static void allow_waits(struct shunt_work *work)
{
    if (work->called_off)
        shunt_launch_abort(work->device, false);
    work->called_off = false;
}

/* Of a detached one only between hold and release. */
static void end_work(struct shunt_arena *arena, struct shunt_work *work, unsigned code, enum shunt_status status)
{
    work->code = code;
    work->status = status;
    work->algo = shunt_algos[shunt_round_verdict(&work->round)->algo].number;
    process.running = NULL;
    allow_waits(work);
    if (status != SHUNT_OK) /* before the other: who sees that this rank's part has ended then sees how */
        shunt_peer_fail(arena, work->last);
    shunt_peer_done(arena, work->last);
    if (work->detached) {
        if (code == SHUNT_DONE_ABORTED)
            shunt_launch_abort(work->device, false);
        take_out(work);
        shunt_round_leave(&work->round);
    }
    /* Release: the owner reads the rest once it sees this, and may then leave as soon as it gets the lock. */
    __atomic_store_n(&work->state, SHUNT_WORK_FINISHED, __ATOMIC_RELEASE);
}

static void finish(struct shunt_arena *arena, struct shunt_work *work, unsigned code, enum shunt_status status)
{
    const bool detached = work->detached; /* else its owner may have gone with it at the end */

    if (detached)
        shunt_drive_hold();
    end_work(arena, work, code, status);
    if (detached)
        shunt_drive_release();
}

static void launch(struct shunt_arena *arena, struct shunt_device *device, struct shunt_work *work)
{
    enum shunt_status status = shunt_launch_start(device, &work->launch);

    /* Relaxed: the owner, who reads it without the lock, then looks for nothing else. */
    __atomic_store_n(&work->state, SHUNT_WORK_LAUNCHED, __ATOMIC_RELAXED);
    process.running = work;
    if (status != SHUNT_OK)
        finish(arena, work, SHUNT_DONE_ABORTED, status);
}

/* An operation that was launched and has yielded: is it staged now, or does it go on? */
static void settle(struct shunt_arena *arena, struct shunt_device *device, struct shunt_work *work)
{
    if (shunt_round_yield(&work->round) == SHUNT_ROUND_STAGE) {
        shunt_launch_withdraw(device, &work->launch, work->wave + !work->between);
        allow_waits(work);
        shunt_peer_done(arena, work->last);
        process.running = NULL;
        /* Release, as in finish: the owner leaves as soon as it sees this. */
        __atomic_store_n(&work->state, SHUNT_WORK_ARRIVED, __ATOMIC_RELEASE);
    } else if (!shunt_round_recalled(&work->round)) {
        work->yielded = false;
    }
}

/*
 * Of an operation whose part of this rank is done: may it be left? Not before the parts of others are done that write here
 * (copy engines, direct exchanges), or that may not even have begun: should one of them find no room, all have to stage.
 */
static bool may_leave(struct shunt_arena *arena, struct shunt_work *work)
{
    const uint64_t awaited = work->unheard | work->writers;
    bool engines = work->plan.flags & SHUNT_PLAN_ENGINES;

    if (!engines && awaited == 0)
        return true;
    if (!work->ended)
        shunt_peer_done(arena, work->launch.ticket);
    work->ended = true;
    for (uint32_t q = 0; q < work->plan.n && !engines; q++) {
        if (awaited >> q & 1 && shunt_peer_ended(arena, work->launch.slots[q]) < work->launch.ticket)
            return false;
    }
    return !engines || shunt_copies_arrived(arena, &work->launch);
}

/* Has none of these ranks said that it could not do its part? */
static bool none_failed(struct shunt_arena *arena, const struct shunt_work *work, uint64_t ranks)
{
    for (int q = 0; q < shunt_board_size(work->round.board); q++) {
        if (ranks >> q & 1 && shunt_peer_failed(arena, work->launch.slots[q], work->last))
            return false;
    }
    return true;
}

/* What has waves reads no buffer that it has written, so it may be asked to stage between two of them as before the first. */
static void begin_wave(struct shunt_arena *arena, struct shunt_device *device, struct shunt_work *work)
{
    work->yielded = shunt_round_recalled(&work->round);
    if (work->yielded || !shunt_launch_ready(arena, &work->launch))
        return;
    work->between = false;
    launch(arena, device, work);
}

/* A wave is over, and is left as an operation is. No other operation comes between: the next ticket is this one's, too. */
static void next_wave(struct shunt_arena *arena, struct shunt_work *work)
{
    const struct shunt_launch *last = &work->launch;

    shunt_peer_done(arena, last->ticket);
    work->wave++;
    work->between = true;
    work->ended = false;
    work->launch = (struct shunt_launch){ .type = last->type, .op = last->op, .in = last->in, .out = last->out,
                                          .managed = last->managed, .legacy_idle = last->legacy_idle,
                                          .slots = last->slots, .ticket = last->ticket + 1 };
    write_plan(arena, work);
}

/*
 * This rank's part is done. Where it must not be done twice, or has been done to the buffers of others, who may be in place,
 * the operation is not staged any more: a rank without room waits until it has some.
 */
static void leave_or_wait(struct shunt_arena *arena, struct shunt_device *device, struct shunt_work *work)
{
    const bool may = may_leave(arena, work);

    if (may && work->launch.ticket < work->last) {
        next_wave(arena, work);
        begin_wave(arena, device, work);
    } else if (may) {
        finish(arena, work, SHUNT_DONE_OK, none_failed(arena, work, work->writers) ? SHUNT_OK : SHUNT_ERR_DEAD);
    } else if (work->writers == 0 && shunt_launch_repeatable(&work->launch)) {
        work->yielded = shunt_round_recalled(&work->round);
    } else {
        shunt_round_refuse(&work->round);
    }
}

static void look_at_running(struct shunt_arena *arena, struct shunt_device *device, struct shunt_work *work)
{
    if (work->yielded) {
        settle(arena, device, work);
        return;
    }
    if (work->between) {
        begin_wave(arena, device, work);
        return;
    }
    unsigned code = shunt_launch_done(device, &work->launch);
    if (code == SHUNT_DONE_ABORTED && work->called_off) {
        work->yielded = true;
    } else if (code == SHUNT_DONE_OK) {
        leave_or_wait(arena, device, work);
    } else if (code == SHUNT_DONE_AGAIN) {
        work->yielded = shunt_round_recalled(&work->round) && shunt_launch_untouched(&work->launch);
        if (!work->yielded)
            launch(arena, device, work);
    } else if (code != 0) {
        finish(arena, work, code, SHUNT_ERR_DEAD);
    }
}

/* The next in the order of tickets. What has been asked to be staged is not launched, and holds up what comes later. */
static void launch_next(struct shunt_arena *arena, struct shunt_device *device)
{
    struct shunt_work *work = next_work();
    bool asked = work != NULL && shunt_round_recalled(&work->round);

    if (asked)
        shunt_round_yield(&work->round);
    if (work == NULL || asked || work->unordered)
        return;
    if (!work->planned)
        write_plan(arena, work);
    if (shunt_launch_ready(arena, &work->launch))
        launch(arena, device, work);
}

static void take_dropped(void)
{
    struct shunt_work *next;

    for (struct shunt_work *work = process.arrived; work != NULL; work = next) {
        next = work->next;
        /* Acquire: who has dropped it has done with it. */
        if (!__atomic_load_n(&work->dropped, __ATOMIC_ACQUIRE))
            continue;
        take_out(work);
        shunt_round_leave(&work->round);
        work->drop(work);
    }
}

static void drive_locked(struct shunt_arena *arena, struct shunt_device *device)
{
    take_dropped();
    if (process.running != NULL)
        look_at_running(arena, device, process.running);
    if (process.running == NULL)
        launch_next(arena, device);
}

void shunt_drive(struct shunt_arena *arena, struct shunt_device *device)
{
    if (pthread_mutex_trylock(&process.lock) != 0)
        return;
    drive_locked(arena, device);
    pthread_mutex_unlock(&process.lock);
}

void shunt_drive_lock(void)
{
    pthread_mutex_lock(&process.lock);
}

void shunt_drive_unlock(void)
{
    pthread_mutex_unlock(&process.lock);
}

bool shunt_drive_idle(void)
{
    return process.arrived == NULL;
}

void shunt_drive_list(struct shunt_work *work)
{
    work->next = process.arrived;
    process.arrived = work;
}

void shunt_drive_unlist(struct shunt_work *work)
{
    pthread_mutex_lock(&process.lock);
    take_out(work);
    pthread_mutex_unlock(&process.lock);
}

void shunt_drive_drop(struct shunt_arena *arena)
{
    if (pthread_mutex_trylock(&process.lock) != 0) {
        shunt_arena_wake(arena, shunt_arena_self(arena));
        return;
    }
    take_dropped();
    pthread_mutex_unlock(&process.lock);
}

void shunt_drive_hold(void)
{
    pthread_mutex_lock(&rounds);
}

void shunt_drive_release(void)
{
    pthread_mutex_unlock(&rounds);
}

/* ---- health ---- */

/* Will every member's kernel still do its part? */
static bool all_well(struct shunt_arena *arena, const struct shunt_work *work)
{
    for (int q = 0; q < shunt_board_size(work->round.board); q++) {
        if (!shunt_arena_alive(arena, work->launch.slots[q]))
            return false;
    }
    return none_failed(arena, work, ~(uint64_t)0);
}

/*
 * Under the lock, of one that has no kernel: a peer for which it waits will do nothing. Held: what is staged is its owner's,
 * who may be about to drop it, and learns of an end in time or not at all.
 */
static void give_up_waiting(struct shunt_arena *arena, struct shunt_work *work)
{
    shunt_drive_hold();
    if (!work->dropped && work->state == SHUNT_WORK_ARRIVED && shunt_round_poll(&work->round) != SHUNT_ROUND_STAGE)
        end_work(arena, work, SHUNT_DONE_ABORTED, SHUNT_ERR_DEAD);
    shunt_drive_release();
}

/*
 * Some kernel of an operation has no room, and this rank's waits for it in the middle of its part, where only the abort word ends
 * a wait. It may end there if nobody needs what it has done: all will stage, since nobody's input is overwritten.
 */
static bool may_call_off(struct shunt_work *work)
{
    bool in_place = false;

    for (uint32_t q = 0; q < work->plan.n; q++)
        in_place |= (work->posts[q]->flags & SHUNT_POST_IN_PLACE) != 0;
    return !work->yielded && !work->between && !in_place && !(work->plan.flags & (SHUNT_PLAN_LL | SHUNT_PLAN_ENGINES)) &&
           shunt_round_recalled(&work->round);
}

/*
 * Under the lock, of what is in flight. The abort word ends a kernel, whose done word then ends the operation with an error; one
 * that has yielded has no kernel, or one that has not begun.
 */
static void look_at_kernel(struct shunt_arena *arena, struct shunt_work *work, bool well, double now)
{
    struct shunt_device *device = work->device;
    bool engines = work->plan.flags & SHUNT_PLAN_ENGINES;
    if (work->ended && !engines && !work->yielded) { /* who has died or failed will do nothing that is waited for */
        const bool all_there = work->writers == 0 && work->launch.ticket == work->last;
        if (!well)
            finish(arena, work, SHUNT_DONE_OK, all_there ? SHUNT_OK : SHUNT_ERR_DEAD);
        return;
    }
    /* Copy engines wait for nobody; it is this host that waits for the other's word. */
    enum shunt_status status = !well && engines ? SHUNT_ERR_DEAD : shunt_launch_check(device);

    if (!well)
        shunt_launch_abort(device, true);
    if (status != SHUNT_OK) {
        finish(arena, work, SHUNT_DONE_ABORTED, status);
        return;
    }
    bool may_call_back = !work->yielded && !work->between && !engines && !(well && shunt_conf->reproducible);
    bool unbegun = may_call_back && shunt_launch_unbegun(device, &work->launch, now);
    if (!well && (work->yielded || work->between || unbegun)) {
        shunt_launch_forsake(device, &work->launch);
        finish(arena, work, SHUNT_DONE_ABORTED, SHUNT_ERR_DEAD);
    } else if (unbegun) {
        shunt_round_recall(&work->round, SHUNT_REASON_NO_ROOM);
        work->yielded = shunt_round_recalled(&work->round);
    } else if (well && may_call_off(work)) {
        shunt_launch_abort(device, true);
        work->called_off = true;
    }
}

/* Under the lock. */
static void check_work(struct shunt_arena *arena, struct shunt_work *work, double now)
{
    bool well = all_well(arena, work), waits = work->planned || shunt_round_recalled(&work->round);

    if (process.running == work)
        look_at_kernel(arena, work, well, now);
    else if (!well && process.running == NULL && waits) /* for peers, one of which will do nothing */
        give_up_waiting(arena, work);
}

void shunt_drive_check(struct shunt_waiter *w, struct shunt_work *work)
{
    double now = shunt_seconds();

    w->looked = w->looked == 0 ? now : w->looked;
    if (now - w->looked < HEALTH_SECONDS)
        return;
    w->looked = now;
    pthread_mutex_lock(&process.lock);
    check_work(w->arena, work, now);
    pthread_mutex_unlock(&process.lock);
}

/* ---- detached operations ---- */

static struct shunt_work *next_detached(struct shunt_work *work)
{
    while (work != NULL && !work->detached)
        work = work->next;
    return work;
}

/* One that is given up leaves the list, so what follows is found before. */
static void check_detached(struct shunt_arena *arena)
{
    double now = shunt_seconds();
    struct shunt_work *next;

    for (struct shunt_work *work = next_detached(process.arrived); work != NULL; work = next) {
        next = next_detached(work->next);
        check_work(arena, work, now);
    }
}

static enum shunt_need find_need(void)
{
    enum shunt_need need = SHUNT_NEED_NOTHING;

    for (struct shunt_work *work = next_detached(process.arrived); work != NULL; work = next_detached(work->next)) {
        enum shunt_round_state state =
            work->state == SHUNT_WORK_ARRIVED ? shunt_round_poll(&work->round) : SHUNT_ROUND_RUN;
        if (state == SHUNT_ROUND_RUN)
            return SHUNT_NEED_LOOKS;
        if (state == SHUNT_ROUND_UNDECIDED)
            need = SHUNT_NEED_DECISION;
    }
    return need;
}

enum shunt_need shunt_drive_detached(struct shunt_arena *arena, bool check)
{
    enum shunt_need need = SHUNT_NEED_NOTHING;

    pthread_mutex_lock(&process.lock);
    take_dropped();
    struct shunt_work *work = shunt_drive_closed() ? NULL : next_detached(process.arrived);
    if (work != NULL) {
        drive_locked(arena, work->device);
        if (check)
            check_detached(arena);
        need = find_need();
    }
    pthread_mutex_unlock(&process.lock);
    return need;
}

void shunt_drive_close(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1; /* whoever holds it for longer is in the driver, which must cope with that */
    if (pthread_mutex_timedlock(&process.lock, &until) != 0)
        return;
    atomic_store(&process.closed, true);
    pthread_mutex_unlock(&process.lock);
}

bool shunt_drive_closed(void)
{
    return atomic_load_explicit(&process.closed, memory_order_relaxed);
}
