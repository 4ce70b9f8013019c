/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of test_front.py's SEQUENCE in C, and their results checked. -DPROFILING: by their PMPI_ names. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#ifdef PROFILING
#define CALL(name) JOIN(PMPI_, name)
#else
#define CALL(name) JOIN(MPI_, name)
#endif

static void check(int right, const char *what)
{
    if (right)
        return;
    printf("wrong: %s\n", what);
    exit(1);
}

int main(int argc, char **argv)
{
    int rank, size;
    double in[4], out[4] = {0}, window[4] = {0};
    MPI_Comm comm;
    MPI_Request request, both[2];
    MPI_Win win;
    MPI_File file;

    CALL(Init)(&argc, &argv);
    CALL(Comm_rank)(MPI_COMM_WORLD, &rank);
    CALL(Comm_size)(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 4; i++)
        in[i] = rank + 1;
    double sum = size * (size + 1) / 2.0;

    CALL(Barrier)(MPI_COMM_WORLD);
    CALL(Comm_dup)(MPI_COMM_WORLD, &comm);
    CALL(Allreduce)(in, out, 4, MPI_DOUBLE, MPI_SUM, comm);
    check(out[0] == sum && out[3] == sum, "Allreduce");
    CALL(Allreduce)(MPI_IN_PLACE, out, 4, MPI_DOUBLE, MPI_SUM, comm);
    check(out[3] == sum * size, "Allreduce in place");
    CALL(Iallreduce)(in, out, 4, MPI_DOUBLE, MPI_SUM, comm, &request);
    CALL(Wait)(&request, MPI_STATUS_IGNORE);
    check(out[2] == sum, "Iallreduce");
    CALL(Bcast)(out, 4, MPI_DOUBLE, 0, comm);
    CALL(Irecv)(out, 4, MPI_DOUBLE, rank, 7, comm, &both[0]);
    CALL(Isend)(in, 4, MPI_DOUBLE, rank, 7, comm, &both[1]);
    CALL(Waitall)(2, both, MPI_STATUSES_IGNORE);
    check(out[1] == rank + 1, "Irecv");
    CALL(Win_create)(window, sizeof window, sizeof(double), MPI_INFO_NULL, comm, &win);
    CALL(Win_fence)(0, win);
    CALL(Put)(in, 4, MPI_DOUBLE, rank, 0, 4, MPI_DOUBLE, win);
    CALL(Win_fence)(0, win);
    CALL(Win_free)(&win);
    check(window[3] == rank + 1, "Put");
    CALL(File_open)(comm, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    CALL(File_set_view)(file, (MPI_Offset)rank * 32, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL);
    CALL(File_write_all)(file, in, 4, MPI_DOUBLE, MPI_STATUS_IGNORE);
    CALL(File_close)(&file);
    CALL(Comm_free)(&comm);
    CALL(Barrier)(MPI_COMM_WORLD);

    return CALL(Finalize)();
}
