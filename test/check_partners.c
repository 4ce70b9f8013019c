/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks send device memory to each other in the world, and then between two groups of one rank each: check_partners
 * ROUNDS. Ranks of such a communicator are those of the other group, so the same numbers are other processes.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu.h"

enum { BYTES = 65536, WORLD_ROUNDS = 10 };

static int rank, cases, failures;
static struct gpu_block block[2];
static char *made, *got;

static void fill(int seed)
{
    for (int i = 0; i < BYTES; i++)
        made[i] = (char)(seed * 31 + i * 7 + (i >> 8));
}

/* Both ways, so that each side sends before it receives once. */
static void exchange(MPI_Comm comm, int peer, int seed)
{
    MPI_Request request;
    MPI_Status status;
    int bytes = 0;

    fill(2 * seed + rank);
    gpu_copy(block[0].base, made, BYTES);
    gpu_synchronize();
    if (rank == 1)
        MPI_Isend(block[0].base, BYTES, MPI_BYTE, peer, 5, comm, &request);
    else
        MPI_Send(block[0].base, BYTES, MPI_BYTE, peer, 5, comm);
    MPI_Probe(MPI_ANY_SOURCE, 5, comm, &status);
    MPI_Recv(block[1].base, BYTES, MPI_BYTE, status.MPI_SOURCE, 5, comm, &status);
    if (rank == 1)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    gpu_copy(got, block[1].base, BYTES);
    fill(2 * seed + 1 - rank);
    cases++;
    if (status.MPI_SOURCE == peer && bytes == BYTES && memcmp(got, made, BYTES) == 0)
        return;
    failures++;
    printf("FAIL rank %d: round %d, %d bytes from %d\n", rank, seed, bytes, status.MPI_SOURCE);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10, all = 0;
    MPI_Comm inter;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu_start(gpu_local_rank());
    made = malloc(BYTES);
    got = malloc(BYTES);
    for (int i = 0; i < 2; i++)
        gpu_alloc(&block[i], 'D', BYTES);
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 9, &inter);
    for (int i = 0; i < WORLD_ROUNDS; i++)
        exchange(MPI_COMM_WORLD, 1 - rank, i);
    for (int i = 0; i < rounds; i++)
        exchange(inter, 0, WORLD_ROUNDS + i);
    MPI_Comm_free(&inter);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_partners: ranks 2 cases %d failures %d device 0 host 0\n", cases, all);
    MPI_Finalize();
    return all != 0;
}
