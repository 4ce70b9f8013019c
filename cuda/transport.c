/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way two GPUs meet: the order of preference, and when the next way is tried; see transport.h. */
#include "cuda/transport.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "cuda/shm.h"

static const struct shunt_transport *const transports[] = { &shunt_same_gpu, &shunt_nvlink, &shunt_pcie,
                                                            &shunt_host_memory };
enum { N_TRANSPORTS = sizeof transports / sizeof *transports };

enum shunt_reason shunt_transports_offer(const struct shunt_device *device, struct shunt_card *mine)
{
    enum shunt_reason first = SHUNT_REASON_NONE;
    bool any = false;

    for (int i = 0; i < N_TRANSPORTS; i++) {
        enum shunt_reason reason = transports[i]->offer != NULL ? transports[i]->offer(device, mine) : SHUNT_REASON_NONE;
        any |= transports[i]->offer != NULL && reason == SHUNT_REASON_NONE;
        first = first == SHUNT_REASON_NONE ? reason : first;
    }
    return any ? SHUNT_REASON_NONE : first;
}

/* Is what kept two GPUs from each other nothing to a way of another kind? */
static bool goes_on(enum shunt_reason reason)
{
    return reason == SHUNT_REASON_NO_P2P || reason == SHUNT_REASON_P2P_LEVEL || reason == SHUNT_REASON_NO_IPC ||
           reason == SHUNT_REASON_LOST_WRITES || reason == SHUNT_REASON_SLOW_LINK;
}

/* From where in the order these two go on: one of them may have found out that it is host memory, for both. */
static int find_way(const struct shunt_meeting *meeting)
{
    int i = 0;

    while (meeting->peer->way != NULL && transports[i] != meeting->peer->way)
        i++;
    while (!transports[i]->hosted && shunt_shm_chosen(meeting->mine, meeting->theirs))
        i++;
    return i;
}

static void be_open(const struct shunt_meeting *meeting)
{
    struct shunt_peer *peer = meeting->peer;

    peer->channel = meeting->theirs->channel;
    peer->hosted = peer->way->hosted;
    peer->reason = SHUNT_REASON_NONE;
    if (meeting->mine != meeting->theirs)
        shunt_info("cuda", "between processes %u and %u of the node by %s", meeting->mine->channel, peer->channel,
                   peer->way->name);
}

static enum shunt_peer_state take_step(const struct shunt_meeting *meeting)
{
    struct shunt_peer *peer = meeting->peer;
    enum shunt_peer_state state = SHUNT_PEER_REFUSED;

    for (int i = find_way(meeting); i < N_TRANSPORTS; i++) {
        if (transports[i] != peer->way && !transports[i]->fits(meeting))
            continue;
        if (transports[i] != peer->way)
            shunt_probe_drop(&peer->probe);
        peer->way = transports[i];
        state = peer->way->meet(meeting);
        if (state != SHUNT_PEER_REFUSED || !goes_on(peer->reason))
            break;
    }
    return state;
}

enum shunt_peer_state shunt_transports_meet(const struct shunt_meeting *meeting)
{
    double begun = shunt_seconds();
    enum shunt_peer_state state = take_step(meeting);

    if (state == SHUNT_PEER_OPEN)
        be_open(meeting);
    if (meeting->mine != meeting->theirs)
        shunt_stats_met(meeting->arena, state == SHUNT_PEER_OPEN, shunt_seconds() - begun, shunt_probe_slowest());
    return state;
}

void shunt_transports_leave(struct shunt_peer *peer)
{
    shunt_probe_drop(&peer->probe);
    for (int i = 0; i < N_TRANSPORTS; i++)
        if (transports[i]->leave != NULL)
            transports[i]->leave(peer);
}
