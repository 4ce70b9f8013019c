/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging of Allreduce.
 *
 * The host MPI is called exactly once, with the full count and the caller's own handles: whatever it accepts, refuses or
 * does with a user's function is as without us.
 */
#include "mpi/staged.h"

#include <errno.h>
#include <limits.h>

#include "mpi/comm.h"
#include "mpi/float16.h"
#include "mpi/image.h"

int shunt_host_allreduce(const struct shunt_call *call, const void *send, void *recv)
{
    MPI_Op op = shunt_float16_op(call->datatype, call->op);

    if (call->count > INT_MAX)
        return shunt_host.Allreduce_c(send, recv, call->count, call->datatype, op, call->comm);
    return shunt_host.Allreduce(send, recv, (int)call->count, call->datatype, op, call->comm);
}

int shunt_stage_allreduce(const struct shunt_call *caller)
{
    struct shunt_images *images = shunt_images_own();
    struct shunt_call call = *caller;
    int rc = MPI_SUCCESS, saved = errno;
    enum shunt_status status = shunt_images_make(&call, images);

    if (status == SHUNT_OK)
        status = shunt_images_fill(images);
    else if (status == SHUNT_PASS) /* the memory has been freed meanwhile, or the call is wrong */
        status = SHUNT_OK;
    if (status == SHUNT_OK) {
        errno = saved;
        rc = shunt_host_allreduce(&call, call.sendbuf, call.recvbuf);
        saved = errno;
        if (rc == MPI_SUCCESS)
            status = shunt_images_return(images, SHUNT_RECEIVED_ALL);
    }
    shunt_images_release(images);
    errno = saved;
    return status == SHUNT_OK ? rc : shunt_comm_fail(call.comm);
}
