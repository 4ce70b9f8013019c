/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of some processes of the node as a machine: how they are joined, by what is known and what has been proven. */
#ifndef SHUNT_CUDA_MACHINE_H
#define SHUNT_CUDA_MACHINE_H

#include "base/board.h"
#include "cuda/kargs.h"
#include "topo/topo.h"

/* Which processes, and all that may change of what is between them. */
struct shunt_machine_key {
    int32_t n, slot[SHUNT_KRANKS];
    uint32_t hosted[SHUNT_KRANKS]; /* bit j: process i and j of these go by host memory */
    unsigned char uuid[SHUNT_KRANKS][16]; /* of their GPUs: a process may take another one, after a reset */
};
void shunt_machine_key(struct shunt_arena *arena, const int *slots, int n, struct shunt_machine_key *key);

/* Only pairs that go by host memory are `refused`. A GPU that nobody knows is at unknown links, or at NVLinks if it says so. */
void shunt_machine_of(struct shunt_arena *arena, const struct shunt_machine_key *key, struct shunt_topo *machine);

#endif
