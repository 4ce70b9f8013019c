/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that are under way while the host does something else: two streams of their own, so that what one copy engine
 * leaves of the links' time another takes, and in pinned memory a word of each that says how far it has come.
 *
 * A stream writes its word when it comes to a mark. Several small copies have one mark in common, which is set when
 * somebody asks for the end of one of them. All but shunt_lane_ended is called inside the device's context. Thread-safe.
 */
#ifndef SHUNT_CUDA_LANE_H
#define SHUNT_CUDA_LANE_H

#include <stdint.h>

#include "base/status.h"

struct shunt_device;

/* A copy: number `number` of lane `lane`. Numbers begin with 1. */
struct shunt_lane_copy {
    uint64_t number;
    uint32_t lane;
};

/* Begin one between memories that this GPU reaches. */
enum shunt_status shunt_lane_begin(const struct shunt_device *device, void *to, const void *from, uint64_t bytes,
                                   struct shunt_lane_copy *copy);

/* Has it ended? OK, AGAIN or an error. */
enum shunt_status shunt_lane_ended(const struct shunt_device *device, const struct shunt_lane_copy *copy);

/* At Finalize. */
void shunt_lanes_close(void);

#endif
