/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that go on after the call that began them; flight.h. */
#include "mpi/flight.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/stats.h"
#include "coll/start.h"
#include "mpi/aside.h"
#include "mpi/copying.h"
#include "mpi/device.h"
#include "mpi/face.h"
#include "mpi/float16.h"
#include "mpi/image.h"
#include "mpi/kept.h"
#include "mpi/life.h"
#include "mpi/operation.h"
#include "mpi/repeat.h"
#include "mpi/request.h"
#include "mpi/tally.h"

/* How long a host call that cannot be a loop waits for a decision: ranks that begin together need some microseconds. */
#define GRACE_SECONDS 200e-6

/* At the end of MPI, as for requests that nobody completes. */
#define PATIENCE_SECONDS 10

enum stage {
    GOING,     /* on the board: undecided, or on the GPUs */
    FILLING,   /* staged: what it sends is on its way to host memory */
    STAGED,    /* begun in the host MPI */
    RETURNING, /* that has ended it, or the GPUs have: what has come is on its way to its place in device memory */
    ENDED,     /* in the list no more, and its face is complete */
};

struct flight {
    struct shunt_request request; /* under the program's handle; of starts only `comm` */
    MPI_Request face;             /* the generalized request */
    struct shunt_operation *persistent; /* whose start this is, or NULL: then `kept` has the call */
    enum stage stage;
    struct shunt_start *start; /* of GOING */
    struct shunt_copying copying; /* of FILLING and RETURNING */
    struct shunt_call call;       /* for the host, of FILLING */
    struct shunt_kept kept;
    struct shunt_aside aside; /* of GOING, and of RETURNING from the GPUs */
    enum shunt_coll coll;
    uint64_t bytes;
    struct shunt_operation *operation; /* of FILLING to RETURNING: the images; NULL if there are none. Of starts `persistent` */
    MPI_Request host;
    int error; /* of ENDED */
    struct flight *next;
};

int shunt_flights;

/* In the order of their calls; those that have ended are not in it. */
static struct flight *flights;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct flight *flight_of(struct shunt_request *request)
{
    return (struct flight *)((char *)request - offsetof(struct flight, request));
}

/* ---- what its request asks of it ---- */

static int done(struct shunt_request *request, int error, const MPI_Status *status)
{
    struct flight *flight = flight_of(request);

    (void)error;
    (void)status;
    /* Acquire: with it comes all that was done to the flight where its end was found. */
    return __atomic_load_n(&flight->error, __ATOMIC_ACQUIRE) == MPI_SUCCESS ? MPI_SUCCESS : shunt_operation_fail(request->comm);
}

static void release(struct shunt_request *request)
{
    free(flight_of(request));
}

static const struct shunt_request_kind kind = { .done = done, .lent = true, .release = release };

/* ---- its end, under the lock ---- */

static void take_out(struct flight *flight)
{
    struct flight **at = &flights;

    while (*at && *at != flight)
        at = &(*at)->next;
    if (*at)
        *at = flight->next;
    __atomic_sub_fetch(&shunt_flights, 1, __ATOMIC_RELAXED);
}

/* The program's next completion call finds it, by the face; what a start was has no other use then. */
static void end_flight(struct flight *flight, int error)
{
    MPI_Request face = flight->face;

    take_out(flight);
    shunt_aside_drop(&flight->aside);
    if (flight->persistent) {
        __atomic_store_n(&flight->persistent->error, error, __ATOMIC_RELEASE); /* as below */
        free(flight);
    } else {
        if (flight->operation)
            shunt_operation_release(flight->operation);
        flight->operation = NULL;
        shunt_kept_release(&flight->kept);
        flight->stage = ENDED;
        __atomic_store_n(&flight->error, error, __ATOMIC_RELEASE); /* for `done`, in whatever thread */
    }
    shunt_host.Grequest_complete(face);
}

static void count_run(const struct flight *flight, unsigned path)
{
    shunt_stats_count(flight->coll, path, SHUNT_REASON_NONE, shunt_conf->stats ? flight->bytes : 0);
}

/* ---- staging, under the lock ---- */

/* Starts need not be in order: the host's requests of persistent collectives have been made in order. */
static void begin_in_host(struct flight *flight, bool filled)
{
    int rc = MPI_ERR_OTHER;

    flight->stage = STAGED;
    if (filled)
        rc = flight->persistent ? shunt_host.Start(&flight->host) : shunt_host_begin(&flight->call);
    if (rc != MPI_SUCCESS)
        end_flight(flight, rc);
}

/* Answers whether the host has it, or it has ended. wait: until then. */
static bool look_at_filling(struct flight *flight, bool wait)
{
    enum shunt_status status = shunt_copying_look(&flight->copying, wait);

    if (status != SHUNT_AGAIN)
        begin_in_host(flight, status == SHUNT_OK);
    return status != SHUNT_AGAIN;
}

