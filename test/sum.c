/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums in pieces, and programs made of modes: see sum.h. */
#include "test/sum.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/case.h"

int sum_rank, sum_size;

static const char *mode_name;
static atomic_long calls;
static bool going; /* what is called goes on by itself, and is waited for */

void sum_fail(const char *what)
{
    printf("FAIL rank %d: %s: %s\n", sum_rank, mode_name, what);
    fflush(stdout);
    test_tally.failures++;
}

void sum_check_call(int rc, const char *call)
{
    if (rc == 0)
        return;
    fprintf(stderr, "%s: %s failed with %d\n", mode_name, call, rc);
    exit(3);
}

void sum_make(struct sum *sum, char kind, int n)
{
    *sum = (struct sum){.n = n, .host = malloc((size_t)n * sizeof(int))};
    gpu_alloc(&sum->send, kind, (size_t)n * sizeof(int));
    gpu_alloc(&sum->recv, kind, (size_t)n * sizeof(int));
}

void sum_free(struct sum *sum)
{
    gpu_free(&sum->send);
    gpu_free(&sum->recv);
    free(sum->host);
}

void sum_fill(struct sum *sum)
{
    size_t bytes = (size_t)sum->n * sizeof(int);

    sum->round++;
    for (int i = 0; i < sum->n; i++)
        sum->host[i] = 1000003 * (sum_rank + 1) + 7919 * (int)sum->round + i;
    gpu_copy(sum->send.base, sum->host, bytes);
    memset(sum->host, 0xc3, bytes);
    gpu_copy(sum->recv.base, sum->host, bytes);
    gpu_synchronize();
}

void sum_count_call(void)
{
    calls++;
}

void sum_call(struct sum *sum, MPI_Comm comm)
{
    MPI_Request request;

    if (going) {
        sum_begin(sum, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    calls++;
    if (MPI_Allreduce(sum->send.base, sum->recv.base, sum->n, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS)
        sum_fail("MPI_Allreduce failed");
}

void sum_begin(struct sum *sum, MPI_Comm comm, MPI_Request *request)
{
    calls++;
    if (MPI_Iallreduce(sum->send.base, sum->recv.base, sum->n, MPI_INT, MPI_SUM, comm, request) != MPI_SUCCESS)
        sum_fail("MPI_Iallreduce failed");
}

void sum_check(struct sum *sum)
{
    gpu_copy(sum->host, sum->recv.base, (size_t)sum->n * sizeof(int));
    for (int i = 0; i < sum->n; i++) {
        int expected = 1000003 * (sum_size * (sum_size + 1) / 2) + sum_size * (7919 * (int)sum->round + i);
        if (sum->host[i] == expected)
            continue;
        sum_fail("a wrong sum");
        printf("element %d of %d is %d, expected %d\n", i, sum->n, sum->host[i], expected);
        return;
    }
}

void sum_once(struct sum *sum)
{
    sum_fill(sum);
    sum_call(sum, MPI_COMM_WORLD);
    sum_check(sum);
}

static bool run_mode(const struct sum_mode *modes, const char *name)
{
    for (const struct sum_mode *mode = modes; mode->name; mode++) {
        if (strcmp(mode->name, name) != 0)
            continue;
        mode_name = name;
        mode->run();
        test_tally.cases++;
        return true;
    }
    fprintf(stderr, "no such mode: %s\n", name);
    return false;
}

bool sum_summary(void)
{
    test_tally.calls = test_tally.device_calls = calls;
    return case_summary("check_modes");
}

int sum_main(int argc, char **argv, int first, const struct sum_mode *modes, void (*prepare)(void))
{
    int wanted = getenv("SUM_SINGLE") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, provided;

    MPI_Init_thread(NULL, NULL, wanted, &provided);
    if (argc <= first || provided < wanted)
        return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &sum_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &sum_size);
    mode_name = argv[0];
    going = getenv("SUM_NONBLOCKING") != NULL;
    gpu_start(gpu_local_rank());
    if (prepare)
        prepare();
    for (int i = first; i < argc; i++)
        if (!run_mode(modes, argv[i]))
            return 2;
    bool good = sum_summary();
    MPI_Finalize();
    return good ? 0 : 1;
}
