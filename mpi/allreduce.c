/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce. Every call on a communicator with a board takes exactly one step on it, whatever becomes of the call: a
 * rank that ran ahead or fell behind would make all later operations disagree.
 */
#include "base/conf.h"
#include "base/stats.h"
#include "mpi/classify.h"
#include "mpi/comm.h"
#include "mpi/device.h"
#include "mpi/float16.h"
#include "mpi/life.h"
#include "mpi/staged.h"

/* What became of a call on this rank, for the statistics. */
static void count_call(const struct shunt_call *call, unsigned path, enum shunt_reason reason)
{
    /* The size of a datatype costs a call of the host, so it is asked only for who wants to see it. */
    shunt_stats_count(SHUNT_COLL_ALLREDUCE, path, reason, shunt_conf->stats ? shunt_classify_bytes(call) : 0);
}

static void pass_call(const struct shunt_call *call, struct shunt_comm *comm)
{
    if (comm)
        shunt_board_pass(comm->board);
    count_call(call, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
}

static int run_device(const struct shunt_call *call, struct shunt_comm *comm, const struct shunt_operands *operands)
{
    enum shunt_reason reason = operands->reason;
    int rc;

    if (shunt_device_run(call, comm, &operands->task, &reason, &rc))
        return rc;
    count_call(call, SHUNT_PATH_STAGED, reason);
    return shunt_stage_allreduce(call);
}

/* The communicator is not known, a buffer may be in device memory, or the host does not know the type. */
static __attribute__((noinline)) bool take_call(const struct shunt_call *call, int *rc)
{
    struct shunt_operands operands = { .device = false };

    if (shunt_life_forked())
        return false;
    struct shunt_comm *comm = shunt_comm_get(call->comm);
    if (shunt_gpu_in_use())
        shunt_classify_reduction(call, &operands);
    if (!operands.device) {
        pass_call(call, comm);
        if (!shunt_float16_is(call->datatype))
            return false;
        *rc = shunt_host_allreduce(call, call->sendbuf, call->recvbuf);
        return true;
    }
    if (shunt_life_arena())
        shunt_arena_set_device_used(shunt_life_arena());
    *rc = run_device(call, comm, &operands);
    return true;
}

bool shunt_hook_take(const struct shunt_call *call, int *rc)
{
    struct shunt_comm *comm = shunt_comm_find(call->comm);

    if (__builtin_expect(!comm || shunt_float16_is(call->datatype), 0) || (shunt_gpu_in_use() && !shunt_classify_plain(call)))
        return take_call(call, rc);
    pass_call(call, comm);
    return false;
}
