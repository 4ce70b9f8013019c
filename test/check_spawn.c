/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that are started by a process: check_spawn KIND CHILD [LIBRARY]. Rank 0 starts one of this program, with LIBRARY preloaded or
 * with nothing; the buffers of that one are of kind CHILD, the others' of kind KIND. What they reduce and send on the communicator
 * of all, and on the inter-communicator, is checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu.h"

#define COUNT  1000
#define ROUNDS 5

static long cases, failures;

static void expect(const char *what, const int *found, int wanted)
{
    cases++;
    for (int i = 0; i < COUNT; i++)
        if (found[i] != wanted + i) {
            printf("FAIL %s: %d, not %d\n", what, found[i], wanted + i);
            failures++;
            return;
        }
}

static void fill(struct gpu_block *block, int base)
{
    int values[COUNT];

    for (int i = 0; i < COUNT; i++)
        values[i] = base + i;
    gpu_copy(block->base, values, sizeof values);
}

static const int *look(const struct gpu_block *block)
{
    static int values[COUNT];

    gpu_copy(values, block->base, sizeof values);
    return values;
}

static MPI_Comm start_child(char *program, char *kind, char *library)
{
    char preload[4096];
    char *words[] = {preload, program, kind, kind, NULL}; /* of env */
    MPI_Comm child;

    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library ? library : "");
    MPI_Comm_spawn("env", words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
    return child;
}

/* The greatest of rank + i, and pieces from rank to rank. */
static void use_all(MPI_Comm all, struct gpu_block *send, struct gpu_block *recv)
{
    int rank, size;

    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    for (int round = 0; round < ROUNDS; round++) {
        fill(send, 10 * round + rank);
        MPI_Allreduce(send->base, recv->base, COUNT, MPI_INT, MPI_MAX, all);
        expect("Allreduce", look(recv), 10 * round + size - 1);
        MPI_Sendrecv(send->base, COUNT, MPI_INT, (rank + 1) % size, 3, recv->base, COUNT, MPI_INT, (rank + size - 1) % size, 3, all,
                     MPI_STATUS_IGNORE);
        expect("Sendrecv", look(recv), 10 * round + (rank + size - 1) % size);
    }
}

/* Each group gets what the other has. */
static void use_both(MPI_Comm both, bool is_child, struct gpu_block *send, struct gpu_block *recv)
{
    fill(send, is_child ? 100 : 200);
    MPI_Allreduce(send->base, recv->base, COUNT, MPI_INT, MPI_MAX, both);
    expect("Allreduce between groups", look(recv), is_child ? 200 : 100);
}

int main(int argc, char **argv)
{
    struct gpu_block send, recv;
    MPI_Comm parent, both, all;
    long sums[2];
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    bool is_child = parent != MPI_COMM_NULL;
    if (argc < 3 || !gpu_kind_known(argv[1][0]))
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (!gpu_kind_on_host(argv[1][0]))
        gpu_start(gpu_local_rank());
    gpu_alloc(&send, argv[1][0], COUNT * sizeof(int));
    gpu_alloc(&recv, argv[1][0], COUNT * sizeof(int));
    use_all(MPI_COMM_WORLD, &send, &recv);
    both = is_child ? parent : start_child(argv[0], argv[2], argc > 3 ? argv[3] : NULL);
    use_both(both, is_child, &send, &recv);
    MPI_Intercomm_merge(both, is_child, &all);
    use_all(all, &send, &recv);
    MPI_Reduce((long[2]){cases, failures}, sums, 2, MPI_LONG, MPI_SUM, 0, all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Comm_free(&all);
    use_all(MPI_COMM_WORLD, &send, &recv);
    MPI_Comm_disconnect(&both);
    gpu_free(&send);
    gpu_free(&recv);
    MPI_Finalize();
    if (rank == 0)
        printf("check_spawn: ranks %d cases %ld failures %ld\n", size, sums[0], sums[1]);
    return failures > 0;
}
