/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Derived datatypes flattened to patterns (cuda/pattern.h), and kept as long as the datatype lives.
 *
 * How a datatype was made is asked of the host, down to the predefined ones, and what comes out is compared with the
 * host's own size and bounds.
 */
#ifndef SHUNT_MPI_FLATTEN_H
#define SHUNT_MPI_FLATTEN_H

#include "cuda/pattern.h"
#include "mpi/call.h"

/*
 * The pattern of a datatype of the host, predefined ones too, or NULL: made in a way that is not known, or of too many
 * pieces. To be given back by shunt_pattern_release; until then it stays, even if the datatype is freed.
 */
struct shunt_pattern *shunt_pattern_of(MPI_Datatype datatype);

/*
 * A datatype of the host of as many bytes without gaps, committed, which lives as long; MPI_DATATYPE_NULL: there is none.
 * A call that only moves data takes packed elements by it: sizes and counts stay as they were, and so does all that hosts
 * decide by them.
 */
MPI_Datatype shunt_packed_type_of(MPI_Datatype datatype);

/* The pattern of a datatype, always made anew. */
enum shunt_status shunt_flatten(MPI_Datatype datatype, struct shunt_pattern **pattern);

/* Before MPI ends: forget all. In the child after fork: touch nothing any more. */
void shunt_patterns_stop(void);
void shunt_patterns_abandon(void);

#endif