static bool begin_images(struct flight *flight, bool here)
{
    flight->stage = FILLING;
    shunt_copying_begin(&flight->copying, &flight->operation->images, SHUNT_COPYING_OUT, here);
    return look_at_filling(flight, here);
}

static bool start_staged(struct flight *flight, enum shunt_reason reason, bool here)
{
    struct shunt_operation *operation = flight->persistent;

    flight->operation = operation;
    flight->host = operation->request.handle;
    if (operation->images.send.staged || operation->images.recv.staged)
        shunt_tally_staged(&operation->repeat->call, &operation->images, reason);
    return begin_images(flight, here);
}

static bool begin_staged(struct flight *flight, enum shunt_reason reason, bool here)
{
    if (flight->persistent)
        return start_staged(flight, reason, here);
    flight->call = flight->kept.call;
    enum shunt_status status = shunt_operation_make_empty(&flight->call, reason, &flight->operation);
    if (status != SHUNT_OK && status != SHUNT_PASS) {
        end_flight(flight, MPI_ERR_OTHER);
        return true;
    }
    flight->call.requests = &flight->host;
    shunt_float16_replace(&flight->call);
    if (flight->operation)
        return begin_images(flight, here);
    begin_in_host(flight, true);
    return true;
}

static bool stage_flight(struct flight *flight, bool here)
{
    const struct shunt_board *board = shunt_start_board(flight->start);
    struct shunt_outcome outcome;

    enum shunt_status status = shunt_start_end(flight->start, &outcome);
    flight->start = NULL;
    shunt_aside_drop(&flight->aside);
    if (status == SHUNT_PASS && !shunt_device_bereft(board, outcome.reason))
        return begin_staged(flight, outcome.reason, here);
    end_flight(flight, MPI_ERR_OTHER);
    return true;
}

static void look_at_returning(struct flight *flight)
{
    enum shunt_status status = shunt_copying_look(&flight->copying, false);

    if (status != SHUNT_AGAIN)
        end_flight(flight, status == SHUNT_OK ? MPI_SUCCESS : MPI_ERR_OTHER);
}

static void look_at_host(struct flight *flight)
{
    MPI_Status status;
    int flag = 0, rc = shunt_host.Test(&flight->host, &flag, &status);

    if (rc == MPI_SUCCESS && !flag)
        return;
    if (rc == MPI_SUCCESS && flight->operation) {
        flight->stage = RETURNING;
        shunt_copying_begin(&flight->copying, &flight->operation->images, SHUNT_COPYING_BACK, false);
        look_at_returning(flight);
    } else {
        end_flight(flight, rc);
    }
}

/* ---- looking, under the lock ---- */

static bool is_undecided(struct flight *flight)
{
    return flight->stage == GOING && shunt_start_look(flight->start) == SHUNT_START_UNDECIDED;
}

/*
 * What is staged is begun in the host in the order of calls, so those before it on its communicator are decided now. (They can
 * only be late in being seen to be staged: all ranks have passed them.) False: the host does not have all of them yet.
 */
static bool settle_older(const struct flight *flight, bool here)
{
    struct flight *next;

    for (struct flight *older = flights; older != flight; older = next) {
        next = older->next;
        if (older->persistent || older->request.comm != flight->request.comm)
            continue;
        if (is_undecided(older))
            shunt_start_veto(older->start);
        if (older->stage == GOING && shunt_start_look(older->start) == SHUNT_START_STAGED) {
            if (!stage_flight(older, here))
                return false;
        } else if (older->stage == FILLING) {
            if (!look_at_filling(older, here))
                return false;
        }
    }
    return true;
}

static void land(struct flight *flight)
{
    struct shunt_outcome outcome;
    enum shunt_status status = shunt_start_end(flight->start, &outcome);

    flight->start = NULL;
    if (status != SHUNT_OK) {
        end_flight(flight, MPI_ERR_OTHER);
        return;
    }
    count_run(flight, SHUNT_PATH_GPU + outcome.algo);
    if (outcome.lingered)
        shunt_stats_lingered(flight->coll);
    if (outcome.hosted)
        shunt_stats_hosted(flight->coll);
    if (!flight->aside.from) {
        end_flight(flight, MPI_SUCCESS);
        return;
    }
    flight->stage = RETURNING;
    shunt_copying_settle(&flight->copying, &flight->aside);
    look_at_returning(flight);
}

