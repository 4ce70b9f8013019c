/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on the GPUs; device.h.
 *
 * A table says for each collective on which ranks its buffers count (coll/colls.def). Where one does not, the other stands for it: a task
 * always has two, of which kernels touch what the collective's plan has. Kernels move bytes and know no datatypes, so both
 * sides must be without gaps, and what they bring and get must be as many bytes.
 */
#include "mpi/device.h"

#include <errno.h>

#include "base/conf.h"
#include "base/stats.h"
#include "coll/run.h"
#include "mpi/aside.h"
#include "mpi/classify.h"
#include "mpi/life.h"
#include "mpi/operand.h"
#include "mpi/parts.h"
#include "mpi/spans.h"
#include "mpi/types.h"

/* ---- running ---- */

/* A look at what the host has to do, so that a peer inside a host call gets on while this rank waits. */
static void poke_host(void *context)
{
    int flag;

    shunt_host.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *(const MPI_Comm *)context, &flag, MPI_STATUS_IGNORE);
    if (__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0)
        shunt_flights_look();
}

bool shunt_device_again(struct shunt_task *task)
{
    shunt_gpu_classify(task->send, &task->send_mem);
    task->recv_mem = task->send_mem;
    if (task->recv != task->send)
        shunt_gpu_classify(task->recv, &task->recv_mem);
    return task->send_mem.kind != SHUNT_MEM_HOST || task->recv_mem.kind != SHUNT_MEM_HOST;
}

static uint64_t bytes_of(const struct shunt_task *task)
{
    return task->count * shunt_type_size(task->type);
}

struct shunt_progress shunt_device_progress(const struct shunt_call *call)
{
    return (struct shunt_progress){ poke_host, (void *)&call->comm };
}

bool shunt_device_copy(const struct shunt_task *task)
{
    for (uint32_t wave = 0; task->spans && wave < task->waves; wave++) {
        const struct shunt_span *in = &task->spans[wave].in[0], *out = &task->spans[wave].out[0];
        const char *from = (const char *)task->send + in->at;
        char *to = (char *)task->recv + out->at;
        if (in->bytes != out->bytes || (from != to && in->bytes != 0 && shunt_gpu_copy(to, from, in->bytes) != SHUNT_OK))
            return false;
    }
    if (task->spans)
        return true;
    return task->send == task->recv || shunt_gpu_copy(task->recv, task->send, bytes_of(task)) == SHUNT_OK;
}

static enum shunt_status run_task(const struct shunt_comm *comm, const struct shunt_task *task,
                                  const struct shunt_progress *progress, struct shunt_outcome *outcome)
{
    struct shunt_aside aside;
    enum shunt_status status = SHUNT_PASS;

    if (comm->hier)
        return shunt_hier_run(comm->hier, task, progress, outcome);
    if (shunt_aside_keep(task, &aside)) {
        status = shunt_coll_run(shunt_life_arena(), comm->board, task, progress, outcome);
    } else {
        outcome->reason = SHUNT_REASON_CONTEXT;
        shunt_comm_pass(comm);
    }
    if (status == SHUNT_OK)
        status = shunt_aside_settle(&aside);
    shunt_aside_drop(&aside);
    return status;
}

/* Why no call on this communicator runs on the GPUs. */
static enum shunt_reason find_obstacle(const struct shunt_comm *comm)
{
    if (!comm)
        return shunt_life_world_group() == MPI_GROUP_NULL ? SHUNT_REASON_FINALIZED : SHUNT_REASON_NOT_REGISTERED;
    return comm->hier ? SHUNT_REASON_NONE : comm->reason;
}

/* Who has seen it passes as a host rank, so others that have not may find no more than that. */
bool shunt_device_bereft(const struct shunt_board *board, enum shunt_reason reason)
{
    switch (reason) {
    case SHUNT_REASON_PEER_ON_HOST:
    case SHUNT_REASON_PEER_VETO:
    case SHUNT_REASON_NOT_MET:
    case SHUNT_REASON_NO_ROOM:
    case SHUNT_REASON_OVERTAKEN:
    case SHUNT_REASON_TIMEOUT: return board && shunt_board_bereft(board);
    default: return false;
    }
}

bool shunt_device_run(const struct shunt_call *call, struct shunt_comm *comm, const struct shunt_task *task,
                      enum shunt_reason *reason, int *rc)
{
    struct shunt_progress progress = shunt_device_progress(call);
    struct shunt_outcome outcome = { .reason = *reason != SHUNT_REASON_NONE ? *reason : find_obstacle(comm) };
    enum shunt_status status = SHUNT_PASS;
    unsigned path = SHUNT_PATH_LOCAL;
    int saved = errno;

