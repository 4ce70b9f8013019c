/* SPDX-License-Identifier: BSD-3-Clause */
/* From the arguments as they came to a task: where the buffers are, and whether kernels could run it. */
#ifndef SHUNT_MPI_CLASSIFY_H
#define SHUNT_MPI_CLASSIFY_H

#include "base/reasons.h"
#include "coll/task.h"
#include "mpi/call.h"

/* What the two buffers of a reduction are. */
struct shunt_operands {
    struct shunt_task task;   /* type and op are set only if reason is NONE; count, buffers and memory always */
    enum shunt_reason reason; /* why no kernel can run it, as far as this rank sees */
    bool device;              /* a buffer is memory that the host MPI may not touch */
};

/*
 * Look at the buffers of a reduction over all elements (Allreduce). Sentinels, null and buffers of zero bytes are
 * neutral: they are never followed and never asked about. Of a derived type the first byte that it covers counts.
 */
void shunt_classify_reduction(const struct shunt_call *call, struct shunt_operands *operands);

/* Why no kernel can run this pair, NONE if one can: then the task has them. type NULL: derived. */
struct shunt_mpi_type;
enum shunt_reason shunt_classify_pair(const struct shunt_mpi_type *type, MPI_Op handle, struct shunt_task *task);

/* Must the host MPI not touch these elements of a buffer? With the same exceptions, but the sentinels are the caller's. */
bool shunt_classify_device(const void *buffer, int64_t count, MPI_Datatype datatype);

/* The quick answer for most reductions on host memory: true if no buffer needs a closer look. */
bool shunt_classify_plain(const struct shunt_call *call);

/* Bytes of the call's operand, without the gaps of a derived type: for statistics. */
uint64_t shunt_classify_bytes(const struct shunt_call *call);

#endif
