/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call gets in place of its datatypes, and of the places of its rows, where an image is packed.
 *
 * Only calls that just move data take packed elements: by a datatype of the same size without gaps. Rows follow each
 * other then, so their displacements are others. Counts and sizes stay as they were.
 */
#ifndef SHUNT_MPI_PACKED_H
#define SHUNT_MPI_PACKED_H

#include <stdbool.h>

#include "mpi/operand.h"

/* For one side of a call. Zero: it is not packed. */
struct shunt_packed {
    bool used;
    MPI_Datatype datatype; /* where rows have no types of their own */
    void *displs;          /* owned, for as long as the operation is under way; NULL where there are no rows */
    MPI_Datatype *types;   /* owned, likewise; NULL where rows have no types of their own */
};

/* Decide for a side whose operand is held; whatever stands against it leaves `packed` unused. */
void shunt_packed_choose(struct shunt_call *call, const struct shunt_operand *operand, bool recv,
                         struct shunt_packed *packed);

/* Put it into the call. `rows`, which must live as long as the call's arrays, takes the place of the caller's. */
void shunt_packed_place(struct shunt_call *call, bool recv, const struct shunt_packed *packed, struct shunt_rows *rows);

void shunt_packed_release(struct shunt_packed *packed);

#endif
