/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking calls of the host as loops; poll.h. */
#include "mpi/poll.h"

#include "base/board.h"
#include "mpi/delivery.h"

void shunt_poll_turn(unsigned *spins)
{
    if (__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0)
        shunt_flights_look();
    shunt_board_relax(spins);
}

/* What has come for receives is fetched meanwhile. */
static void wait_turn(unsigned *spins)
{
    shunt_deliveries_advance();
    shunt_poll_turn(spins);
}

void shunt_poll_fetch(void)
{
    shunt_deliveries_advance();
    shunt_deliveries_drain();
}

int shunt_poll_request(MPI_Request *request, MPI_Status *status)
{
    unsigned spins = 0;
    int flag = 0, rc;

    while ((rc = shunt_host.Test(request, &flag, status)) == MPI_SUCCESS && !flag)
        wait_turn(&spins);
    shunt_deliveries_drain();
    return rc;
}

/* What may wait for other ranks in the host, and has no form that does not, comes after all that is undecided. */
void shunt_flights_depth(enum shunt_call_id id)
{
    switch (id) {
    case SHUNT_CALL_Probe:
    case SHUNT_CALL_Mprobe:
    case SHUNT_CALL_Iprobe:
    case SHUNT_CALL_Improbe:
    case SHUNT_CALL_Cancel:
    case SHUNT_CALL_Win_test:
    case SHUNT_CALL_Comm_set_info: shunt_flights_look(); break;
    default: shunt_flights_fence(MPI_COMM_NULL); break;
    }
}

bool shunt_poll_waits(enum shunt_call_id id)
{
    return id == SHUNT_CALL_Wait || id == SHUNT_CALL_Waitall || id == SHUNT_CALL_Waitany || id == SHUNT_CALL_Waitsome;
}

bool shunt_poll_completes(enum shunt_call_id id)
{
    switch (id) {
    case SHUNT_CALL_Test:
    case SHUNT_CALL_Testall:
    case SHUNT_CALL_Testany:
    case SHUNT_CALL_Testsome:
    case SHUNT_CALL_Request_get_status:
    case SHUNT_CALL_Request_get_status_all:
    case SHUNT_CALL_Request_get_status_any:
    case SHUNT_CALL_Request_get_status_some: return true;
    default: return shunt_poll_waits(id);
    }
}

/* One look of the host at all of them. *over: a call that waits would have returned. */
static int call_once(const struct shunt_wait *wait, int *over)
{
    const int n = wait->n_requests;
    MPI_Request *const requests = wait->requests;
    int *flag = wait->flag ? wait->flag : over, rc;

    switch (wait->id) {
    case SHUNT_CALL_Wait:
    case SHUNT_CALL_Test: return shunt_host.Test(requests, flag, wait->statuses);
    case SHUNT_CALL_Waitall:
    case SHUNT_CALL_Testall: return shunt_host.Testall(n, requests, flag, wait->statuses);
    case SHUNT_CALL_Waitany:
    case SHUNT_CALL_Testany: return shunt_host.Testany(n, requests, wait->index, flag, wait->statuses);
    case SHUNT_CALL_Request_get_status: return shunt_host.Request_get_status(*requests, flag, wait->statuses);
    case SHUNT_CALL_Request_get_status_all:
        return shunt_host.Request_get_status_all(n, requests, flag, wait->statuses);
    case SHUNT_CALL_Request_get_status_any:
        return shunt_host.Request_get_status_any(n, requests, wait->index, flag, wait->statuses);
    case SHUNT_CALL_Request_get_status_some:
        return shunt_host.Request_get_status_some(n, requests, wait->index, wait->indices, wait->statuses);
    default:
        rc = shunt_host.Testsome(n, requests, wait->index, wait->indices, wait->statuses);
        *over = *wait->index != 0; /* or undefined: none is active */
        return rc;
    }
}

bool shunt_poll_singly;

/* Waitall after an error: what has not completed by now is pending. */
static int end_in_status(const struct shunt_wait *wait, int failed, int error)
{
    for (int i = 0; i < wait->n_requests; i++) {
        MPI_Status *status = wait->statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &wait->statuses[i];
        int flag = 1, code = i == failed ? error : MPI_SUCCESS;
        if (i > failed)
            code = shunt_host.Test(&wait->requests[i], &flag, status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = flag ? code : MPI_ERR_PENDING;
    }
    return MPI_ERR_IN_STATUS;
}

/*
 * Waitall, one after the other. A loop over Testall would have MPICH 4.0 ask a file's request again that has completed while
 * others had not, and end the process; of persistent collectives it tells of errors that are none.
 */
static int wait_in_turn(const struct shunt_wait *wait)
{
    unsigned spins = 0;

    for (int i = 0; i < wait->n_requests; i++) {
        MPI_Status *status = wait->statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &wait->statuses[i];
        int flag = 0, rc;
        while ((rc = shunt_host.Test(&wait->requests[i], &flag, status)) == MPI_SUCCESS && !flag)
            wait_turn(&spins);
        if (rc != MPI_SUCCESS)
            return end_in_status(wait, i, rc);
    }
    return MPI_SUCCESS;
}

int shunt_poll_call(const struct shunt_wait *wait)
{
    bool waits = shunt_poll_waits(wait->id);
    unsigned spins = 0;
    int over = 0, rc;

    if (wait->id == SHUNT_CALL_Waitall && __atomic_load_n(&shunt_poll_singly, __ATOMIC_RELAXED)) {
        rc = wait_in_turn(wait);
        shunt_deliveries_drain();
        return rc;
    }
    while ((rc = call_once(wait, &over)) == MPI_SUCCESS && waits && !over)
        wait_turn(&spins);
    if (waits)
        shunt_deliveries_drain();
    return rc;
}
