/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's end of the handshake with a kernel that waits for orders: one that lingers (linger.h), one that stays (stay.h).
 *
 * The host writes an order, then looks at the state; a kernel that wants to leave says LEAVING, then looks for an order. With
 * a full fence between the two on both sides at least one sees the other, so no order is lost: ALIVE, the kernel has it or
 * will see it; LEAVING, it will say one of the others; GONE, it has it if it says so by the number, else nobody will. (The
 * host may have slept while the kernel took the order and left: without the number it would be done twice.) What an earlier
 * kernel has said last stands there until this one says something, and counts as ALIVE. The models are doc/model/linger.pml
 * and doc/model/stay.pml.
 *
 * Whoever calls has the lock of what it belongs to.
 */
#ifndef SHUNT_CUDA_ORDERS_H
#define SHUNT_CUDA_ORDERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/driver.h"

/* So many a kernel gets at most: who waits for its end must not wait for the whole burst. */
#define SHUNT_ORDERS_MOST 64

struct shunt_orders {
    uint32_t *words;         /* pinned, which the GPU reads: {data, data, data, sequence} each */
    _Atomic uint64_t *state; /* pinned, on another line, which it writes: {sequence, generation, word}, 32, 30 and 2 bits */
    _Atomic bool alive;      /* does a kernel wait, as far as is known? Read without the lock: a hint */
    uint32_t generation;     /* of that kernel, 30 bits */
    unsigned given;          /* that it has been given */
};

/* A kernel of this generation has been launched that will wait. */
void shunt_orders_launched(struct shunt_orders *orders, uint32_t generation);

/*
 * Give an order of n words of data, 12 bytes each. False: the kernel has not taken it and will not, and does not wait any
 * more.
 */
bool shunt_orders_give(struct shunt_orders *orders, const void *data, unsigned n, uint32_t sequence, CUstream stream);

/* The same with an order to leave; waits until it does. */
void shunt_orders_quit(struct shunt_orders *orders, const void *data, unsigned n, uint32_t sequence, CUstream stream);

#endif
