/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking collectives but Allreduce.
 *
 * What cannot run on the GPUs takes device memory by way of host memory: buffers that the host MPI may not touch get an
 * image there; the shim calls the host once, with the images in their place and everything else as it came.
 */
#include <errno.h>

#include "cuda/gpu.h"
#include "mpi/comm.h"
#include "mpi/device.h"
#include "mpi/life.h"
#include "mpi/tally.h"

/* A buffer may be in device memory. Either way comes the step on the board first: it says what the peers may count on. */
static __attribute__((noinline)) bool take_call(struct shunt_call *call, int *rc, void **kept)
{
    enum shunt_reason reason;
    int saved = errno;

    if (shunt_device_try(call, &reason, rc))
        return true;
    if (shunt_life_forked())
        return false;
    struct shunt_images *images = shunt_images_own();
    enum shunt_status status = shunt_images_make(call, images);
    if (status == SHUNT_OK) {
        shunt_tally_staged(call, images, reason);
        status = shunt_images_fill(images);
    }
    errno = saved;
    *kept = status == SHUNT_OK ? images : NULL;
    if (status == SHUNT_OK || status == SHUNT_PASS)
        return false;
    shunt_images_release(images);
    *rc = shunt_comm_fail(call->comm);
    return true;
}

bool shunt_hook_stage_before(struct shunt_call *call, int *rc, void **kept)
{
    const void *send = call->sendbuf && call->sendbuf != MPI_IN_PLACE ? call->sendbuf : call->recvbuf;

    if (shunt_gpu_in_use() && !shunt_gpu_surely_host(send, call->recvbuf))
        return take_call(call, rc, kept);
    shunt_hook_coll(call);
    return false;
}

int shunt_hook_stage_after(const struct shunt_call *call, void *kept, int rc)
{
    struct shunt_images *images = kept;
    enum shunt_status status = SHUNT_OK;
    int saved = errno;

    if (rc == MPI_SUCCESS)
        status = shunt_images_return(images, SHUNT_RECEIVED_ALL);
    shunt_images_release(images);
    errno = saved;
    return status == SHUNT_OK ? rc : shunt_comm_fail(call->comm);
}
