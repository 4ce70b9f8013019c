/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a task to its end on the GPUs.
 *
 *   prepare   everything that can fail: device, scratch, peers' scratch, registrations
 *   arrive    on the board; the last rank decides
 *   drive     launch what is decided, in ticket order, one operation at a time; whoever waits does it for all threads
 *   wait      for the kernel's done word
 *
 * One kernel of this process is in flight at a time. A kernel that left its start barrier is launched again, and must
 * not be overtaken by a later ticket: the flags in scratch only grow, so a later operation would make its waits true.
 */
#include "coll/run.h"

#include <time.h>

#include "base/conf.h"
#include "coll/mismatch.h"
#include "coll/select.h"
#include "cuda/copies.h"
#include "cuda/linger.h"

/* How long to wait between two pokes of the host MPI's progress, and between two looks at the peers' health. */
#define POKE_SECONDS   50e-6
#define HEALTH_SECONDS 0.1

/* A member that neither publishes nor passes for this long is not waited for any more: a net, as on the board. */
#define PATIENCE_SECONDS 30

enum op_state { ARRIVED, LAUNCHED, FINISHED };

/* An operation of this process, on the stack of the thread that called. */
struct op {
    struct shunt_round round;
    struct shunt_launch launch;
    struct shunt_plan plan;
    const struct shunt_post *posts[SHUNT_BOARD_RANKS];
    enum op_state state;
    bool planned;
    bool yielded; /* it has been asked to be staged after all, and nothing of it goes on here */
    unsigned code; /* SHUNT_DONE_*, of FINISHED */
    enum shunt_status status;
    struct op *next;
};

static struct {
    pthread_mutex_t lock; /* the process's launch lock */
    struct op *arrived;   /* all that have arrived and not left */
    struct op *running;   /* the one whose kernel is in flight */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* What a call waits with. */
struct waiter {
    struct shunt_arena *arena;
    struct shunt_board *board;
    const struct shunt_progress *progress;
    unsigned spins, turns;
    double poked, looked;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One fruitless look: let others run, and now and then drive the host MPI, whose peers may be waiting for us in it. */
static void wait_a_little(struct waiter *w)
{
    shunt_board_relax(&w->spins);
    if (++w->turns % 64 != 0)
        return;
    double now = seconds();
    if (now - w->poked > POKE_SECONDS) {
        if (w->poked != 0 && w->progress != NULL)
            w->progress->poke(w->progress->context);
        w->poked = now;
    }
}

/* ---- launching, under the lock ---- */

/* The decided operation with the smallest ticket that is not launched. */
static struct op *next_op(void)
{
    struct op *best = NULL;

