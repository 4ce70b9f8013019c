/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators on their way: Comm_idup has been called, its request has not completed.
 *
 * The key is made at the call, when the order of calls is what it is on all members. The communicator is entered when
 * its request is seen to complete, for only then may the host be asked about it.
 */
#ifndef SHUNT_MPI_IDUP_H
#define SHUNT_MPI_IDUP_H

#include "mpi/comm.h"

/* Remember a started Comm_idup. If there is no memory for that, the communicator will be unknown. */
void shunt_idup_add(MPI_Comm newcomm, MPI_Request request, const struct shunt_origin *origin, bool keyed);

/* If `handle` is one of them, it is in use, so its request has completed: enter it. Answers whether it was. */
bool shunt_idup_adopt(MPI_Comm handle);

#endif
