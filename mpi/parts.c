/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions that are staged in parts; parts.h. */
#include "mpi/parts.h"

#include <errno.h>

#include "base/conf.h"
#include "base/spans.h"
#include "base/stats.h"
#include "coll/agree.h"
#include "cuda/flow.h"
#include "mpi/classify.h"
#include "mpi/device.h"
#include "mpi/flight.h"
#include "mpi/float16.h"
#include "mpi/life.h"
#include "mpi/operand.h"
#include "mpi/types.h"

/* One side of the call. On host memory, and where it does not count, nothing is copied. */
struct side {
    char *buffer;
    bool counts, flows;
    struct shunt_flow flow;
};

struct parts {
    struct shunt_call call; /* as the host gets it */
    uint64_t element;       /* bytes */
    uint64_t count, each;   /* elements: of all, and of a part */
    struct side send, recv;
    enum shunt_status out, back; /* of the copies that way: once one has failed there are no more */
};

/* What all ranks see alike: kernels have no such types and operations. (Derived types are for the program's operations only.) */
static bool is_of_all(const struct shunt_call *call, enum shunt_reason reason)
{
    return reason == SHUNT_REASON_USER_OP || reason == SHUNT_REASON_TYPE || reason == SHUNT_REASON_OP ||
           (reason == SHUNT_REASON_DERIVED_TYPE && shunt_types_op(call->op) == SHUNT_OP_OF_USER);
}

static uint64_t element_of(const struct shunt_call *call)
{
    return shunt_classify_dense(shunt_types_find(call->datatype), call->datatype);
}

bool shunt_parts_may(const struct shunt_call *call, const struct shunt_comm *comm, const struct shunt_task *task,
                     enum shunt_reason reason)
{
    const bool by_element = task->coll == SHUNT_COLL_ALLREDUCE || task->coll == SHUNT_COLL_REDUCE ||
                            task->coll == SHUNT_COLL_SCAN || task->coll == SHUNT_COLL_EXSCAN;

    if (!by_element || call->op == MPI_OP_NULL || !is_of_all(call, reason))
        return false;
    if (!comm->board || comm->hier || comm->size < 2 || shunt_conf->reproducible)
        return false;
    uint64_t element = element_of(call);
    return element != 0 && element <= shunt_conf->stage_chunk && task->count * element >= 2 * shunt_conf->stage_chunk;
}

/* ---- parts ---- */

static uint64_t count_of(const struct parts *parts, uint64_t part)
{
    uint64_t left = parts->count - part * parts->each;

    return left < parts->each ? left : parts->each;
}

static char *place_of(const struct parts *parts, const struct side *side, uint64_t part)
{
    return side->buffer + part * parts->each * parts->element;
}

/* What stands for a part in the host's call. */
static char *image_of(const struct parts *parts, const struct side *side, uint64_t part)
{
    return side->flows ? side->flow.piece[part % SHUNT_FLOW_PIECES] : place_of(parts, side, part);
}

static void copy_out(struct parts *parts, uint64_t part)
{
    if (parts->send.flows && parts->out == SHUNT_OK)
        parts->out = shunt_flow_out(&parts->send.flow, part % SHUNT_FLOW_PIECES, place_of(parts, &parts->send, part),
                                    count_of(parts, part) * parts->element);
}

static void copy_back(struct parts *parts, uint64_t part)
{
    if (parts->recv.flows && parts->recv.counts && parts->back == SHUNT_OK)
        parts->back = shunt_flow_back(&parts->recv.flow, part % SHUNT_FLOW_PIECES, place_of(parts, &parts->recv, part),
                                      count_of(parts, part) * parts->element);
}

static void await(struct side *side, uint64_t part, enum shunt_status *status)
{
    enum shunt_status found = side->flows ? shunt_flow_wait(&side->flow, part % SHUNT_FLOW_PIECES) : SHUNT_OK;

    *status = *status == SHUNT_OK ? found : *status;
}

static int call_host(const struct parts *parts, uint64_t part)
{
    const struct shunt_call *call = &parts->call;
    const void *in = image_of(parts, &parts->send, part);
    void *out = image_of(parts, &parts->recv, part);
    const int count = (int)count_of(parts, part);

    switch (shunt_call_coll(shunt_call_family(call->id))) {
    case SHUNT_COLL_ALLREDUCE: return shunt_host.Allreduce(in, out, count, call->datatype, call->op, call->comm);
    case SHUNT_COLL_REDUCE: return shunt_host.Reduce(in, out, count, call->datatype, call->op, call->root, call->comm);
    case SHUNT_COLL_SCAN: return shunt_host.Scan(in, out, count, call->datatype, call->op, call->comm);
    default: return shunt_host.Exscan(in, out, count, call->datatype, call->op, call->comm);
    }
}

