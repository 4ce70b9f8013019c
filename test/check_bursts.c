/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between GPUs that follow each other closely, for which a kernel may stay on the GPU: alone and several at a time, of
 * all sizes, with pauses in which it leaves, and with calls of the program that wait for it. check_bursts [ROUNDS] [SEED].
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpu.h"

enum { BLOCK = 2 << 20, MOST = 20, SPACE = 40000 };

static const size_t sizes[] = { 1, 8, 100, 256, 3000, 777, 32768, 32784, 65536, 131072 + 4, 300000, 524288, 1 << 20 };
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int rank, failures, cases;
static struct gpu_block out, in;
static char *made, *got;
static unsigned random_state;

/* The same on both ranks. */
static unsigned draw(unsigned below)
{
    random_state = random_state * 1103515245 + 12345;
    return (random_state >> 16) % below;
}

static char byte_of(unsigned seed, size_t k)
{
    return (char)(seed * 37 + k * 7 + (k >> 8) * 11 + 1);
}

static void fill(size_t at, size_t bytes, unsigned seed)
{
    for (size_t k = 0; k < bytes; k++)
        made[k] = byte_of(seed, k);
    gpu_copy(out.base + at, made, bytes);
}

static void check(const char *what, size_t at, size_t bytes, unsigned seed)
{
    size_t k = 0;

    gpu_copy(got, in.base + at, bytes);
    while (k < bytes && got[k] == byte_of(seed, k))
        k++;
    cases++;
    if (k == bytes)
        return;
    failures++;
    printf("rank %d: %s of %zu bytes: wrong from byte %zu on\n", rank, what, bytes, k);
}

/* There and back. */
static void run_one(unsigned round)
{
    size_t bytes = sizes[draw(SIZES)], at = 16 * draw(64);

    for (int from = 0; from < 2; from++) {
        if (rank == from) {
            fill(at, bytes, round + (unsigned)from);
            MPI_Send(out.base + at, (int)bytes, MPI_BYTE, 1 - from, 1, MPI_COMM_WORLD);
        } else {
            MPI_Recv(in.base + at, (int)bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check("a message", at, bytes, round + (unsigned)from);
        }
    }
}

/* Both ways at once, small and less small ones. */
static void run_several(unsigned round)
{
    MPI_Request requests[2 * MOST];
    MPI_Status statuses[2 * MOST];
    size_t bytes[MOST];
    int n = 2 + (int)draw(MOST - 1);

    for (int i = 0; i < n; i++) {
        bytes[i] = 4 + 4 * draw(draw(4) == 0 ? 9000 : 600);
        fill((size_t)i * SPACE, bytes[i], round * 64 + (unsigned)(2 * i + rank));
        MPI_Irecv(in.base + (size_t)i * SPACE, SPACE, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < n; i++)
        MPI_Isend(out.base + (size_t)i * SPACE, (int)bytes[i], MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &requests[n + i]);
    MPI_Waitall(2 * n, requests, statuses);
    for (int i = 0; i < n; i++)
        check("one of several", (size_t)i * SPACE, bytes[i], round * 64 + (unsigned)(2 * i + 1 - rank));
}

/* What waits for all that the GPU does ends, too. */
static void disturb(void)
{
    struct gpu_block other;

    switch (draw(6)) {
    case 0: gpu_synchronize(); break;
    case 1:
        gpu_alloc(&other, 'D', 4096);
        gpu_free(&other);
        break;
    case 2: usleep(draw(60000)); break;
    default: break;
    }
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    int totals[2];

    random_state = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    gpu_start(gpu_local_rank());
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu_alloc(&out, 'D', BLOCK);
    gpu_alloc(&in, 'D', BLOCK);
    made = malloc(BLOCK);
    got = malloc(BLOCK);
    for (unsigned round = 0; round < rounds; round++) {
        int few = 1 + (int)draw(4);
        bool several = draw(3) == 0;
        for (int i = 0; i < few; i++)
            several ? run_several(round * 8 + (unsigned)i) : run_one(round * 8 + (unsigned)i);
        disturb();
    }
    MPI_Reduce((int[]){ failures, cases }, totals, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_bursts: ranks 2 cases %d failures %d device 0 host 0\n", totals[1], totals[0]);
    gpu_free(&out);
    gpu_free(&in);
    MPI_Finalize();
    free(made);
    free(got);
    return failures != 0;
}
