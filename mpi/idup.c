/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators on their way, and the hooks of the calls that complete requests. */
#include "mpi/idup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/life.h"

int shunt_requests_tracked;

/*
 * The handle of the new communicator is taken when Comm_idup returns (Open MPI and MPICH have written it by then, and
 * their Fortran bindings pass the address of a local variable, which is gone later).
 */
struct pending {
    struct pending *next;
    MPI_Comm newcomm;
    MPI_Request request;
    struct shunt_origin origin; /* of kind idup: no string */
    bool keyed;
};

static struct pending *first; /* oldest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Take the oldest out that has this request or, if comm is not null, this communicator. */
static struct pending *take_pending(MPI_Request request, MPI_Comm comm)
{
    struct pending **at, *found;

    pthread_mutex_lock(&lock);
    for (at = &first; *at; at = &(*at)->next)
        if (comm == MPI_COMM_NULL ? (*at)->request == request : (*at)->newcomm == comm)
            break;
    if ((found = *at)) {
        *at = found->next;
        __atomic_sub_fetch(&shunt_requests_tracked, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static bool is_pending(MPI_Request request)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (struct pending *p = first; p && !found; p = p->next)
        found = p->request == request;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool enter_pending(struct pending *pending)
{
    if (!pending)
        return false;
    shunt_comm_enter(pending->newcomm, &pending->origin, pending->keyed);
    free(pending);
    return true;
}

void shunt_idup_add(MPI_Comm newcomm, MPI_Request request, const struct shunt_origin *origin, bool keyed)
{
    struct pending *pending = malloc(sizeof *pending), **at;

    if (!pending)
        return;
    *pending = (struct pending){ NULL, newcomm, request, *origin, keyed };
    pthread_mutex_lock(&lock);
    for (at = &first; *at; at = &(*at)->next)
        ;
    *at = pending;
    __atomic_add_fetch(&shunt_requests_tracked, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

bool shunt_idup_adopt(MPI_Comm handle)
{
    int saved = errno;
    bool found = handle != MPI_COMM_NULL && enter_pending(take_pending(MPI_REQUEST_NULL, handle));

    errno = saved;
    return found;
}

void shunt_idup_clear(void)
{
    pthread_mutex_lock(&lock);
    while (first) {
        struct pending *next = first->next;
        free(first);
        first = next;
    }
    __atomic_store_n(&shunt_requests_tracked, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

/* ---- hooks ---- */

/* A copy of the call's requests, MPI_REQUEST_NULL where we wait for none: the host overwrites what has completed. */
void *shunt_hook_done_before(const struct shunt_call *call)
{
    MPI_Request *waited = NULL;
    int saved = errno;

    if (shunt_life_forked() || !call->requests)
        return NULL;
    for (int i = 0; i < call->n_requests; i++) {
        if (call->requests[i] == MPI_REQUEST_NULL || !is_pending(call->requests[i]))
            continue;
        if (!waited) {
            if (!(waited = malloc(call->n_requests * sizeof *waited)))
                break;
            for (int k = 0; k < call->n_requests; k++)
                waited[k] = MPI_REQUEST_NULL;
        }
        waited[i] = call->requests[i];
    }
    errno = saved;
    return waited;
}

void shunt_hook_done_after(const struct shunt_call *call, void *before, int rc)
{
    MPI_Request *waited = before;
    int saved = errno;

    (void)rc; /* what has completed is null, also when another request of the array failed */
    for (int i = 0; waited && i < call->n_requests; i++)
        if (waited[i] != MPI_REQUEST_NULL && call->requests[i] == MPI_REQUEST_NULL)
            enter_pending(take_pending(waited[i], MPI_COMM_NULL));
    free(waited);
    errno = saved;
}