static void look_at_board(struct flight *flight, bool wait)
{
    enum shunt_start_state state = shunt_start_look(flight->start);

    if (state == SHUNT_START_DONE)
        land(flight);
    else if (state == SHUNT_START_STAGED && (flight->persistent || settle_older(flight, wait)))
        stage_flight(flight, wait);
}

/* wait: until the host has all that is staged, for which this thread copies. */
static void look_at_all(bool wait)
{
    struct flight *next;

    for (struct flight *flight = flights; flight; flight = next) {
        next = flight->next;
        switch (flight->stage) {
        case GOING: look_at_board(flight, wait); break;
        case FILLING:
            if (flight->persistent || settle_older(flight, wait))
                look_at_filling(flight, wait);
            break;
        case STAGED: look_at_host(flight); break;
        case RETURNING: look_at_returning(flight); break;
        case ENDED: break;
        }
    }
}

void shunt_flights_look(void)
{
    int saved = errno;

    if (!shunt_life_forked() && pthread_mutex_trylock(&lock) == 0) {
        look_at_all(false);
        pthread_mutex_unlock(&lock);
    }
    errno = saved;
}

/* ---- before what the host does in order ---- */

/* Under the lock: veto those of the communicator (all, with MPI_COMM_NULL) that are undecided, or only ask for them. */
static bool any_undecided(MPI_Comm comm, bool veto)
{
    bool found = false;

    for (struct flight *flight = flights; flight; flight = flight->next) {
        if ((comm != MPI_COMM_NULL && flight->request.comm != comm) || !is_undecided(flight))
            continue;
        found = true;
        if (veto)
            shunt_start_veto(flight->start);
    }
    return found;
}

