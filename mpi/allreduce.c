/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce. Every call on a communicator with a board takes exactly one step on it, whatever becomes of the call: a
 * rank that ran ahead or fell behind would make all later operations disagree.
 */
#include <errno.h>

#include "base/conf.h"
#include "base/stats.h"
#include "coll/run.h"
#include "mpi/classify.h"
#include "mpi/comm.h"
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

/* A look at what the host has to do, so that a peer inside a host call gets on while this rank waits. */
static void poke_host(void *context)
{
    int flag;

    shunt_host.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *(const MPI_Comm *)context, &flag, MPI_STATUS_IGNORE);
}

/* One rank: the result is what it brings. */
static bool run_alone(const struct shunt_task *task)
{
    return task->send == task->recv ||
           shunt_gpu_copy(task->recv, task->send, task->count * shunt_type_size(task->type)) == SHUNT_OK;
}

/* Why this call cannot run on the GPUs, as far as this rank sees. */
static enum shunt_reason find_obstacle(const struct shunt_comm *comm, const struct shunt_operands *operands)
{
    if (operands->reason != SHUNT_REASON_NONE)
        return operands->reason;
    if (!comm)
        return shunt_life_world_group() == MPI_GROUP_NULL ? SHUNT_REASON_FINALIZED : SHUNT_REASON_NOT_REGISTERED;
    return comm->reason;
}

/* A rank has died before the GPUs could begin: an error, since the host MPI would most likely wait for it for ever. */
static bool is_bereft(const struct shunt_comm *comm, enum shunt_reason reason)
{
    return reason == SHUNT_REASON_PEER_VETO && comm && comm->board && shunt_board_bereft(comm->board);
}

static int run_device(const struct shunt_call *call, struct shunt_comm *comm, const struct shunt_operands *operands)
{
    struct shunt_progress progress = { poke_host, (void *)&call->comm };
    struct shunt_outcome outcome = { .reason = find_obstacle(comm, operands) };
    enum shunt_status status = SHUNT_PASS;
    unsigned path = SHUNT_PATH_LOCAL;
    int saved = errno;

    if (outcome.reason == SHUNT_REASON_NONE && comm->size == 1 && run_alone(&operands->task)) {
        status = SHUNT_OK;
    } else if (outcome.reason == SHUNT_REASON_NONE) {
        status = shunt_coll_run(shunt_life_arena(), comm->board, &operands->task, &progress, &outcome);
        path = SHUNT_PATH_GPU + outcome.algo;
    } else if (comm) {
        shunt_board_pass(comm->board);
    }
    errno = saved;
    if (status == SHUNT_OK) {
        count_call(call, path, SHUNT_REASON_NONE);
        if (outcome.lingered)
            shunt_stats_lingered(SHUNT_COLL_ALLREDUCE);
        return MPI_SUCCESS;
    }
    if (status != SHUNT_PASS || is_bereft(comm, outcome.reason))
        return shunt_comm_fail(call->comm);
    count_call(call, SHUNT_PATH_STAGED, outcome.reason);
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
