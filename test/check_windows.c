/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_windows [turns]: windows in device memory are refused on all ranks alike, in words; those in host memory work, and
 * those in managed memory, unless the CPU and the GPU may touch it in turns only.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu.h"

static int failures, cases;

static void expect(int rc, bool refused, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;

    cases++;
    if (rc != MPI_SUCCESS)
        MPI_Error_string(rc, text, &length);
    if ((rc != MPI_SUCCESS) != refused || (refused && !strstr(text, "windows in device memory"))) {
        failures++;
        printf("FAIL: %s answers %d, %s\n", what, rc, text);
    }
}

static void attach(struct gpu_block *block, bool refused, const char *what)
{
    MPI_Win win;

    expect(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win), false, "a dynamic window");
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    expect(MPI_Win_attach(win, block->base, block->bytes), refused, what);
    if (!refused)
        MPI_Win_detach(win, block->base);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    bool turns = argc > 1 && strcmp(argv[1], "turns") == 0;
    struct gpu_block block, managed;
    int rank, ranks, all;
    char host[64];
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    gpu_start(gpu_local_rank());
    gpu_alloc(&block, 'D', sizeof host);
    gpu_alloc(&managed, 'M', sizeof host);
    expect(MPI_Win_create(block.base, sizeof host, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), true, "device memory");
    expect(MPI_Win_create(rank ? block.base : host, sizeof host, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), true, "mixed");
    expect(MPI_Win_create(host, sizeof host, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), false, "host memory");
    MPI_Win_free(&win);
    int rc = MPI_Win_create(managed.base, sizeof host, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    expect(rc, turns, "managed memory");
    if (rc == MPI_SUCCESS)
        MPI_Win_free(&win);
    attach(&block, true, "attached device memory");
    attach(&managed, turns, "attached managed memory");
    gpu_free(&managed);
    gpu_free(&block);
    PMPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_windows: ranks %d cases %d failures %d device 0 host 0\n", ranks, cases, all);
    MPI_Finalize();
    return all != 0;
}