    /* Twice: while the first look went round, an operation already seen undecided may have got a smaller ticket. */
    for (int look = 0; look < 2; look++) {
        for (struct op *op = process.arrived; op != NULL; op = op->next) {
            if (op->state != ARRIVED || shunt_round_poll(&op->round) != SHUNT_ROUND_RUN)
                continue;
            op->launch.ticket = shunt_round_verdict(&op->round)->ticket;
            if (best == NULL || op->launch.ticket < best->launch.ticket)
                best = op;
        }
        if (best == NULL || process.arrived->next == NULL)
            break;
    }
    return best;
}

static void write_plan(struct op *op)
{
    const struct shunt_verdict *verdict = shunt_round_verdict(&op->round);
    const struct shunt_post *mine = shunt_round_post(&op->round, shunt_board_rank(op->round.board));
    struct shunt_shape shape = {
        .n = (uint32_t)shunt_board_size(op->round.board),
        .flags = verdict->flags,
        .blocks = verdict->blocks,
        .chunk = verdict->chunk,
        .depth = SHUNT_RING_DEPTH,
        .root = (uint32_t)mine->root,
        .bytes = mine->count * shunt_type_size(mine->type),
    };

    shunt_algos[verdict->algo].write(&shape, (uint32_t)shunt_board_rank(op->round.board), &op->plan);
    for (uint32_t q = 0; q < shape.n; q++)
        op->posts[q] = shunt_round_post(&op->round, (int)q);
    op->launch.plan = &op->plan;
    op->launch.posts = op->posts;
    op->planned = true;
}

static void finish(struct shunt_arena *arena, struct op *op, unsigned code, enum shunt_status status)
{
    op->code = code;
    op->status = status;
    process.running = NULL;
    shunt_peer_done(arena, op->launch.ticket);
    /* Release: the owner reads the rest once it sees this, and may then leave as soon as it gets the lock. */
    __atomic_store_n(&op->state, FINISHED, __ATOMIC_RELEASE);
}

static void launch(struct shunt_arena *arena, struct shunt_device *device, struct op *op)
{
    enum shunt_status status = shunt_launch_start(device, &op->launch);

    /* Relaxed: the owner, who reads it without the lock, then looks for nothing else. */
    __atomic_store_n(&op->state, LAUNCHED, __ATOMIC_RELAXED);
    process.running = op;
    if (status != SHUNT_OK) {
        shunt_peer_fail(arena, op->launch.ticket);
        finish(arena, op, SHUNT_DONE_ABORTED, status);
    }
}

/* An operation that was launched and has yielded: is it staged now, or does it go on? */
static void settle(struct shunt_arena *arena, struct shunt_device *device, struct op *op)
{
    if (shunt_round_yield(&op->round) == SHUNT_ROUND_STAGE) {
        shunt_launch_withdraw(device, &op->launch);
        shunt_peer_done(arena, op->launch.ticket);
        process.running = NULL;
        /* Release, as in finish: the owner leaves as soon as it sees this. */
        __atomic_store_n(&op->state, ARRIVED, __ATOMIC_RELEASE);
    } else if (!shunt_round_recalled(&op->round)) {
        op->yielded = false;
    }
}

/* Of an operation whose part of this rank is done: are those of the others that write here, if they are not in it? */
static bool all_arrived(struct shunt_arena *arena, const struct op *op)
{
    if (!(op->plan.flags & SHUNT_PLAN_ENGINES))
        return true;
    shunt_peer_done(arena, op->launch.ticket);
    return shunt_copies_arrived(arena, &op->launch);
}

static void look_at_running(struct shunt_arena *arena, struct shunt_device *device, struct op *op)
{
    if (op->yielded) {
        settle(arena, device, op);
        return;
    }
    unsigned code = shunt_launch_done(device, &op->launch);
    if (code == SHUNT_DONE_AGAIN) {
        op->yielded = shunt_round_recalled(&op->round) && shunt_launch_untouched(&op->launch);
        if (!op->yielded)
            launch(arena, device, op);
    } else if (code != 0 && (code != SHUNT_DONE_OK || all_arrived(arena, op))) {
        finish(arena, op, code, code == SHUNT_DONE_OK ? SHUNT_OK : SHUNT_ERR_DEAD);
    }
}

/* The next in the order of tickets. What has been asked to be staged is not launched, and holds up what comes later. */
static void launch_next(struct shunt_arena *arena, struct shunt_device *device)
{
    struct op *op = next_op();
    bool asked = op != NULL && shunt_round_recalled(&op->round);

    if (asked)
        shunt_round_yield(&op->round);
    if (op == NULL || asked)
        return;
    if (!op->planned)
        write_plan(op);
    if (shunt_launch_ready(arena, &op->launch))
        launch(arena, device, op);
}

/* Look at the running kernel, launch what comes next. Any thread that waits does it for all. */
static void drive(struct shunt_arena *arena, struct shunt_device *device)
{
    if (pthread_mutex_trylock(&process.lock) != 0)
        return;
    if (process.running != NULL)
        look_at_running(arena, device, process.running);
    if (process.running == NULL)
        launch_next(arena, device);
    pthread_mutex_unlock(&process.lock);
}

/* Under the lock. */
static void list_op(struct op *op)
{
    op->next = process.arrived;
    process.arrived = op;
}

static void unlist_op(struct op *op)
{
    pthread_mutex_lock(&process.lock);
    for (struct op **at = &process.arrived; *at != NULL; at = &(*at)->next) {
        if (*at == op) {
            *at = op->next;
            break;
        }
    }
    pthread_mutex_unlock(&process.lock);
}

/* ---- preparing ---- */

static enum shunt_reason buffers_reason(const struct shunt_task *task)
{
    size_t align = shunt_type_align(task->type);

