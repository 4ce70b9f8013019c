/* SPDX-License-Identifier: BSD-3-Clause */
/* From the arguments as they came to a task: where a buffer is, and whether kernels could combine its elements. */
#ifndef SHUNT_MPI_CLASSIFY_H
#define SHUNT_MPI_CLASSIFY_H

#include "base/reasons.h"
#include "coll/task.h"
#include "mpi/call.h"

struct shunt_mpi_type;

/* Why no kernel can run this pair, NONE if one can: then the task has them. type NULL: derived. */
enum shunt_reason shunt_classify_pair(const struct shunt_mpi_type *type, MPI_Op handle, struct shunt_task *task);

/*
 * The memory of a buffer's elements: where the first byte is that they cover. type NULL: a derived type. Null (also MPI_BOTTOM
 * with a type that starts there) is host memory and is not asked about. False: the type covers nothing, or is none.
 */
bool shunt_classify_memory(const void *buffer, const struct shunt_mpi_type *type, MPI_Datatype datatype,
                           struct shunt_mem *mem);

/* Bytes of an element of this datatype; 0: its elements have gaps. type NULL: a derived type. */
uint64_t shunt_classify_dense(const struct shunt_mpi_type *type, MPI_Datatype datatype);

/* Must the host MPI not touch these elements of a buffer? */
bool shunt_classify_device(const void *buffer, int64_t count, MPI_Datatype datatype);

/* Bytes of the call's operand, without the gaps of a derived type: for statistics. */
uint64_t shunt_classify_bytes(const struct shunt_call *call);

#endif
