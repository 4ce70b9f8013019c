/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking collectives but Allreduce.
 *
 * Where one has no device algorithm, it takes device memory by way of host memory: buffers that the host MPI may not touch
 * get an image there; the shim calls the host once, with the images in their place and everything else as it came.
 */
#include <errno.h>

#include "base/conf.h"
#include "base/stats.h"
#include "coll/task.h"
#include "mpi/comm.h"
#include "mpi/image.h"
#include "mpi/life.h"

static enum shunt_coll find_coll(unsigned id)
{
    switch (id) {
#define CASE(call, coll) case SHUNT_CALL_##call: return SHUNT_COLL_##coll;
        CASE(Bcast, BCAST)
        CASE(Reduce, REDUCE)
        CASE(Scan, SCAN)
        CASE(Exscan, EXSCAN)
        CASE(Reduce_scatter_block, REDUCE_SCATTER_BLOCK)
        CASE(Reduce_scatter, REDUCE_SCATTER)
        CASE(Gather, GATHER)
        CASE(Gatherv, GATHERV)
        CASE(Scatter, SCATTER)
        CASE(Scatterv, SCATTERV)
        CASE(Allgather, ALLGATHER)
        CASE(Allgatherv, ALLGATHERV)
        CASE(Alltoall, ALLTOALL)
        CASE(Alltoallv, ALLTOALLV)
        CASE(Alltoallw, ALLTOALLW)
        CASE(Neighbor_allgather, NEIGHBOR_ALLGATHER)
        CASE(Neighbor_allgatherv, NEIGHBOR_ALLGATHERV)
        CASE(Neighbor_alltoall, NEIGHBOR_ALLTOALL)
        CASE(Neighbor_alltoallv, NEIGHBOR_ALLTOALLV)
        CASE(Neighbor_alltoallw, NEIGHBOR_ALLTOALLW)
#undef CASE
    default: return SHUNT_NCOLLS;
    }
}

/* A buffer may be in device memory. */
static __attribute__((noinline)) bool stage_call(struct shunt_call *call, int *rc, void **kept)
{
    int saved = errno;

    if (shunt_life_forked())
        return false;
    struct shunt_images *images = shunt_images_own();
    enum shunt_status status = shunt_images_make(call, images);
    if (status == SHUNT_OK) {
        /* The datatype's size is a call of the host, so it is asked only for who wants to see it. */
        shunt_stats_count(find_coll(call->id), SHUNT_PATH_STAGED, SHUNT_REASON_NO_ALGORITHM,
                          shunt_conf->stats ? shunt_images_bytes(images) : 0);
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

/* The step on the board comes first: it says that this rank will not take part in what its peers may have begun. */
bool shunt_hook_stage_before(struct shunt_call *call, int *rc, void **kept)
{
    const void *send = call->sendbuf && call->sendbuf != MPI_IN_PLACE ? call->sendbuf : call->recvbuf;

    shunt_hook_coll(call);
    if (!shunt_gpu_in_use() || shunt_gpu_surely_host(send, call->recvbuf))
        return false;
    return stage_call(call, rc, kept);
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