/*
 * Each waits for the copy of its piece that was begun two parts before; so two parts are on their way while the host has a third.
 * What does not come out of this rank the host does not get to see: then the others wait, as if it had been staged as a whole.
 */
static int run(struct parts *parts)
{
    const uint64_t n = (parts->count + parts->each - 1) / parts->each;
    int rc = MPI_SUCCESS;

    copy_out(parts, 0);
    for (uint64_t i = 0; i < n && rc == MPI_SUCCESS; i++) {
        if (i + 1 < n)
            copy_out(parts, i + 1);
        await(&parts->send, i, &parts->out);
        if (i >= SHUNT_FLOW_PIECES)
            await(&parts->recv, i, &parts->back);
        if (parts->out != SHUNT_OK)
            break;
        rc = call_host(parts, i);
        if (rc == MPI_SUCCESS)
            copy_back(parts, i);
    }
    for (unsigned i = 0; i < SHUNT_FLOW_PIECES; i++) { /* nothing may be under way when the pieces are given back */
        await(&parts->send, i, &parts->out);
        await(&parts->recv, i, &parts->back);
    }
    return rc;
}

/* ---- the call ---- */

static bool open_side(struct side *side, const void *buffer, const struct shunt_mem *mem)
{
    side->buffer = (char *)buffer;
    side->flows = mem->kind != SHUNT_MEM_HOST && shunt_flow_open(buffer, &side->flow);
    return side->flows || mem->kind == SHUNT_MEM_HOST;
}

/* In place on host memory the two sides would be one for the host; what is in place on the GPU has two pieces. */
static bool open_parts(const struct shunt_call *call, const struct shunt_task *task, const struct shunt_comm *comm, struct parts *parts)
{
    *parts = (struct parts){ .call = *call, .element = element_of(call), .count = task->count };
    parts->each = shunt_conf->stage_chunk / parts->element;
    parts->recv.counts = task->coll == SHUNT_COLL_REDUCE   ? comm->rank == task->root :
                         task->coll == SHUNT_COLL_EXSCAN ? comm->rank > 0 :
                                                           true;
    /* Overlapping buffers are a mistake that the host finds if it sees one image of them. */
    const uint64_t bytes = parts->count * parts->element;
    if (parts->recv.counts && !task->in_place && shunt_bytes_overlap(task->send, bytes, task->recv, bytes))
        return false;
    return open_side(&parts->send, task->send, &task->send_mem) && open_side(&parts->recv, task->recv, &task->recv_mem);
}

static void close_parts(struct parts *parts)
{
    if (parts->send.flows)
        shunt_flow_close(&parts->send.flow);
    if (parts->recv.flows)
        shunt_flow_close(&parts->recv.flow);
}

bool shunt_parts_run(const struct shunt_call *call, const struct shunt_comm *comm, const struct shunt_task *task,
                     enum shunt_reason *reason, int *rc)
{
    struct shunt_progress progress = shunt_device_progress(call);
    enum shunt_reason trouble = SHUNT_REASON_PEER_VETO;
    struct parts parts;
    int saved = errno;

    if (open_parts(call, task, comm, &parts))
        trouble = shunt_coll_agree_parts(shunt_life_arena(), comm->board, task, parts.each, &progress);
    else
        shunt_comm_pass(comm);
    if (trouble == SHUNT_REASON_NONE) {
        shunt_stats_count(task->coll, SHUNT_PATH_STAGED, *reason, shunt_conf->stats ? parts.count * parts.element : 0);
        shunt_flights_before(MPI_COMM_NULL);
        shunt_float16_replace(&parts.call);
        *rc = run(&parts);
        if (*rc == MPI_SUCCESS && (parts.out != SHUNT_OK || parts.back != SHUNT_OK))
            *rc = shunt_comm_fail(call->comm);
    }
    bool done = trouble == SHUNT_REASON_NONE || shunt_device_bereft(comm->board, trouble);
    if (done && trouble != SHUNT_REASON_NONE)
        *rc = shunt_comm_fail(call->comm);
    if (trouble == SHUNT_REASON_MISMATCH)
        *reason = trouble;
    close_parts(&parts);
    errno = saved;
    return done;
}
