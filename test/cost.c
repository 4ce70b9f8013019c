/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an 8-byte MPI_Allreduce on MPI_COMM_SELF costs. cost BATCHES [stack|heap|mapped] [cuda]: prints nanoseconds per
 * call, the best of so many batches of 1000, so short that some of them run undisturbed. With "cuda", CUDA is in use
 * before: a context exists. Called by cost.sh, which also counts instructions.
 */
#include <mpi.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { CALLS = 1000, ROOM = 4096 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int use_cuda(void)
{
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
    int (*cuda_free)(void *) = NULL;
    if (runtime)
        *(void **)&cuda_free = dlsym(runtime, "cudaFree");
    return cuda_free ? cuda_free(NULL) : -1;
}

static double *place(const char *where, double *stack)
{
    if (strcmp(where, "heap") == 0)
        return calloc(2, sizeof(double));
    if (strcmp(where, "mapped") == 0)
        return mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return stack;
}

int main(int argc, char **argv)
{
    long batches = argc > 1 ? atol(argv[1]) : 2000;
    double stack[2] = {1, 0}, best = 1e30;
    double *buffers = place(argc > 2 ? argv[2] : "stack", stack);

    MPI_Init(&argc, &argv);
    if (argc > 3 && use_cuda() != 0) {
        fprintf(stderr, "CUDA cannot be used here\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    buffers[0] = 1;
    for (long batch = 0; batch < batches; batch++) {
        double start = now();
        for (int i = 0; i < CALLS; i++)
            MPI_Allreduce(&buffers[0], &buffers[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        double each = (now() - start) / CALLS;
        best = each < best ? each : best;
    }
    printf("%.1f\n", best);
    MPI_Finalize();
    return buffers[1] != 1;
}
