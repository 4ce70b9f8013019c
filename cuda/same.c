/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same GPU: this process itself. Two processes on one GPU, which their UUIDs tell, do not meet: kernels of different
 * processes take turns there, and would wait for each other for milliseconds.
 */
#include <string.h>

#include "cuda/transport.h"

static bool fits(const struct shunt_meeting *meeting)
{
    return memcmp(meeting->mine->uuid, meeting->theirs->uuid, sizeof meeting->mine->uuid) == 0;
}

static enum shunt_peer_state meet(const struct shunt_meeting *meeting)
{
    struct shunt_peer *peer = meeting->peer;

    if (meeting->mine != meeting->theirs) {
        peer->reason = SHUNT_REASON_SHARED_GPU;
        return SHUNT_PEER_REFUSED;
    }
    peer->to = peer->from = meeting->device->scratch;
    return SHUNT_PEER_OPEN;
}

const struct shunt_transport shunt_same_gpu = { .name = "itself", .fits = fits, .meet = meet };
