/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on large vectors and blocks in device memory, whatever the nodes of the ranks: check_across COUNT... Whole
 * numbers tell who has sent them and to whom, so every element of a result is known. In place and not, roots first and last.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/case.h"
#include "test/gpu.h"

static int rank, size;
static struct gpu_block in, out;
static int *image;

/* Element i of what rank `from` has for rank `to`. */
static int value(int from, int to, size_t i)
{
    return (int)(from * 1000003u + to * 10007u + i * 31u + (i >> 11));
}

static int sum_of(int to, size_t i)
{
    unsigned sum = 0;

    for (int from = 0; from < size; from++)
        sum += (unsigned)value(from, to, i);
    return (int)sum;
}

/* `n` blocks of this rank for ranks 0, 1, ...; or, `same`, one for all. */
static void *fill(struct gpu_block *block, size_t first, int n, size_t count, bool same)
{
    for (int to = 0; to < n; to++)
        for (size_t i = 0; i < count; i++)
            image[(size_t)to * count + i] = value(rank, same ? 0 : to, i);
    gpu_copy(block->base + first * sizeof(int), image, (size_t)n * count * sizeof(int));
    gpu_synchronize();
    return block->base;
}

enum what { SUMS, BLOCKS_TO_ME, BLOCKS_OF_ALL, ONE_BLOCK, VECTOR };

/* Is what has come what must be? */
static void check(const char *call, const struct gpu_block *block, enum what what, size_t count, int root)
{
    const size_t n = what == BLOCKS_TO_ME || what == BLOCKS_OF_ALL ? (size_t)size * count : count;

    test_tally.cases++;
    gpu_copy(image, block->base, n * sizeof(int));
    for (size_t i = 0; i < n; i++) {
        const int from = (int)(i / count);
        const size_t k = i % count;
        int wanted = what == SUMS      ? sum_of(root, k) :
                     what == ONE_BLOCK ? value(root, rank, k) :
                     what == VECTOR    ? value(root, 0, k) :
                                         value(from, what == BLOCKS_TO_ME ? rank : 0, k);
        if (image[i] == wanted)
            continue;
        printf("FAIL rank %d: %s of %zu, root %d: element %zu is %d, not %d\n", rank, call, count, root, i, image[i], wanted);
        test_tally.failures++;
        return;
    }
}

static void forget(size_t elements)
{
    memset(image, 0xee, elements * sizeof(int));
    gpu_copy(out.base, image, elements * sizeof(int));
}

/* In place: what is sent lies where the result goes. */
static void run_symmetric(int count, bool place)
{
    const size_t n = (size_t)count, all = n * (size_t)size;
    void *to = out.base;

    forget(all);
    fill(place ? &out : &in, 0, 1, n, true);
    MPI_Allreduce(place ? MPI_IN_PLACE : in.base, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check("allreduce", &out, SUMS, n, 0);
    forget(all);
    fill(place ? &out : &in, 0, size, n, false);
    MPI_Reduce_scatter_block(place ? MPI_IN_PLACE : in.base, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check("reduce_scatter_block", &out, SUMS, n, rank);
    forget(all);
    fill(place ? &out : &in, place ? (size_t)rank * n : 0, 1, n, true);
    MPI_Allgather(place ? MPI_IN_PLACE : in.base, count, MPI_INT, to, count, MPI_INT, MPI_COMM_WORLD);
    check("allgather", &out, BLOCKS_OF_ALL, n, 0);
    forget(all);
    fill(place ? &out : &in, 0, size, n, false);
    MPI_Alltoall(place ? MPI_IN_PLACE : in.base, count, MPI_INT, to, count, MPI_INT, MPI_COMM_WORLD);
    check("alltoall", &out, BLOCKS_TO_ME, n, 0);
}

static void run_rooted(int count, int root, bool place)
{
    const size_t n = (size_t)count, all = n * (size_t)size;
    const bool here = place && rank == root;
    void *to = out.base;

    forget(all);
    if (rank == root)
        fill(&out, 0, 1, n, true);
    MPI_Bcast(to, count, MPI_INT, root, MPI_COMM_WORLD);
    check("bcast", &out, VECTOR, n, root);
    forget(all);
    fill(here ? &out : &in, 0, 1, n, true);
    MPI_Reduce(here ? MPI_IN_PLACE : in.base, to, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    if (rank == root)
        check("reduce", &out, SUMS, n, 0);
    forget(all);
    fill(here ? &out : &in, here ? (size_t)rank * n : 0, 1, n, true);
    MPI_Gather(here ? MPI_IN_PLACE : in.base, count, MPI_INT, to, count, MPI_INT, root, MPI_COMM_WORLD);
    if (rank == root)
        check("gather", &out, BLOCKS_OF_ALL, n, 0);
    forget(all);
    fill(&in, 0, size, n, false);
    MPI_Scatter(in.base, count, MPI_INT, here ? MPI_IN_PLACE : to, count, MPI_INT, root, MPI_COMM_WORLD);
    if (!here)
        check("scatter", &out, ONE_BLOCK, n, root);
}

int main(int argc, char **argv)
{
    size_t most = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu_start(gpu_local_rank());
    for (int i = 1; i < argc; i++)
        most = (size_t)atoi(argv[i]) > most ? (size_t)atoi(argv[i]) : most;
    gpu_alloc(&in, 'D', most * (size_t)size * sizeof(int));
    gpu_alloc(&out, 'D', most * (size_t)size * sizeof(int));
    image = malloc(most * (size_t)size * sizeof(int));
    if (!image)
        return 2;
    for (int i = 1; i < argc; i++) {
        for (int place = 0; place < 2; place++) {
            run_symmetric(atoi(argv[i]), place);
            run_rooted(atoi(argv[i]), 0, place);
            run_rooted(atoi(argv[i]), size - 1, place);
        }
    }
    bool good = case_summary("check_across");
    free(image);
    gpu_free(&in);
    gpu_free(&out);
    case_finish();
    MPI_Finalize();
    return !good;
}
