/* SPDX-License-Identifier: BSD-3-Clause */
/* Staged operations that go on after the call that began them; operation.h. */
#include "mpi/operation.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "cuda/gpu.h"
#include "mpi/comm.h"
#include "mpi/delivery.h"
#include "mpi/device.h"
#include "mpi/flight.h"
#include "mpi/float16.h"
#include "mpi/life.h"
#include "mpi/message.h"
#include "mpi/operand.h"
#include "mpi/poll.h"
#include "mpi/tally.h"

static struct shunt_operation *operation_of(struct shunt_request *request)
{
    return (struct shunt_operation *)((char *)request - offsetof(struct shunt_operation, request));
}

int shunt_operation_fail(MPI_Comm comm)
{
    return shunt_comm_fail(shunt_comm_find(comm) ? comm : MPI_COMM_SELF);
}

/* ---- what requests ask of it ---- */

/* Only what has come by a message can have been cancelled. (Open MPI never sets that word of the statuses of files.) */
static bool was_cancelled(const MPI_Status *status)
{
    int cancelled = 0;

    shunt_host.Test_cancelled(status, &cancelled);
    return cancelled;
}

static int end_operation(struct shunt_request *request, int error, const MPI_Status *status)
{
    struct shunt_operation *operation = operation_of(request);
    int64_t received = error == MPI_SUCCESS ? SHUNT_RECEIVED_ALL : 0;

    if (operation->by_status)
        received = error == MPI_SUCCESS && was_cancelled(status) ? 0 : shunt_message_received(status, error);
    if (received == 0 || shunt_images_return(&operation->images, received) == SHUNT_OK)
        return MPI_SUCCESS;
    return shunt_operation_fail(request->comm);
}

static int start_operation(struct shunt_request *request)
{
    struct shunt_operation *operation = operation_of(request);

    if (shunt_images_fill(&operation->images) != SHUNT_OK)
        return shunt_operation_fail(request->comm);
    if (operation->by_status)
        shunt_images_mark(&operation->images);
    return MPI_SUCCESS;
}

void shunt_operation_release(struct shunt_operation *operation)
{
    shunt_images_release(&operation->images);
    shunt_repeat_release(operation->repeat);
    free(operation->partitions.returned);
    free(operation);
}

static void release_operation(struct shunt_request *request)
{
    shunt_operation_release(operation_of(request));
}

static const struct shunt_request_kind kind = {
    .done = end_operation,
    .start = start_operation,
    .lent = true,
    .release = release_operation,
};

/* A flight has copied back what there was to copy. */
static int end_repeated(struct shunt_request *request, int error, const MPI_Status *status)
{
    /* Acquire: one that flew may have been seen to its end in another thread. */
    int found = __atomic_load_n(&operation_of(request)->error, __ATOMIC_ACQUIRE);

    (void)error;
    (void)status;
    return found == MPI_SUCCESS ? MPI_SUCCESS : shunt_operation_fail(request->comm);
}

static int fly(struct shunt_request *request)
{
    return shunt_flight_start(operation_of(request));
}

static const struct shunt_request_kind repeated_kind = {
    .done = end_repeated,
    .fly = fly,
    .lent = true,
    .release = release_operation,
};

/* ---- making one ---- */

static bool tells_by_status(unsigned family)
{
    return family == SHUNT_CALL_Recv || family == SHUNT_CALL_Mrecv;
}

/*
 * Does the status not tell how much has come? MPICH 4.0 has nothing in that of Isendrecv, and reads that meet the end of a
 * file are not told by all hosts. What Isendrecv_replace receives it has sent before.
 */
static bool tells_nothing(unsigned id)
{
    switch (shunt_call_family(id)) {
    case SHUNT_CALL_Sendrecv:
    case SHUNT_CALL_File_read:
    case SHUNT_CALL_File_read_all:
    case SHUNT_CALL_File_read_at:
    case SHUNT_CALL_File_read_at_all:
    case SHUNT_CALL_File_read_shared: return true;
    default: return false;
    }
}

/* Copy out what is to be written, so that all of it can be copied back. */
static enum shunt_status fill_written(const struct shunt_images *images)
{
    return images->recv.staged ? shunt_image_fill(&images->recv_image, &images->recv.written) : SHUNT_OK;
}

static enum shunt_status prepare_operation(struct shunt_call *call, enum shunt_reason reason, bool fill,
                                           struct shunt_operation *operation)
{
    bool partitioned = call->id == SHUNT_CALL_Psend_init || call->id == SHUNT_CALL_Precv_init;
    struct shunt_call original = *call;

    operation->request.kind = partitioned ? &shunt_partitions_kind : &kind;
    enum shunt_status status = partitioned ? shunt_partitions_make(call, operation)
                                           : shunt_images_make(call, &operation->images);
    if (status != SHUNT_OK)
        return status;
    if (reason != SHUNT_REASON_NONE)
        shunt_tally_staged(call, &operation->images, reason);
    if (tells_nothing(call->id))
        status = fill_written(&operation->images);
    /* What is to be started, too: MPICH 4.0 copies the root's own part in Gather_init. */
    if (status == SHUNT_OK && !partitioned && fill)
        status = shunt_images_fill(&operation->images);
    if (status == SHUNT_OK && operation->by_status)
        shunt_images_mark(&operation->images);
    if (status != SHUNT_OK)
        *call = original;
    return status;
}

static struct shunt_operation *new_operation(const struct shunt_call *call)
{
    struct shunt_operation *operation = calloc(1, sizeof *operation);

