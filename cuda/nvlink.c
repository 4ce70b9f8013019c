/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer access over NVLink, directly or through switches. The driver tells it by native atomics between two GPUs, which nothing
 * else has; a GPU that is hidden from this process cannot be asked about. NVLink keeps 128 bytes whole, so LL128 goes this way.
 */
#include <string.h>

#include "cuda/access.h"

/* The peer's GPU among those that we can name; -1: it is hidden from this process. */
static int visible_device(const unsigned char *uuid)
{
    int count = 0;

    SHUNT_CUDA(cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++) {
        CUdevice device;
        CUuuid its;
        if (SHUNT_CUDA(cuDeviceGet(&device, i)) == SHUNT_OK && SHUNT_CUDA(cuDeviceGetUuid_v2(&its, device)) == SHUNT_OK &&
            memcmp(&its, uuid, sizeof its) == 0)
            return device;
    }
    return -1;
}

static bool fits(const struct shunt_meeting *meeting)
{
    int there = visible_device(meeting->theirs->uuid), native = 0;
    CUdevice here;

    return there >= 0 && SHUNT_CUDA(cuDeviceGet(&here, meeting->device->gpu->ordinal)) == SHUNT_OK &&
           SHUNT_CUDA(cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, here, there)) ==
               SHUNT_OK &&
           native;
}

static enum shunt_peer_state meet(const struct shunt_meeting *meeting)
{
    enum shunt_peer_state state = shunt_access_meet(meeting, true);

    if (state == SHUNT_PEER_OPEN)
        atomic_fetch_or(&meeting->mine->whole_lines, 1u << meeting->theirs->channel);
    return state;
}

const struct shunt_transport shunt_nvlink = {
    .name = "NVLink", .offer = shunt_access_offer, .fits = fits, .meet = meet, .leave = shunt_access_leave
};
