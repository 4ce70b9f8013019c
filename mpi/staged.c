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

static enum shunt_status make_image(int slot, void *device, const struct shunt_layout *layout, bool filled,
                                    struct shunt_image *image)
{
    enum shunt_status status = shunt_image_make(slot, device, layout, layout, image);

    return status == SHUNT_OK && filled ? shunt_image_fill(image, layout) : status;
}

int shunt_host_allreduce(const struct shunt_call *call, const void *send, void *recv)
{
    MPI_Op op = shunt_float16_op(call->datatype, call->op);

    if (call->count > INT_MAX)
        return shunt_host.Allreduce_c(send, recv, call->count, call->datatype, op, call->comm);
    return shunt_host.Allreduce(send, recv, (int)call->count, call->datatype, op, call->comm);
}

int shunt_stage_allreduce(const struct shunt_call *call, const struct shunt_operands *operands)
{
    const struct shunt_task *task = &operands->task;
    bool send_staged = !task->in_place && task->send_mem.kind != SHUNT_MEM_HOST;
    bool recv_staged = task->recv_mem.kind != SHUNT_MEM_HOST;
    struct shunt_image send = { .host = (char *)call->sendbuf }, recv = { .host = call->recvbuf };
    struct shunt_layout layout;
    int rc = MPI_SUCCESS, saved = errno;

    shunt_images_release();
    enum shunt_status status = shunt_layout_find(call->datatype, call->count, &layout);
    if (status == SHUNT_OK && send_staged)
        status = make_image(0, (void *)call->sendbuf, &layout, true, &send);
    if (send_staged && task->send == task->recv)
        recv = send; /* an error in most calls: the host shall see it as it is */
    else if (status == SHUNT_OK && recv_staged)
        status = make_image(1, call->recvbuf, &layout, task->in_place, &recv);
    if (status == SHUNT_OK) {
        errno = saved;
        rc = shunt_host_allreduce(call, send.host, recv.host);
        saved = errno;
        if (rc == MPI_SUCCESS && recv_staged)
            status = shunt_image_return(&recv, &layout);
    }
    shunt_images_release();
    errno = saved;
    return status == SHUNT_OK ? rc : shunt_comm_fail(call->comm);
}
