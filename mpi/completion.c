/* SPDX-License-Identifier: BSD-3-Clause */
/* The hooks of the calls that complete, start and free requests of which there are records (request.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/comm.h"
#include "mpi/life.h"
#include "mpi/poll.h"
#include "mpi/request.h"

/* ---- a call on requests ---- */

/* What a call needs afterwards; of the records found each has one reference. */
struct watch {
    MPI_Status *statuses;  /* the program's, or our own */
    MPI_Request *handles;  /* room for as many: what the host is called with in place of some of the program's */
    struct shunt_request *of[]; /* by place in the program's array; NULL: none of ours */
};

static struct watch *make_watch(struct shunt_wait *wait)
{
    size_t n = (size_t)wait->n_requests, head = sizeof(struct watch) + n * sizeof(struct shunt_request *);
    size_t all = head + n * (sizeof(MPI_Status) + sizeof(MPI_Request));
    struct watch *watch = malloc(all);

    if (!watch)
        return NULL;
    memset(watch, 0, all);
    watch->handles = (MPI_Request *)((char *)watch + head + n * sizeof(MPI_Status));
    if (wait->statuses == MPI_STATUS_IGNORE || wait->statuses == MPI_STATUSES_IGNORE)
        wait->statuses = (MPI_Status *)((char *)watch + head);
    watch->statuses = wait->statuses;
    return watch;
}

/* Find our records of the call's requests. False: there was no memory to hold them. */
static bool find_watched(struct shunt_wait *wait, struct watch **watch)
{
    bool any = false;

    *watch = NULL;
    for (int i = 0; i < wait->n_requests && !any; i++)
        any = shunt_request_known(wait->requests[i]);
    if (!any)
        return true;
    *watch = make_watch(wait);
    if (*watch)
        shunt_request_hold(wait->requests, wait->n_requests, (*watch)->of);
    return *watch != NULL;
}

static void drop_watch(struct watch *watch, int n)
{
    for (int i = 0; i < n; i++)
        shunt_request_drop(watch->of[i]);
    free(watch);
}

/* ---- what stands for a request ---- */

static bool is_inactive(struct shunt_request *request)
{
    return request->persistent && !atomic_load(&request->active);
}

/*
 * What the host's call gets for number i. One that is inactive is as if it was not there, as MPI has it; MPICH 4.0 waits for
 * inactive collectives. One that flies is known to the host by its face.
 */
static MPI_Request stand_in(const struct shunt_wait *wait, const struct watch *watch, int i)
{
    struct shunt_request *request = watch->of[i];

    if (!request || !request->persistent)
        return wait->requests[i];
    if (is_inactive(request))
        return MPI_REQUEST_NULL;
    return request->face != MPI_REQUEST_NULL ? request->face : wait->requests[i];
}

static bool any_stands_in(const struct shunt_wait *wait, const struct watch *watch)
{
    for (int i = 0; i < wait->n_requests; i++)
        if (watch->of[i] && stand_in(wait, watch, i) != wait->requests[i])
            return true;
    return false;
}

/* The program's array changes as if the host had been called with that. */
static int call_with_others(struct shunt_wait *wait, struct watch *watch)
{
    MPI_Request *handles = wait->requests;

    for (int i = 0; i < wait->n_requests; i++)
        watch->handles[i] = stand_in(wait, watch, i);
    wait->requests = watch->handles;
    int rc = shunt_poll_call(wait);
    wait->requests = handles;
    for (int i = 0; i < wait->n_requests; i++) {
        if (stand_in(wait, watch, i) == handles[i])
            handles[i] = watch->handles[i];
        else if (watch->handles[i] == MPI_REQUEST_NULL)
            watch->of[i]->face = MPI_REQUEST_NULL; /* the host has completed it */
    }
    return rc;
}

/* ---- what has completed ---- */

/* Does the call leave requests as they are? */
static bool is_question(enum shunt_call_id id)
{
    switch (id) {
    case SHUNT_CALL_Request_get_status:
    case SHUNT_CALL_Request_get_status_any:
    case SHUNT_CALL_Request_get_status_some:
    case SHUNT_CALL_Request_get_status_all: return true;
    default: return false;
    }
}

