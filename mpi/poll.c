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

/* One look of the host at all of them. *over: the call that waits would have returned. */
static int test_once(const struct shunt_wait *wait, int *over)
{
    int rc;

    switch (wait->id) {
    case SHUNT_CALL_Wait: return shunt_host.Test(wait->requests, over, wait->statuses);
    case SHUNT_CALL_Waitall: return shunt_host.Testall(wait->n_requests, wait->requests, over, wait->statuses);
    case SHUNT_CALL_Waitany:
        return shunt_host.Testany(wait->n_requests, wait->requests, wait->index, over, wait->statuses);
    default:
        rc = shunt_host.Testsome(wait->n_requests, wait->requests, wait->index, wait->indices, wait->statuses);
        *over = *wait->index != 0; /* or undefined: none is active */
        return rc;
    }
}

int shunt_poll_wait(const struct shunt_wait *wait)
{
    unsigned spins = 0;
    int over = 0, rc;

    while ((rc = test_once(wait, &over)) == MPI_SUCCESS && !over)
        wait_turn(&spins);
    shunt_deliveries_drain();
    return rc;
}
