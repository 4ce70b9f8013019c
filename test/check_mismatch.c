/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_mismatch: two ranks that do not agree how much each collective moves. Rank 0 has, or expects from rank 1, 120 ints instead
 * of 100. What the host MPI makes of that nobody waits for: each is begun, on a communicator of its own, and left alone.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/calls.h"
#include "test/gpu.h"

enum { SENT = 100, EXPECTED = 120, PEER = 1 };

static int rank;

/* Each is the other's only neighbour. */
static MPI_Comm new_comm(enum call call)
{
    int other = 1 - rank, one = 1;
    MPI_Comm comm;

    if (call >= neighbor_allgather)
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &other, &one, 1, &other, &one, MPI_INFO_NULL, 0, &comm);
    else
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

static void set_rows(struct numbers *counts, struct numbers *places, int first, int second, int scale)
{
    *counts = (struct numbers){.i = {first, second}};
    *places = (struct numbers){.i = {0, EXPECTED * scale}, .a = {0, EXPECTED * scale}};
}

static void begin(enum call call, char *send, char *recv)
{
    int own = rank == 0 ? EXPECTED : SENT;
    bool sums = call <= reduce_scatter && call != bcast, neighbours = call >= neighbor_allgather;
    bool wide = call == alltoallw || call == neighbor_alltoallw;
    bool alike = sums || call == gather || call == allgather || call == alltoall || call == gatherv;
    struct arguments a = {.send = send, .recv = recv, .type = MPI_INT, .types = {MPI_INT, MPI_INT}, .op = MPI_SUM,
                          .root = call == bcast || call == scatter || call == scatterv ? PEER : 0};

    a.sendcount = alike ? own : SENT;
    a.recvcount = own;
    a.comm = new_comm(call);
    set_rows(&a.sendcounts, &a.senddispls, SENT, SENT, wide ? sizeof(int) : 1);
    set_rows(&a.recvcounts, &a.recvdispls, neighbours || alike ? own : SENT, own, wide ? sizeof(int) : 1);
    run_call(call, false, &a);
}

int main(int argc, char **argv)
{
    struct gpu_block send, recv;

    form = BEGUN;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* of requests, too */
    gpu_start(gpu_local_rank());
    gpu_alloc(&send, 'D', 1 << 14);
    gpu_alloc(&recv, 'D', 1 << 14);
    for (int call = 0; call < NCALLS; call++)
        begin(call, send.base, recv.base);
    printf("check_mismatch: all begun\n");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    _exit(0);
}
