/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the host MPI on whose completion something of ours depends: communicators on their way, images that are
 * to be copied back or given back.
 *
 * The program holds the host's own handles throughout. A table leads from a handle to our record, and the hooks of the
 * calls that complete and start requests (class done) look there. The host completes a request; then the hook sees what
 * became of it, from the status, and does what is ours before the program goes on. A handle that the host gives out anew
 * replaces what is left of an older one.
 */
#ifndef SHUNT_MPI_REQUEST_H
#define SHUNT_MPI_REQUEST_H

#include <stdatomic.h>

#include "mpi/call.h"

struct shunt_request;

/* What is ours to do. Each answers MPI_SUCCESS or the error of the program's call. */
struct shunt_request_kind {
    /* The operation has ended, with this status; `error` is not MPI_SUCCESS where it failed. Once for each start. */
    int (*done)(struct shunt_request *request, int error, const MPI_Status *status);
    /* Several have ended in one call: called for all of them before `done` is for the first. NULL: nothing to do. */
    void (*ended)(struct shunt_request *request, int error, const MPI_Status *status);
    /* Persistent requests: the host is about to start it. NULL: nothing to do. */
    int (*start)(struct shunt_request *request);
    /* Persistent ones that the host does not start: start it. It has a face then. */
    int (*fly)(struct shunt_request *request);
    /* Partitioned ones: this partition is about to be ready, or has arrived. Several threads at once. NULL: nothing. */
    int (*piece)(struct shunt_request *request, int partition);
    /* May the program learn of the end already, as far as this side is concerned? Asked before the host. NULL: yes. */
    bool (*ready)(struct shunt_request *request);
    /* It has ended, now or before, and this is the status that the program gets. NULL: the host's is right. */
    void (*amend)(struct shunt_request *request, MPI_Status *status);
    bool early; /* of several that end in one call these are handled first: others may wait for what they do */
    /* The host uses what the record holds as long as it is pending: then it may not be freed, even when MPI ends. */
    bool lent;
    /* Nobody refers to the record any more: free it. */
    void (*release)(struct shunt_request *request);
};

/* To be embedded in what somebody keeps for a request. The first four are his to set, the rest is zero at first. */
struct shunt_request {
    const struct shunt_request_kind *kind;
    MPI_Request handle;
    MPI_Comm comm; /* whose end must wait for it; or MPI_COMM_NULL */
    bool persistent;
    bool wrapped;        /* it is a persistent one of the host, and the program does not know: it ends as any other */
    MPI_Request face;    /* persistent: of the host's calls, in place of the handle while it flies; or MPI_REQUEST_NULL */
    atomic_bool pending; /* started, and `done` has not been called */
    atomic_bool active;  /* persistent: started, and the program has not been told of its end by what makes it inactive */
    int references;      /* of the table or the orphans, and of calls that watch it; under the table's lock */
    struct shunt_request *next; /* among the orphans */
};

/* Track a request that the host has just given out. Answers MPI_SUCCESS, or an error where there is no memory for it. */
int shunt_request_track(struct shunt_request *request);

/*
 * The same for one that may be complete already, so that `done` and `release` are called at once: hosts give out one
 * handle for many such requests. Drives the host's progress, which Open MPI's Comm_idup does not survive between calls.
 */
int shunt_request_settle(struct shunt_request *request);

/*
 * For the hooks (completion.c). Is there a record under this handle? Those under n handles, NULL where there is none; each has a
 * reference then, which is dropped by shunt_request_drop.
 */
bool shunt_request_known(MPI_Request handle);
void shunt_request_hold(const MPI_Request *handles, int n, struct shunt_request **records);
void shunt_request_drop(struct shunt_request *request);

/* It has ended with this status: `done`, if that has not been called since the start. Answers its error. */
int shunt_request_end(struct shunt_request *request, int error, const MPI_Status *status);

/* The program frees a request that is under way: the handle is ours from now on. */
void shunt_request_adopt(struct shunt_request *request);

/* Receives under way of which something may be fetched while a call waits; atomically read and written. */
extern int shunt_requests_fetching;

/* Forget a record if it is the one under its handle: what it is for has been done in another way. */
void shunt_request_forget(struct shunt_request *request);

/* The host has given out this handle, and nothing depends on it. To be called for every new request. */
void shunt_request_renew(MPI_Request handle);

/*
 * Requests that the program has freed while they were under way are completed by us, in whatever call comes next
 * (shunt_requests_look of call.h). Wait a while until none of the communicator is left, or with MPI_COMM_NULL none at all.
 */
void shunt_requests_drain(MPI_Comm comm);

/* At the end of MPI: drop all records; in the child after fork: forget them, touch nothing. */
void shunt_requests_clear(void);
void shunt_requests_abandon(void);

#endif
