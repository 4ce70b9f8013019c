/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that are still under way at MPI_Finalize: check_leftovers MODE KIND. freed: a send whose request the program
 * has freed; open: a receive that nobody sends to; sent: a send that nobody has completed, which hosts put up with.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpu.h"

#define FLOATS 300000

static float numbers[FLOATS];

static void send_one(const char *mode, struct gpu_block *block)
{
    MPI_Request request;

    for (int i = 0; i < FLOATS; i++)
        numbers[i] = (float)(i % 1000);
    gpu_copy(block->base, numbers, sizeof numbers);
    gpu_synchronize();
    if (strcmp(mode, "open") == 0) {
        MPI_Irecv(block->base, FLOATS, MPI_FLOAT, 1, 2, MPI_COMM_WORLD, &request);
        MPI_Send(numbers, FLOATS, MPI_FLOAT, 1, 1, MPI_COMM_WORLD);
        return;
    }
    MPI_Isend(block->base, FLOATS, MPI_FLOAT, 1, 1, MPI_COMM_WORLD, &request);
    if (strcmp(mode, "freed") == 0)
        MPI_Request_free(&request);
}

static int receive_one(void)
{
    usleep(300000);
    MPI_Recv(numbers, FLOATS, MPI_FLOAT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < FLOATS; i++)
        if (numbers[i] != (float)(i % 1000))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    struct gpu_block block;
    int rank, failures = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        gpu_start(0);
        gpu_alloc(&block, argv[2][0], sizeof numbers);
        send_one(argv[1], &block);
    } else if (rank == 1) {
        failures = receive_one();
        printf("check_leftovers: ranks 2 cases 1 failures %d device 1 host 0\n", failures);
        fflush(stdout);
    }
    MPI_Finalize();
    return failures;
}
