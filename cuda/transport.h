/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways by which the GPUs of two processes of a node can meet. Each is a file with one struct shunt_transport, and
 * transport.c has their order. A pair is on one of them, for good; both take the same, or what they do together is staged.
 *
 * All that a plan needs of a way are two addresses, so kernels and copies know none of this: where we write to the peer, and
 * where it writes to us. What has no addresses is no transport: ranks of other nodes get messages (ucx/net.h).
 */
#ifndef SHUNT_CUDA_TRANSPORT_H
#define SHUNT_CUDA_TRANSPORT_H

#include "cuda/registry.h"

/* This process and the one in `slot`, which look for a way. Inside the device's context, one caller at a time. */
struct shunt_meeting {
    struct shunt_arena *arena;
    int slot;
    const struct shunt_device *device;
    struct shunt_card *mine, *theirs;
    struct shunt_peer *peer;
};

struct shunt_transport {
    const char *name;
    bool hosted; /* what goes this way lies in host memory: no peer sees more of us than that */

    /* At set-up, before the card is published: put on it what peers need. Not NONE: why nobody can come to us this way. */
    enum shunt_reason (*offer)(const struct shunt_device *device, struct shunt_card *mine);

    /* May these two be joined like this? Asked in order; who says yes is tried, and refuses if it was wrong. */
    bool (*fits)(const struct shunt_meeting *meeting);

    /*
     * One step towards the other, never a wait: called until the answer is OPEN, with `to` and `from` of the peer set, or
     * REFUSED with its reason.
     */
    enum shunt_peer_state (*meet)(const struct shunt_meeting *meeting);

    /* Give back what this pair has, inside the context. */
    void (*leave)(struct shunt_peer *peer);
};

extern const struct shunt_transport shunt_same_gpu, shunt_nvlink, shunt_pcie, shunt_host_memory;

/* What `offer` of all comes to: NONE if there is a way to other GPUs, else why not by the first. */
enum shunt_reason shunt_transports_offer(const struct shunt_device *device, struct shunt_card *mine);

/* A step on the way of these two, or on the next one where this one is refused for a reason that is nothing to that. */
enum shunt_peer_state shunt_transports_meet(const struct shunt_meeting *meeting);

void shunt_transports_leave(struct shunt_peer *peer);

#endif
