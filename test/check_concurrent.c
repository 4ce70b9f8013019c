/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests on device memory in several threads at once: check_concurrent [ROUNDS]. Each thread has buffers, tags and requests
 * of its own, starts and completes them in all ways, frees some under way, and looks at what has come.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/gpu.h"

#define THREADS 4
#define SLOTS   6
#define FLOATS  300

static int rank, size, rounds = 40;
static MPI_Status *ignored; /* MPI_STATUSES_IGNORE, which compilers take for the address of too little memory */
static int failures;

struct worker {
    pthread_t thread;
    int number;
    struct gpu_block send[SLOTS], recv[SLOTS];
    MPI_Request repeated[2]; /* persistent: slots 4 and 5 */
};

static float value_of(int sender, int thread, int round, int slot, int i)
{
    return (float)((sender * 7 + thread * 5 + round * 3 + slot * 11 + i) % 251);
}

static void fill(const struct worker *worker, int round)
{
    float values[FLOATS];

    for (int slot = 0; slot < SLOTS; slot++) {
        for (int i = 0; i < FLOATS; i++)
            values[i] = value_of(rank, worker->number, round, slot, i);
        gpu_copy(worker->send[slot].base, values, sizeof values);
    }
    gpu_synchronize();
}

static void check(const struct worker *worker, int round, int slot, int left)
{
    float values[FLOATS];

    gpu_copy(values, worker->recv[slot].base, sizeof values);
    for (int i = 0; i < FLOATS; i++) {
        if (values[i] != value_of(left, worker->number, round, slot, i)) {
            if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 10)
                printf("FAIL rank %d thread %d round %d slot %d: element %d is %g\n", rank, worker->number, round, slot, i,
                       (double)values[i]);
            return;
        }
    }
}

static void complete(int n, MPI_Request *requests, int way)
{
    int flag = 0, index, indices[SLOTS];

    if (way % 4 == 0)
        MPI_Waitall(n, requests, ignored);
    while (way % 4 == 1 && !flag)
        MPI_Testall(n, requests, &flag, ignored);
    for (int i = 0; way % 4 == 2 && i < n; i++)
        MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
    for (int done = 0; way % 4 == 3 && done < n;) {
        MPI_Testsome(n, requests, &index, indices, ignored);
        done += index;
    }
}

static void run_round(struct worker *worker, int round, int left, int right)
{
    MPI_Request receives[SLOTS], sends[SLOTS];
    int tag = 10 * worker->number, answer;

    fill(worker, round);
    for (int slot = 0; slot < 4; slot++)
        MPI_Irecv(worker->recv[slot].base, FLOATS, MPI_FLOAT, left, tag + slot, MPI_COMM_WORLD, &receives[slot]);
    for (int slot = 4; slot < 6; slot++)
        MPI_Irecv(worker->recv[slot].base, FLOATS, MPI_FLOAT, left, tag + slot, MPI_COMM_WORLD, &receives[slot]);
    MPI_Startall(2, worker->repeated);
    for (int slot = 0; slot < 4; slot++)
        MPI_Issend(worker->send[slot].base, FLOATS, MPI_FLOAT, right, tag + slot, MPI_COMM_WORLD, &sends[slot]);
    MPI_Request_free(&sends[3]);
    complete(3, sends, round + worker->number);
    complete(SLOTS, receives, round);
    MPI_Waitall(2, worker->repeated, ignored);
    /* The right one has all, so what it has of the send that was freed is not to be changed any more. */
    MPI_Sendrecv(&round, 1, MPI_INT, left, tag + 9, &answer, 1, MPI_INT, right, tag + 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int slot = 0; slot < SLOTS; slot++)
        check(worker, round, slot, left);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    gpu_start_thread();
    for (int slot = 0; slot < SLOTS; slot++) {
        gpu_alloc(&worker->send[slot], slot % 3 ? 'D' : 'A', FLOATS * sizeof(float));
        gpu_alloc(&worker->recv[slot], slot == 1 ? 'H' : 'D', FLOATS * sizeof(float));
    }
    for (int i = 0; i < 2; i++)
        MPI_Send_init(worker->send[4 + i].base, FLOATS, MPI_FLOAT, right, 10 * worker->number + 4 + i, MPI_COMM_WORLD,
                      &worker->repeated[i]);
    for (int round = 0; round < rounds; round++)
        run_round(worker, round, left, right);
    for (int i = 0; i < 2; i++)
        MPI_Request_free(&worker->repeated[i]);
    for (int slot = 0; slot < SLOTS; slot++) {
        gpu_free(&worker->send[slot]);
        gpu_free(&worker->recv[slot]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS];
    int provided, all;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    ignored = MPI_STATUSES_IGNORE;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        rounds = atoi(argv[1]);
    gpu_start(gpu_local_rank());
    for (int i = 0; i < THREADS && provided == MPI_THREAD_MULTIPLE; i++) {
        workers[i].number = i;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS && provided == MPI_THREAD_MULTIPLE; i++)
        pthread_join(workers[i].thread, NULL);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_concurrent: ranks %d cases %d failures %d device %d host 0\n", size, THREADS * rounds, all,
               THREADS * rounds);
    MPI_Finalize();
    return all != 0;
}
