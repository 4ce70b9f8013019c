/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators for the test programs, by the name of the way they are made. */
#ifndef SHUNT_TEST_COMMS_H
#define SHUNT_TEST_COMMS_H

#include <mpi.h>
#include <stdbool.h>

#define COMMS_NAMES "world dup idup split reverse undefined group create merge cart self inter"

/*
 * Make communicator `name` from MPI_COMM_WORLD: collective over it. MPI_COMM_NULL where the caller is no member, and
 * where there are too few ranks (merge, inter: 2). False if there is no such name.
 */
bool comms_make(const char *name, MPI_Comm *comm);

/* Free what comms_make made; predefined communicators and MPI_COMM_NULL stay. */
void comms_free(MPI_Comm *comm);

/* How many ranks contribute to a reduction's result here, and the number that the first of them has in the data. */
void comms_contributors(MPI_Comm comm, int *first, int *n);

/* The number that the caller's own contribution has. */
int comms_self(MPI_Comm comm);

#endif
