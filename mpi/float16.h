/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datatypes of shunt's own (include/shunt.h): 16-bit floats, which MPI does not have.
 *
 * To the host MPI they are derived types, on which it allows no predefined operation. A call that brings one with
 * MPI_SUM, MPI_PROD, MPI_MIN or MPI_MAX is therefore handed to the host with an operation of ours in its place, on every
 * rank, whether its buffers lie in host memory or are staged.
 */
#ifndef SHUNT_MPI_FLOAT16_H
#define SHUNT_MPI_FLOAT16_H

#include "mpi/call.h"
#include "mpi/types.h"

enum shunt_float16 { SHUNT_FLOAT16_IEEE, SHUNT_FLOAT16_BRAIN, SHUNT_NFLOAT16 };

/*
 * The handles, written once by the first who asks. Before that they are no handle of any MPI, so that this may be asked
 * on the way of every call.
 */
extern MPI_Datatype shunt_float16_handles[SHUNT_NFLOAT16];

static inline bool shunt_float16_is(MPI_Datatype handle)
{
    return handle == __atomic_load_n(&shunt_float16_handles[SHUNT_FLOAT16_IEEE], __ATOMIC_ACQUIRE) ||
           handle == __atomic_load_n(&shunt_float16_handles[SHUNT_FLOAT16_BRAIN], __ATOMIC_ACQUIRE);
}

/* The handle for the program; MPI_DATATYPE_NULL before MPI_Init, after MPI_Finalize, and where the host fails. */
MPI_Datatype shunt_float16_get(enum shunt_float16 which);

/* The row of a handle; NULL if it is none of these. */
const struct shunt_mpi_type *shunt_float16_find(MPI_Datatype handle);

/* What the host is to be called with: an operation of ours if the handle is one of these and has `op`, else `op`. */
MPI_Op shunt_float16_op(MPI_Datatype handle, MPI_Op op);

/* The same in a call that is a reduction, or else has no operation there. */
static inline void shunt_float16_replace(struct shunt_call *call)
{
    if (__builtin_expect(shunt_float16_is(call->datatype), 0))
        call->op = shunt_float16_op(call->datatype, call->op);
}

/* Before MPI ends: give the handles back to the host. */
void shunt_float16_stop(void);

#endif