    if (outcome.reason == SHUNT_REASON_NONE && comm->size == 1 && shunt_device_copy(task)) {
        status = SHUNT_OK;
    } else if (outcome.reason == SHUNT_REASON_NONE) {
        status = run_task(comm, task, &progress, &outcome);
        path = SHUNT_PATH_GPU + outcome.algo;
    } else if (comm) {
        shunt_comm_pass(comm);
    }
    errno = saved;
    *reason = outcome.reason;
    struct shunt_board *board = comm && comm->hier ? shunt_hier_board(comm->hier) : comm ? comm->board : NULL;
    if (status == SHUNT_PASS && !shunt_device_bereft(board, outcome.reason))
        return false;
    *rc = status == SHUNT_OK ? MPI_SUCCESS : shunt_comm_fail(call->comm);
    if (status == SHUNT_OK)
        shunt_stats_count(task->coll, path, SHUNT_REASON_NONE, shunt_conf->stats ? bytes_of(task) : 0);
    if (status == SHUNT_OK && outcome.lingered)
        shunt_stats_lingered(task->coll);
    if (status == SHUNT_OK && outcome.hosted)
        shunt_stats_hosted(task->coll);
    return true;
}

/* ---- tasks of collectives ---- */

/* A buffer that does not count is replaced by the other; Exscan's rank 0 has its input there in place. */
static bool does_count(enum shunt_who who, const struct shunt_call *call, const struct shunt_comm *comm)
{
    switch (who) {
    case SHUNT_WHO_ROOT: return comm->rank == call->root;
    case SHUNT_WHO_LATER: return comm->rank > 0 || call->sendbuf == MPI_IN_PLACE;
    default: return true;
    }
}

/* One side of the call on this rank. */
struct side {
    bool counts;
    char *buffer;
    MPI_Count count;
    MPI_Datatype datatype;
    const struct shunt_mpi_type *type; /* NULL: derived */
};

/* Bytes of a block of the side; 0: the memory has gaps, or there is nothing. */
static uint64_t block_bytes(const struct side *side)
{
    return side->count <= 0 ? 0 : shunt_classify_dense(side->type, side->datatype) * (uint64_t)side->count;
}

/* The sides in place: one takes its buffer, and all else, from the other. False: the call is wrong. */
static bool settle_in_place(const struct shunt_comm *comm, struct side *send, struct side *recv,
                            struct shunt_task *task)
{
    struct side *absent = (void *)send->buffer == MPI_IN_PLACE ? send : recv, *present = absent == send ? recv : send;

    if ((absent->counts && (void *)absent->buffer != MPI_IN_PLACE) || !absent->counts)
        return true;
    /* Who has it is the root, or everybody; only Scatter has it on the receive side. */
    if (!present->counts || (absent == recv) != (task->coll == SHUNT_COLL_SCATTER))
        return false;
    uint64_t block = block_bytes(present);
    bool own_block = task->coll == SHUNT_COLL_GATHER || task->coll == SHUNT_COLL_ALLGATHER || absent == recv;
    *absent = *present;
    absent->buffer += own_block ? (uint64_t)comm->rank * block : 0;
    task->in_place = true;
    return true;
}

static enum shunt_reason find_pair(const struct side *side, MPI_Op handle, struct shunt_task *task)
{
    enum shunt_reason reason = shunt_classify_pair(side->type, handle, task);

    task->count = (uint64_t)side->count;
    return reason;
}

/* The bytes that both sides agree on. */
static enum shunt_reason find_bytes(const struct side *send, const struct side *recv, struct shunt_task *task)
{
    uint64_t sent = block_bytes(send), received = block_bytes(recv);

    task->type = SHUNT_TYPE_U8;
    task->op = SHUNT_OP_MOVE;
    task->count = sent;
    return sent == 0 || received == 0 ? SHUNT_REASON_DERIVED_TYPE :
           sent != received           ? SHUNT_REASON_MISMATCH :
                                        SHUNT_REASON_NONE;
}

/* Both sides have been settled: where they are. False: on host memory, or nowhere. */
static bool find_memory(const struct side *send, const struct side *recv, struct shunt_task *task)
{
    task->send = send->buffer;
    task->recv = recv->buffer;
    if (!shunt_classify_memory(send->buffer, send->type, send->datatype, &task->send_mem))
        return false;
    task->recv_mem = task->send_mem;
    if (recv->buffer != send->buffer && !shunt_classify_memory(recv->buffer, recv->type, recv->datatype, &task->recv_mem))
        return false;
    return task->send_mem.kind != SHUNT_MEM_HOST || task->recv_mem.kind != SHUNT_MEM_HOST;
}

/* Bytes of all blocks of a buffer, of one count each. */
static uint64_t all_bytes(const struct shunt_task *task, enum shunt_blocks blocks, int n)
{
    uint64_t block = task->count * shunt_type_size(task->type);

    return blocks == SHUNT_BLOCKS_ONE || blocks == SHUNT_BLOCKS_OWN_ROW ? block : block * (uint64_t)n;
}

/* Do the buffers have a byte in common? MPI does not allow it, and hosts may look. */
static bool do_overlap(const struct shunt_task *task, const struct shunt_collective *shape, int n)
{
    return shunt_bytes_overlap(task->send, all_bytes(task, shape->send.blocks, n), task->recv,
                               all_bytes(task, shape->recv.blocks, n));
}

