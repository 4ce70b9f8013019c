/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking collectives that have no device algorithm take device memory by way of host memory.
 *
 * A table says for each call which of its buffers count on which rank, and how many blocks each holds. From that comes
 * what the host's call reads of a buffer and what it writes there. Buffers that the host MPI may not touch get an image
 * in host memory; the shim calls the host once, with the images in their place and everything else as it came. What does
 * not count on this rank is not looked at.
 */
#include <errno.h>

#include "base/conf.h"
#include "base/stats.h"
#include "coll/task.h"
#include "mpi/classify.h"
#include "mpi/comm.h"
#include "mpi/image.h"
#include "mpi/life.h"

/* On which ranks a side of a call counts. */
enum who {
    ALL,
    ROOT,
    LEAVES, /* with whom the root exchanges data: itself too, unless in an inter-communicator */
    OTHERS, /* the same without the root */
    LATER,  /* all but rank 0 */
};

/* How many times `count` elements a side has. OPPOSITE: of an inter-communicator the remote group. */
enum blocks { ONE, OWN_GROUP, OPPOSITE_GROUP };

struct side {
    enum who who;
    enum blocks blocks;
};

struct shape {
    struct side send, recv;
    enum shunt_coll coll;
    bool two_counts; /* the receive side has a count and a type of its own */
    bool one_buffer; /* which is the receive buffer on all ranks */
};

static const struct shape shapes[SHUNT_NCALLS] = {
    [SHUNT_CALL_Bcast] = { { ROOT, ONE }, { OTHERS, ONE }, SHUNT_COLL_BCAST, .one_buffer = true },
    [SHUNT_CALL_Reduce] = { { LEAVES, ONE }, { ROOT, ONE }, SHUNT_COLL_REDUCE },
    [SHUNT_CALL_Scan] = { { ALL, ONE }, { ALL, ONE }, SHUNT_COLL_SCAN },
    [SHUNT_CALL_Exscan] = { { ALL, ONE }, { LATER, ONE }, SHUNT_COLL_EXSCAN },
    [SHUNT_CALL_Reduce_scatter_block] = { { ALL, OWN_GROUP }, { ALL, ONE }, SHUNT_COLL_REDUCE_SCATTER_BLOCK },
    [SHUNT_CALL_Gather] = { { LEAVES, ONE }, { ROOT, OPPOSITE_GROUP }, SHUNT_COLL_GATHER, .two_counts = true },
    [SHUNT_CALL_Scatter] = { { ROOT, OPPOSITE_GROUP }, { LEAVES, ONE }, SHUNT_COLL_SCATTER, .two_counts = true },
    [SHUNT_CALL_Allgather] = { { ALL, ONE }, { ALL, OPPOSITE_GROUP }, SHUNT_COLL_ALLGATHER, .two_counts = true },
    [SHUNT_CALL_Alltoall] = { { ALL, OPPOSITE_GROUP }, { ALL, OPPOSITE_GROUP }, SHUNT_COLL_ALLTOALL, .two_counts = true },
};

/* Whom the call is among. */
struct groups {
    int rank, own, opposite;
    bool inter;
};

/* A buffer of this rank: how many elements the host's call reads and writes, from its first one on. */
struct operand {
    void *buffer;
    MPI_Datatype datatype;
    int64_t read, written;
    bool staged;
};

/* What the copy back needs; of the thread's running call. */
static _Thread_local struct staging {
    struct shunt_image recv;
    struct shunt_layout written;
} running;

/* Of a communicator that we do not know the host is asked. False: it does not know it either, and shall say so itself. */
static bool find_groups(MPI_Comm handle, struct groups *groups)
{
    const struct shunt_comm *comm = shunt_comm_find(handle);
    int inter = 0;

    if (comm)
        *groups = (struct groups){ comm->rank, comm->size, comm->size, comm->intercomm };
    else if (handle == MPI_COMM_NULL || shunt_host.Comm_rank(handle, &groups->rank) != MPI_SUCCESS ||
             shunt_host.Comm_size(handle, &groups->own) != MPI_SUCCESS ||
             shunt_host.Comm_test_inter(handle, &inter) != MPI_SUCCESS)
        return false;
    else
        *groups = (struct groups){ groups->rank, groups->own, groups->own, inter };
    return !groups->inter || shunt_host.Comm_remote_size(handle, &groups->opposite) == MPI_SUCCESS;
}

static bool does_count(enum who who, int root, const struct groups *groups)
{
    bool is_root = groups->inter ? root == MPI_ROOT : root == groups->rank;
    bool is_idle = groups->inter && root == MPI_PROC_NULL;

    switch (who) {
    case ROOT: return is_root;
    case LEAVES: return !is_idle && !(groups->inter && is_root);
    case OTHERS: return !is_idle && !is_root;
    case LATER: return groups->rank > 0;
    default: return true;
    }
}

/* None where the count makes no sense: the host says so. */
static int64_t count_elements(enum blocks blocks, MPI_Count count, const struct groups *groups)
{
    int64_t n = blocks == ONE ? 1 : blocks == OWN_GROUP ? groups->own : groups->opposite, elements;

    return count <= 0 || __builtin_mul_overflow(n, (int64_t)count, &elements) ? 0 : elements;
}