    if (operation)
        operation->request = (struct shunt_request){ .comm = call->comm,
                                                     .persistent = shunt_call_is_persistent(call->id) };
    return operation;
}

static enum shunt_status make_operation(struct shunt_call *call, enum shunt_reason reason, bool fill,
                                        struct shunt_operation **operation_p)
{
    struct shunt_operation *operation = new_operation(call);

    if (!operation)
        return SHUNT_ERR_MEMORY;
    operation->by_status = tells_by_status(shunt_call_family(call->id));
    enum shunt_status status = prepare_operation(call, reason, fill, operation);
    if (status == SHUNT_OK)
        *operation_p = operation;
    else
        shunt_operation_release(operation);
    return status;
}

enum shunt_status shunt_operation_make(struct shunt_call *call, enum shunt_reason reason,
                                       struct shunt_operation **operation_p)
{
    return make_operation(call, reason, true, operation_p);
}

enum shunt_status shunt_operation_make_empty(struct shunt_call *call, enum shunt_reason reason,
                                             struct shunt_operation **operation_p)
{
    return make_operation(call, reason, false, operation_p);
}

int shunt_operation_begun(struct shunt_operation *operation, MPI_Request handle)
{
    operation->request.handle = handle;
    return operation->request.persistent ? shunt_request_track(&operation->request)
                                         : shunt_request_settle(&operation->request);
}

/* ---- hooks ---- */

/* A buffer may be in device memory. */
static __attribute__((noinline)) bool stage_issue(struct shunt_call *call, enum shunt_reason reason, int *rc, void **kept)
{
    struct shunt_operation *operation = NULL;
    int saved = errno;

    if (shunt_life_forked())
        return false;
    enum shunt_status status = shunt_operation_make(call, reason, &operation);
    errno = saved;
    *kept = operation;
    if (status == SHUNT_OK || status == SHUNT_PASS)
        return false;
    *rc = shunt_operation_fail(call->comm);
    return true;
}

static bool may_be_device(const struct shunt_call *call)
{
    const void *send = call->sendbuf && call->sendbuf != MPI_IN_PLACE ? call->sendbuf : call->recvbuf;

    return shunt_gpu_in_use() && !shunt_gpu_surely_host(send, call->recvbuf ? call->recvbuf : send);
}

bool shunt_hook_issue_before(struct shunt_call *call, int *rc, void **kept)
{
    bool done;

    if (shunt_call_is_of_file(call->id))
        __atomic_store_n(&shunt_poll_singly, true, __ATOMIC_RELAXED);
    if (shunt_delivery_before(call, rc, kept, &done))
        return done;
    return may_be_device(call) && stage_issue(call, SHUNT_REASON_NO_ALGORITHM, rc, kept);
}

/* The host makes its own, too: on images, as starts that are staged need. */
static bool make_repeated(struct shunt_call *call, int *rc, void **kept)
{
    int saved = errno;
    struct shunt_repeat *repeat = shunt_repeat_make(call);
    struct shunt_comm *comm = shunt_comm_get(call->comm);

    errno = saved;
    if (repeat && comm && shunt_device_bereft(comm->board, repeat->reason)) {
        shunt_repeat_release(repeat);
        *rc = shunt_operation_fail(call->comm);
        return true;
    }
    shunt_flights_before(call->comm);
    bool done = stage_issue(call, repeat ? SHUNT_REASON_NONE : SHUNT_REASON_PEER_VETO, rc, kept);
    if (!done && !*kept && repeat && repeat->reason == SHUNT_REASON_NONE)
        *kept = new_operation(call); /* nothing of it is to be copied on this rank, and it flies with the others all the same */
    struct shunt_operation *operation = *kept;
    if (done || !operation || !repeat) {
        shunt_repeat_release(repeat);
        return done;
    }
    operation->repeat = repeat;
    operation->request.kind = &repeated_kind;
    return false;
}

/* What the GPUs do not take is the host's next collective on this communicator. */
bool shunt_hook_icoll_before(struct shunt_call *call, int *rc, void **kept)
{
    enum shunt_reason reason = SHUNT_REASON_NO_ALGORITHM;
    bool device = may_be_device(call) && !shunt_life_forked(), persistent = shunt_call_is_persistent(call->id), done = false;

    if (persistent)
        __atomic_store_n(&shunt_poll_singly, true, __ATOMIC_RELAXED);
    if (device && persistent) {
        done = make_repeated(call, rc, kept);
        shunt_float16_replace(call);
        return done;
    }
    if (device) {
        int saved = errno;
        done = shunt_flight_begin(call, rc, &reason);
        errno = saved;
        if (done)
            return true;
        device = reason != SHUNT_REASON_NONE;
    } else {
        shunt_flights_before(call->comm);
        shunt_hook_coll(call);
    }
    if (device)
        shunt_flights_before(call->comm);
    done = device && stage_issue(call, reason, rc, kept);
    shunt_float16_replace(call);
    return done;
}

int shunt_hook_issue_after(const struct shunt_call *call, void *kept, int rc)
{
    struct shunt_operation *operation = kept;
    int saved = errno;

    if (shunt_delivery_after(call, kept, &rc))
        return rc;
    if (!operation) {
        if (rc == MPI_SUCCESS && call->requests && !shunt_life_forked())
            shunt_request_renew(*call->requests);
    } else if (rc != MPI_SUCCESS) {
        shunt_operation_release(operation);
    } else {
        rc = shunt_operation_begun(operation, *call->requests);
    }
    errno = saved;
    return rc;
}