    if (task->send_mem.kind == SHUNT_MEM_HOST || task->recv_mem.kind == SHUNT_MEM_HOST)
        return SHUNT_REASON_MIXED_BUFFERS;
    if ((uintptr_t)task->send % align != 0 || (uintptr_t)task->recv % align != 0)
        return SHUNT_REASON_ALIGNMENT;
    return SHUNT_REASON_NONE;
}

/* The device that both buffers can be used on, or NULL with the reason. */
static struct shunt_device *open_device(struct shunt_arena *arena, const struct shunt_task *task,
                                        enum shunt_reason *reason)
{
    struct shunt_device *device = shunt_device_open(arena, task->recv, &task->recv_mem, reason);

    if (device != NULL && task->send != task->recv)
        device = shunt_device_open(arena, task->send, &task->send_mem, reason);
    return device;
}

/* For waits for members that neither come nor pass; *since: 0 at their start. */
static bool out_of_patience(double *since)
{
    *since = *since == 0 ? seconds() : *since;
    return seconds() - *since > PATIENCE_SECONDS && !shunt_conf->reproducible;
}

/* One more turn of waiting for a peer to publish something; why to stop, now and then. */
static enum shunt_reason await_peer(struct waiter *w, int slot, double *since)
{
    wait_a_little(w);
    if (w->turns % 64 != 0)
        return SHUNT_REASON_NONE;
    return !shunt_arena_alive(w->arena, slot) ? SHUNT_REASON_PEER_VETO :
           out_of_patience(since)             ? SHUNT_REASON_TIMEOUT :
                                                SHUNT_REASON_NONE;
}

/*
 * Open every member's scratch. A member that has not published yet is late, or on host memory: the second shows in its
 * counter. So this waits for just what the decision waits for later, and like it ends after 30 s. *proven: all links are.
 */
static enum shunt_reason open_peers(struct waiter *w, const int *slots, bool *proven)
{
    int n = shunt_board_size(w->board);
    enum shunt_reason reason = SHUNT_REASON_NONE;
    double since = 0;

    *proven = true;
    for (int q = 0; q < n; q++) {
        enum shunt_peer_state state;
        while ((state = shunt_peer_open(w->arena, slots[q], &reason)) == SHUNT_PEER_MISSING) {
            /* The counter before the card: who publishes does so before it passes. */
            if (shunt_board_ahead(w->board, q)) {
                if (shunt_peer_open(w->arena, slots[q], &reason) != SHUNT_PEER_MISSING)
                    continue;
                return SHUNT_REASON_PEER_ON_HOST;
            }
            if ((reason = await_peer(w, slots[q], &since)) != SHUNT_REASON_NONE)
                return reason;
        }
        if (state == SHUNT_PEER_REFUSED)
            return reason;
        *proven &= state == SHUNT_PEER_OPEN;
    }
    return SHUNT_REASON_NONE;
}

/* One look at all: *unproven is a member whose link is not proven yet, or -1. */
static enum shunt_reason look_at_links(struct waiter *w, const int *slots, int *unproven)
{
    enum shunt_reason refusal = SHUNT_REASON_NONE;

    *unproven = -1;
    for (int q = 0; q < shunt_board_size(w->board); q++) {
        enum shunt_reason reason;
        enum shunt_peer_state state = shunt_peer_open(w->arena, slots[q], &reason);
        if (state == SHUNT_PEER_MET)
            *unproven = q;
        else if (state == SHUNT_PEER_REFUSED)
            refusal = reason;
    }
    return refusal;
}

/*
 * Wait until what each member writes has been seen to arrive at the others. That is the work of both sides, so all are
 * looked at in each turn: what one waits for may be waiting for us. A member that has not met us yet is late, or on host
 * memory, as above.
 */
static enum shunt_reason prove_links(struct waiter *w, const int *slots)
{
    double since = 0;

