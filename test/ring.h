/* SPDX-License-Identifier: BSD-3-Clause */
/* What the test programs of requests share: pieces of two buffers, a neighbour on each side, notes. For one test program. */
#ifndef SHUNT_TEST_RING_H
#define SHUNT_TEST_RING_H

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "test/pair.h"

#define PIECES 8
#define PIECE  100 /* floats */
#define BYTES  (PIECE * (int)sizeof(float))
#define ROOM   (2 * PAIR_GUARD + 2 * PIECES * BYTES)
#define TAG    40

static int left, right;
static MPI_Status *ignored_statuses; /* MPI_STATUSES_IGNORE, which compilers take for the address of too little memory */
static long *noted;

/* Whatever is noted in this order must be the same on any memory. */
static inline void note(long value)
{
    noted[0] = (long)((unsigned long)noted[0] * 1000003ul + (unsigned long)value);
}

/* `error` must be left as it is by calls that return one status. */
static inline void note_status(const MPI_Status *status, MPI_Datatype type)
{
    int count, elements, cancelled;

    MPI_Get_count(status, type, &count);
    MPI_Get_elements(status, type, &elements);
    MPI_Test_cancelled(status, &cancelled);
    note(count);
    note(elements);
    note(cancelled);
    note(status->MPI_TAG);
    note(status->MPI_SOURCE);
}

static inline char *piece(char *buffer, int i)
{
    return buffer + i * BYTES;
}

/* Receives from the left, sends to the right: pieces 0 to n - 1, with tags in this order. */
static inline void exchange(char *send, char *recv, int n, MPI_Request *requests)
{
    for (int i = 0; i < n; i++)
        CALL(Irecv, piece(recv, i), PIECE, MPI_FLOAT, left, TAG + i, MPI_COMM_WORLD, &requests[2 * i]);
    for (int i = 0; i < n; i++)
        CALL(Isend, piece(send, i), PIECE - i, MPI_FLOAT, right, TAG + i, MPI_COMM_WORLD, &requests[2 * i + 1]);
}

/* One case: a small program that notes what it learns. */
struct ring_case {
    const char *name;
    int (*run)(const void *context, char *send, char *recv, long *values);
    const bool *context;
};

static inline void ring_start(int *argc, char ***argv, const char **only)
{
    *only = NULL;
    if (*argc > 1 && !strchr((*argv)[*argc - 1], ':'))
        *only = (*argv)[--*argc];
    pair_start(argc, argv, ROOM);
    ignored_statuses = MPI_STATUSES_IGNORE;
    left = (pair_rank + pair_ranks - 1) % pair_ranks;
    right = (pair_rank + 1) % pair_ranks;
}

/* Run a case, unless the command line ends with the name of another. */
static inline void ring_run_one(const struct ring_case *one, const char *only)
{
    struct pair_test test = {.name = one->name, .call = one->run, .context = one->context, .sends = true, .receives = true};

    if (!only || strcmp(only, one->name) == 0)
        pair_run(&test);
}

static inline int ring_run(const char *program, const struct ring_case *cases, size_t n, const char *only)
{
    for (size_t i = 0; i < n; i++)
        ring_run_one(&cases[i], only);
    return pair_finish(program);
}

#endif
