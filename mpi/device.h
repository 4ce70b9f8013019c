/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on the GPUs: from a task to an MPI error code, or to the reason why the call has to be staged. */
#ifndef SHUNT_MPI_DEVICE_H
#define SHUNT_MPI_DEVICE_H

#include "base/reasons.h"
#include "coll/task.h"
#include "mpi/comm.h"

/*
 * Run the task of this call on the GPUs. Takes the call's step on the board of its communicator (which may be NULL: not
 * known), whatever becomes of it. *reason: why it cannot, as far as is known before, or NONE.
 *
 * True: done, *rc is what the call returns. False: *reason says why the call has to be staged.
 */
bool shunt_device_run(const struct shunt_call *call, struct shunt_comm *comm, const struct shunt_task *task,
                      enum shunt_reason *reason, int *rc);

/*
 * Understand a collective. spans, SHUNT_SPAN_WAVES of them, become the task's if its blocks differ, and must live as long as that. *reason: why no kernel can run it, as far as this rank sees.
 * False: there is nothing for the GPUs in it (all is surely on host memory: *reason is NONE), or the host has to say that it
 * is wrong.
 */
bool shunt_device_task(const struct shunt_call *call, const struct shunt_comm *comm, struct shunt_spans *spans,
                       struct shunt_task *task, enum shunt_reason *reason);

/* Look where the buffers of a task are that was understood before: other memory may lie there. False: on host memory. */
bool shunt_device_again(struct shunt_task *task);

/*
 * Run a blocking collective that may have device memory. Takes the step, too. False also if there is none on this rank
 * (surely: *reason is NONE), or if the host has to say that the call is wrong.
 */
bool shunt_device_try(const struct shunt_call *call, enum shunt_reason *reason, int *rc);

/*
 * Of what would be staged for this reason: has a rank died? Then it ends with an error, since most host MPIs would wait for that
 * rank for ever.
 */
bool shunt_device_bereft(const struct shunt_board *board, enum shunt_reason reason);

/* The task of a communicator of one rank: the result is what it brings. */
bool shunt_device_copy(const struct shunt_task *task);

/* What waits drive while they last: the host's progress, and other operations of this process. As long as the call is. */
struct shunt_progress shunt_device_progress(const struct shunt_call *call);

#endif
