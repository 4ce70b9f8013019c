/* SPDX-License-Identifier: BSD-3-Clause */
/* How long MPI_Init and the first MPI_Allreduce of device memory take, the longest of all ranks, in ms: check_init. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/gpu.h"

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static double longest(double ms)
{
    double most = 0;

    MPI_Reduce(&ms, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return most;
}

/* The sum of ones; with `kind` H on host memory. */
static double first_sum(char kind, int ranks)
{
    struct gpu_block from, to;
    int one = 1, sum = 0;

    gpu_alloc(&from, kind, sizeof one);
    gpu_alloc(&to, kind, sizeof sum);
    gpu_copy(from.base, &one, sizeof one);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = now();
    MPI_Allreduce(from.base, to.base, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    double took = now() - begun;
    gpu_copy(&sum, to.base, sizeof sum);
    gpu_free(&from);
    gpu_free(&to);
    if (sum != ranks) {
        printf("check_init: the sum is %d\n", sum);
        exit(EXIT_FAILURE);
    }
    return took;
}

int main(int argc, char **argv)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK") ? getenv("OMPI_COMM_WORLD_LOCAL_RANK") : getenv("PMI_RANK");
    int rank, ranks;

    gpu_start(local ? atoi(local) : 0); /* whose own cost is not in question */
    double begun = now();
    MPI_Init(&argc, &argv);
    double init = now() - begun;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    init = longest(init);
    double host = longest(first_sum('H', ranks)), device = argc > 1 ? 0 : longest(first_sum('D', ranks));
    if (rank == 0)
        printf("check_init: ranks %d init %.1f host %.1f device %.1f\n", ranks, init, host, device);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
