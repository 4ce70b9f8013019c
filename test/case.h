/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One MPI_Allreduce on buffers of chosen kinds and places, with everything around it checked: the result against the
 * rank-ordered reference and the host MPI, guard bands, the send buffer, the caller's CUDA state and errno.
 */
#ifndef SHUNT_TEST_CASE_H
#define SHUNT_TEST_CASE_H

#include "test/refer.h"

#define CASE_RANKS 64 /* letters in a string of kinds */

struct test_case {
    const char *comm_name;
    MPI_Comm comm;
    struct refer_source source; /* type, operation, data, seed */
    long count;
    bool in_place;
    char send[CASE_RANKS + 1], recv[CASE_RANKS + 1]; /* kinds of memory by world rank, repeated cyclically */
    unsigned send_offset, recv_offset, skew;         /* bytes; world rank r adds r * skew to both */
};

/* What is the same for all cases of a run. */
struct test_options {
    bool ordered; /* the bits must be those of rank order, also where the data is rough */
    bool fresh;   /* new allocations for each case instead of ones that are used again */
    bool large;   /* MPI_Allreduce_c */
    bool pmpi;    /* by the name PMPI_Allreduce */
    bool thread;  /* from a thread of its own that has no CUDA context */
    bool pending; /* with a pending CUDA error that must stay */
    bool errno_kept; /* errno must stay (the host MPI does not promise that) */
    bool null;    /* NULL as the buffers of some zero counts */
    bool blind;   /* do not ask the host MPI for its result (very large cases) */
};

extern struct test_options test_options;

struct test_tally {
    long cases, failures;
    long calls;         /* calls of MPI_Allreduce under test that this rank made */
    long device_calls;  /* of them with a buffer of this rank on device memory and a count above 0 */
    long neutral_calls; /* of them with a count of 0 */
    long host_calls;    /* reductions on host memory: under test, and to learn the host MPI's result */
};

extern struct test_tally test_tally;

/* The error class with which the host MPI answers this pair; MPI_SUCCESS: it has it. */
int case_host_answer(const struct refer_type *type, enum refer_op_id op);

/* Run it, by all members of its communicator; what is wrong is printed and counted. */
void case_run(const struct test_case *test);

/* A sum of `count` floats on `comm` with both buffers of the given kinds: what small programs need. */
void case_sum(MPI_Comm comm, const char *comm_name, const char *kinds, long count, uint64_t seed);

/* Does this rank's part of the case lie in host memory alone? */
bool case_on_host(const struct test_case *test);

/* Give all buffers back. */
void case_finish(void);

/* Collective over MPI_COMM_WORLD: rank 0 prints the sums; true if nothing failed anywhere. */
bool case_summary(const char *program);

__attribute__((format(printf, 2, 3))) void case_fail(const struct test_case *test, const char *format, ...);

#endif