/* The count that all ranks have; -1: they differ. */
static MPI_Count common_count(const struct shunt_call *call, int n)
{
    const void *counts = call->rows->recvcounts;
    MPI_Count first = -1;

    for (int i = 0; counts && i < n; i++) {
        MPI_Count count = call->large ? ((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
        if (i > 0 && count != first)
            return -1;
        first = count;
    }
    return first;
}

/* The sides as the caller passed them. */
static void find_sides(const struct shunt_call *call, const struct shunt_collective *shape, const struct shunt_comm *comm,
                       struct side *send, struct side *recv)
{
    bool has_rows = shape->traits & SHUNT_TRAIT_RECV_ROWS, two_types = shape->traits & SHUNT_TRAIT_TWO_TYPES;
    MPI_Count count = has_rows ? common_count(call, comm->size) : call->count;

    *send = (struct side){ does_count(shape->send.who, call, comm), (char *)call->sendbuf, count, call->datatype,
                           shunt_types_find(call->datatype) };
    *recv = (struct side){ does_count(shape->recv.who, call, comm), call->recvbuf, count, call->datatype, send->type };
    if (two_types) {
        recv->count = call->recvcount;
        recv->datatype = call->recvtype;
        recv->type = shunt_types_find(call->recvtype);
    }
}

bool shunt_device_task(const struct shunt_call *call, const struct shunt_comm *comm, struct shunt_spans *spans,
                       struct shunt_task *task, enum shunt_reason *reason)
{
    const unsigned coll = shunt_call_coll(shunt_call_family(call->id));
    struct side send, recv;

    *reason = SHUNT_REASON_NONE;
    if (coll >= SHUNT_NCOLLS) /* a barrier has no buffers */
        return false;
    const struct shunt_collective *shape = &shunt_collectives[coll];
    const bool one_buffer = shape->traits & SHUNT_TRAIT_ONE_BUFFER, rooted = shunt_coll_rooted(coll);
    *reason = SHUNT_REASON_NO_ALGORITHM;
    *task = (struct shunt_task){ .coll = coll, .root = rooted ? call->root : 0, .wishes = atomic_load_explicit(&comm->wishes, memory_order_relaxed),
                                 .send_mem = { .device = -1 }, .recv_mem = { .device = -1 } };
    if (comm->intercomm && comm->reason != SHUNT_REASON_NONE)
        *reason = comm->reason;
    if (comm->intercomm || (rooted && (call->root < 0 || call->root >= comm->size)))
        return false;
    if (shunt_spans_may(coll) && (coll != SHUNT_COLL_REDUCE_SCATTER || common_count(call, comm->size) < 0))
        return shunt_spans_task(call, comm, spans, task, reason);
    find_sides(call, shape, comm, &send, &recv);
    if (one_buffer)
        send = recv;
    else if (!settle_in_place(comm, &send, &recv, task))
        return false;
    bool both = send.counts && recv.counts && !one_buffer;
    if (!send.counts)
        send = recv;
    if (!recv.counts)
        recv = send;
    if (send.count <= 0 || recv.count <= 0 || (void *)send.buffer == MPI_IN_PLACE || (void *)recv.buffer == MPI_IN_PLACE ||
        send.datatype == MPI_DATATYPE_NULL || recv.datatype == MPI_DATATYPE_NULL)
        return false;
    if (!find_memory(&send, &recv, task)) {
        /* What a derived type leads to has not been looked at. */
        *reason = send.type && recv.type ? SHUNT_REASON_NONE : SHUNT_REASON_NO_ALGORITHM;
        return false;
    }
    *reason = shape->traits & SHUNT_TRAIT_COMBINES ? find_pair(&send, call->op, task) : find_bytes(&send, &recv, task);
    if (*reason == SHUNT_REASON_NONE && both && !task->in_place && do_overlap(task, shape, comm->size))
        *reason = SHUNT_REASON_ALIASED;
    return true;
}

bool shunt_device_try(const struct shunt_call *call, enum shunt_reason *reason, int *rc)
{
    struct shunt_comm *comm = shunt_comm_get(call->comm);
    struct shunt_spans spans[SHUNT_SPAN_WAVES];
    struct shunt_task task;

    if (!comm || shunt_life_forked() || !shunt_device_task(call, comm, spans, &task, reason)) {
        if (!comm || shunt_life_forked())
            *reason = find_obstacle(comm);
        shunt_hook_coll(call);
        return false;
    }
    if (shunt_life_arena())
        shunt_arena_set_device_used(shunt_life_arena());
    if (__builtin_expect(__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0, 0))
        shunt_flights_meet(call->comm);
    if (*reason != SHUNT_REASON_NONE && shunt_parts_may(call, comm, &task, *reason))
        return shunt_parts_run(call, comm, &task, reason, rc);
    return shunt_device_run(call, comm, &task, reason, rc);
}
