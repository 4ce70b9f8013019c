/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums that no int holds, though each count is one: check_huge MODE... In allgather, alltoall, gather and reduce-scatter the
 * blocks of all ranks are together more than 2^31 bytes; in gatherv and scatterv little moves, but places lie beyond 2^31; in
 * message one message is longer than that, and its status is asked. Looked at: the first and the last elements of each block.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/case.h"
#include "test/gpu.h"

#define TWO_GB ((size_t)1 << 31)

enum { ENDS = 5, MOST_RANKS = 64 };

static int rank, size;

static long number_of(int from, int to, size_t at)
{
    return from * 1000003l + to * 1009l + (long)(at % 997) + 1;
}

static void expect(bool good, const char *what, int from, size_t at, long found)
{
    if (good)
        return;
    test_tally.failures++;
    printf("FAIL rank %d: %s: element %zu of rank %d is %ld\n", rank, what, at, from, found);
}

/* The i-th element to look at of a block of n. */
static size_t end_of(size_t n, int i)
{
    return i < ENDS ? (size_t)i : n - 1 - (size_t)(i - ENDS);
}

/* Its value for a reader of 4 bytes: whole numbers that a float holds, too. */
static void put(char *at, int from, int to, size_t n, size_t width)
{
    for (int i = 0; i < 2 * ENDS; i++) {
        long value = number_of(from, to, end_of(n, i)) % 100000;
        float real = (float)value;
        char byte = (char)value;
        gpu_copy(at + end_of(n, i) * width, width == 4 ? (void *)&real : (void *)&byte, width);
    }
}

static void look(const char *what, const char *at, int from, int to, size_t n, size_t width)
{
    for (int i = 0; i < 2 * ENDS; i++) {
        long value = number_of(from, to, end_of(n, i)) % 100000;
        float real = 0;
        char byte = 0;
        gpu_copy(width == 4 ? (void *)&real : (void *)&byte, at + end_of(n, i) * width, width);
        expect(width == 4 ? real == (float)value : byte == (char)value, what, from, end_of(n, i), width == 4 ? (long)real : byte);
    }
}

static void make(struct gpu_block *send, size_t send_bytes, struct gpu_block *recv, size_t recv_bytes)
{
    gpu_alloc(send, 'D', send_bytes);
    gpu_alloc(recv, 'D', recv_bytes);
}

static void drop(struct gpu_block *send, struct gpu_block *recv)
{
    gpu_free(send);
    gpu_free(recv);
}

