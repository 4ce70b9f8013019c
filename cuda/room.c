/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations whose kernel finds no room on the GPU: called back (recall.h), withdrawn. A thread block that finds that it has been
 * called back leaves with user memory untouched. What it has sent to its peers by then harms nobody: this process takes part
 * in nothing on the GPUs before that kernel has ended.
 */
#include "cuda/launch.h"

#include <stdatomic.h>

#include "base/board.h"
#include "base/conf.h"
#include "cuda/exchange.h"
#include "cuda/linger.h"

static _Atomic bool blocked; /* a withdrawn kernel may still be waiting for room */

static uint64_t key_of(const struct shunt_launch *launch)
{
    return SHUNT_LAUNCH_KEY(launch->ticket, launch->launches - 1);
}

static bool any_answer(const struct shunt_device *device, const struct shunt_launch *launch)
{
    for (uint32_t b = 0; b < launch->grid; b++) {
        if (!(launch->skip[b / 64] >> b % 64 & 1) &&
            __atomic_load_n(&device->done[b], __ATOMIC_RELAXED) >> 2 == launch->ticket)
            return true;
    }
    return false;
}

static bool stream_idle(struct shunt_device *device, CUstream stream)
{
    struct shunt_gpu_scope scope;

    if (shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return false;
    CUresult result = shunt_driver.cuStreamQuery(stream);
    shunt_gpu_leave(&scope);
    return result == CUDA_SUCCESS;
}

/* Does a step write to a receive buffer? */
static bool step_writes(const struct shunt_plan *plan, const struct shunt_step *step)
{
    bool copy = step->kind == SHUNT_STEP_COPY;
    uint32_t refs = copy ? 2u * step->n_in : (uint32_t)step->n_in + step->n_out;

    for (uint32_t k = 0; k < refs; k++) {
        bool to = copy ? k % 2 : k >= step->n_in;
        if (to && plan->refs[step->first_ref + k].space == SHUNT_SPACE_OUT)
            return true;
    }
    return false;
}

/* Is user memory written only behind a wait, in which a block learns that it is called back? LL and LL128 always do so. */
static bool waits_before_writing(const struct shunt_plan *plan)
{
    bool waited[SHUNT_PLAN_TEAMS] = { false };

    for (uint32_t i = 0; i < plan->n_steps && !(plan->flags & SHUNT_PLAN_LL); i++) {
        const struct shunt_step *step = &plan->steps[i];
        waited[step->team] |= (step->wait[0].ranks != 0 && step->wait[0].depth == 0) ||
                              (step->wait[1].ranks != 0 && step->wait[1].depth == 0);
        if (step_writes(plan, step) && !waited[step->team])
            return false;
    }
    return true;
}

bool shunt_launch_unbegun(struct shunt_device *device, struct shunt_launch *launch, double now)
{
    struct shunt_recall_words words = {
        .recalled = (CUdeviceptr)(device->scratch + SHUNT_SCRATCH_RECALL),
        .begun = (CUdeviceptr)(device->scratch + SHUNT_SCRATCH_BEGUN),
        .n = launch->grid,
        .pinned = device->room,
    };
    struct shunt_gpu_scope scope;

    if (launch->lingered || !waits_before_writing(launch->plan) || any_answer(device, launch) ||
        shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return false;
    enum shunt_recalled recalled = shunt_recall_look(&launch->recall, device->gpu, &words, key_of(launch), now);
    shunt_gpu_leave(&scope);
    return recalled == SHUNT_RECALL_UNBEGUN;
}

/* Has a block that ended well only done what touches no user memory? It had nothing to do, or was a sender of a plan. */
static bool block_harmless(const struct shunt_launch *launch, uint32_t block)
{
    const struct shunt_plan *plan = launch->plan;

    if (plan->flags & SHUNT_PLAN_LL)
        return block * (plan->flags & SHUNT_PLAN_LINES ? launch->threads / 32 : launch->threads) >= launch->units;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].team == block % SHUNT_PLAN_TEAMS && step_writes(plan, &plan->steps[i]))
            return false;
    }
    return true;
}

