/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * May device memory be handed to this MPI? Asked in the ways that libraries do: by a call (PETSc, hypre), a weak
 * reference, dlsym (Trilinos, Kokkos), MPICH's question, and the kinds of memory of MPI 4.1.
 */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern int MPIX_GPU_query_support(int, int *) __attribute__((weak));

static int question(void) __attribute__((weakref("PMPIX_Query_cuda_support")));

/* -1: not found */
static void ask(const char *when)
{
    int (*by_name)(void), gpu = -1, other = -1;

    *(void **)&by_name = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    if (MPIX_GPU_query_support) {
        MPIX_GPU_query_support(0, &gpu);
        MPIX_GPU_query_support(1, &other);
    }
    printf("%s: call %d weak %d dlsym %d gpu %d other %d\n", when, MPIX_Query_cuda_support(), question ? question() : -1,
           by_name ? by_name() : -1, gpu, other);
}

static void show_kinds(const char *of, MPI_Info info)
{
    char list[MPI_MAX_INFO_VAL + 1] = "-";
    int found;

    MPI_Info_get(info, "mpi_memory_alloc_kinds", MPI_MAX_INFO_VAL, list, &found);
    printf("%s kinds: %s\n", of, list);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    MPI_Info info;
    MPI_Comm again;
    MPI_File file;

#ifdef OPEN_MPI /* MPICH ends programs that ask before */
    ask("before");
#endif
    MPI_Init(&argc, &argv);
    ask("after");
    MPI_Comm_get_info(MPI_COMM_WORLD, &info);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &again);
    show_kinds("world", info);
    MPI_Comm_get_info(again, &info);
    show_kinds("copy", info);
    MPI_Comm_free(&again);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_get_info(file, &info);
    show_kinds("file", info);
    MPI_File_close(&file);
#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_memory_alloc_kinds", "system,cuda:device");
    MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Info_free(&info);
    MPI_Session_get_info(session, &info);
    show_kinds("session", info);
    MPI_Session_finalize(&session);
#endif
    return MPI_Finalize();
}
