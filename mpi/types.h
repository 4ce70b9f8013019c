/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's predefined datatypes and operations in the terms of the kernels. */
#ifndef SHUNT_MPI_TYPES_H
#define SHUNT_MPI_TYPES_H

#include "base/reasons.h"
#include "cuda/types.h"
#include "mpi/call.h"

/* A predefined datatype, or one of shunt's own. */
struct shunt_mpi_type {
    MPI_Datatype handle;
    int size;     /* bytes that count */
    int type;     /* enum shunt_type, or -1 if no kernel has it */
    unsigned ops; /* mask of 1 << enum shunt_op: what MPI allows on it and a kernel does */
};

/* The datatype of a handle, or NULL: derived (or null). To be called after MPI_Init. */
const struct shunt_mpi_type *shunt_types_find(MPI_Datatype handle);

/* The operation of a handle; -1 for a predefined one without kernels, -2 for a user's. */
enum { SHUNT_OP_NO_KERNEL = -1, SHUNT_OP_OF_USER = -2 };
int shunt_types_op(MPI_Op handle);

#endif