/* Of calls for one request errors are not told in the status. */
static bool is_single(enum shunt_call_id id)
{
    return id == SHUNT_CALL_Wait || id == SHUNT_CALL_Test || id == SHUNT_CALL_Request_get_status;
}

/* Has number i ended? Its status, where it has one, is number `at`. *error is that of the call, and becomes its own. */
static bool has_ended(const struct shunt_wait *wait, const struct watch *watch, int i, int at, int *error)
{
    struct shunt_request *request = watch->of[i];
    int class = MPI_SUCCESS;

    if (!request || is_inactive(request))
        return false;
    if (*error == MPI_SUCCESS)
        return true;
    shunt_host.Error_class(*error, &class);
    if (class == MPI_ERR_IN_STATUS) {
        *error = watch->statuses[at].MPI_ERROR;
        shunt_host.Error_class(*error, &class);
    }
    if (class == MPI_ERR_PENDING)
        return false;
    /* An error of the call itself leaves requests as they are. */
    return *error == MPI_SUCCESS || request->persistent || wait->requests[i] == MPI_REQUEST_NULL;
}

/* Number i has ended or not; its status is number `at`. Answers the error for the program. */
static int settle(const struct shunt_wait *wait, struct watch *watch, int i, int at, int error)
{
    struct shunt_request *request = watch->of[i];

    if (!has_ended(wait, watch, i, at, &error))
        return MPI_SUCCESS;
    int rc = shunt_request_end(request, error, &watch->statuses[at]);
    if (request->kind->amend)
        request->kind->amend(request, &watch->statuses[at]);
    if (request->wrapped && !is_question(wait->id) && wait->requests[i] != MPI_REQUEST_NULL)
        shunt_host.Request_free(&wait->requests[i]);
    if (!request->persistent && wait->requests[i] == MPI_REQUEST_NULL)
        shunt_request_forget(request);
    if (!is_question(wait->id))
        atomic_store(&request->active, false);
    return rc;
}

/* One of several has failed on our side only: it is told as the host tells it. */
static int tell_in_status(struct watch *watch, int n, int at, int error, int host)
{
    for (int k = 0; k < n && host == MPI_SUCCESS; k++)
        watch->statuses[k].MPI_ERROR = MPI_SUCCESS;
    watch->statuses[at].MPI_ERROR = error;
    return MPI_ERR_IN_STATUS;
}

/* What each of them begins goes on while the others are settled. */
static void begin_ends(const struct shunt_wait *wait, const struct watch *watch, int n, const int *indices, int error)
{
    for (int k = 0; k < n; k++) {
        int i = indices ? indices[k] : k, of_one = error;
        struct shunt_request *request = watch->of[i];
        if (request && request->kind->ended && atomic_load(&request->pending) && has_ended(wait, watch, i, k, &of_one))
            request->kind->ended(request, of_one, &watch->statuses[k]);
    }
}

/* n have ended, of which number k is number indices[k] of the call; indices NULL: number k. */
static int settle_several(const struct shunt_wait *wait, struct watch *watch, int n, const int *indices, int error)
{
    int rc = MPI_SUCCESS;

    begin_ends(wait, watch, n, indices, error);
    for (int early = 1; early >= 0; early--) {
        for (int k = 0; k < n; k++) {
            int i = indices ? indices[k] : k;
            if (!watch->of[i] || watch->of[i]->kind->early != early)
                continue;
            int of_one = settle(wait, watch, i, k, error);
            if (of_one != MPI_SUCCESS && early)
                rc = tell_in_status(watch, n, k, of_one, rc == MPI_SUCCESS ? error : rc);
            rc = rc == MPI_SUCCESS ? of_one : rc;
        }
    }
    return rc;
}

