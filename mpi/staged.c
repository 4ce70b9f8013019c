/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging of reductions.
 *
 * The host MPI is called exactly once, with the full count and the caller's own handles: whatever it accepts, refuses or
 * does with a user's function is as without us. Predefined types are copied as they lie, with the holes that pair types
 * have inside of an element. Of a derived type the whole span is copied out, but only the bytes of its type map are
 * copied back, block by block: what lies in the gaps may be changing meanwhile. That is right, not fast.
 */
#include "mpi/staged.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "mpi/comm.h"
#include "mpi/float16.h"

enum { ALIGNMENT = 64 };

/* Where the elements of a buffer lie, in bytes from the buffer's address. */
struct layout {
    MPI_Datatype datatype;
    int64_t count;
    MPI_Count extent, true_lb, true_extent; /* of one element */
    int64_t first;                          /* lowest byte of all elements */
    size_t span;                            /* from there to the end of the highest */
    bool derived;
};

/* A buffer of the caller in device memory and its image in host memory. */
struct image {
    char *device; /* the caller's address */
    char *host;   /* stands for it in the host's call: byte i of the one is byte i of the other */
};

/*
 * The bounce memory of the running call. A host's error handler may jump out of the call; then the thread's next call
 * gives it back. A thread has one staged call at a time: inside of it no hook runs.
 */
static _Thread_local struct {
    void *memory;
    size_t bytes;
} held[2];

static void release_bounces(void)
{
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        if (held[i].memory)
            shunt_bounce_put(held[i].memory, held[i].bytes);
        held[i].memory = NULL;
    }
}

static enum shunt_status find_layout(const struct shunt_call *call, struct layout *layout)
{
    MPI_Count lb;

    *layout = (struct layout){ .datatype = call->datatype, .count = call->count };
    layout->derived = !shunt_types_find(call->datatype);
    if (shunt_host.Type_get_extent_x(call->datatype, &lb, &layout->extent) != MPI_SUCCESS ||
        shunt_host.Type_get_true_extent_x(call->datatype, &layout->true_lb, &layout->true_extent) != MPI_SUCCESS)
        return SHUNT_ERR_INVALID;
    /* The extent may be negative: then the last element lies lowest. */
    int64_t reach = (layout->count - 1) * layout->extent;
    layout->first = layout->true_lb + (reach < 0 ? reach : 0);
    layout->span = (reach < 0 ? -reach : reach) + layout->true_extent;
    return SHUNT_OK;
}

static enum shunt_status make_image(int slot, void *device, const struct layout *layout, bool filled, struct image *image)
{
    char *first = (char *)device + layout->first;
    /* Elements of a derived type are as aligned in the image as they are in the buffer. */
    size_t skew = layout->derived ? (uintptr_t)first % ALIGNMENT : 0;
    size_t bytes = layout->span + skew;
    char *memory = shunt_bounce_get(bytes);

    if (!memory) {
        shunt_warn("stage", "no host memory for %zu bytes", bytes);
        return SHUNT_ERR_MEMORY;
    }
    held[slot].memory = memory;
    held[slot].bytes = bytes;
    *image = (struct image){ .device = device, .host = memory + skew - layout->first };
    return filled ? shunt_stage_out(memory + skew, first, layout->span) : SHUNT_OK;
}

/* ---- the way back for derived types ---- */

/* Pack and unpack one element; what is not packed in `from` stays in `to`. Both lack the type's true lower bound. */
static enum shunt_status repack(const struct layout *layout, const char *from, char *to)
{
    int size = 0, in = 0, out = 0;
    char *packed = NULL;

    if (shunt_host.Pack_size(1, layout->datatype, MPI_COMM_SELF, &size) != MPI_SUCCESS || size <= 0 ||
        !(packed = malloc(size)))
        return SHUNT_ERR_MEMORY;
    int rc = shunt_host.Pack(from - layout->true_lb, 1, layout->datatype, packed, size, &in, MPI_COMM_SELF);
    if (rc == MPI_SUCCESS)
        rc = shunt_host.Unpack(packed, in, &out, to - layout->true_lb, 1, layout->datatype, MPI_COMM_SELF);
    free(packed);
    return rc == MPI_SUCCESS ? SHUNT_OK : SHUNT_ERR_INVALID;
}

