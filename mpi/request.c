/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of requests, and those that the program has freed; request.h. The hooks are in completion.c. */
#include "mpi/request.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "mpi/comm.h"
#include "mpi/life.h"
#include "mpi/map.h"

enum { PATIENCE = 10 }; /* seconds */

int shunt_requests_tracked;
int shunt_requests_orphaned;
int shunt_requests_fetching;

static struct shunt_map table = SHUNT_MAP_INITIALIZER;
static struct shunt_request *orphans;
/* For the references of records, and so for every look into the table that leads to one; and for the orphans. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uintptr_t word_of(MPI_Request handle)
{
    return (uintptr_t)handle; /* a pointer or a number, as the MPI has it */
}

/* ---- records ---- */

void shunt_request_drop(struct shunt_request *request)
{
    if (!request)
        return;
    pthread_mutex_lock(&lock);
    bool last = --request->references == 0;
    pthread_mutex_unlock(&lock);
    if (last)
        request->kind->release(request);
}

/* For the table or the orphans: one record less. */
static void drop_tracked(struct shunt_request *request)
{
    if (!request)
        return;
    __atomic_sub_fetch(&shunt_requests_tracked, 1, __ATOMIC_RELAXED);
    shunt_request_drop(request);
}

/* Take the entry of a handle out, if `only` is given only that one. The caller has its reference then. */
static struct shunt_request *take_out(MPI_Request handle, const struct shunt_request *only)
{
    pthread_mutex_lock(&lock);
    struct shunt_request *found = shunt_map_remove(&table, word_of(handle), only);
    pthread_mutex_unlock(&lock);
    return found;
}

int shunt_request_end(struct shunt_request *request, int error, const MPI_Status *status)
{
    return atomic_exchange(&request->pending, false) ? request->kind->done(request, error, status) : MPI_SUCCESS;
}

/*
 * Another thread may be between the host's end of the request that had this handle before and its own hook: its record must
 * not be taken for that of the new request. It has a reference.
 */
void shunt_request_renew(MPI_Request handle)
{
    drop_tracked(take_out(handle, NULL));
}

int shunt_request_settle(struct shunt_request *request)
{
    MPI_Status status = { .MPI_ERROR = MPI_SUCCESS };
    int flag = 0;

    if (shunt_host.Request_get_status(request->handle, &flag, &status) != MPI_SUCCESS || !flag ||
        status.MPI_ERROR != MPI_SUCCESS)
        return shunt_request_track(request);
    shunt_request_renew(request->handle);
    int rc = request->kind->done(request, MPI_SUCCESS, &status);
    request->kind->release(request);
    return rc;
}

int shunt_request_track(struct shunt_request *request)
{
    void *stale = NULL;

    request->references = 1;
    request->face = MPI_REQUEST_NULL;
    atomic_store(&request->pending, !request->persistent);
    __atomic_add_fetch(&shunt_requests_tracked, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    enum shunt_status entered = shunt_map_put(&table, word_of(request->handle), request, &stale);
    pthread_mutex_unlock(&lock);
    drop_tracked(stale);
    /* Without memory its completion will not be seen. The record is never freed, for the host uses what it holds. */
    if (entered != SHUNT_OK)
        __atomic_sub_fetch(&shunt_requests_tracked, 1, __ATOMIC_RELAXED);
    return entered == SHUNT_OK || request->comm == MPI_COMM_NULL ? MPI_SUCCESS : shunt_comm_fail(request->comm);
}

void shunt_request_forget(struct shunt_request *request)
{
    drop_tracked(take_out(request->handle, request));
}

bool shunt_request_known(MPI_Request handle)
{
    return shunt_map_find(&table, word_of(handle)) != NULL;
}

void shunt_request_hold(const MPI_Request *handles, int n, struct shunt_request **records)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++) {
        records[i] = shunt_map_find(&table, word_of(handles[i]));
        if (records[i])
            records[i]->references++;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- orphans ---- */

/* The table's reference is the orphans' then. */
void shunt_request_adopt(struct shunt_request *request)
{
    if (!take_out(request->handle, request))
        return;
    pthread_mutex_lock(&lock);
    request->next = orphans;
    orphans = request;
    __atomic_add_fetch(&shunt_requests_orphaned, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

/* Asked in a way that raises no error: nobody would expect it in a call that has nothing to do with this request. */
static bool has_ended(struct shunt_request *request)
{
    MPI_Status status = { .MPI_ERROR = MPI_SUCCESS };
    int flag = 0;

    bool flies = request->face != MPI_REQUEST_NULL;
    if ((request->kind->ready && !request->kind->ready(request)) ||
        shunt_host.Request_get_status(flies ? request->face : request->handle, &flag, &status) != MPI_SUCCESS || !flag)
        return false;
    shunt_request_end(request, status.MPI_ERROR, &status);
    if (flies)
        shunt_host.Request_free(&request->face);
    shunt_host.Request_free(&request->handle);
    return true;
}

/* Each thread looks after those that no other thread is looking after. */
void shunt_requests_look(void)
{
    struct shunt_request *mine, **at;
    int saved = errno;

    pthread_mutex_lock(&lock);
    mine = orphans;
    orphans = NULL;
    pthread_mutex_unlock(&lock);
    for (at = &mine; *at;) {
        struct shunt_request *request = *at;
        if (has_ended(request)) {
            *at = request->next;
            __atomic_sub_fetch(&shunt_requests_orphaned, 1, __ATOMIC_RELAXED);
            drop_tracked(request);
        } else {
            at = &request->next;
        }
    }
    pthread_mutex_lock(&lock);
    *at = orphans;
    orphans = mine;
    pthread_mutex_unlock(&lock);
    errno = saved;
}

static bool has_orphan(MPI_Comm comm)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (struct shunt_request *request = orphans; request && !found; request = request->next)
        found = comm == MPI_COMM_NULL || request->comm == comm;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Patience is for requests that nobody will ever match: the host MPI alone would not wait for them either. */
void shunt_requests_drain(MPI_Comm comm)
{
    double end = shunt_seconds() + PATIENCE;

    while (shunt_seconds() < end && has_orphan(comm)) {
        shunt_flights_look();
        shunt_requests_look();
        sched_yield();
    }
}

/* Programs get away with sends that are under way when they call MPI_Finalize. */
void shunt_requests_clear(void)
{
    struct shunt_request *request;

    while ((request = shunt_map_pop(&table))) {
        if (request->kind->lent && atomic_load(&request->pending))
            __atomic_sub_fetch(&shunt_requests_tracked, 1, __ATOMIC_RELAXED);
        else
            drop_tracked(request);
    }
}

void shunt_requests_abandon(void)
{
    __atomic_store_n(&shunt_requests_tracked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&shunt_requests_orphaned, 0, __ATOMIC_RELAXED);
    shunt_map_abandon(&table);
}