static void run_allgather(void)
{
    size_t n = TWO_GB / (size_t)size + 8;
    struct gpu_block send, recv;

    make(&send, n, &recv, n * (size_t)size);
    put(send.base, rank, 0, n, 1);
    MPI_Allgather(send.base, (int)n, MPI_BYTE, recv.base, (int)n, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        look("allgather", recv.base + n * (size_t)from, from, 0, n, 1);
    drop(&send, &recv);
}

static void run_alltoall(void)
{
    size_t n = TWO_GB / 4 / (size_t)size + 2;
    struct gpu_block send, recv;

    make(&send, 4 * n * (size_t)size, &recv, 4 * n * (size_t)size);
    for (int to = 0; to < size; to++)
        put(send.base + 4 * n * (size_t)to, rank, to, n, 4);
    MPI_Alltoall(send.base, (int)n, MPI_FLOAT, recv.base, (int)n, MPI_FLOAT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        look("alltoall", recv.base + 4 * n * (size_t)from, from, rank, n, 4);
    drop(&send, &recv);
}

static void run_gather(void)
{
    size_t n = TWO_GB / (size_t)size + 8;
    struct gpu_block send, recv;

    make(&send, n, &recv, n * (size_t)size);
    put(send.base, rank, 0, n, 1);
    for (int root = 0; root < size; root += size - 1 > 0 ? size - 1 : 1) {
        MPI_Gather(send.base, (int)n, MPI_BYTE, recv.base, (int)n, MPI_BYTE, root, MPI_COMM_WORLD);
        for (int from = 0; from < size && rank == root; from++)
            look("gather", recv.base + n * (size_t)from, from, 0, n, 1);
    }
    drop(&send, &recv);
}

/* Each rank has the numbers of none but one block. */
static void run_reduce_scatter(void)
{
    size_t n = TWO_GB / 4 / (size_t)size + 2;
    struct gpu_block send, recv;
    int (*set)(void *, int, size_t) = (int (*)(void *, int, size_t))gpu_function("cudaMemset");

    make(&send, 4 * n * (size_t)size, &recv, 4 * n);
    set(send.base, 0, 4 * n * (size_t)size);
    put(send.base + 4 * n * (size_t)((rank + 1) % size), rank, (rank + 1) % size, n, 4);
    MPI_Reduce_scatter_block(send.base, recv.base, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    look("reduce_scatter_block", recv.base, (rank + size - 1) % size, rank, n, 4);
    drop(&send, &recv);
}

/* Rank r's 1000 doubles begin behind r times 2^28 and a few: as far as an int goes, not as bytes. */
static void run_rows(bool gather)
{
    int counts[MOST_RANKS], places[MOST_RANKS];
    size_t last = ((TWO_GB / 8 / (size_t)(size > 1 ? size - 1 : 1)) + 5) * (size_t)(size - 1);
    double *host = malloc(1000 * sizeof *host);
    struct gpu_block few, far;

    for (int i = 0; i < size; i++) {
        counts[i] = 1000;
        places[i] = (int)(last / (size_t)(size > 1 ? size - 1 : 1) * (size_t)i);
    }
    make(&few, 8000, &far, 8 * (last + 1000));
    for (int i = 0; i < 1000; i++)
        host[i] = rank * 10000 + i;
    if (gather)
        gpu_copy(few.base, host, 8000);
    for (int to = 0; to < size && rank == 0 && !gather; to++) {
        for (int i = 0; i < 1000; i++)
            host[i] = to * 10000 + i;
        gpu_copy(far.base + 8 * (size_t)places[to], host, 8000);
    }
    if (gather)
        MPI_Gatherv(few.base, 1000, MPI_DOUBLE, far.base, counts, places, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    else
        MPI_Scatterv(far.base, counts, places, MPI_DOUBLE, few.base, 1000, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int from = gather ? 0 : rank; from < (gather ? size : rank + 1) && (rank == 0 || !gather); from++) {
        gpu_copy(host, gather ? far.base + 8 * (size_t)places[from] : few.base, 8000);
        for (int i = 0; i < 1000; i += 111)
            expect(host[i] == from * 10000 + i, gather ? "gatherv" : "scatterv", from, (size_t)i, (long)host[i]);
    }
    free(host);
    drop(&few, &far);
}

static void expect_count(long long found, long long wanted, const char *what)
{
    if (found == wanted)
        return;
    test_tally.failures++;
    printf("FAIL rank %d: %s: %lld in place of %lld\n", rank, what, found, wanted);
}

static void run_message(void)
{
    size_t n = TWO_GB / 8 + 1;
    struct gpu_block block, none;
    MPI_Status status;
    MPI_Count elements;
    int count;

    if (rank > 1 || size < 2)
        return;
    make(&block, 8 * n, &none, 8);
    if (rank == 0) {
        put(block.base, 0, 1, 8 * n, 1);
        MPI_Send(block.base, (int)n, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD);
    } else {
        MPI_Recv(block.base, (int)n, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD, &status);
        look("recv", block.base, 0, 1, 8 * n, 1);
        MPI_Get_count(&status, MPI_DOUBLE, &count);
        expect_count(count, (long long)n, "elements");
        MPI_Get_count(&status, MPI_BYTE, &count);
        expect_count(count, MPI_UNDEFINED, "bytes as an int");
        MPI_Get_elements_x(&status, MPI_BYTE, &elements);
        expect_count(elements, (long long)(8 * n), "bytes");
    }
#if MPI_VERSION >= 4
    if (rank == 0) {
        MPI_Send_c(block.base, (MPI_Count)(8 * n), MPI_BYTE, 1, 4, MPI_COMM_WORLD);
    } else {
        MPI_Recv_c(block.base, (MPI_Count)(8 * n), MPI_BYTE, 0, 4, MPI_COMM_WORLD, &status);
        MPI_Get_count_c(&status, MPI_BYTE, &elements);
        expect_count(elements, (long long)(8 * n), "bytes of a large count");
    }
#endif
    drop(&block, &none);
}

static void run_gatherv(void)
{
    run_rows(true);
}

static void run_scatterv(void)
{
    run_rows(false);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"allgather", run_allgather}, {"alltoall", run_alltoall},
                 {"gather", run_gather},       {"reduce-scatter", run_reduce_scatter},
                 {"gatherv", run_gatherv},     {"scatterv", run_scatterv},
                 {"message", run_message}};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu_start(gpu_local_rank());
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        for (int word = 1; word < argc; word++)
            if (strcmp(argv[word], modes[i].name) == 0) {
                test_tally.cases++;
                modes[i].run();
            }
    bool good = case_summary("check_huge");
    case_finish();
    MPI_Finalize();
    return good ? 0 : 1;
}
