/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an application asks of its executor over their socket: everything that is not stream work.
 * One packet each way.
 *
 * Memory is named by (process, file descriptor, offset): the executor opens it through /proc, so
 * that no descriptor has to travel. Each executor has its own device memory as descriptor
 * SIM_FD_DEVICE.
 */
#ifndef SHUNT_SIM_REQUEST_H
#define SHUNT_SIM_REQUEST_H

#include <stdint.h>

#include "sim/queue.h"

enum {
    SIM_FD_SOCKET = 3,
    SIM_FD_SHARED = 4, /* struct sim_shared */
    SIM_FD_HOST = 5,   /* the application's pinned and managed memory */
    SIM_FD_DEVICE = 6, /* the memory of this executor's context */
};

enum sim_verb {
    SIM_MAP, /* at `address`, `bytes` of descriptor `fd` of process `pid` (0: own) from `offset` on
              */
    SIM_UNMAP,  /* `bytes` at `address`; with `pid` own: give back the pages of own device memory
                   from `offset` on too */
    SIM_CREATE, /* a file of `bytes`; answers its descriptor */
    SIM_ADOPT,  /* open descriptor `fd` of process `pid`; answers the own one */
    SIM_CLOSE,  /* own descriptor `fd` */
    SIM_STREAM, /* start a thread for queue `queue` */
    SIM_FIND,   /* the kernel `name`; answers its address and the sizes of its arguments */
};

struct sim_request {
    uint32_t verb;
    uint32_t host; /* of SIM_MAP: it is host memory, and reached whatever becomes of stores to peers */
    int32_t pid, fd;
    uint32_t queue;
    uint64_t address, bytes, offset;
    char name[256];
};

struct sim_reply {
    int32_t error; /* errno, 0 if done */
    int32_t fd;
    int32_t pid; /* in the first packet, which the executor sends by itself when it is ready */
    uint64_t value;
    uint32_t arg_sizes[SIM_MAX_ARGS + 1]; /* ends with 0 */
};

#endif
