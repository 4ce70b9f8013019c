/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An interposer that is wrong on purpose, preloaded to prove that the checker sees it. CHECK_LIAR names the lie, told
 * in every call of at least 3 elements on the last rank: element, first, before, after, send, bits, class, device,
 * error, errno, silent (the call does nothing).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static void spoil_byte(void *at)
{
    *(unsigned char *)at ^= 0x10;
}

/* Call a function of the CUDA runtime that this process has open, if it has. */
static void spoil_cuda(const char *name, int argument)
{
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    int (*function)(int) = NULL;

    if (runtime)
        *(void **)&function = dlsym(runtime, name);
    if (function)
        function(argument);
}

static void tell(const char *lie, const void *send, char *recv, size_t size, size_t count)
{
    if (strcmp(lie, "element") == 0)
        spoil_byte(recv + size * (count - 1));
    if (strcmp(lie, "first") == 0)
        spoil_byte(recv);
    if (strcmp(lie, "before") == 0)
        spoil_byte(recv - 1);
    if (strcmp(lie, "after") == 0)
        spoil_byte(recv + size * count + 100);
    if (strcmp(lie, "send") == 0 && send != MPI_IN_PLACE)
        spoil_byte((char *)send + size);
    if (strcmp(lie, "bits") == 0) /* one unit in the last place: within any tolerance, but not on all ranks */
        recv[0] ^= 1;
    if (strcmp(lie, "device") == 0)
        spoil_cuda("cudaSetDevice", 1);
    if (strcmp(lie, "error") == 0)
        spoil_cuda("cudaSetDevice", 12345);
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    const char *lie = getenv("CHECK_LIAR");
    int rc, rank, world, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (!lie || count < 3 || rank != world - 1)
        return PMPI_Allreduce(send, recv, count, type, op, comm);
    if (strcmp(lie, "silent") == 0) {
        char scratch[1 << 16];
        return PMPI_Allreduce(send == MPI_IN_PLACE ? recv : send, scratch, count, type, op, comm);
    }
    rc = PMPI_Allreduce(send, recv, count, type, op, comm);
    if (strcmp(lie, "class") == 0)
        return rc == MPI_SUCCESS ? rc : MPI_ERR_OTHER;
    MPI_Type_size(type, &size);
    if (rc == MPI_SUCCESS)
        tell(lie, send, recv, (size_t)size, (size_t)count);
    if (strcmp(lie, "errno") == 0)
        errno = ENOENT;
    return rc;
}
