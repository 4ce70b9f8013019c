/* SPDX-License-Identifier: BSD-3-Clause */
/* Which bytes a datatype has that cannot be flattened: found by trial, so only for want of better. */
#ifndef SHUNT_MPI_COVERED_H
#define SHUNT_MPI_COVERED_H

#include <stdint.h>

#include "base/status.h"
#include "mpi/call.h"

/*
 * Visit the contiguous pieces of the first `bytes` bytes of `count` elements, counted in the order of the type map, each
 * element's pieces by their addresses. Ends with the first answer that is not SHUNT_OK.
 */
typedef enum shunt_status shunt_covered_visit(void *context, int64_t offset, uint64_t bytes);
enum shunt_status shunt_covered_walk(MPI_Datatype datatype, int64_t count, uint64_t bytes, shunt_covered_visit *visit,
                                     void *context);

#endif
