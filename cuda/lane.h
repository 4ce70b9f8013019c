/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that are under way while the host does something else. Those that begin soon after each other go to the driver
 * together, since a copy of a batch costs a fraction of one alone: a batch fills while two others are on their way, each in
 * a stream of its own, and goes when one of them has ended, or is full. Somebody has to ask for the end of a copy, or it
 * may never leave.
 *
 * Small copies that come alone are made by a kernel (fetcher.h), others by copy engines. Behind its batch a stream of these writes the
 * batch's number to a word in pinned memory. All but shunt_lane_ended is called inside
 * the device's context. Thread-safe.
 */
#ifndef SHUNT_CUDA_LANE_H
#define SHUNT_CUDA_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct shunt_device;

/* A copy: the number of its batch, from 1 on. */
struct shunt_lane_copy {
    uint64_t batch;
    bool unlaunched; /* once it has ended: a kernel did it that was there already */
};

/* Begin one between memories that this GPU reaches. What has begun is to be asked for until it has ended. */
enum shunt_status shunt_lane_begin(const struct shunt_device *device, void *to, const void *from, uint64_t bytes,
                                   struct shunt_lane_copy *copy);

/*
 * Surely not yet, by what can be seen without a lock or the driver? Who waits asks this first, since most looks are in vain, and
 * shunt_lane_ended where the answer is false.
 */
bool shunt_lane_waits(const struct shunt_lane_copy *copy);

/* Has it ended? OK, AGAIN or an error. */
enum shunt_status shunt_lane_ended(const struct shunt_device *device, struct shunt_lane_copy *copy);

/* Make it ready before kernels run that wait for peers, since loading waits for what runs. */
void shunt_lanes_load(const struct shunt_device *device);

/* At Finalize. */
void shunt_lanes_close(void);

#endif
