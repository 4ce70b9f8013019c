/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's end of a kernel that lingers (linger.cuh): in bursts of small calls the next one is done by the kernel of
 * the last, which waits for it for some microseconds. That saves the launch.
 *
 * Everything here is called with the process's launch lock held, but for the two functions that say so.
 */
#ifndef SHUNT_CUDA_LINGER_H
#define SHUNT_CUDA_LINGER_H

#include "cuda/launch.h"

/* Bytes of pinned memory for it. */
#define SHUNT_LINGER_BYTES 256

/* The device has been set up; pinned: SHUNT_LINGER_BYTES, zero, aligned to 128. */
void shunt_linger_open(void *pinned);

/*
 * A call on device memory begins, ends. From the pauses between them follows whether kernels should linger. Without the
 * lock: when several threads call at the same time the pauses say nothing, and may be taken for anything.
 */
void shunt_linger_call(void);
void shunt_linger_return(void);

/* May a kernel be lingering now? Without the lock: a hint. */
bool shunt_linger_maybe(void);

/* What a kernel about to be launched has to know, and for how long it lingers: 0 if it should not. */
void shunt_linger_args(const struct shunt_launch *launch, struct shunt_linger_args *args);

/* It has been launched with these. */
void shunt_linger_launched(const struct shunt_launch *launch, const struct shunt_ll_args *args);

/*
 * Let the kernel that lingers do this operation, if there is one that can: then the launch has its grid. Else there is
 * none when this returns, and the operation has to be launched.
 */
bool shunt_linger_serve(struct shunt_device *device, struct shunt_launch *launch, const struct shunt_ll_args *args);

/* The last kernel that was launched has not begun, and nobody will wait for it: no order for it. */
void shunt_linger_forget(void);

/* Make the kernel that lingers, if any, leave, and wait until it does. */
void shunt_linger_quit(struct shunt_device *device);

#endif