static int settle_call(const struct shunt_wait *wait, struct watch *watch, int error)
{
    if (error == MPI_SUCCESS && wait->flag && !*wait->flag)
        return MPI_SUCCESS;
    if (!wait->index)
        return wait->n_requests == 1 && is_single(wait->id) ? settle(wait, watch, 0, 0, error) :
                                                              settle_several(wait, watch, wait->n_requests, NULL, error);
    if (wait->indices)
        return settle_several(wait, watch, *wait->index != MPI_UNDEFINED ? *wait->index : 0, wait->indices, error);
    int i = *wait->index;
    return i != MPI_UNDEFINED && i >= 0 && i < wait->n_requests ? settle(wait, watch, i, 0, error) : MPI_SUCCESS;
}

/* ---- hooks ---- */

static void poke_host(void)
{
    int flag;

    shunt_host.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

/* True: the request is ours from now on, and the program's handle is gone. */
static bool free_request(struct shunt_wait *wait, struct watch *watch)
{
    if (!atomic_load(&watch->of[0]->pending))
        return false;
    shunt_request_adopt(watch->of[0]);
    wait->requests[0] = MPI_REQUEST_NULL;
    drop_watch(watch, 1);
    shunt_requests_look();
    return true;
}

/* Start those that are not under way. What is not started here is watched no longer. */
static int start_requests(struct shunt_wait *wait, struct watch *watch)
{
    int rc = MPI_SUCCESS;

    for (int i = 0; i < wait->n_requests; i++) {
        struct shunt_request *request = watch->of[i];
        if (!request)
            continue;
        if (rc != MPI_SUCCESS || atomic_exchange(&request->pending, true)) {
            shunt_request_drop(request);
            watch->of[i] = NULL;
            continue;
        }
        atomic_store(&request->active, true);
        if (request->kind->start)
            rc = request->kind->start(request);
    }
    return rc;
}

static void unstart_request(struct shunt_request *request)
{
    atomic_store(&request->active, false);
    atomic_store(&request->pending, false);
}

static void unstart_requests(const struct shunt_wait *wait, struct watch *watch)
{
    for (int i = 0; i < wait->n_requests; i++)
        if (watch->of[i])
            unstart_request(watch->of[i]);
}

/* Number i alone. */
static int start_one(const struct shunt_wait *wait, struct watch *watch, int i)
{
    struct shunt_request *request = watch->of[i];
    bool starts = request && !atomic_exchange(&request->pending, true);
    int rc = MPI_SUCCESS;

    if (starts)
        atomic_store(&request->active, true);
    if (starts && request->kind->fly) {
        rc = request->kind->fly(request);
    } else {
        if (starts && request->kind->start)
            rc = request->kind->start(request);
        if (rc == MPI_SUCCESS)
            rc = shunt_host.Start(&wait->requests[i]);
    }
    if (starts && rc != MPI_SUCCESS)
        unstart_request(request);
    return rc;
}

/* With some that the host does not start. */
static int start_each(const struct shunt_wait *wait, struct watch *watch)
{
    int rc = MPI_SUCCESS;

    for (int i = 0; i < wait->n_requests && rc == MPI_SUCCESS; i++)
        rc = start_one(wait, watch, i);
    return rc;
}

static bool any_flies(const struct shunt_wait *wait, const struct watch *watch)
{
    for (int i = 0; i < wait->n_requests; i++)
        if (watch->of[i] && watch->of[i]->kind->fly)
            return true;
    return false;
}

static bool is_start(enum shunt_call_id id)
{
    return id == SHUNT_CALL_Start || id == SHUNT_CALL_Startall;
}

static bool is_pready(enum shunt_call_id id)
{
    return id == SHUNT_CALL_Pready || id == SHUNT_CALL_Pready_range || id == SHUNT_CALL_Pready_list;
}

static int handle_pieces(const struct shunt_wait *wait, struct shunt_request *request)
{
    int rc = MPI_SUCCESS;

    if (!request->kind->piece)
        return rc;
    for (int i = 0; wait->partitions && i < wait->n_partitions && rc == MPI_SUCCESS; i++)
        rc = request->kind->piece(request, wait->partitions[i]);
    for (int i = wait->partition; !wait->partitions && i <= wait->last_partition && rc == MPI_SUCCESS; i++)
        rc = request->kind->piece(request, i);
    return rc;
}

/* What is ours to do before the host's call, with some request found. Answers its error. */
static int prepare_call(struct shunt_wait *wait, struct watch *watch)
{
    int rc = MPI_SUCCESS;

    if (is_pready(wait->id))
        return handle_pieces(wait, watch->of[0]);
    if (is_start(wait->id) && (rc = start_requests(wait, watch)) != MPI_SUCCESS)
        unstart_requests(wait, watch);
    return rc;
}

/*
 * While there are flights or receives: what has ended is complete now, and a call that waits is a loop; and where other handles
 * stand for the program's. True: it is done.
 */
static bool complete_here(struct shunt_wait *wait, struct watch *watch, int *rc)
{
    bool flights = __atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0;
    bool fetching = __atomic_load_n(&shunt_requests_fetching, __ATOMIC_RELAXED) > 0, loops = flights || fetching;

    if (flights)
        shunt_flights_look();
    if (fetching && shunt_poll_completes(wait->id) && !shunt_poll_waits(wait->id))
        shunt_poll_fetch();
    bool others = watch && shunt_poll_completes(wait->id) && any_stands_in(wait, watch);
    if (!others && !(loops && shunt_poll_waits(wait->id)))
        return false;
    *rc = others ? call_with_others(wait, watch) : shunt_poll_call(wait);
    if (watch)
        *rc = shunt_hook_done_after(wait, watch, *rc);
    return true;
}

/* A call that only looks whether all have ended: not if one of ours has not, whatever the host says. */
static bool is_early(const struct shunt_wait *wait, const struct watch *watch)
{
    bool early = false;

    if (!wait->flag || wait->index || wait->id == SHUNT_CALL_Parrived)
        return false;
    for (int i = 0; i < wait->n_requests; i++) {
        struct shunt_request *request = watch->of[i];
        early |= request && request->kind->ready && atomic_load(&request->pending) && !request->kind->ready(request);
    }
    if (early)
        *wait->flag = 0;
    return early;
}

bool shunt_hook_done_before(struct shunt_wait *wait, int *rc, void **kept)
{
    struct watch *watch;
    int saved = errno;
    bool over = false;

    if (shunt_life_forked() || !wait->requests)
        return false;
    *rc = MPI_SUCCESS;
    if (!find_watched(wait, &watch)) {
        *rc = shunt_comm_fail(MPI_COMM_SELF);
        over = true;
    } else if (watch && is_start(wait->id) && any_flies(wait, watch)) {
        *rc = start_each(wait, watch);
        drop_watch(watch, wait->n_requests);
        over = true;
    } else if (watch) {
        *rc = prepare_call(wait, watch);
        if (*rc == MPI_SUCCESS && (over = is_early(wait, watch)))
            poke_host();
        if (*rc != MPI_SUCCESS || over)
            drop_watch(watch, wait->n_requests);
        over = over || *rc != MPI_SUCCESS || (wait->id == SHUNT_CALL_Request_free && free_request(wait, watch));
    }
    *kept = over ? NULL : watch;
    errno = saved;
    return over || complete_here(wait, watch, rc);
}

int shunt_hook_done_after(const struct shunt_wait *wait, void *kept, int rc)
{
    struct watch *watch = kept;
    int saved = errno, ours = MPI_SUCCESS;

    if (wait->id == SHUNT_CALL_Request_free) {
        if (wait->requests[0] == MPI_REQUEST_NULL && watch->of[0]->face != MPI_REQUEST_NULL)
            shunt_host.Request_free(&watch->of[0]->face);
        if (wait->requests[0] == MPI_REQUEST_NULL)
            shunt_request_forget(watch->of[0]);
    } else if (is_start(wait->id)) {
        if (rc != MPI_SUCCESS)
            unstart_requests(wait, watch);
    } else if (wait->id == SHUNT_CALL_Parrived) {
        if (rc == MPI_SUCCESS && *wait->flag)
            ours = handle_pieces(wait, watch->of[0]);
    } else if (!is_pready(wait->id)) {
        ours = settle_call(wait, watch, rc);
    }
    drop_watch(watch, wait->n_requests);
    errno = saved;
    return rc == MPI_SUCCESS ? ours : rc;
}
