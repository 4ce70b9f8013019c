/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums arrays of floats that lie in GPU memory over all ranks, checks every element, and prints time and bandwidth.
 *
 * An ordinary MPI program: device pointers go straight into MPI_Allreduce, and nothing here knows of shunt.
 *
 *     mpicc -O2 allreduce.c -o allreduce -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart
 *     mpirun -n 2 -x LD_PRELOAD=libshunt.so ./allreduce [LARGEST MESSAGE IN BYTES [REPETITIONS]]
 */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends all ranks with the runtime's own words if a call failed. */
#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t error_ = (call);                                                       \
        if (error_ != cudaSuccess) {                                                       \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));                \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                  \
        }                                                                                  \
    } while (0)

static int rank, size;

/* One GPU per rank of this machine, as long as there are enough. */
static void choose_gpu(void)
{
    MPI_Comm node;
    int local, gpus, length;
    char host[MPI_MAX_PROCESSOR_NAME];

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local);
    MPI_Comm_free(&node);
    CHECK(cudaGetDeviceCount(&gpus));
    CHECK(cudaSetDevice(local % gpus));
    MPI_Get_processor_name(host, &length);
    for (int r = 0; r < size; r++) { /* in order, so that the lines come out in order */
        if (r == rank) {
            printf("rank %d of %d: %s, GPU %d of %d\n", rank, size, host, local % gpus, gpus);
            fflush(stdout);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* The summand of rank r at element i: small whole numbers, so that every order of summation is exact. */
static float summand(int r, size_t i)
{
    return (float)(r + 1 + (int)(i % 7));
}

/* How many elements of the result are wrong, on all ranks. */
static long count_errors(const float *device_sum, float *host, size_t count)
{
    long wrong = 0, wrong_everywhere;

    CHECK(cudaMemcpy(host, device_sum, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        float expected = (float)size * (float)(size + 1) / 2 + (float)size * (float)(i % 7);

        wrong += host[i] != expected;
    }
    MPI_Allreduce(&wrong, &wrong_everywhere, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return wrong_everywhere;
}

/* Seconds per call, of the slowest rank. */
static double time_calls(const float *device, float *device_sum, size_t count, int repetitions)
{
    double start, mine, slowest;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < repetitions; i++)
        MPI_Allreduce(device, device_sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    mine = (MPI_Wtime() - start) / repetitions;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* One line of the table; answers the number of wrong elements. */
static long run_size(float *device, float *device_sum, float *host, size_t count, int repetitions)
{
    size_t bytes = count * sizeof(float);
    double seconds;
    long wrong;

    for (size_t i = 0; i < count; i++)
        host[i] = summand(rank, i);
    CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_sum, 0, bytes));
    MPI_Allreduce(device, device_sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    wrong = count_errors(device_sum, host, count);
    seconds = time_calls(device, device_sum, count, repetitions);
    wrong += count_errors(device_sum, host, count);
    if (rank == 0) {
        printf("%12zu %12.1f %12.3f   %s\n", bytes, 1e6 * seconds, 1e-9 * (double)bytes / seconds,
               wrong ? "WRONG" : "correct");
        fflush(stdout);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    size_t largest = argc > 1 ? strtoull(argv[1], NULL, 0) : 256 << 20;
    int repetitions = argc > 2 ? atoi(argv[2]) : 20;
    float *device, *device_sum, *host;
    long wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    choose_gpu();
    host = malloc(largest);
    if (host == NULL || repetitions < 1) {
        fprintf(stderr, "usage: allreduce [LARGEST MESSAGE IN BYTES [REPETITIONS]]\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CHECK(cudaMalloc((void **)&device, largest));
    CHECK(cudaMalloc((void **)&device_sum, largest));
    if (rank == 0)
        printf("%12s %12s %12s   result\n", "bytes", "us", "GB/s");
    for (size_t bytes = 8; bytes <= largest; bytes *= 8)
        wrong += run_size(device, device_sum, host, bytes / sizeof(float), repetitions);
    CHECK(cudaFree(device));
    CHECK(cudaFree(device_sum));
    free(host);
    MPI_Finalize();
    return wrong != 0;
}
