/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks of collectives whose blocks differ: where on this rank what goes to and what comes from each other rank lies. */
#ifndef SHUNT_MPI_SPANS_H
#define SHUNT_MPI_SPANS_H

#include "base/reasons.h"
#include "coll/task.h"
#include "mpi/comm.h"

/* Can the blocks of this collective differ, because they have counts in arrays or go to neighbours? */
bool shunt_spans_may(unsigned coll);

/*
 * Fill a task of such a call; its coll and root are set, spans, SHUNT_SPAN_WAVES of them, become its. *reason: why no kernel can run it.
 * False: there is nothing for the GPUs in it (all is surely on host memory: *reason is NONE), or the host has to say that
 * it is wrong.
 */
bool shunt_spans_task(const struct shunt_call *call, const struct shunt_comm *comm, struct shunt_spans *spans,
                      struct shunt_task *task, enum shunt_reason *reason);

#endif
