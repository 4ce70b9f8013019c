/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of ints on device memory in pieces (fill, call, check), so that something else may come between, for programs
 * that consist of modes. What fails is printed and counted in test_tally of case.h.
 */
#ifndef SHUNT_TEST_SUM_H
#define SHUNT_TEST_SUM_H

#include <mpi.h>

#include "test/gpu.h"

/*
 * CUDA's functions for a program whose list CALLS(X) has X(name, (arguments)) for each: SUM_CALLS declares them, and
 * find_calls, which sum_main calls first, finds them. CHECK(call): ends the program with a line if it has failed.
 */
#define SUM_DECLARE(name, arguments) static int(*name) arguments;
#define SUM_FIND(name, arguments)    *(void **)&name = gpu_function(#name);
#define SUM_CALLS(calls)                                                                           \
    calls(SUM_DECLARE) static void find_calls(void)                                                \
    {                                                                                              \
        calls(SUM_FIND)                                                                            \
    }
#define CHECK(call) sum_check_call(call, #call)

enum { NON_BLOCKING = 1, TO_HOST = 2 }; /* of cudaStreamCreateWithFlags; of cudaMemcpyAsync */

enum { SUM_SMALL = 100, SUM_LARGE = 100000 }; /* elements: one for each kind of algorithm */

struct sum {
    int n, *host;
    unsigned round;
    struct gpu_block send, recv;
};

/* A mode of a program. */
struct sum_mode {
    const char *name;
    void (*run)(void);
};

extern int sum_rank, sum_size; /* of MPI_COMM_WORLD */

/*
 * The main of such a program: initialises MPI for threads and CUDA, calls `prepare` if there is one, runs the modes that
 * are the words from argv[first] on, prints the summary. Answers the exit code.
 */
int sum_main(int argc, char **argv, int first, const struct sum_mode *modes, void (*prepare)(void));

/* Print the summary, by all ranks; true if nothing failed. */
bool sum_summary(void);

void sum_fail(const char *what);

/* Ends the program with a line if a CUDA call has failed. */
void sum_check_call(int rc, const char *call);

void sum_make(struct sum *sum, char kind, int n);
void sum_free(struct sum *sum);
void sum_fill(struct sum *sum);
/* From any thread. MPI_Iallreduce and MPI_Wait where SUM_NONBLOCKING is in the environment. */
void sum_call(struct sum *sum, MPI_Comm comm);
void sum_begin(struct sum *sum, MPI_Comm comm, MPI_Request *request); /* MPI_Iallreduce */
void sum_check(struct sum *sum);

void sum_count_call(void); /* of MPI_Allreduce on device memory, made elsewhere */

/* All three on MPI_COMM_WORLD. */
void sum_once(struct sum *sum);

#endif
