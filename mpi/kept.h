/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arguments of a call as they are kept for after it, of nonblocking collectives: arrays and datatypes are our own. MPI has
 * the program leave arrays as they are, but those of a Fortran program are often copies that end with the call, and datatypes may
 * be freed at once.
 */
#ifndef SHUNT_MPI_KEPT_H
#define SHUNT_MPI_KEPT_H

#include "mpi/call.h"

struct shunt_kept {
    struct shunt_call call;
    struct shunt_rows rows; /* of calls with arrays */
    void *arrays;           /* where those are that count on this rank */
    int n_types;
    MPI_Datatype *types; /* duplicates of those in the call which the program may free; there too */
};

/* False: the host has no memory for it. What is kept does not move. */
bool shunt_kept_make(const struct shunt_call *call, struct shunt_kept *kept);
void shunt_kept_release(struct shunt_kept *kept);

#endif
