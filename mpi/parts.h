/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions that are staged in parts: while the host MPI reduces one part, the next is copied out and the last one back.
 *
 * To the host each part is a collective of its own, so all ranks must do it, or none: they find out by a step on the board, where a
 * rank on host memory has passed. Elements stay whole, and the host combines those of one part in the order that it keeps for any.
 */
#ifndef SHUNT_MPI_PARTS_H
#define SHUNT_MPI_PARTS_H

#include "coll/task.h"
#include "mpi/comm.h"

/* Would this rank stage it in parts? `reason`: why it is staged. All matching ranks on device memory answer alike, or may say no. */
bool shunt_parts_may(const struct shunt_call *call, const struct shunt_comm *comm, const struct shunt_task *task,
                     enum shunt_reason reason);

/* Take the step, and do it if all ranks do; *rc is MPI's answer then. False: it is to be staged as a whole, for *reason. */
bool shunt_parts_run(const struct shunt_call *call, const struct shunt_comm *comm, const struct shunt_task *task,
                     enum shunt_reason *reason, int *rc);

#endif
