/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pack and Unpack, of the host's representation and of external32, with either side in device memory: by way of host
 * memory, as all that is staged. Of the packed buffer the host gets the part behind the position; how far it has gone the
 * position tells.
 */
#include <errno.h>

#include "cuda/gpu.h"
#include "mpi/comm.h"
#include "mpi/image.h"
#include "mpi/life.h"
#include "mpi/tally.h"

static bool is_external(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Pack_external || call->id == SHUNT_CALL_Unpack_external;
}

static bool unpacks(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Unpack || call->id == SHUNT_CALL_Unpack_external;
}

static int fail_call(const struct shunt_call *call)
{
    return shunt_comm_fail(is_external(call) ? MPI_COMM_WORLD : call->comm);
}

static int64_t read_position(const struct shunt_call *call)
{
    return call->large         ? *(const MPI_Count *)call->position
           : is_external(call) ? *(const MPI_Aint *)call->position
                               : *(const int *)call->position;
}

/* The most that the elements take when they are packed; what the buffer has if the host cannot say. */
static int64_t bound_packed(const struct shunt_call *call, int64_t room)
{
    MPI_Aint external = 0;
    int size = 0;

    if (call->count > INT32_MAX)
        return room;
    if (is_external(call)
            ? shunt_host.Pack_external_size("external32", (int)call->count, call->datatype, &external) != MPI_SUCCESS
            : shunt_host.Pack_size((int)call->count, call->datatype, call->comm, &size) != MPI_SUCCESS)
        return room;
    int64_t bound = is_external(call) ? external : size;
    return bound < room ? bound : room;
}

/* What makes no sense has no pieces: the host says so. */
static void find_operands(const struct shunt_call *call, struct shunt_images *images)
{
    int64_t at = read_position(call), room = call->recvcount - at;
    bool good = call->count > 0 && call->datatype != MPI_DATATYPE_NULL && at >= 0 && room > 0;
    struct shunt_pieces plain = { .n = good, .first = { .count = call->count, .datatype = call->datatype } };
    struct shunt_pieces packed = { .n = good, .first = { .offset = at, .datatype = MPI_BYTE } };

    images->send.buffer = (char *)call->sendbuf;
    images->recv.buffer = call->recvbuf;
    if (!good)
        return;
    packed.first.count = unpacks(call) ? bound_packed(call, room) : room;
    packed.n = packed.first.count > 0;
    images->send.read = unpacks(call) ? packed : plain;
    images->recv.written = unpacks(call) ? plain : packed;
    shunt_operand_look(&images->send);
    shunt_operand_look(&images->recv);
}

/* A buffer may be in device memory. */
static __attribute__((noinline)) bool stage_pack(struct shunt_call *call, int *rc, void **kept)
{
    int saved = errno;

    if (shunt_life_forked())
        return false;
    struct shunt_images *images = shunt_images_own();
    find_operands(call, images);
    if (!images->send.staged && !images->recv.staged) {
        errno = saved;
        return false;
    }
    enum shunt_status status = shunt_images_place(call, images);
    if (status == SHUNT_OK) {
        shunt_tally_staged(call, images, SHUNT_REASON_NO_ALGORITHM);
        status = shunt_images_fill(images);
    }
    errno = saved;
    *kept = status == SHUNT_OK ? images : NULL;
    if (status == SHUNT_OK)
        return false;
    shunt_images_release(images);
    *rc = fail_call(call);
    return true;
}

bool shunt_hook_pack_before(struct shunt_call *call, int *rc, void **kept)
{
    if (!call->position || shunt_gpu_surely_host(call->sendbuf, call->recvbuf))
        return false;
    return stage_pack(call, rc, kept);
}

int shunt_hook_pack_after(const struct shunt_call *call, void *kept, int rc)
{
    struct shunt_images *images = kept;
    struct shunt_piece *written = &images->recv.written.first;
    enum shunt_status status = SHUNT_OK;
    int saved = errno;

    if (!unpacks(call) && images->recv.written.n > 0)
        written->count = read_position(call) - written->offset;
    if (rc == MPI_SUCCESS && written->count > 0)
        status = shunt_images_return(images, SHUNT_RECEIVED_ALL);
    shunt_images_release(images);
    errno = saved;
    return status == SHUNT_OK ? rc : fail_call(call);
}
