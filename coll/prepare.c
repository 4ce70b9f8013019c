/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operation needs before this rank arrives; prepare.h. */
#include "coll/prepare.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "coll/rows.h"
#include "coll/run.h"
#include "coll/select.h"
#include "cuda/linger.h"

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
static bool out_of_patience(const struct shunt_waiter *w, double *since)
{
    *since = *since == 0 ? shunt_seconds() : *since;
    return shunt_seconds() - *since > w->patience && !shunt_conf->reproducible;
}

/* One more turn of waiting for a peer to publish something; why to stop, now and then. */
static enum shunt_reason await_peer(struct shunt_waiter *w, int slot, double *since)
{
    shunt_wait_a_little(w);
    if (w->turns % 64 != 0)
        return SHUNT_REASON_NONE;
    return !shunt_arena_alive(w->arena, slot) ? SHUNT_REASON_PEER_VETO :
           out_of_patience(w, since)          ? SHUNT_REASON_TIMEOUT :
                                                SHUNT_REASON_NONE;
}

/*
 * Open every member's scratch. A member that has not published yet is late, or on host memory: the second shows in its
 * counter. So this waits for just what the decision waits for later, and like it ends after 30 s. *proven: all links are.
 */
static enum shunt_reason open_peers(struct shunt_waiter *w, const int *slots, bool *proven)
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
static enum shunt_reason look_at_links(struct shunt_waiter *w, const int *slots, int *unproven)
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
static enum shunt_reason prove_links(struct shunt_waiter *w, const int *slots)
{
    double since = 0, begun = shunt_seconds();