    for (;;) {
        int q;
        enum shunt_reason refusal = look_at_links(w, slots, &q);
        if (refusal != SHUNT_REASON_NONE || q < 0)
            return refusal;
        if (shunt_board_ahead(w->board, q)) {
            refusal = look_at_links(w, slots, &q); /* the counter first */
            return refusal == SHUNT_REASON_NONE && q >= 0 ? SHUNT_REASON_PEER_ON_HOST : refusal;
        }
        if ((refusal = await_peer(w, slots[q], &since)) != SHUNT_REASON_NONE)
            return refusal;
    }
}

static void fill_post(struct shunt_arena *arena, const struct shunt_board *board, const struct shunt_device *device,
                      const struct shunt_task *task, struct shunt_post *post)
{
    uint64_t bytes = task->count * shunt_type_size(task->type);
    int me = shunt_board_rank(board);
    bool large = shunt_select_zero_copy(task->coll, bytes) && shunt_coll_receives(task->coll, me, task->root);

    *post = (struct shunt_post){
        .coll = task->coll,
        .flags = task->in_place ? SHUNT_POST_IN_PLACE : 0,
        .count = task->count,
        .type = task->type,
        .op = task->op,
        .root = task->root,
        .max_blocks = device->max_blocks,
        .gpu = (uint16_t)device->channel,
    };
    bytes *= shunt_coll_blocks(task->coll, shunt_board_size(board), me, task->root);
    shunt_place_of(arena, task->recv, bytes, &task->recv_mem, large, &post->recv);
    post->send = (struct shunt_place){ .align = (uint32_t)((uintptr_t)task->send % 256), .id = task->send_mem.id };
}

/* ---- the call ---- */

/* Will every member's kernel still do its part? */
static bool all_well(const struct waiter *w, const struct op *op, const int *slots)
{
    for (int q = 0; q < shunt_board_size(w->board); q++) {
        if (!shunt_arena_alive(w->arena, slots[q]) || shunt_peer_failed(w->arena, slots[q], op->launch.ticket))
            return false;
    }
    return true;
}

/* Under the lock. This operation cannot be ended any more. */
static void give_up(struct shunt_arena *arena, struct op *op, enum shunt_status status)
{
    shunt_peer_fail(arena, op->launch.ticket);
    finish(arena, op, SHUNT_DONE_ABORTED, status);
}

/*
 * Under the lock, of what is in flight. The abort word ends a kernel, whose done word then ends the operation with an error; one
 * that has yielded has no kernel, or one that has not begun.
 */
static void look_at_kernel(struct waiter *w, struct shunt_device *device, struct op *op, bool well, double now)
{
    bool engines = op->plan.flags & SHUNT_PLAN_ENGINES;
    /* Copy engines wait for nobody; it is this host that waits for the other's word. */
    enum shunt_status status = !well && engines ? SHUNT_ERR_DEAD : shunt_launch_check(device);

    if (!well)
        shunt_launch_abort(device, true);
    if (status != SHUNT_OK) {
        give_up(w->arena, op, status);
        return;
    }
    bool may_call_back = !op->yielded && !engines && !(well && shunt_conf->reproducible);
    bool unbegun = may_call_back && shunt_launch_unbegun(device, &op->launch, now);
    if (!well && (op->yielded || unbegun)) {
        shunt_launch_forsake(device, &op->launch);
        give_up(w->arena, op, SHUNT_ERR_DEAD);
    } else if (unbegun) {
        shunt_round_recall(&op->round, SHUNT_REASON_NO_ROOM);
        op->yielded = shunt_round_recalled(&op->round);
    }
}

/* Of an operation that takes long: has a member died or failed, so that it cannot end by itself, or has our GPU? */
static void look_at_health(struct waiter *w, struct shunt_device *device, struct op *op, const int *slots)
{
    double now = seconds();

    w->looked = w->looked == 0 ? now : w->looked;
    if (now - w->looked < HEALTH_SECONDS)
        return;
    w->looked = now;
    pthread_mutex_lock(&process.lock);
    bool well = all_well(w, op, slots), waits = op->planned || shunt_round_recalled(&op->round);
    if (process.running == op)
        look_at_kernel(w, device, op, well, now);
    else if (!well && process.running == NULL && op->state == ARRIVED && waits) /* for peers, one of which will do nothing */
        give_up(w->arena, op, SHUNT_ERR_DEAD);
    pthread_mutex_unlock(&process.lock);
}

static enum shunt_status wait_for_end(struct waiter *w, struct shunt_device *device, struct op *op, const int *slots,
                                      struct shunt_outcome *outcome)
{
    for (;;) {
        drive(w->arena, device);
        if (__atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == FINISHED)
            break;
        if (__atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == ARRIVED &&
            shunt_round_poll(&op->round) == SHUNT_ROUND_STAGE) {
            outcome->reason = shunt_round_verdict(&op->round)->reason;
            if (outcome->reason == SHUNT_REASON_MISMATCH)
                shunt_mismatch_say(&op->round);
            return SHUNT_PASS;
        }
        wait_a_little(w);
        if (w->turns % 64 == 0)
            look_at_health(w, device, op, slots);
    }
    outcome->algo = shunt_algos[shunt_round_verdict(&op->round)->algo].number;
    outcome->lingered = op->launch.lingered;
    if (op->code == SHUNT_DONE_ABORTED)
        shunt_launch_abort(device, false);
    return op->status;
}

/*
 * Who copies writes as soon as the operation is decided: so what the application has begun must have ended before. It may
 * take long, as it would for a kernel of ours.
 */
static bool become_ready(struct waiter *w, struct shunt_device *device, enum shunt_legacy legacy)
{
    if (legacy == SHUNT_LEGACY_UNKNOWN || !shunt_copies_possible(device))
        return false;
    while (legacy == SHUNT_LEGACY_AWAITED && !shunt_device_passed(device))
        wait_a_little(w);
    return true;
}

static enum shunt_status arrive_and_wait(struct waiter *w, struct shunt_device *device, const struct shunt_task *task,
                                         const int *slots, enum shunt_legacy legacy, struct shunt_outcome *outcome)
{
    struct shunt_select select = { .arena = w->arena, .slots = slots, .layout = &device->layout };
    struct shunt_post post;
    struct op op;

    op.state = ARRIVED;
    op.planned = op.yielded = false;
    op.launch = (struct shunt_launch){
        .type = task->type,
        .op = task->op,
        .in = task->send,
        .out = task->recv,
        .managed = task->send_mem.kind == SHUNT_MEM_MANAGED || task->recv_mem.kind == SHUNT_MEM_MANAGED,
        .legacy_idle = legacy == SHUNT_LEGACY_IDLE,
        .slots = slots,
    };
    fill_post(w->arena, w->board, device, task, &post);
    if (shunt_select_copies(task->coll, task->count * shunt_type_size(task->type)) && become_ready(w, device, legacy))
        post.flags |= SHUNT_POST_READY;
    /* Under the lock: once arrived it may have a ticket, and nobody may launch a later one without seeing it. */
    pthread_mutex_lock(&process.lock);
    enum shunt_status status =
        shunt_board_arrive(w->board, &post, shunt_select_decide, &select, &op.round, &outcome->reason);
    if (status == SHUNT_OK)
        list_op(&op);
    pthread_mutex_unlock(&process.lock);
    if (status != SHUNT_OK)
        return status;
    status = wait_for_end(w, device, &op, slots, outcome);
    unlist_op(&op);
    shunt_round_leave(&op.round);
    return status;
}

/*
 * More ranks than a kernel serves: nothing will run, but the ranks arrive all the same, so that those that do not match are
 * named before the host MPI meets them.
 */
static enum shunt_status stage_together(struct waiter *w, const struct shunt_task *task, struct shunt_outcome *outcome)
{
    struct shunt_post post = {
        .coll = task->coll, .count = task->count, .type = task->type, .op = task->op, .root = task->root
    };
    struct shunt_select select = { .arena = w->arena };
    struct op op;

