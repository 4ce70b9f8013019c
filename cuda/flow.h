/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of a device buffer on their way to or from host memory, through pinned pieces, while the caller does something else.
 * A piece has one copy under way at a time. No caller needs to know CUDA for it.
 */
#ifndef SHUNT_CUDA_FLOW_H
#define SHUNT_CUDA_FLOW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define SHUNT_FLOW_PIECES 2

struct shunt_gpu;

struct shunt_flow {
    struct shunt_gpu *gpu;
    char *piece[SHUNT_FLOW_PIECES]; /* SHUNT_STAGE_CHUNK bytes each */
    void *done[SHUNT_FLOW_PIECES];  /* an event behind the last copy of each piece */
};

/* For the memory where `device` points to; what it does comes behind the legacy stream. False: there are no pieces left, or no GPU. */
bool shunt_flow_open(const void *device, struct shunt_flow *flow);

/* Waits for nothing that is under way. */
void shunt_flow_close(struct shunt_flow *flow);

/* Begin to copy between a piece and device memory. */
enum shunt_status shunt_flow_out(struct shunt_flow *flow, unsigned piece, const void *device, size_t bytes);
enum shunt_status shunt_flow_back(struct shunt_flow *flow, unsigned piece, void *device, size_t bytes);

/* Until what was begun last with this piece has ended. */
enum shunt_status shunt_flow_wait(struct shunt_flow *flow, unsigned piece);

#endif
