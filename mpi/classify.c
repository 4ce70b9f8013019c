/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the buffers of a call are; classify.h. */
#include "mpi/classify.h"

#include "mpi/flatten.h"
#include "mpi/types.h"

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

bool shunt_classify_memory(const void *buffer, const struct shunt_mpi_type *type, MPI_Datatype datatype,
                           struct shunt_mem *mem)
{
    MPI_Aint first = 0;

    if (!type && !find_first(datatype, &first))
        return false;
    uintptr_t address = (uintptr_t)buffer + (uintptr_t)first;
    *mem = (struct shunt_mem){ .kind = SHUNT_MEM_HOST, .device = -1 };
    if (address != 0)
        shunt_gpu_classify((const void *)address, mem);
    return true;
}

uint64_t shunt_classify_dense(const struct shunt_mpi_type *type, MPI_Datatype datatype)
{
    uint64_t bytes = 0;

    if (type && type->type >= 0)
        return shunt_type_size(type->type) == (size_t)type->size ? (uint64_t)type->size : 0;
    struct shunt_pattern *pattern = shunt_pattern_of(datatype);
    if (pattern && pattern->low == 0 && shunt_pattern_is_dense(pattern, INT32_MAX))
        bytes = pattern->bytes;
    shunt_pattern_release(pattern);
    return bytes;
}

bool shunt_classify_device(const void *buffer, int64_t count, MPI_Datatype datatype)
{
    struct shunt_mem mem;

    return count > 0 && shunt_classify_memory(buffer, shunt_types_find(datatype), datatype, &mem) &&
           mem.kind != SHUNT_MEM_HOST;
}

uint64_t shunt_classify_bytes(const struct shunt_call *call)
{
    MPI_Count size = 0;

    if (call->count <= 0 || call->datatype == MPI_DATATYPE_NULL)
        return 0;
    shunt_host.Type_size_x(call->datatype, &size);
    return size > 0 ? (uint64_t)size * (uint64_t)call->count : 0;
}
