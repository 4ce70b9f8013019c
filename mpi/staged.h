/* SPDX-License-Identifier: BSD-3-Clause */
/* The way that always works: device operands through host memory and one call of the host MPI. */
#ifndef SHUNT_MPI_STAGED_H
#define SHUNT_MPI_STAGED_H

#include "mpi/call.h"

/* The host's function on these buffers, with the operation that the host knows for the type. */
int shunt_host_allreduce(const struct shunt_call *call, const void *send, void *recv);

/*
 * Run the call through host memory; answers what the MPI function returns. The caller has taken its step on the board.
 * A failure before the host's call, or of the copy back, goes to the communicator's error handler.
 */
int shunt_stage_allreduce(const struct shunt_call *call);

#endif
