/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a call as they are kept for after it: of nonblocking and persistent collectives. */
#ifndef SHUNT_MPI_KEPT_H
#define SHUNT_MPI_KEPT_H

#include "mpi/call.h"

struct shunt_kept {
    struct shunt_call call;
    struct shunt_rows rows; /* of calls with arrays, which MPI has the program leave as they are */
    MPI_Datatype types[2];  /* duplicates of those in the call which the program may free, or MPI_DATATYPE_NULL */
};

/* False: the host has no memory for it. What is kept does not move. */
bool shunt_kept_make(const struct shunt_call *call, struct shunt_kept *kept);
void shunt_kept_release(struct shunt_kept *kept);

#endif
