/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators on their way; idup.h. */
#include "mpi/idup.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "mpi/request.h"

/*
 * The handle of the new communicator is taken when Comm_idup returns (Open MPI and MPICH have written it by then, and
 * their Fortran bindings pass the address of a local variable, which is gone later).
 */
struct pending {
    struct shunt_request request;
    struct pending *next;
    MPI_Comm newcomm;
    struct shunt_origin origin; /* of kind idup: no string */
    bool keyed;
};

/* Those whose communicators have not been entered, oldest first. Whoever takes one out enters it. */
static struct pending *first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct pending *pending_of(struct shunt_request *request)
{
    return (struct pending *)((char *)request - offsetof(struct pending, request));
}

/* Take the oldest out that is this one or, if it is NULL, has this communicator. */
static struct pending *take_pending(const struct pending *wanted, MPI_Comm comm)
{
    struct pending **at, *found;

    pthread_mutex_lock(&lock);
    for (at = &first; *at; at = &(*at)->next)
        if (wanted ? *at == wanted : (*at)->newcomm == comm)
            break;
    if ((found = *at))
        *at = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

static void add_pending(struct pending *pending)
{
    struct pending **at;

    pthread_mutex_lock(&lock);
    for (at = &first; *at; at = &(*at)->next)
        ;
    *at = pending;
    pthread_mutex_unlock(&lock);
}

static int enter_pending(struct shunt_request *request, int error, const MPI_Status *status)
{
    struct pending *pending = take_pending(pending_of(request), MPI_COMM_NULL);

    (void)status;
    if (pending && error == MPI_SUCCESS)
        shunt_comm_enter(pending->newcomm, &pending->origin, pending->keyed);
    return MPI_SUCCESS;
}

static void release_pending(struct shunt_request *request)
{
    take_pending(pending_of(request), MPI_COMM_NULL);
    free(pending_of(request));
}

static const struct shunt_request_kind kind = { .done = enter_pending, .release = release_pending };

void shunt_idup_add(MPI_Comm newcomm, MPI_Request request, const struct shunt_origin *origin, bool keyed)
{
    struct pending *pending = malloc(sizeof *pending);

    if (!pending)
        return;
    *pending = (struct pending){ { .kind = &kind, .handle = request, .comm = MPI_COMM_NULL },
                                 .newcomm = newcomm, .origin = *origin, .keyed = keyed };
    add_pending(pending);
    shunt_request_track(&pending->request);
}

bool shunt_idup_adopt(MPI_Comm handle)
{
    int saved = errno;
    struct pending *pending = handle == MPI_COMM_NULL ? NULL : take_pending(NULL, handle);

    if (pending) {
        shunt_comm_enter(pending->newcomm, &pending->origin, pending->keyed);
        shunt_request_forget(&pending->request);
    }
    errno = saved;
    return pending;
}
