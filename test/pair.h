/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call on two buffers, made on host memory first and then on pairs of kinds of memory. What it leaves in every byte of
 * both buffers, guards and gaps included, and what it answers must be as on host memory.
 */
#ifndef SHUNT_TEST_PAIR_H
#define SHUNT_TEST_PAIR_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "test/gpu.h"

#define PAIR_GUARD  256 /* around each buffer; also room for lower bounds below its address */
#define PAIR_VALUES 4

struct pair_test {
    const char *name; /* for people */
    /* Makes the call on the buffers and answers what it answers; counts, positions and so on go to values. */
    int (*call)(const void *context, char *send, char *recv, long values[PAIR_VALUES]);
    const void *context;
    bool sends, receives; /* is the buffer one that counts on this rank, with elements? */
    bool apart;           /* it is sent and received by calls of their own, */
    int times;            /* so often each (0: once) */
    bool fails;           /* on purpose */
    size_t vague;         /* so many bytes of the receive buffer are not compared */
};

extern int pair_rank, pair_ranks; /* in MPI_COMM_WORLD */
extern bool pair_large;           /* by the functions with large counts */

#if MPI_VERSION >= 4
#define CALL(name, ...) (pair_large ? MPI_##name##_c(__VA_ARGS__) : MPI_##name(__VA_ARGS__))
#else
#define CALL(name, ...) MPI_##name(__VA_ARGS__)
#endif

/* MPI_Init, and the command line: [large] SEND:RECV ..., kinds of memory by rank, cyclically. Room: bytes of a buffer. */
void pair_start(int *argc, char ***argv, size_t room);

/* Host memory, and then all pairs; called by all ranks of a call alike. */
void pair_run(const struct pair_test *test);

/* Two floats of an element of 20 bytes, one of them below its address; and their sum, element by element. */
#define PAIR_WIDE 20
extern MPI_Datatype pair_holes;
extern MPI_Op pair_add;

/* The memory of a pair, for what pair_run cannot do. */
int pair_count(void);
const struct gpu_block *pair_block(int i, bool recv);
void pair_counted(bool device); /* a call under test was made, on device memory or not */
void pair_fill(char *at, int seed); /* small whole floats: their sums are the same in any order */
__attribute__((format(printf, 2, 3))) void pair_fail(const char *name, const char *format, ...);

/* Prints the sums, ends MPI and answers the exit code. */
int pair_finish(const char *program);

#endif
