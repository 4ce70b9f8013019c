/* SPDX-License-Identifier: BSD-3-Clause */
/* An ordinary PMPI tool: counts Allreduce and prints the count at Finalize. */
#include <mpi.h>
#include <stdio.h>

static int count;

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    count++;
    return PMPI_Allreduce(sendbuf, recvbuf, n, type, op, comm);
}

int MPI_Finalize(void)
{
    printf("tool %d\n", count);
    return PMPI_Finalize();
}