static void describe_operands(const struct shunt_call *call, const struct groups *groups, struct operand *send,
                              struct operand *recv)
{
    const struct shape *shape = &shapes[call->id];
    MPI_Count recvcount = shape->two_counts ? call->recvcount : call->count;
    bool sends = does_count(shape->send.who, call->root, groups);
    bool receives = does_count(shape->recv.who, call->root, groups);

    *send = (struct operand){ .buffer = (void *)call->sendbuf, .datatype = call->datatype };
    *recv = (struct operand){ .buffer = call->recvbuf, .datatype = shape->two_counts ? call->recvtype : call->datatype };
    if (receives)
        recv->written = count_elements(shape->recv.blocks, recvcount, groups);
    if (sends && shape->one_buffer)
        recv->read = count_elements(shape->send.blocks, call->count, groups);
    else if (sends && call->sendbuf != MPI_IN_PLACE)
        send->read = count_elements(shape->send.blocks, call->count, groups);
    else if (sends && (receives || shape->recv.who == LATER)) /* rank 0 of Exscan has its input there all the same */
        recv->read = count_elements(shape->two_counts ? shape->recv.blocks : shape->send.blocks, recvcount, groups);
    if (call->recvbuf == MPI_IN_PLACE) /* the root of Scatter, or a mistake */
        recv->read = recv->written = 0;
}

static void find_staged(struct operand *operand)
{
    int64_t most = operand->read > operand->written ? operand->read : operand->written;

    operand->staged = shunt_classify_device(operand->buffer, most, operand->datatype);
}

/* Image number `slot`, filled with what the host will read. `also`: another layout that it must have room for. */
static enum shunt_status make_filled(int slot, const struct operand *operand, const struct shunt_layout *read,
                                     const struct shunt_layout *also, struct shunt_image *image)
{
    enum shunt_status status = shunt_image_make(slot, operand->buffer, read, also, image);

    return status == SHUNT_OK && read->count > 0 ? shunt_image_fill(image, read) : status;
}

/* Put images into the call. Two buffers that are one are one image: an error in most calls, the host shall see it. */
static enum shunt_status make_images(struct shunt_call *call, const struct operand *send, const struct operand *recv)
{
    bool same = send->staged && recv->staged && send->buffer == recv->buffer;
    const struct operand *input = same ? send : recv;
    struct shunt_layout sent = { .count = 0 }, read = { .count = 0 };
    struct shunt_image image;
    enum shunt_status status = SHUNT_OK;

    running = (struct staging){ .recv = { NULL, NULL } };
    if (send->staged)
        status = shunt_layout_find(send->datatype, send->read, &sent);
    if (status == SHUNT_OK && send->staged && !same && (status = make_filled(0, send, &sent, &sent, &image)) == SHUNT_OK)
        call->sendbuf = image.host;
    if (status != SHUNT_OK || !recv->staged)
        return status;
    status = shunt_layout_find(input->datatype, input->read, &read);
    if (status == SHUNT_OK)
        status = shunt_layout_find(recv->datatype, recv->written, &running.written);
    if (status == SHUNT_OK)
        status = make_filled(1, recv, &read, &running.written, &running.recv);
    call->recvbuf = running.recv.host;
    if (same)
        call->sendbuf = call->recvbuf;
    return status;
}

static uint64_t count_bytes(const struct operand *operand)
{
    MPI_Count size = 0;

    if (operand->staged)
        shunt_host.Type_size_x(operand->datatype, &size);
    return size > 0 ? (uint64_t)size * (uint64_t)(operand->read + operand->written) : 0;
}

/* The datatype's size is a call of the host, so it is asked only for who wants to see it. */
static void count_call(const struct shunt_call *call, const struct operand *send, const struct operand *recv)
{
    shunt_stats_count(shapes[call->id].coll, SHUNT_PATH_STAGED, SHUNT_REASON_NO_ALGORITHM,
                      shunt_conf->stats ? count_bytes(send) + count_bytes(recv) : 0);
}

/* A buffer may be in device memory. */
static __attribute__((noinline)) bool stage_call(struct shunt_call *call, int *rc, void **kept)
{
    struct operand send, recv;
    struct groups groups;

    if (shunt_life_forked() || !find_groups(call->comm, &groups))
        return false;
    describe_operands(call, &groups, &send, &recv);
    find_staged(&send);
    find_staged(&recv);
    if (!send.staged && !recv.staged)
        return false;
    int saved = errno;
    shunt_images_release();
    count_call(call, &send, &recv);
    enum shunt_status status = make_images(call, &send, &recv);
    if (status != SHUNT_OK)
        shunt_images_release();
    errno = saved;
    if (status != SHUNT_OK) {
        *rc = shunt_comm_fail(call->comm);
        return true;
    }
    *kept = &running;
    return false;
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
    const struct staging *staging = kept;
    enum shunt_status status = SHUNT_OK;
    int saved = errno;

    if (rc == MPI_SUCCESS)
        status = shunt_image_return(&staging->recv, &staging->written);
    shunt_images_release();
    errno = saved;
    return status == SHUNT_OK ? rc : shunt_comm_fail(call->comm);
}
