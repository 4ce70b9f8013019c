/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer access, which is the same over NVLink and PCIe: each opens the other's scratch by CUDA IPC, and both prove that what
 * they write arrives (probe.h). The functions are those of struct shunt_transport.
 */
#ifndef SHUNT_CUDA_ACCESS_H
#define SHUNT_CUDA_ACCESS_H

#include "cuda/transport.h"

enum shunt_reason shunt_access_offer(const struct shunt_device *device, struct shunt_card *mine);
enum shunt_peer_state shunt_access_meet(const struct shunt_meeting *meeting, bool nvlink);
void shunt_access_leave(struct shunt_peer *peer);

#endif
