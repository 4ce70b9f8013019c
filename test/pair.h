/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call on two buffers, made on host memory first and then on pairs of kinds of memory. What it leaves in every byte of
 * both buffers, guards and gaps included, and what it answers must be as on host memory.
 */
#ifndef SHUNT_TEST_PAIR_H
#define SHUNT_TEST_PAIR_H

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
    bool fails;           /* on purpose */
};

extern int pair_rank, pair_ranks; /* in MPI_COMM_WORLD */
extern bool pair_large;           /* by the functions with large counts */

/* MPI_Init, and the command line: [large] SEND:RECV ..., kinds of memory by rank, cyclically. Room: bytes of a buffer. */
void pair_start(int *argc, char ***argv, size_t room);

/* Host memory, and then all pairs; called by all ranks of a call alike. */
void pair_run(const struct pair_test *test);

/* The memory of a pair, for what pair_run cannot do. */
int pair_count(void);
const struct gpu_block *pair_block(int i, bool recv);
void pair_counted(bool device); /* a call under test was made, on device memory or not */
void pair_fill(char *at, int seed); /* small whole floats: their sums are the same in any order */
__attribute__((format(printf, 2, 3))) void pair_fail(const char *name, const char *format, ...);

/* Prints the sums, ends MPI and answers the exit code. */
int pair_finish(const char *program);

#endif
