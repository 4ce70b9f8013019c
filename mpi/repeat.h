/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a persistent collective needs to be started on the GPUs.
 *
 * Only the calls that make one are in order on the communicator, and MPI lets them wait for each other. So they take a step on
 * its board, in which all ranks find out whether every start can run on the GPUs, meet there, and offer and open their buffers.
 * Starts may come in any order, another one on each rank: each operation that runs has a board of its own, named by the
 * number of that step, on which start number k of one rank meets start number k of the others.
 */
#ifndef SHUNT_MPI_REPEAT_H
#define SHUNT_MPI_REPEAT_H

#include "coll/task.h"
#include "mpi/comm.h"

struct shunt_repeat {
    enum shunt_reason reason; /* why all starts are staged, on all ranks; NONE: they need not be */
    struct shunt_call call; /* without its arrays, which are the caller's; on a communicator that stays */
    struct shunt_task task; /* that each start has */
    struct shunt_spans spans[SHUNT_SPAN_WAVES]; /* of the task, if its blocks differ */
    struct shunt_comm comm; /* size and rank of the communicator, which may be freed; its board is this operation's own */
};

/* Make the one of a call that may have device memory, and take its step on the board. NULL: there is no memory for it. */
struct shunt_repeat *shunt_repeat_make(const struct shunt_call *call);

/* repeat may be NULL. */
void shunt_repeat_release(struct shunt_repeat *repeat);

#endif
