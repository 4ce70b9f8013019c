/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flights: collectives that go on after the call that began them, on the GPUs or on their way there.
 *
 * The program holds a generalized request of the host, the flight's face, so that the host itself completes it in every way
 * there is, alone or in arrays. We complete the face, in whatever call the program makes next after the end.
 *
 * A flight that turns out to be staged is begun in the host MPI by the application's thread, which is where host collectives of
 * a communicator must stay in order: before any later one of this rank, its older flights are decided or staged, oldest first.
 * And while there are flights, blocking calls are loops in which they are looked at (poll.h): a peer may be waiting for this
 * rank in the host MPI.
 */
#ifndef SHUNT_MPI_FLIGHT_H
#define SHUNT_MPI_FLIGHT_H

#include "base/reasons.h"
#include "mpi/call.h"
#include "mpi/comm.h"

/*
 * Begin a nonblocking collective that may have device memory. Takes its step on the board, whatever becomes of it. True: begun
 * (or failed), *rc is what the call returns. False: *reason says why it has to be staged; NONE: all is surely on host memory.
 */
bool shunt_flight_begin(struct shunt_call *call, int *rc, enum shunt_reason *reason);

/*
 * Start a persistent collective that has a `repeat`. Its request has a face from then on, until the program is told of its end.
 * Answers an MPI error.
 */
struct shunt_operation;
int shunt_flight_start(struct shunt_operation *operation);

/* At the end of MPI: wait for those under way, but not for ever. */
void shunt_flights_finish(void);

/* In the child after fork: forget them. */
void shunt_flights_abandon(void);

#endif
