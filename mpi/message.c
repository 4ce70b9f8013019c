/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking point to point and Reduce_local on device memory: by way of host memory, as the collectives (collective.c).
 *
 * The host is called where the program calls it and matches messages as ever, so neither the order of messages nor what
 * may wait for what changes. Of what a call receives as much is copied back as has come; the status tells.
 */
#include <errno.h>

#include "cuda/gpu.h"
#include "mpi/comm.h"
#include "mpi/image.h"
#include "mpi/life.h"
#include "mpi/message.h"
#include "mpi/tally.h"

/* Whose error handler is for failures of ours. */
static MPI_Comm find_comm(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Mrecv || call->id == SHUNT_CALL_Reduce_local ? MPI_COMM_WORLD : call->comm;
}

static bool has_status(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Recv || call->id == SHUNT_CALL_Mrecv || call->id == SHUNT_CALL_Sendrecv ||
           call->id == SHUNT_CALL_Sendrecv_replace;
}

MPI_Status *shunt_message_status(MPI_Status *status)
{
    static _Thread_local MPI_Status own;

    return status == MPI_STATUS_IGNORE ? &own : status;
}

int64_t shunt_message_received(const MPI_Status *status, int error)
{
    int class = MPI_SUCCESS;
    MPI_Count bytes;

    if (error != MPI_SUCCESS)
        shunt_host.Error_class(error, &class);
#ifdef OPEN_MPI
    /* What fits is written, and the status has the length of the message. */
    if (class == MPI_ERR_TRUNCATE)
        class = MPI_SUCCESS;
#endif
    if (class != MPI_SUCCESS || shunt_host.Get_elements_x(status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0)
        return 0;
    return bytes;
}

/* A buffer may be in device memory. */
static __attribute__((noinline)) bool stage_message(struct shunt_call *call, int *rc, void **kept)
{
    int saved = errno;

    if (shunt_life_forked())
        return false;
    struct shunt_images *images = shunt_images_own();
    enum shunt_status status = shunt_images_make(call, images);
    if (status == SHUNT_OK) {
        shunt_tally_staged(call, images, SHUNT_REASON_NO_ALGORITHM);
        status = shunt_images_fill(images);
    }
    errno = saved;
    if (status == SHUNT_OK) {
        if (has_status(call))
            call->status = shunt_message_status(call->status);
        *kept = images;
    }
    if (status == SHUNT_OK || status == SHUNT_PASS)
        return false;
    shunt_images_release(images);
    *rc = shunt_comm_fail(find_comm(call));
    return true;
}

bool shunt_hook_move_before(struct shunt_call *call, int *rc, void **kept)
{
    const void *send = call->sendbuf ? call->sendbuf : call->recvbuf, *recv = call->recvbuf ? call->recvbuf : send;

    return !shunt_gpu_surely_host(send, recv) && stage_message(call, rc, kept);
}

int shunt_hook_move_after(const struct shunt_call *call, void *kept, int rc)
{
    struct shunt_images *images = kept;
    enum shunt_status status = SHUNT_OK;
    int saved = errno;

    if (has_status(call))
        status = shunt_images_return(images, shunt_message_received(call->status, rc));
    else if (rc == MPI_SUCCESS)
        status = shunt_images_return(images, SHUNT_RECEIVED_ALL);
    shunt_images_release(images);
    errno = saved;
    return status == SHUNT_OK ? rc : shunt_comm_fail(find_comm(call));
}
