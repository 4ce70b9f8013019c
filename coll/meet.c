/* SPDX-License-Identifier: BSD-3-Clause */
/* Meeting the members of a communicator; meet.h. */
#include "coll/meet.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "cuda/peer.h"

/* What one look at all has shown: sets of ranks, and why one of them will not take part, as far as is known. */
struct sight {
    uint64_t missing, unproven;
    enum shunt_reason refusal;
};

/*
 * A member that has published nothing is late, or on host memory: the second shows in its counter on the board. So it is waited
 * for just as the decision is later. The counter before another look: who publishes does so before it passes.
 */
static enum shunt_peer_state look_at(struct shunt_arena *arena, const struct shunt_board *board, int q, int slot,
                                     enum shunt_reason *reason)
{
    enum shunt_peer_state state = shunt_peer_open(arena, slot, reason);

    if (state != SHUNT_PEER_MISSING || !shunt_board_ahead(board, q))
        return state;
    state = shunt_peer_open(arena, slot, reason);
    if (state != SHUNT_PEER_MISSING)
        return state;
    *reason = SHUNT_REASON_PEER_ON_HOST;
    return SHUNT_PEER_REFUSED;
}

/* All, whatever is found: a link is proven by the work of both sides, and what one waits for may be waiting for us. */
static struct sight look_at_all(struct shunt_arena *arena, const struct shunt_board *board, const int *slots)
{
    struct sight sight = { .refusal = SHUNT_REASON_NONE };

    for (int q = 0; q < shunt_board_size(board); q++) {
        enum shunt_reason reason = SHUNT_REASON_NONE;
        enum shunt_peer_state state = look_at(arena, board, q, slots[q], &reason);
        sight.missing |= (uint64_t)(state == SHUNT_PEER_MISSING) << q;
        sight.unproven |= (uint64_t)(state == SHUNT_PEER_MET) << q;
        if (state == SHUNT_PEER_REFUSED && sight.refusal == SHUNT_REASON_NONE)
            sight.refusal = reason;
    }
    return sight;
}

static uint64_t who_is_ahead(const struct shunt_board *board, uint64_t ranks)
{
    uint64_t ahead = 0;

    for (int q = 0; q < shunt_board_size(board); q++)
        ahead |= (uint64_t)((ranks >> q & 1) && shunt_board_ahead(board, q)) << q;
    return ahead;
}

enum shunt_reason shunt_meet_look(struct shunt_arena *arena, const struct shunt_board *board, const int *slots, int *missing)
{
    struct sight sight = look_at_all(arena, board, slots);

    if (sight.refusal == SHUNT_REASON_NONE && sight.missing == 0 && sight.unproven != 0) {
        /*
         * Who has gone on though its link to us is not proven has learnt why this will not run: from a third one perhaps, and then
         * so do we by another look. Of those that have not gone on that says nothing.
         */
        uint64_t ahead = who_is_ahead(board, sight.unproven);
        if (ahead != 0)
            sight = look_at_all(arena, board, slots);
        if (sight.refusal == SHUNT_REASON_NONE && (sight.unproven & ahead) != 0)
            sight.refusal = SHUNT_REASON_PEER_ON_HOST;
    }
    if (sight.refusal != SHUNT_REASON_NONE || (sight.missing | sight.unproven) == 0)
        return sight.refusal;
    *missing = __builtin_ctzll(sight.missing != 0 ? sight.missing : sight.unproven);
    return SHUNT_REASON_NOT_MET;
}

/* One more turn of waiting for a member; why to stop, now and then. */
static enum shunt_reason await(struct shunt_waiter *w, int slot, double begun)
{
    shunt_wait_a_little(w);
    if (w->turns % 64 != 0)
        return SHUNT_REASON_NONE;
    if (!shunt_arena_alive(w->arena, slot))
        return SHUNT_REASON_PEER_VETO;
    return shunt_seconds() - begun > w->patience && !shunt_conf->reproducible ? SHUNT_REASON_TIMEOUT : SHUNT_REASON_NONE;
}

enum shunt_reason shunt_meet_wait(struct shunt_waiter *w, const int *slots)
{
    int missing;
    enum shunt_reason reason = shunt_meet_look(w->arena, w->board, slots, &missing);

    if (reason != SHUNT_REASON_NOT_MET)
        return reason;
    const double begun = shunt_seconds();
    while (reason == SHUNT_REASON_NOT_MET) {
        reason = await(w, slots[missing], begun);
        if (reason == SHUNT_REASON_NONE)
            reason = shunt_meet_look(w->arena, w->board, slots, &missing);
    }
    if (reason == SHUNT_REASON_NONE)
        shunt_info("coll", "%d ranks had met after %.1f ms", shunt_board_size(w->board), (shunt_seconds() - begun) * 1e3);
    return reason;
}
