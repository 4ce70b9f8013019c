/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the buffers of a call are; classify.h. */
#include "mpi/classify.h"

#include "mpi/types.h"

static const struct shunt_mem host_memory = { .kind = SHUNT_MEM_HOST, .device = -1 };

/* The memory at a buffer's first byte; null (also MPI_BOTTOM with a type that starts there) is neutral. */
static struct shunt_mem find_memory(const void *buffer, MPI_Aint first)
{
    struct shunt_mem mem = host_memory;
    uintptr_t address = (uintptr_t)buffer + (uintptr_t)first;

    if (address != 0)
        shunt_gpu_classify((const void *)address, &mem);
    return mem;
}

/* Offset of the first byte that a derived type covers. False: it covers none. */
static bool find_first(MPI_Datatype datatype, MPI_Aint *first)
{
    MPI_Count size, extent, lb;

    if (datatype == MPI_DATATYPE_NULL || shunt_host.Type_size_x(datatype, &size) != MPI_SUCCESS || size == 0 ||
        shunt_host.Type_get_true_extent_x(datatype, &lb, &extent) != MPI_SUCCESS)
        return false;
    *first = lb;
    return true;
}

enum shunt_reason shunt_classify_pair(const struct shunt_mpi_type *type, MPI_Op handle, struct shunt_task *task)
{
    int op = shunt_types_op(handle);

    if (!type)
        return SHUNT_REASON_DERIVED_TYPE;
    if (op == SHUNT_OP_OF_USER)
        return SHUNT_REASON_USER_OP;
    if (type->type < 0)
        return SHUNT_REASON_TYPE;
    if (op == SHUNT_OP_NO_KERNEL || !(type->ops & 1u << op))
        return SHUNT_REASON_OP;
    task->type = type->type;
    task->op = op;
    return SHUNT_REASON_NONE;
}

static bool is_host(const struct shunt_mem *mem)
{
    return mem->kind == SHUNT_MEM_HOST;
}

void shunt_classify_reduction(const struct shunt_call *call, struct shunt_operands *operands)
{
    struct shunt_task *task = &operands->task;
    MPI_Aint first = 0;

    *operands = (struct shunt_operands){ .reason = SHUNT_REASON_NONE };
    *task = (struct shunt_task){
        .coll = SHUNT_COLL_ALLREDUCE,
        .count = call->count,
        .in_place = call->sendbuf == MPI_IN_PLACE,
        .neutral = true,
        .send = call->sendbuf == MPI_IN_PLACE ? call->recvbuf : call->sendbuf,
        .recv = call->recvbuf,
        .send_mem = host_memory,
        .recv_mem = host_memory,
    };
    /* A receive buffer may not be MPI_IN_PLACE: the host says so. */
    if (call->count <= 0 || call->recvbuf == MPI_IN_PLACE)
        return;
    const struct shunt_mpi_type *type = shunt_types_find(call->datatype);
    if (!type && !find_first(call->datatype, &first))
        return;
    task->neutral = false;
    task->recv_mem = find_memory(task->recv, first);
    task->send_mem = task->in_place ? task->recv_mem : find_memory(task->send, first);
    operands->device = !is_host(&task->send_mem) || !is_host(&task->recv_mem);
    if (!operands->device)
        return;
    operands->reason = shunt_classify_pair(type, call->op, task);
    if (operands->reason != SHUNT_REASON_NONE)
        return;
    if (task->send == task->recv && !task->in_place)
        operands->reason = SHUNT_REASON_ALIASED;
    else if (is_host(&task->send_mem) != is_host(&task->recv_mem))
        operands->reason = SHUNT_REASON_MIXED_BUFFERS;
}

bool shunt_classify_device(const void *buffer, int64_t count, MPI_Datatype datatype)
{
    MPI_Aint first = 0;

    if (count <= 0 || (!shunt_types_find(datatype) && !find_first(datatype, &first)))
        return false;
    struct shunt_mem mem = find_memory(buffer, first);
    return !is_host(&mem);
}

bool shunt_classify_plain(const struct shunt_call *call)
{
    const void *send = call->sendbuf == MPI_IN_PLACE ? call->recvbuf : call->sendbuf;

    return shunt_gpu_surely_host(send, call->recvbuf) && shunt_types_find(call->datatype);
}

uint64_t shunt_classify_bytes(const struct shunt_call *call)
{
    MPI_Count size = 0;

    if (call->count <= 0 || call->datatype == MPI_DATATYPE_NULL)
        return 0;
    shunt_host.Type_size_x(call->datatype, &size);
    return size > 0 ? (uint64_t)size * (uint64_t)call->count : 0;
}
