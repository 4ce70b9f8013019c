/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations on device buffers of the origin; access.h.
 *
 * The host gets images. They live, and results are copied back, until the call returns that ends the operation at the
 * origin: a fence, complete, unlock or flush of its window, for one target or for all, or what completes its request. Who
 * comes first does that.
 */
#include "mpi/access.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "cuda/gpu.h"
#include "mpi/image.h"
#include "mpi/life.h"
#include "mpi/request.h"
#include "mpi/tally.h"

struct access {
    struct access *next; /* among those that have not ended */
    MPI_Win win;
    int target;
    struct shunt_images images;
    struct shunt_operand comparand;
    struct shunt_image compare_image; /* without memory where there is none */
    struct shunt_request request;     /* of the forms that have one */
    bool requested, ended;            /* ended: the images are gone. Under the lock */
};

int shunt_accesses_staged;

static struct access *first, **last = &first; /* oldest first; where the next one goes */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Held while operations end: a thread that waits for a request may go on only when another's flush has copied back. */
static pthread_mutex_t ending = PTHREAD_MUTEX_INITIALIZER;

static struct access *access_of(struct shunt_request *request)
{
    return (struct access *)((char *)request - offsetof(struct access, request));
}

static int fail(MPI_Win win)
{
    shunt_host.Win_call_errhandler(win, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

/* ---- the end ---- */

static void release_images(struct access *access)
{
    shunt_images_release(&access->images);
    shunt_image_release(&access->compare_image);
    shunt_operand_release(&access->comparand);
}

/* Is it the call's? Of those for one target, only what goes there. */
static bool is_ended_by(const struct shunt_call *call, const struct access *access)
{
    bool one = call->id == SHUNT_CALL_Win_unlock || call->id == SHUNT_CALL_Win_flush || call->id == SHUNT_CALL_Win_flush_local;

    return access->win == call->win && (!one || access->target == call->root);
}

/* Take out all that the call ends, or only that one; oldest first. */
static struct access *take_out(const struct shunt_call *call, const struct access *only)
{
    struct access *taken = NULL, **end = &taken, **at;

    pthread_mutex_lock(&lock);
    for (at = &first; *at;) {
        struct access *access = *at;
        if (only ? access != only : !is_ended_by(call, access)) {
            at = &access->next;
            continue;
        }
        *at = access->next;
        access->next = NULL;
        access->ended = true;
        *end = access;
        end = &access->next;
        __atomic_sub_fetch(&shunt_accesses_staged, 1, __ATOMIC_RELAXED);
    }
    last = at;
    pthread_mutex_unlock(&lock);
    return taken;
}

/* End what the call ends, or only that one. The record stays as long as there is a request. */
static enum shunt_status end_accesses(const struct shunt_call *call, const struct access *only, bool success)
{
    enum shunt_status status = SHUNT_OK;

    pthread_mutex_lock(&ending);
    for (struct access *access = take_out(call, only), *next; access; access = next) {
        next = access->next;
        if (success && status == SHUNT_OK)
            status = shunt_images_return(&access->images, SHUNT_RECEIVED_ALL);
        release_images(access);
        if (!access->requested)
            free(access);
    }
    pthread_mutex_unlock(&ending);
    return status;
}

/* MPICH 4.0 answers a local flush before what was fetched has come. Its images are not ours to use before that. */
static int flush_again(const struct shunt_call *call)
{
    if (call->id == SHUNT_CALL_Win_flush_local)
        return shunt_host.Win_flush(call->root, call->win);
    if (call->id == SHUNT_CALL_Win_flush_local_all)
        return shunt_host.Win_flush_all(call->win);
    return MPI_SUCCESS;
}

int shunt_hook_sync_after(const struct shunt_call *call, int rc)
{
    int saved = errno;

    if (rc != MPI_SUCCESS || shunt_life_forked() || (rc = flush_again(call)) != MPI_SUCCESS)
        return rc;
    enum shunt_status status = end_accesses(call, NULL, true);
    errno = saved;
    return status == SHUNT_OK ? MPI_SUCCESS : fail(call->win);
}

static int end_request(struct shunt_request *request, int error, const MPI_Status *status)
{
    struct access *access = access_of(request);
    MPI_Win win = access->win;

    (void)status;
    return end_accesses(NULL, access, error == MPI_SUCCESS) == SHUNT_OK ? MPI_SUCCESS : fail(win);
}

/* The request is gone. What has not been seen to end, since an error came or MPI ends, ends with its window. */
static void release_request(struct shunt_request *request)
{
    struct access *access = access_of(request);

    pthread_mutex_lock(&lock);
    bool ended = access->ended;
    access->requested = false;
    pthread_mutex_unlock(&lock);
    if (ended)
        free(access);
}

static const struct shunt_request_kind kind = { .done = end_request, .lent = true, .release = release_request };

/* The images stay: the host may use them up to its own end. */
void shunt_accesses_clear(void)
{
    pthread_mutex_lock(&lock);
    first = NULL;
    last = &first;
    __atomic_store_n(&shunt_accesses_staged, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

void shunt_accesses_abandon(void)
{
    __atomic_store_n(&shunt_accesses_staged, 0, __ATOMIC_RELAXED);
}

/* ---- the beginning ---- */

static struct shunt_operand make_operand(const void *buffer, MPI_Count count, MPI_Datatype datatype, bool written)
{
    struct shunt_operand operand = { .buffer = (char *)buffer };

    if (count > 0 && datatype != MPI_DATATYPE_NULL)
        *(written ? &operand.written : &operand.read) =
            (struct shunt_pieces){ .n = 1, .first = { .count = count, .datatype = datatype } };
    shunt_operand_look(&operand);
    return operand;
}

/* False: none is staged. */
static bool find_operands(const struct shunt_call *call, struct access *access)
{
    unsigned family = shunt_call_family(call->id);
    bool two = family == SHUNT_CALL_Get_accumulate;
    bool single = family == SHUNT_CALL_Fetch_and_op || family == SHUNT_CALL_Compare_and_swap;
    bool reads = family != SHUNT_CALL_Get, writes = family != SHUNT_CALL_Put && family != SHUNT_CALL_Accumulate;

    if (family != SHUNT_CALL_Compare_and_swap && writes && reads)
        reads = call->op != MPI_NO_OP;
    if (call->root == MPI_PROC_NULL)
        return false;
    if (reads)
        access->images.send = make_operand(call->sendbuf, single ? 1 : call->count, call->datatype, false);
    if (writes)
        access->images.recv = make_operand(call->recvbuf, single ? 1 : two ? call->recvcount : call->count,
                                           two ? call->recvtype : call->datatype, true);
    if (family == SHUNT_CALL_Compare_and_swap)
        access->comparand = make_operand(call->compare, 1, call->datatype, false);
    return access->images.send.staged || access->images.recv.staged || access->comparand.staged;
}

static enum shunt_status place_comparand(struct shunt_call *call, struct access *access)
{
    static const struct shunt_pieces none;
    enum shunt_status status =
        shunt_image_make(access->comparand.buffer, &access->comparand.read, &none, false, &access->compare_image);

    if (status == SHUNT_OK)
        status = shunt_image_fill(&access->compare_image, &access->comparand.read);
    call->compare = access->compare_image.host;
    return status;
}

static enum shunt_status make_images(struct shunt_call *call, struct access *access)
{
    enum shunt_status status = shunt_images_place(call, &access->images);

    if (status == SHUNT_OK)
        status = shunt_images_fill(&access->images);
    if (status == SHUNT_OK && access->comparand.staged)
        status = place_comparand(call, access);
    if (status == SHUNT_OK)
        shunt_tally_staged(call, &access->images, SHUNT_REASON_NO_ALGORITHM);
    return status;
}

/* A buffer may be in device memory. */
static __attribute__((noinline)) bool stage_access(struct shunt_call *call, int *rc, void **kept)
{
    struct access *access;
    enum shunt_status status = SHUNT_ERR_MEMORY;
    int saved = errno;

    if (shunt_life_forked())
        return false;
    if ((access = calloc(1, sizeof *access))) {
        access->win = call->win;
        access->target = call->root;
        status = find_operands(call, access) ? make_images(call, access) : SHUNT_PASS;
    }
    errno = saved;
    if (status == SHUNT_OK) {
        *kept = access;
        return false;
    }
    if (access)
        release_images(access);
    free(access);
    if (status != SHUNT_PASS)
        *rc = fail(call->win);
    return status != SHUNT_PASS;
}

bool shunt_hook_access_before(struct shunt_call *call, int *rc, void **kept)
{
    const void *send = call->sendbuf ? call->sendbuf : call->recvbuf, *recv = call->recvbuf ? call->recvbuf : send;

    if (shunt_gpu_surely_host(send, recv) &&
        (call->id != SHUNT_CALL_Compare_and_swap || shunt_gpu_surely_host(call->compare, call->compare)))
        return false;
    return stage_access(call, rc, kept);
}

static void add_access(struct access *access)
{
    pthread_mutex_lock(&lock);
    *last = access;
    last = &access->next;
    __atomic_add_fetch(&shunt_accesses_staged, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

static bool has_request(unsigned id)
{
    return id == SHUNT_CALL_Rput || id == SHUNT_CALL_Rget || id == SHUNT_CALL_Raccumulate || id == SHUNT_CALL_Rget_accumulate;
}

int shunt_hook_access_after(const struct shunt_call *call, void *kept, int rc)
{
    struct access *access = kept;
    int saved = errno;

    if (!access) {
        if (rc == MPI_SUCCESS && has_request(call->id) && !shunt_life_forked())
            shunt_request_renew(*call->requests);
    } else if (rc != MPI_SUCCESS) {
        release_images(access);
        free(access);
    } else {
        access->requested = has_request(call->id);
        add_access(access);
        if (access->requested) {
            access->request = (struct shunt_request){ .kind = &kind, .handle = *call->requests, .comm = MPI_COMM_NULL };
            rc = shunt_request_settle(&access->request);
        }
    }
    errno = saved;
    return rc;
}
