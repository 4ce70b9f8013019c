/* SPDX-License-Identifier: BSD-3-Clause */
/* Who this process is: the job it belongs to, its place in it, and itself as others can recognise it. */
#ifndef SHUNT_BASE_IDENTITY_H
#define SHUNT_BASE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Name of the arena's file: "shunt-" and 32 hexadecimal digits. */
enum { SHUNT_IDENTITY_NAME = 40 };
#define SHUNT_IDENTITY_PREFIX "shunt-"

/* What the launcher tells. -1 or 0: it does not. */
struct shunt_identity {
    char name[SHUNT_IDENTITY_NAME]; /* equal on the processes of one job, user, boot and SHUNT_NODE, else different */
    char machine[SHUNT_IDENTITY_NAME]; /* the same whatever SHUNT_NODE is; where that is not set, this is `name` */
    uint64_t node;                     /* a hash of SHUNT_NODE; 0: not set */
    int local_size;                    /* processes of the job on this machine; 0: unknown */
    int local_rank, world_rank;        /* -1: unknown */
};

/* SHUNT_PASS where nothing tells which processes belong together (a program started without a launcher). */
enum shunt_status shunt_identity_find(struct shunt_identity *identity);

/* A process, so that a later one with the same number is not taken for it. All zero: none. */
struct shunt_process {
    int32_t pid;
    uint32_t space; /* its pid namespace (an inode number): elsewhere its pid means nothing */
    uint64_t start; /* clock ticks from boot to its start; 0: /proc does not tell */
};

struct shunt_process shunt_process_self(void);

/* Proven to have ended (gone, a zombie, or the number is another's). False where that cannot be known from here. */
bool shunt_process_ended(const struct shunt_process *process);

#endif
