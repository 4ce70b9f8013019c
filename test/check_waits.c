/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank in MPI_Allreduce whose other threads sit in calls of CUDA that wait for kernels: check_waits KERNEL MODE... .
 * The modes are the table at the end. KERNEL: a name that a kernel loaded by this program may have (simulated GPUs only
 * have kernels with the names of those that were compiled for them). Prints the summary of case.c.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/case.h"
#include "test/gpu.h"
#include "test/sum.h"

/* CALL(name, arguments): declared here since there is no cuda.h. */
#define CALLS(CALL)                                                     \
    CALL(cudaMalloc, (void **, size_t))                                 \
    CALL(cudaFree, (void *))                                            \
    CALL(cudaMallocHost, (void **, size_t))                             \
    CALL(cudaFreeHost, (void *))                                        \
    CALL(cudaHostRegister, (void *, size_t, unsigned))                  \
    CALL(cudaHostUnregister, (void *))                                  \
    CALL(cudaDeviceSynchronize, (void))                                 \
    CALL(cudaMemcpyAsync, (void *, const void *, size_t, int, void *))  \
    CALL(cudaMemset, (void *, int, size_t))                             \
    CALL(cudaMemsetAsync, (void *, int, size_t, void *))                \
    CALL(cudaStreamCreateWithFlags, (void **, unsigned))                \
    CALL(cudaStreamDestroy, (void *))                                   \
    CALL(cudaStreamSynchronize, (void *))                               \
    CALL(cudaLaunchHostFunc, (void *, void (*)(void *), void *))        \
    CALL(cuModuleLoadData, (void **, const void *))                     \
    CALL(cuModuleUnload, (void *))                                      \
    CALL(cuModuleGetFunction, (void **, void *, const char *))          \
    CALL(cuFuncLoad, (void *))
SUM_CALLS(CALLS)

static const char *kernel_name;
static MPI_Comm apart; /* for what the threads beside tell each other */

/* ---- calls that wait for all kernels of the process, and what they need ---- */

struct prey {
    void *device, *pinned, *module, *function;
    char *registered;
};

static void prey_make(struct prey *prey)
{
    char text[512];

    CHECK(cudaMalloc(&prey->device, 4096));
    CHECK(cudaMallocHost(&prey->pinned, 4096));
    sum_check_call(posix_memalign((void **)&prey->registered, 4096, 4096), "posix_memalign");
    CHECK(cudaHostRegister(prey->registered, 4096, 0));
    snprintf(text, sizeof text, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry %s()\n{\n\tret;\n}\n",
             kernel_name);
    CHECK(cuModuleLoadData(&prey->module, text));
    CHECK(cuModuleGetFunction(&prey->function, prey->module, kernel_name));
}

static void free_device(struct prey *prey)
{
    CHECK(cudaFree(prey->device));
    prey->device = NULL;
}

static void free_pinned(struct prey *prey)
{
    CHECK(cudaFreeHost(prey->pinned));
    prey->pinned = NULL;
}

static void unregister_host(struct prey *prey)
{
    CHECK(cudaHostUnregister(prey->registered));
    free(prey->registered);
    prey->registered = NULL;
}

static void load_kernel(struct prey *prey)
{
    CHECK(cuFuncLoad(prey->function));
}

static void synchronize(struct prey *prey)
{
    (void)prey;
    CHECK(cudaDeviceSynchronize());
}

static void (*const blockers[])(struct prey *) = {free_device, free_pinned, unregister_host, load_kernel, synchronize};
enum { BLOCKERS = sizeof blockers / sizeof *blockers };

static void prey_free(struct prey *prey)
{
    if (prey->registered)
        unregister_host(prey);
    CHECK(cudaFree(prey->device));
    if (prey->pinned)
        CHECK(cudaFreeHost(prey->pinned));
    CHECK(cuModuleUnload(prey->module));
}

/* ---- a rank in MPI_Allreduce whose peer is late, and only comes when the sum_rank's other thread is through ---- */

