/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans that the copy engines run: nothing but copies into memory that is ready, and a wait for those of others
 * (coll/copy.c). No kernel, so nothing waits on a GPU: a rank's host says on its card that all up to a ticket has ended,
 * and the hosts of those that it has written to look there.
 */
#ifndef SHUNT_CUDA_COPIES_H
#define SHUNT_CUDA_COPIES_H

#include "cuda/launch.h"

/* Can this GPU say by itself that a stream has come so far? Without that it takes no part in copies. */
bool shunt_copies_possible(const struct shunt_device *device);

/* Begin this rank's copies. shunt_launch_done tells when they have ended. Inside the device's context. */
enum shunt_status shunt_copies_start(struct shunt_device *device, struct shunt_launch *launch);

/* Have those of all that write to this rank arrived? To be asked when its own have, and that is on its card. */
bool shunt_copies_arrived(struct shunt_arena *arena, const struct shunt_launch *launch);

#endif