    for (;;) {
        int q;
        enum shunt_reason refusal = look_at_links(w, slots, &q);
        if (refusal == SHUNT_REASON_NONE && q < 0)
            shunt_info("coll", "the links of %d ranks were proven in %.1f ms", shunt_board_size(w->board),
                       (shunt_seconds() - begun) * 1e3);
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

/* Bytes of the receive buffer, from its first on. */
static uint64_t received_bytes(const struct shunt_task *task, int n, int me)
{
    uint64_t bytes = 0;

    if (task->spans == NULL)
        return task->count * shunt_type_size(task->type) * shunt_coll_blocks(task->coll, n, me, task->root);
    for (int q = 0; q < n; q++) {
        const struct shunt_span *span = &task->spans->out[q];
        if (span->bytes != 0 && span->at + span->bytes > bytes)
            bytes = span->at + span->bytes;
    }
    return bytes;
}

void shunt_prepare_offer(struct shunt_arena *arena, const struct shunt_board *board, const struct shunt_device *device,
                         const struct shunt_task *task, struct shunt_post *post)
{
    int n = shunt_board_size(board), me = shunt_board_rank(board);
    uint64_t bytes = received_bytes(task, n, me), block = task->count * shunt_type_size(task->type);
    bool read = shunt_select_reads(task->wishes, task->coll, block) && me != task->root;
    bool large = bytes != 0 && shunt_select_zero_copy(task->wishes, task->coll, block) && shunt_coll_receives(task->coll, me, task->root);

    *post = (struct shunt_post){
        .coll = (uint16_t)task->coll,
        .flags = task->in_place ? SHUNT_POST_IN_PLACE : 0,
        .count = task->spans == NULL ? task->count : 0,
        .type = task->type,
        .op = (uint16_t)task->op,
        .wishes = shunt_wishes_of(task->wishes)->hash ^ (shunt_tune() != NULL ? shunt_tune()->hash : 0),
        .root = task->root,
        .max_blocks = device->max_blocks,
        .gpu = (uint16_t)device->channel,
    };
    shunt_place_of(arena, task->recv, bytes, &task->recv_mem, large, &post->recv);
    shunt_place_of(arena, task->send, block, &task->send_mem, read, &post->send);
}

enum shunt_reason shunt_prepare_post(struct shunt_arena *arena, const struct shunt_board *board,
                                     const struct shunt_device *device, const struct shunt_task *task,
                                     struct shunt_post *post)
{
    shunt_prepare_offer(arena, board, device, task, post);
    if (task->spans == NULL)
        return SHUNT_REASON_NONE;
    struct shunt_row *row = shunt_row_take(arena, post);
    if (row == NULL)
        return SHUNT_REASON_BOARD_FULL;
    shunt_row_fill(task, shunt_board_size(board), row);
    return SHUNT_REASON_NONE;
}

void shunt_prepare_work(const struct shunt_task *task, const struct shunt_prepared *prepared, struct shunt_work *work)
{
    work->state = SHUNT_WORK_ARRIVED;
    work->device = prepared->device;
    work->detached = work->planned = work->yielded = work->ended = work->called_off = false;
    work->dropped = false;
    work->unheard = work->writers = 0;
    work->unordered = prepared->legacy == SHUNT_LEGACY_LATER;
    work->spans = task->spans;
    work->launch = (struct shunt_launch){
        .type = task->type,
        .op = task->op,
        .in = task->send,
        .out = task->recv,
        .managed = task->send_mem.kind == SHUNT_MEM_MANAGED || task->recv_mem.kind == SHUNT_MEM_MANAGED,
        .legacy_idle = prepared->legacy == SHUNT_LEGACY_IDLE,
        .slots = prepared->slots,
    };
}

void shunt_coll_tidy(struct shunt_arena *arena)
{
    if (!shunt_peers_untidy())
        return;
    shunt_drive_lock();
    if (shunt_drive_idle())
        shunt_peers_tidy(arena);
    shunt_drive_unlock();
}

/*
 * Whether a kernel that lingers will do is a question to the driver that takes 1.5 us, and the peers need not wait for the
 * answer. A kernel that is launched is held up by the order itself, which the GPU should have seen before.
 */
static bool may_order_later(const struct shunt_prepared *prepared)
{
    return shunt_linger_maybe() && !prepared->copies;
}

/* Device and slots. */
static enum shunt_reason prepare_device(struct shunt_arena *arena, const struct shunt_board *board, const struct shunt_task *task,
                                        struct shunt_prepared *prepared)
{
    uint64_t bytes = task->count * shunt_type_size(task->type);

    prepared->legacy = SHUNT_LEGACY_UNKNOWN;
    if (task->neutral)
        return SHUNT_REASON_NEUTRAL;
    if (shunt_wishes_algo(task->wishes, task->coll, bytes) == SHUNT_ALGO_STAGED)
        return SHUNT_REASON_SETTING;
    enum shunt_reason reason = buffers_reason(task);
    if (reason != SHUNT_REASON_NONE)
        return reason;
    struct shunt_device *device = open_device(arena, task, &reason);
    if (device == NULL)
        return reason;
    if (shunt_device_blocked(device))
        return SHUNT_REASON_NO_ROOM;
    prepared->device = device;
    prepared->copies = shunt_select_copies(task->wishes, task->coll, bytes);
    for (int q = 0; q < shunt_board_size(board); q++)
        prepared->slots[q] = shunt_board_slot(board, q);
    shunt_coll_tidy(arena);
    return SHUNT_REASON_NONE;
}

/* Behind what the application has begun. */
static enum shunt_reason prepare_order(struct shunt_prepared *prepared)
{
    return shunt_device_order(prepared->device, prepared->copies, &prepared->legacy) ? SHUNT_REASON_NONE
                                                                                     : SHUNT_REASON_CONTEXT;
}

enum shunt_reason shunt_prepare(struct shunt_waiter *w, const struct shunt_task *task, bool later,
                                struct shunt_prepared *prepared)
{
    enum shunt_reason reason = prepare_device(w->arena, w->board, task, prepared);
    bool proven;

    if (reason == SHUNT_REASON_NONE)
        reason = open_peers(w, prepared->slots, &proven);
    if (reason == SHUNT_REASON_NONE && !proven)
        reason = prove_links(w, prepared->slots);
    if (reason != SHUNT_REASON_NONE)
        return reason;
    if (!later || !may_order_later(prepared))
        return prepare_order(prepared);
    prepared->legacy = SHUNT_LEGACY_LATER;
    return SHUNT_REASON_NONE;
}

enum shunt_reason shunt_prepare_own(struct shunt_arena *arena, const struct shunt_board *board, const struct shunt_task *task,
                                    struct shunt_prepared *prepared)
{
    enum shunt_reason reason = prepare_device(arena, board, task, prepared);

    return reason == SHUNT_REASON_NONE ? prepare_order(prepared) : reason;
}

static bool is_met(enum shunt_peer_state state)
{
    return state != SHUNT_PEER_MISSING && state != SHUNT_PEER_MET;
}

enum shunt_reason shunt_prepare_meet(struct shunt_arena *arena, const struct shunt_board *board, const int *slots)
{
    enum shunt_reason found = SHUNT_REASON_NONE, reason = SHUNT_REASON_NONE;

    for (int q = 0; q < shunt_board_size(board); q++) {
        enum shunt_peer_state state = shunt_peer_open(arena, slots[q], &reason);
        /* The counter before another look: who publishes does so before it passes. */
        if (!is_met(state) && shunt_board_ahead(board, q)) {
            if (!is_met(state = shunt_peer_open(arena, slots[q], &reason)))
                return SHUNT_REASON_PEER_ON_HOST;
        }
        if (state == SHUNT_PEER_REFUSED)
            return reason;
        if (!is_met(state))
            found = SHUNT_REASON_NOT_MET;
    }
    return found;
}