void shunt_flights_fence(MPI_Comm comm)
{
    double start = shunt_seconds();
    unsigned spins = 0;
    int saved = errno;

    if (shunt_life_forked())
        return;
    pthread_mutex_lock(&lock);
    look_at_all(true);
    while (any_undecided(comm, false) && shunt_seconds() - start < GRACE_SECONDS) {
        shunt_board_relax(&spins);
        look_at_all(true);
    }
    any_undecided(comm, true);
    look_at_all(true);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

/* Steps on a board are in order. Only for calls that may wait for the others: none of them ends before they have begun those. */
void shunt_flights_meet(MPI_Comm handle)
{
    struct shunt_comm *comm = shunt_comm_find(handle);
    unsigned spins = 0;
    int flag, saved = errno;

    while (comm && comm->board && !shunt_life_forked() && shunt_starts_meet(comm->board)) {
        shunt_flights_look();
        shunt_host.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        shunt_board_relax(&spins);
    }
    errno = saved;
}

void shunt_flights_part(MPI_Comm handle)
{
    struct shunt_comm *comm = shunt_comm_find(handle);

    if (comm && comm->board && !shunt_life_forked())
        shunt_starts_pass(comm->board);
}

/* A step of a host rank: those that wait for ranks to meet take theirs before. */
static void pass(struct shunt_board *board)
{
    shunt_starts_pass(board);
    shunt_board_pass(board);
}

/* ---- beginning ---- */

static struct flight *make_flight(MPI_Comm comm, enum shunt_coll coll)
{
    struct flight *flight = calloc(1, sizeof *flight);

    if (!flight)
        return NULL;
    flight->request = (struct shunt_request){ .kind = &kind, .comm = comm };
    flight->coll = coll;
    flight->copying.caller = pthread_self();
    if (shunt_face_make(&flight->face) == MPI_SUCCESS)
        return flight;
    free(flight);
    return NULL;
}

static void drop_flight(struct flight *flight)
{
    shunt_host.Grequest_complete(flight->face);
    shunt_host.Request_free(&flight->face);
    shunt_aside_drop(&flight->aside);
    free(flight);
}

static struct flight *make_nonblocking(const struct shunt_call *call, const struct shunt_task *task)
{
    struct flight *flight = make_flight(call->comm, task->coll);

    if (!flight)
        return NULL;
    flight->bytes = task->count * shunt_type_size(task->type);
    if (shunt_kept_make(call, &flight->kept))
        return flight;
    drop_flight(flight);
    return NULL;
}

static void list_flight(struct flight *flight)
{
    struct flight **at = &flights;

    while (*at)
        at = &(*at)->next;
    *at = flight;
    __atomic_add_fetch(&shunt_flights, 1, __ATOMIC_RELAXED);
}

static int enter_flight(struct flight *flight, MPI_Request *handle)
{
    pthread_mutex_lock(&lock);
    list_flight(flight);
    flight->request.handle = flight->face;
    *handle = flight->face;
    int rc = shunt_request_track(&flight->request);
    if (flight->stage == ENDED) /* of one rank: nothing was to be begun */
        end_flight(flight, MPI_SUCCESS);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* On the board: answers why not. The step there is taken, whatever becomes of it. */
static enum shunt_reason start_flight(struct flight *flight, struct shunt_board *board, const struct shunt_task *task)
{
    enum shunt_reason reason;

    if (!shunt_aside_keep(task, &flight->aside)) {
        pass(board);
        return SHUNT_REASON_CONTEXT;
    }
    return shunt_coll_start(shunt_life_arena(), board, task, &flight->start, &reason) == SHUNT_OK
               ? SHUNT_REASON_NONE
               : reason;
}

static bool begin(struct shunt_call *call, struct shunt_comm *comm, const struct shunt_task *task, int *rc,
                  enum shunt_reason *reason)
{
    struct flight *flight = make_nonblocking(call, task);

    if (!flight) {
        *reason = SHUNT_REASON_PEER_VETO;
        shunt_hook_coll(call);
        return false;
    }
    if (comm->size == 1) {
        if (shunt_device_copy(task)) {
            flight->stage = ENDED;
            count_run(flight, SHUNT_PATH_LOCAL);
        } else {
            *reason = SHUNT_REASON_CONTEXT;
        }
    } else {
        *reason = start_flight(flight, comm->board, task);
    }
    if (*reason != SHUNT_REASON_NONE) {
        shunt_kept_release(&flight->kept);
        drop_flight(flight);
        if (!shunt_device_bereft(comm->board, *reason))
            return false;
        *call->requests = MPI_REQUEST_NULL;
        *rc = shunt_comm_fail(call->comm);
        return true;
    }
    *rc = enter_flight(flight, call->requests);
    return true;
}

bool shunt_flight_begin(struct shunt_call *call, int *rc, enum shunt_reason *reason)
{
    struct shunt_comm *comm = shunt_comm_get(call->comm);
    struct shunt_spans spans[SHUNT_SPAN_WAVES];
    struct shunt_task task;

    *reason = SHUNT_REASON_NO_ALGORITHM;
    if (!comm || !shunt_device_task(call, comm, spans, &task, reason)) {
        if (comm)
            shunt_hook_coll(call);
        return false;
    }
    if (shunt_life_arena())
        shunt_arena_set_device_used(shunt_life_arena());
    if (*reason == SHUNT_REASON_NONE)
        *reason = comm->reason;
    if (*reason == SHUNT_REASON_NONE)
        return begin(call, comm, &task, rc, reason);
    shunt_hook_coll(call);
    return false;
}

/* ---- starting persistent ones ---- */

/* On the GPUs; answers why not. */
static enum shunt_reason try_start(struct flight *flight, struct shunt_repeat *repeat)
{
    struct shunt_task *task = &repeat->task;

    if (repeat->reason != SHUNT_REASON_NONE)
        return repeat->reason;
    if (!shunt_device_again(task)) {
        pass(repeat->comm.board);
        return SHUNT_REASON_MIXED_BUFFERS;
    }
    flight->bytes = task->count * shunt_type_size(task->type);
    if (repeat->comm.size > 1)
        return start_flight(flight, repeat->comm.board, task);
    if (!shunt_device_copy(task))
        return SHUNT_REASON_CONTEXT;
    flight->stage = ENDED;
    count_run(flight, SHUNT_PATH_LOCAL);
    return SHUNT_REASON_NONE;
}

int shunt_flight_start(struct shunt_operation *operation)
{
    const unsigned family = shunt_call_family(operation->repeat->call.id);
    struct flight *flight = make_flight(operation->request.comm, shunt_call_coll(family));

    if (!flight)
        return shunt_operation_fail(operation->request.comm);
    flight->persistent = operation;
    operation->request.face = flight->face;
    operation->error = MPI_SUCCESS;
    enum shunt_reason reason = try_start(flight, operation->repeat);
    pthread_mutex_lock(&lock);
    list_flight(flight);
    if (shunt_device_bereft(operation->repeat->comm.board, reason))
        end_flight(flight, MPI_ERR_OTHER);
    else if (reason != SHUNT_REASON_NONE)
        start_staged(flight, reason, true);
    else if (flight->stage == ENDED)
        end_flight(flight, MPI_SUCCESS);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

/* ---- the end of MPI ---- */

void shunt_flights_finish(void)
{
    double start = shunt_seconds();

    if (__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) == 0)
        return;
    shunt_flights_fence(MPI_COMM_NULL);
    while (__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0 && shunt_seconds() - start < PATIENCE_SECONDS) {
        unsigned spins = UINT32_MAX;
        shunt_flights_look();
        shunt_board_relax(&spins);
    }
}

void shunt_flights_abandon(void)
{
    __atomic_store_n(&shunt_flights, 0, __ATOMIC_RELAXED);
    flights = NULL;
}
