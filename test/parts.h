/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test program of named parts, of which the command line chooses one: which rank this is and what memory it uses, buffers of
 * integers, three threads with a communicator each. Rank r uses device memory, or what the letters of KINDS (environment, one for
 * each rank, repeated; default D) say. What is wrong is printed and counted.
 */
#ifndef SHUNT_TEST_PARTS_H
#define SHUNT_TEST_PARTS_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/gpu.h"

static int rank, ranks, failures;
static char kind;
static MPI_Status *ignored_statuses; /* MPI_STATUSES_IGNORE, which compilers take for the address of too little memory */

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0 : (void)(failures++, printf("rank %d, line %d: %s\n", rank, __LINE__, #condition)))

struct part {
    const char *name;
    void (*run)(void);
};

static inline void nap(int ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

    nanosleep(&t, NULL);
}

static inline void set_all(struct gpu_block *block, int n, int value)
{
    int *host = malloc((size_t)n * sizeof *host);

    for (int i = 0; i < n; i++)
        host[i] = value + i % 7;
    gpu_copy(block->base, host, (size_t)n * sizeof *host);
    free(host);
}

static inline int all_are(const struct gpu_block *block, int n, int value, int factor)
{
    int *host = malloc((size_t)n * sizeof *host), good = 1;

    gpu_copy(host, block->base, (size_t)n * sizeof *host);
    for (int i = 0; i < n && good; i++)
        good = host[i] == value + factor * (i % 7);
    free(host);
    return good;
}

/* What comes of a sum to which rank r brings value + r. */
static inline int sum_of(int value)
{
    return ranks * value + ranks * (ranks - 1) / 2;
}

/* `use` gets the address of a communicator of its own. */
static inline void run_threads(void *(*use)(void *comm))
{
    pthread_t thread[3];
    MPI_Comm comms[3];

    for (int i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, use, &comms[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&comms[i]);
}

/* `first` runs before the part; NULL: nothing. The exit code of the program. */
static inline int run_parts(int argc, char **argv, const struct part *parts, size_t n, void (*first)(const char *what))
{
    const char *kinds = getenv("KINDS"), *what = argc > 1 ? argv[1] : "";
    bool known = false;
    int provided;

    MPI_Init_thread(&argc, &argv, strcmp(what, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    ignored_statuses = MPI_STATUSES_IGNORE;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    kinds = kinds ? kinds : "D";
    kind = kinds[(size_t)rank % strlen(kinds)];
    gpu_start(gpu_local_rank());
    if (first)
        first(what);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(what, parts[i].name) == 0) {
            known = true;
            parts[i].run();
        }
    }
    MPI_Finalize();
    return failures != 0 || !known;
}

#endif