    if (shunt_board_arrive(w->board, &post, shunt_select_decide, &select, &op.round, &outcome->reason) != SHUNT_OK)
        return SHUNT_PASS;
    while (shunt_round_poll(&op.round) == SHUNT_ROUND_UNDECIDED)
        wait_a_little(w);
    outcome->reason = shunt_round_verdict(&op.round)->reason;
    if (outcome->reason == SHUNT_REASON_MISMATCH)
        shunt_mismatch_say(&op.round);
    shunt_round_leave(&op.round);
    return SHUNT_PASS;
}

/* Everything before arriving; NONE or why this rank cannot take part. */
static enum shunt_reason prepare(struct waiter *w, const struct shunt_task *task, int *slots,
                                 struct shunt_device **device, enum shunt_legacy *legacy)
{
    int n = shunt_board_size(w->board);
    uint64_t bytes = task->count * shunt_type_size(task->type);

    if (task->neutral)
        return SHUNT_REASON_NEUTRAL;
    if (shunt_select_wanted(task->coll, bytes) == SHUNT_ALGO_STAGED)
        return SHUNT_REASON_SETTING;
    enum shunt_reason reason = buffers_reason(task);
    if (reason != SHUNT_REASON_NONE)
        return reason;
    *device = open_device(w->arena, task, &reason);
    if (*device == NULL)
        return reason;
    if (shunt_device_blocked(*device))
        return SHUNT_REASON_NO_ROOM;
    for (int q = 0; q < n; q++)
        slots[q] = shunt_board_slot(w->board, q);
    if (shunt_peers_untidy()) {
        pthread_mutex_lock(&process.lock);
        if (process.arrived == NULL)
            shunt_peers_tidy(w->arena);
        pthread_mutex_unlock(&process.lock);
    }
    bool proven;
    reason = open_peers(w, slots, &proven);
    if (reason == SHUNT_REASON_NONE && !proven)
        reason = prove_links(w, slots);
    if (reason == SHUNT_REASON_NONE && !shunt_device_order(*device, shunt_select_copies(task->coll, bytes), legacy))
        reason = SHUNT_REASON_CONTEXT;
    return reason;
}

enum shunt_status shunt_coll_run(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                 const struct shunt_progress *progress, struct shunt_outcome *outcome)
{
    struct waiter w = { .arena = arena, .board = board, .progress = progress };
    struct shunt_device *device = NULL;
    enum shunt_legacy legacy = SHUNT_LEGACY_UNKNOWN;
    int slots[SHUNT_BOARD_RANKS];

    *outcome = (struct shunt_outcome){ .reason = SHUNT_REASON_NONE };
    if (arena == NULL || board == NULL) {
        outcome->reason = arena == NULL ? SHUNT_REASON_NO_ARENA : SHUNT_REASON_NOT_REGISTERED;
        return SHUNT_PASS;
    }
    if (shunt_board_size(board) > SHUNT_BOARD_RANKS && !task->neutral)
        return stage_together(&w, task, outcome);
    shunt_linger_call();
    outcome->reason = prepare(&w, task, slots, &device, &legacy);
    if (outcome->reason != SHUNT_REASON_NONE) {
        shunt_board_pass(board);
        return SHUNT_PASS;
    }
    enum shunt_status status = arrive_and_wait(&w, device, task, slots, legacy, outcome);
    shunt_linger_return();
    return status;
}

int shunt_coll_flush(void)
{
    /* Under the lock, as for tidying: what has not arrived has no decision that counts on open blocks. */
    pthread_mutex_lock(&process.lock);
    int left = shunt_peers_flush(process.arrived == NULL);
    pthread_mutex_unlock(&process.lock);
    return left;
}