static void *do_all_and_tell(void *unused)
{
    struct prey prey;
    void *stream, *more;
    static char bytes[4096];

    (void)unused;
    gpu_start_thread();
    usleep(10000); /* the other thread is in MPI_Allreduce by now */
    prey_make(&prey);
    for (int i = 0; i < BLOCKERS; i++)
        blockers[i](&prey);
    CHECK(cudaStreamCreateWithFlags(&stream, 0));
    CHECK(cudaMalloc(&more, sizeof bytes));
    CHECK(cudaMemset(more, 1, sizeof bytes));
    CHECK(cudaMemcpyAsync(bytes, more, sizeof bytes, TO_HOST, NULL));
    CHECK(cudaMemsetAsync(more, 2, sizeof bytes, stream));
    CHECK(cudaStreamSynchronize(NULL));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(more));
    prey_free(&prey);
    MPI_Send(NULL, 0, MPI_INT, 1, 1, apart);
    return NULL;
}

static void late_peer(void)
{
    static const int counts[] = {SUM_SMALL, SUM_LARGE};
    pthread_t thread;

    for (int i = 0; i < 2; i++) {
        struct sum sum;
        sum_make(&sum, 'D', counts[i]);
        sum_fill(&sum);
        if (sum_rank == 0)
            pthread_create(&thread, NULL, do_all_and_tell, NULL);
        if (sum_rank == 1)
            MPI_Recv(NULL, 0, MPI_INT, 0, 1, apart, MPI_STATUS_IGNORE);
        sum_call(&sum, MPI_COMM_WORLD);
        if (sum_rank == 0)
            pthread_join(thread, NULL);
        sum_check(&sum);
        sum_free(&sum);
    }
}

/* ---- both ranks in MPI_Allreduce, and in calls that wait for kernels in a way that closes a circle ---- */

static void wait_for_gate(void *gate)
{
    while (!*(atomic_bool *)gate)
        usleep(200);
}

/*
 * Rank 0 has arrived, but sits in a call that lets nothing be launched before `gate` opens. Rank 1 sits in a call that
 * waits for its kernel, which waits for that of rank 0, and opens the gate only then. It goes on only if that kernel
 * gives up waiting.
 */
struct circle {
    void (*blocker)(struct prey *);
    struct prey prey;
    void *stream;
    atomic_bool gate;
};

static void *sit_in_blocker(void *argument)
{
    struct circle *circle = argument;

    gpu_start_thread();
    CHECK(cudaLaunchHostFunc(circle->stream, wait_for_gate, &circle->gate));
    usleep(5000);
    circle->blocker(&circle->prey);
    return NULL;
}

static void *open_gate(void *argument)
{
    struct circle *circle = argument;

    MPI_Recv(NULL, 0, MPI_INT, sum_rank == 0, 2, apart, MPI_STATUS_IGNORE);
    circle->gate = true;
    return NULL;
}

static void *block_and_tell(void *argument)
{
    struct circle *circle = argument;

    gpu_start_thread();
    usleep(30000);
    circle->blocker(&circle->prey);
    MPI_Send(NULL, 0, MPI_INT, 0, 2, apart);
    return NULL;
}

static void go_round(struct circle *circle, struct sum *sum)
{
    pthread_t first, second;

    if (sum_rank == 0) {
        pthread_create(&first, NULL, sit_in_blocker, circle);
        pthread_create(&second, NULL, open_gate, circle);
    } else if (sum_rank == 1) {
        pthread_create(&first, NULL, block_and_tell, circle);
        usleep(15000);
    }
    sum_call(sum, MPI_COMM_WORLD);
    if (sum_rank < 2)
        pthread_join(first, NULL);
    if (sum_rank == 0)
        pthread_join(second, NULL);
}

static void circles(void)
{
    static const int counts[] = {SUM_SMALL, SUM_LARGE};
    struct circle circle;

    CHECK(cudaStreamCreateWithFlags(&circle.stream, NON_BLOCKING));
    for (int i = 0; i < 2 * BLOCKERS; i++) {
        struct sum sum;
        circle.blocker = blockers[i % BLOCKERS];
        circle.gate = false;
        prey_make(&circle.prey);
        sum_make(&sum, 'D', counts[i / BLOCKERS]);
        sum_fill(&sum);
        MPI_Barrier(MPI_COMM_WORLD);
        go_round(&circle, &sum);
        sum_check(&sum);
        sum_free(&sum);
        prey_free(&circle.prey);
    }
    CHECK(cudaStreamDestroy(circle.stream));
}

/* ---- nonblocking calls that are staged, since ranks have host memory ---- */

