/* SPDX-License-Identifier: BSD-3-Clause */
/* In jobs on several nodes: what all ranks tell all others at the start. */
#ifndef SHUNT_MPI_EXCHANGE_H
#define SHUNT_MPI_EXCHANGE_H

#include "base/board.h"

/*
 * In MPI_Init, in a world of `size` ranks, once the arena is sealed (it may be NULL). Where SHUNT_NET asks for it and the job goes
 * over several nodes, this is a collective call of the host: all ranks have to come here.
 */
void shunt_exchange(const struct shunt_arena *arena, int rank, int size);

#endif
