/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned operations on device memory: each partition is copied for itself, when it is ready or has arrived. */
#include <stddef.h>
#include <stdlib.h>

#include "mpi/operation.h"

static struct shunt_operation *operation_of(struct shunt_request *request)
{
    return (struct shunt_operation *)((char *)request - offsetof(struct shunt_operation, request));
}

/* All partitions are one piece of an operand. */
static struct shunt_pieces find_partition(const struct shunt_operation *operation, int i)
{
    const struct shunt_partitions *partitions = &operation->partitions;
    const struct shunt_pieces *all = partitions->returned ? &operation->images.recv.written : &operation->images.send.read;

    struct shunt_pieces pieces = { .n = 1, .first = *shunt_piece_get(all, 0) };
    pieces.first.offset = i * partitions->extent;
    pieces.first.count = partitions->count;
    return pieces;
}

/* Once for each start: who has seen a partition arrive may have changed it since. */
static enum shunt_status return_partition(struct shunt_operation *operation, int i)
{
    struct shunt_pieces pieces = find_partition(operation, i);

    if (atomic_exchange(&operation->partitions.returned[i], true))
        return SHUNT_OK;
    return shunt_image_return(&operation->images.recv_image, &pieces, SHUNT_RECEIVED_ALL);
}

static int handle_partition(struct shunt_request *request, int i)
{
    struct shunt_operation *operation = operation_of(request);
    enum shunt_status status;

    if (i < 0 || i >= operation->partitions.n || !atomic_load(&request->pending))
        return MPI_SUCCESS; /* the host says so */
    if (operation->partitions.returned) {
        status = return_partition(operation, i);
    } else {
        struct shunt_pieces pieces = find_partition(operation, i);
        status = shunt_image_fill(&operation->images.send_image, &pieces);
    }
    return status == SHUNT_OK ? MPI_SUCCESS : shunt_operation_fail(request->comm);
}

static int start_partitions(struct shunt_request *request)
{
    struct shunt_partitions *partitions = &operation_of(request)->partitions;

    for (int i = 0; partitions->returned && i < partitions->n; i++)
        atomic_store(&partitions->returned[i], false);
    return MPI_SUCCESS;
}

static int end_partitions(struct shunt_request *request, int error, const MPI_Status *status)
{
    struct shunt_operation *operation = operation_of(request);
    enum shunt_status returned = SHUNT_OK;

    (void)status;
    for (int i = 0; error == MPI_SUCCESS && operation->partitions.returned && i < operation->partitions.n; i++)
        if (returned == SHUNT_OK)
            returned = return_partition(operation, i);
    return returned == SHUNT_OK ? MPI_SUCCESS : shunt_operation_fail(request->comm);
}

static void release_partitions(struct shunt_request *request)
{
    shunt_operation_release(operation_of(request));
}

const struct shunt_request_kind shunt_partitions_kind = {
    .done = end_partitions,
    .start = start_partitions,
    .piece = handle_partition,
    .lent = true,
    .release = release_partitions,
};

enum shunt_status shunt_partitions_make(struct shunt_call *call, struct shunt_operation *operation)
{
    struct shunt_partitions *partitions = &operation->partitions;
    struct shunt_images *images = &operation->images;
    bool sends = call->id == SHUNT_CALL_Psend_init;
    struct shunt_operand *operand = sends ? &images->send : &images->recv;
    MPI_Count lb, extent;
    int64_t elements;

    if (call->count <= 0 || call->partitions <= 0 || call->datatype == MPI_DATATYPE_NULL ||
        (sends ? call->root : call->source) == MPI_PROC_NULL ||
        __builtin_mul_overflow((int64_t)call->count, (int64_t)call->partitions, &elements) ||
        shunt_host.Type_get_extent_x(call->datatype, &lb, &extent) != MPI_SUCCESS)
        return SHUNT_PASS;
    *operand = (struct shunt_operand){ .buffer = sends ? (char *)call->sendbuf : call->recvbuf };
    *(sends ? &operand->read : &operand->written) =
        (struct shunt_pieces){ .n = 1, .first = { .count = elements, .datatype = call->datatype } };
    shunt_operand_look(operand);
    if (!operand->staged)
        return SHUNT_PASS;
    *partitions = (struct shunt_partitions){ (int)call->partitions, call->count, extent * call->count, NULL };
    if (!sends && !(partitions->returned = calloc(partitions->n, sizeof *partitions->returned)))
        return SHUNT_ERR_MEMORY;
    return shunt_images_place(call, images);
}