/*
 * Rank 0 has begun one. Its second thread sits in a call that lets nothing be copied before `gate` opens, and its third opens that
 * when it has a message of rank 1. Being in MPI, this one finds that the call is staged, or, `late`, that the host has ended
 * it; something is to be copied then.
 */
static void go_round_staged(struct circle *circle, struct sum *sum, bool late)
{
    pthread_t first, second;
    MPI_Request request;
    int flag;

    if (sum_rank > 0)
        usleep(sum_rank > 1 && late ? 150000 : late ? 10000 : 50000);
    sum_begin(sum, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 100 && late && sum_rank == 0; i++) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        usleep(500);
    }
    if (sum_rank == 0) {
        pthread_create(&first, NULL, sit_in_blocker, circle);
        pthread_create(&second, NULL, open_gate, circle);
        pthread_join(second, NULL);
        pthread_join(first, NULL);
    } else if (sum_rank == 1) {
        usleep(late ? 250000 : 60000);
        MPI_Send(NULL, 0, MPI_INT, 0, 2, apart);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void staged_circles(void)
{
    struct circle circle = {.blocker = free_device};
    struct sum sum;

    sum_make(&sum, 'D', SUM_SMALL); /* they meet on the GPUs */
    sum_once(&sum);
    sum_free(&sum);
    CHECK(cudaStreamCreateWithFlags(&circle.stream, NON_BLOCKING));
    for (int i = 0; i < (sum_size > 2 ? 4 : 2); i++) {
        circle.gate = false;
        prey_make(&circle.prey);
        sum_make(&sum, sum_rank == 0 ? 'D' : 'H', i % 2 ? SUM_LARGE : SUM_SMALL);
        sum_fill(&sum);
        MPI_Barrier(MPI_COMM_WORLD);
        go_round_staged(&circle, &sum, i / 2);
        sum_check(&sum);
        sum_free(&sum);
        prey_free(&circle.prey);
    }
    CHECK(cudaStreamDestroy(circle.stream));
}

/* ---- a result that is made elsewhere, and brought to its place when the GPUs have ended it ---- */

/*
 * In place, rank 1's block does not lie where its sum has to be. Both have begun; the GPUs end it while rank 1 is not in MPI. The
 * thread that then opens the gate finds that end, being in MPI, and something is to be copied.
 */
static void aside_circle(void)
{
    enum { FIRST = 3000, SECOND = 5000, ALL = FIRST + SECOND };
    static const int counts[] = {FIRST, SECOND};
    struct circle circle = {.blocker = free_device};
    static int host[ALL];
    struct gpu_block block;
    MPI_Request request;
    pthread_t first, second;
    struct sum sum;

    sum_make(&sum, 'D', SUM_SMALL); /* they meet on the GPUs */
    sum_once(&sum);
    sum_free(&sum);
    CHECK(cudaStreamCreateWithFlags(&circle.stream, NON_BLOCKING));
    prey_make(&circle.prey);
    gpu_alloc(&block, 'D', sizeof host);
    for (int i = 0; i < ALL; i++)
        host[i] = i * (sum_rank + 1);
    gpu_copy(block.base, host, sizeof host);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Ireduce_scatter(MPI_IN_PLACE, block.base, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    usleep(200000);
    if (sum_rank == 1) {
        pthread_create(&first, NULL, sit_in_blocker, &circle);
        usleep(30000);
        pthread_create(&second, NULL, open_gate, &circle);
        pthread_join(second, NULL);
        pthread_join(first, NULL);
    } else {
        usleep(100000);
        MPI_Send(NULL, 0, MPI_INT, 1, 2, apart);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    gpu_copy(host, block.base, sizeof host);
    for (int i = 0; i < counts[sum_rank]; i++)
        if (host[i] != 3 * (i + sum_rank * FIRST)) {
            sum_fail("a sum");
            break;
        }
    gpu_free(&block);
    prey_free(&circle.prey);
    CHECK(cudaStreamDestroy(circle.stream));
}

static void prepare(void)
{
    find_calls();
    MPI_Comm_dup(MPI_COMM_WORLD, &apart);
}

int main(int argc, char **argv)
{
    static const struct sum_mode modes[] = {
        {"late-peer", late_peer},
        {"circles", circles},
        {"staged-circles", staged_circles},
        {"aside-circle", aside_circle},
        {NULL, NULL},
    };

    kernel_name = argc > 1 ? argv[1] : "";
    return sum_main(argc, argv, 2, modes, prepare);
}
