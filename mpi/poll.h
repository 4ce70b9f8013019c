/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking calls of the host as loops over their forms that do not block, in which flights are looked at (flight.h). */
#ifndef SHUNT_MPI_POLL_H
#define SHUNT_MPI_POLL_H

#include "mpi/call.h"

/* Is this call one that waits for requests? */
bool shunt_poll_waits(enum shunt_call_id id);

/* Is it one that completes requests, or says whether they are complete? */
bool shunt_poll_completes(enum shunt_call_id id);

/* Set when there are requests that MPICH 4.0 takes one by one only: of files, and of persistent collectives. */
extern bool shunt_poll_singly;

/* The host's call of such a kind; one that waits is a loop. Answers its error. */
int shunt_poll_call(const struct shunt_wait *wait);

/*
 * Fetch what has come for receives that are under way: who only looks whether requests are complete may do so again and
 * again, while the sender of another message waits for that to be fetched.
 */
void shunt_poll_fetch(void);

#endif
