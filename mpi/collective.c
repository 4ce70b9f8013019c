/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking collectives. Every call on a communicator with a board takes exactly one step on it, whatever becomes of the
 * call: a rank that ran ahead or fell behind would make all later operations disagree.
 *
 * What cannot run on the GPUs takes device memory by way of host memory: buffers that the host MPI may not touch get an
 * image there; the shim calls the host once, with the images in their place and everything else as it came.
 */
#include <errno.h>

#include "base/conf.h"
#include "base/stats.h"
#include "cuda/gpu.h"
#include "mpi/classify.h"
#include "mpi/comm.h"
#include "mpi/device.h"
#include "mpi/float16.h"
#include "mpi/life.h"
#include "mpi/tally.h"

/*
 * The host is about to see the call as it came, but for an operation on types that it does not know. Of Allreduce that is
 * counted.
 */
static inline void leave_to_host(struct shunt_call *call)
{
    shunt_float16_replace(call);
    if (call->id != SHUNT_CALL_Allreduce)
        return;
    /* The size of a datatype costs a call of the host, so it is asked only for who wants to see it. */
    shunt_stats_count(SHUNT_COLL_ALLREDUCE, SHUNT_PATH_HOST, SHUNT_REASON_NONE,
                      shunt_conf->stats ? shunt_classify_bytes(call) : 0);
}

/* Device memory that did not run on the GPUs, or none. */
static bool stage_call(struct shunt_call *call, enum shunt_reason reason, int *rc, void **kept)
{
    struct shunt_images *images = shunt_images_own();
    enum shunt_status status = shunt_images_make(call, images);

    if (status == SHUNT_OK) {
        shunt_tally_staged(call, images, reason);
        shunt_float16_replace(call);
        status = shunt_images_fill(images);
    } else if (status == SHUNT_PASS) {
        leave_to_host(call);
    }
    *kept = status == SHUNT_OK ? images : NULL;
    if (status == SHUNT_OK || status == SHUNT_PASS)
        return false;
    shunt_images_release(images);
    *rc = shunt_comm_fail(call->comm);
    return true;
}

/* A buffer may be in device memory. Either way comes the step on the board first: it says what the peers may count on. */
static __attribute__((noinline)) bool take_call(struct shunt_call *call, int *rc, void **kept)
{
    enum shunt_reason reason;
    int saved = errno;

    if (shunt_device_try(call, &reason, rc))
        return true;
    if (shunt_life_forked())
        return false;
    shunt_flights_before(MPI_COMM_NULL);
    bool done = false;
    if (reason == SHUNT_REASON_NONE)
        leave_to_host(call);
    else
        done = stage_call(call, reason, rc, kept);
    if (!done)
        errno = saved;
    return done;
}

/* The host's memory for sure, for which no query is needed. A derived type may lead from there to elsewhere. */
static inline bool is_plain(const struct shunt_call *call)
{
    const void *send = call->sendbuf && call->sendbuf != MPI_IN_PLACE ? call->sendbuf : call->recvbuf;

    return shunt_gpu_surely_host(send, call->recvbuf) &&
           (call->id != SHUNT_CALL_Allreduce || shunt_types_find(call->datatype));
}

bool shunt_hook_stage_before(struct shunt_call *call, int *rc, void **kept)
{
    if (shunt_gpu_in_use() && !is_plain(call))
        return take_call(call, rc, kept);
    shunt_flights_before(MPI_COMM_NULL);
    shunt_hook_coll(call);
    leave_to_host(call);
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
