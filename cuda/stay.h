/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's end of a kernel that fetches and stays for the next message (stay.cuh): whether it should, orders, and the
 * handshake when it leaves. For fetcher.c; whoever calls has the lock of the lanes.
 *
 * As of the kernels of collectives (linger.h): what this can do to an application is that a call of CUDA which waits for all
 * work of the GPU takes up to one window longer.
 */
#ifndef SHUNT_CUDA_STAY_H
#define SHUNT_CUDA_STAY_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/fetch_args.h"
#include "cuda/orders.h"
#include "cuda/pace.h"

/* 64-bit words of pinned memory for it, a multiple of a line: the order, which the GPU reads, and the state, which it writes. */
#define SHUNT_STAY_WORDS (8 * ((SHUNT_FETCH_WORDS * sizeof(struct shunt_fetch_word) + 63) / 64 + 1))

struct shunt_stay {
    struct shunt_orders orders;
    struct shunt_pace pace;
    uint64_t launch; /* the number of the kernel that stays */
};

/* pinned: SHUNT_STAY_WORDS, zero, at the beginning of a line. */
void shunt_stay_open(struct shunt_stay *stay, void *pinned);

/* A fetch begins; one was seen to have ended. From the pauses between follows whether a kernel should stay. */
void shunt_stay_begin(struct shunt_stay *stay);
void shunt_stay_end(struct shunt_stay *stay);

/* For how long one that is launched now stays, in nanoseconds; 0: not at all. `number` is that of the launch. */
uint32_t shunt_stay_launch(struct shunt_stay *stay, uint64_t number);

/*
 * Give an order to the kernel that stays, if one does; its window is filled in here. False: it has not taken it and will
 * not, and does not stay any more.
 */
bool shunt_stay_give(struct shunt_stay *stay, struct shunt_fetch_order *order, uint64_t number, CUstream stream);

/* Make it leave, and wait until it does; takes a number for that. */
void shunt_stay_quit(struct shunt_stay *stay, uint64_t number, CUstream stream);

#endif
