/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Allreduce from several threads, each on a communicator of its own, of sizes and at a pace of its own; now and
 * then a thread duplicates and frees its communicator. Each result is checked.
 *
 *     check_threads THREADS ROUNDS MOST-ELEMENTS KINDS [bcast]
 *
 * KINDS: a letter of gpu.h per thread, repeated; the same on all ranks. bcast: MPI_Bcast from rank 0 instead, which needs
 * nothing of the others and may be ahead of them.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpu.h"

#include <mpi.h>

#define MOST_THREADS 16

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    int number, rounds, most, rank, size;
    char kind;
    bool bcast;
};

static atomic_long failures, device_calls, host_calls;

static int value(int rank, int number, int round, int i)
{
    return 1000003 * (rank + 1) + 7919 * number + 104729 * round + i;
}

static unsigned draw(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void check(const struct worker *worker, int round, int count, const int *got)
{
    for (int i = 0; i < count; i++) {
        unsigned sum = 0;
        for (int r = 0; r < (worker->bcast ? 1 : worker->size); r++)
            sum += (unsigned)value(r, worker->number, round, i);
        if (got[i] != (int)sum) {
            printf("FAIL rank %d thread %d round %d count %d: element %d is %d, expected %d\n", worker->rank,
                   worker->number, round, count, i, got[i], (int)sum);
            failures++;
            return;
        }
    }
}

static void one_round(const struct worker *worker, int round, int count, MPI_Comm comm, struct gpu_block *send,
                      struct gpu_block *recv, int *host)
{
    size_t bytes = (size_t)count * sizeof(int);

    for (int i = 0; i < count; i++)
        host[i] = value(worker->rank, worker->number, round, i);
    gpu_copy(send->base, host, bytes);
    memset(host, 0xc3, bytes);
    gpu_copy(recv->base, host, bytes);
    gpu_synchronize();
    void *result = worker->bcast && worker->rank == 0 ? send->base : recv->base;
    if (worker->bcast)
        MPI_Bcast(result, count, MPI_INT, 0, comm);
    else
        MPI_Allreduce(send->base, result, count, MPI_INT, MPI_SUM, comm);
    gpu_copy(host, result, bytes);
    check(worker, round, count, host);
    if (gpu_kind_on_host(worker->kind))
        host_calls++;
    else
        device_calls++;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    size_t bytes = (size_t)worker->most * sizeof(int);
    unsigned sizes = (unsigned)worker->number * 77u + 1, pace = (unsigned)(worker->number * 31 + worker->rank);
    struct gpu_block send, recv;
    int *host = malloc(bytes);

    gpu_start_thread();
    gpu_alloc(&send, worker->kind, bytes);
    gpu_alloc(&recv, worker->kind, bytes);
    for (int round = 0; round < worker->rounds; round++) {
        int count = 1 + (int)(draw(&sizes) % (unsigned)worker->most);
        MPI_Comm comm = worker->comm;
        if (draw(&pace) % 4 == 0)
            usleep(draw(&pace) % 3000);
        if (round % 5 == 4)
            MPI_Comm_dup(worker->comm, &comm);
        one_round(worker, round, count, comm, &send, &recv, host);
        if (comm != worker->comm)
            MPI_Comm_free(&comm);
    }
    gpu_free(&send);
    gpu_free(&recv);
    free(host);
    return NULL;
}

static void summarize(int threads, int rounds)
{
    long mine[] = {failures, device_calls, host_calls}, all[3];
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Reduce(mine, all, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_threads: ranks %d cases %d failures %ld calls %ld device %ld host %ld neutral 0\n", size,
               threads * rounds, all[0], all[1] + all[2], all[1], all[2]);
}

int main(int argc, char **argv)
{
    static struct worker workers[MOST_THREADS];
    int provided, threads = argc > 4 ? atoi(argv[1]) : 0, rank, size;

    if (threads < 1 || threads > MOST_THREADS)
        return 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE)
        return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){.number = i, .rounds = atoi(argv[2]), .most = atoi(argv[3]), .rank = rank,
                                     .size = size, .kind = argv[4][(size_t)i % strlen(argv[4])],
                                     .bcast = argc > 5 && strcmp(argv[5], "bcast") == 0};
        if (workers[i].kind != 'H')
            gpu_start(gpu_local_rank());
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    for (int i = 0; i < threads; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < threads; i++)
        MPI_Comm_free(&workers[i].comm);
    summarize(threads, atoi(argv[2]));
    MPI_Finalize();
    return failures != 0;
}