bool shunt_launch_untouched(const struct shunt_launch *launch)
{
    if (launch->aborted)
        return false;
    for (uint32_t b = 0; b < launch->grid; b++) {
        if ((launch->skip[b / 64] >> b % 64 & 1) && !block_harmless(launch, b))
            return false;
    }
    return true;
}

/* Ranks that must have begun for this rank's kernel to end. */
static uint64_t ranks_heard(const struct shunt_plan *plan)
{
    uint64_t heard = 0;
    struct shunt_exchange x;

    if (plan->flags & SHUNT_PLAN_LL) {
        shunt_exchange_of(plan, &x);
        for (uint32_t q = 0; q < plan->n; q++)
            heard |= (uint64_t)(x.recv[q] != SHUNT_NO_SLICE) << q;
        return heard;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        for (int w = 0; w < 2; w++)
            heard |= plan->steps[i].wait[w].depth == 0 ? plan->steps[i].wait[w].ranks : 0;
    }
    return heard;
}

uint64_t shunt_launch_unheard(const struct shunt_plan *plan)
{
    uint64_t all = (UINT64_C(1) << plan->n) - 1, me = UINT64_C(1) << plan->me;

    if (shunt_conf->room_ms == 0 || shunt_conf->reproducible || (plan->flags & SHUNT_PLAN_ENGINES))
        return 0;
    return all & ~me & ~ranks_heard(plan);
}

/* Does a step send something of this rank to others, or write what others have sent to its receive buffer? */
static void step_moves(const struct shunt_plan *plan, const struct shunt_step *step, bool *sends, bool *receives)
{
    const struct shunt_ref *refs = &plan->refs[step->first_ref];
    bool copy = step->kind == SHUNT_STEP_COPY;

    for (uint32_t i = 0; i < step->n_in; i++) {
        struct shunt_ref from = copy ? refs[2 * i] : refs[i], to = copy ? refs[2 * i + 1] : refs[step->n_in];
        *sends |= from.space == SHUNT_SPACE_IN && (to.space != SHUNT_SPACE_OUT || !copy);
        *receives |= from.space != SHUNT_SPACE_IN && to.space == SHUNT_SPACE_OUT;
    }
}

bool shunt_launch_repeatable(const struct shunt_launch *launch)
{
    const struct shunt_plan *plan = launch->plan;
    bool sends = false, receives = false;

    for (uint32_t i = 0; i < plan->n_steps; i++)
        step_moves(plan, &plan->steps[i], &sends, &receives);
    return !(sends && receives && (launch->posts[plan->me]->flags & SHUNT_POST_IN_PLACE));
}

void shunt_launch_forsake(struct shunt_device *device, const struct shunt_launch *launch)
{
    if (shunt_recall_unbegun(&launch->recall, key_of(launch))) {
        atomic_store_explicit(&blocked, true, memory_order_relaxed);
        shunt_linger_forget();
    } else {
        shunt_linger_quit(device);
    }
}

void shunt_launch_withdraw(struct shunt_device *device, struct shunt_launch *launch, uint32_t waves)
{
    const struct shunt_plan *plan = launch->plan;

    for (uint32_t q = 0; q < plan->n && (plan->flags & SHUNT_PLAN_LL); q++) {
        if (q != plan->me)
            shunt_peer_ll_undo(launch->slots[q], waves);
    }
    shunt_launch_forsake(device, launch);
}

bool shunt_device_blocked(struct shunt_device *device)
{
    if (!atomic_load_explicit(&blocked, memory_order_relaxed))
        return false;
    if (stream_idle(device, device->gpu->stream))
        atomic_store_explicit(&blocked, false, memory_order_relaxed);
    return atomic_load_explicit(&blocked, memory_order_relaxed);
}
