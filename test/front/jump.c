/* SPDX-License-Identifier: BSD-3-Clause */
/* An error handler leaves an MPI call by longjmp; then come one call from a shallower frame, one from the same, and
 * some from ever deeper ones, all of which must be seen as the program's own. */
#include <mpi.h>
#include <setjmp.h>
#include <string.h>

static jmp_buf back;

static void leave(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    longjmp(back, 1);
}

static void reduce(void)
{
    double in = 1, out;
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
}

static __attribute__((noinline)) void fail(void)
{
    volatile char room[256];
    memset((void *)room, 1, sizeof room);
    int data = 0;
    MPI_Send(&data, 1, MPI_INT, 1000000, 0, MPI_COMM_SELF);
}

static __attribute__((noinline)) void deeper(int levels)
{
    volatile char room[64];
    memset((void *)room, levels, sizeof room);
    reduce();
    if (levels > 1)
        deeper(levels - 1);
    room[0] = 0;
}

/* Leave from `fail` through one more frame, so that main's own frame and that of deeper() lie around it. */
static __attribute__((noinline)) void fail_deep(int levels)
{
    volatile char room[128];
    memset((void *)room, 2, sizeof room);
    if (levels)
        fail_deep(levels - 1);
    else
        fail();
    room[0] = 0;
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    if (setjmp(back) == 0)
        fail_deep(4);
    reduce();
    if (setjmp(back) == 0)
        fail();
    deeper(20);
    if (setjmp(back) == 0)
        fail_deep(20);
    deeper(40);
    MPI_Errhandler_free(&handler);
    return MPI_Finalize();
}
