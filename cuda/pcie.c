/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer access over PCIe, or over what nobody can tell: whether it is there shows only when it is tried, and SHUNT_P2P_LEVEL
 * says how far it may go. What is offered for NVLink serves here, too.
 */
#include "cuda/access.h"

/* What has been refused over NVLink is the same access. */
static bool fits(const struct shunt_meeting *meeting)
{
    return meeting->peer->reason == SHUNT_REASON_NONE;
}

static enum shunt_peer_state meet(const struct shunt_meeting *meeting)
{
    return shunt_access_meet(meeting, false);
}

const struct shunt_transport shunt_pcie = { .name = "PCIe", .fits = fits, .meet = meet };
