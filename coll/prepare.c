/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operation needs before this rank arrives; prepare.h. */
#include "coll/prepare.h"

#include "base/conf.h"
#include "base/log.h"
#include "coll/meet.h"
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

/* Bytes of the receive buffer, from its first on. */
static uint64_t received_bytes(const struct shunt_task *task, int n, int me)
{
    uint64_t bytes = 0;

    if (task->spans == NULL)
        return task->count * shunt_type_size(task->type) * shunt_coll_blocks(task->coll, n, me, task->root);
    for (uint32_t i = 0; i < task->waves * (uint32_t)n; i++) {
        const struct shunt_span *span = &task->spans[i / (uint32_t)n].out[i % (uint32_t)n];
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
    if (task->spans != NULL && !shunt_rows_take(arena, task, shunt_board_size(board), post))
        return SHUNT_REASON_BOARD_FULL;
    return SHUNT_REASON_NONE;
}

void shunt_prepare_work(const struct shunt_task *task, const struct shunt_prepared *prepared, struct shunt_work *work)
{
    work->state = SHUNT_WORK_ARRIVED;
    work->device = prepared->device;
    work->detached = work->planned = work->yielded = work->ended = work->called_off = false;
    work->dropped = work->between = false;
    work->wave = 0;
    work->last = 0;
    work->unheard = work->writers = 0;
    work->unordered = prepared->legacy == SHUNT_LEGACY_LATER;
    work->spans = task->spans;
    work->waves = task->waves;
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

    if (reason == SHUNT_REASON_NONE)
        reason = shunt_meet_wait(w, prepared->slots);
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