/*
 * Which bytes of an element its type map covers: an element of ones, packed and unpacked over zeros by the host, which
 * alone knows its types. NULL if that fails. To be freed by the caller.
 */
static char *find_covered(const struct layout *layout)
{
    char *ones = malloc(layout->true_extent), *covered = calloc(1, layout->true_extent);

    if (ones && covered) {
        memset(ones, 0xff, layout->true_extent);
        if (repack(layout, ones, covered) == SHUNT_OK) {
            free(ones);
            return covered;
        }
    }
    free(ones);
    free(covered);
    return NULL;
}

static enum shunt_status copy_element(const struct image *image, const struct layout *layout, const char *covered,
                                      int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    for (MPI_Count start = 0, end; status == SHUNT_OK && start < layout->true_extent; start = end) {
        for (end = start + 1; end < layout->true_extent && !covered[end] == !covered[start]; end++)
            ;
        if (covered[start])
            status = shunt_stage_in(image->device + offset + start, image->host + offset + start, end - start);
    }
    return status;
}

static enum shunt_status copy_blocks(const struct image *image, const struct layout *layout)
{
    char *covered = find_covered(layout);
    enum shunt_status status = covered ? SHUNT_OK : SHUNT_ERR_MEMORY;
    bool dense = covered && !memchr(covered, 0, layout->true_extent) && layout->extent == layout->true_extent;

    if (dense)
        status = shunt_stage_in(image->device + layout->first, image->host + layout->first, layout->span);
    for (int64_t i = 0; !dense && status == SHUNT_OK && i < layout->count; i++)
        status = copy_element(image, layout, covered, layout->true_lb + i * layout->extent);
    free(covered);
    return status;
}

static enum shunt_status copy_back(const struct image *image, const struct layout *layout)
{
    if (layout->derived)
        return copy_blocks(image, layout);
    return shunt_stage_in(image->device + layout->first, image->host + layout->first, layout->span);
}

/* ---- the call ---- */

int shunt_host_allreduce(const struct shunt_call *call, const void *send, void *recv)
{
    MPI_Op op = shunt_float16_op(call->datatype, call->op);

    if (call->count > INT_MAX)
        return shunt_host.Allreduce_c(send, recv, call->count, call->datatype, op, call->comm);
    return shunt_host.Allreduce(send, recv, (int)call->count, call->datatype, op, call->comm);
}

int shunt_stage_allreduce(const struct shunt_call *call, const struct shunt_operands *operands)
{
    const struct shunt_task *task = &operands->task;
    bool send_staged = !task->in_place && task->send_mem.kind != SHUNT_MEM_HOST;
    bool recv_staged = task->recv_mem.kind != SHUNT_MEM_HOST;
    struct image send = { .host = (char *)call->sendbuf }, recv = { .host = call->recvbuf };
    struct layout layout;
    int rc = MPI_SUCCESS, saved = errno;

    release_bounces();
    enum shunt_status status = find_layout(call, &layout);
    if (status == SHUNT_OK && send_staged)
        status = make_image(0, (void *)call->sendbuf, &layout, true, &send);
    if (send_staged && task->send == task->recv)
        recv = send; /* an error in most calls: the host shall see it as it is */
    else if (status == SHUNT_OK && recv_staged)
        status = make_image(1, call->recvbuf, &layout, task->in_place, &recv);
    if (status == SHUNT_OK) {
        errno = saved;
        rc = shunt_host_allreduce(call, send.host, recv.host);
        saved = errno;
        if (rc == MPI_SUCCESS && recv_staged)
            status = copy_back(&recv, &layout);
    }
    release_bounces();
    errno = saved;
    return status == SHUNT_OK ? rc : shunt_comm_fail(call->comm);
}
