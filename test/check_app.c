/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What applications do to their GPU around MPI_Allreduce: check_app MODE... . The modes are the table at the end, done
 * one after the other in one process. Prints the summary of case.c.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpu.h"
#include "test/sum.h"

/* CALL(name, arguments): declared here since there is no cuda.h. */
#define CALLS(CALL)                                                             \
    CALL(cudaMalloc, (void **, size_t))                                         \
    CALL(cudaFree, (void *))                                                    \
    CALL(cudaMallocHost, (void **, size_t))                                     \
    CALL(cudaFreeHost, (void *))                                                \
    CALL(cudaHostRegister, (void *, size_t, unsigned))                          \
    CALL(cudaHostUnregister, (void *))                                          \
    CALL(cudaMemcpyAsync, (void *, const void *, size_t, int, void *))          \
    CALL(cudaMemset, (void *, int, size_t))                                     \
    CALL(cudaMemsetAsync, (void *, int, size_t, void *))                        \
    CALL(cudaStreamCreateWithFlags, (void **, unsigned))                        \
    CALL(cudaStreamDestroy, (void *))                                           \
    CALL(cudaStreamSynchronize, (void *))                                       \
    CALL(cudaStreamBeginCapture, (void *, int))                                 \
    CALL(cudaStreamEndCapture, (void *, void **))                               \
    CALL(cudaGraphInstantiateWithFlags, (void **, void *, unsigned long long))  \
    CALL(cudaGraphLaunch, (void *, void *))                                     \
    CALL(cudaGraphExecDestroy, (void *))                                        \
    CALL(cudaGraphDestroy, (void *))                                            \
    CALL(cudaLaunchHostFunc, (void *, void (*)(void *), void *))                \
    CALL(cuGraphGetNodes, (void *, void **, size_t *))                          \
    CALL(cuCtxCreate_v2, (void **, unsigned, int))                              \
    CALL(cuCtxDestroy_v2, (void *))                                             \
    CALL(cuCtxPushCurrent_v2, (void *))                                         \
    CALL(cuCtxPopCurrent_v2, (void **))                                         \
    CALL(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))

SUM_CALLS(CALLS)

/* ---- work that nobody has waited for, before and after the call ---- */

static void wait_a_while(void *unused)
{
    (void)unused;
    usleep(20000);
}

/* What a stream writes late, 20 ms after this returns, is summed; another stream reads the result at once. */
static void write_late(struct sum *sum, void *stream, void *reader, int *pinned)
{
    size_t bytes = (size_t)sum->n * sizeof(int);

    sum_fill(sum);
    CHECK(cudaMemset(sum->send.base, 0xee, bytes));
    gpu_synchronize();
    CHECK(cudaLaunchHostFunc(stream, wait_a_while, NULL));
    CHECK(cudaMemsetAsync(sum->send.base, sum_rank + 1, bytes, stream));
    sum_call(sum, MPI_COMM_WORLD);
    CHECK(cudaMemcpyAsync(pinned, sum->recv.base, bytes, TO_HOST, reader));
    CHECK(cudaStreamSynchronize(reader));
    for (int i = 0; i < sum->n; i++) {
        if (pinned[i] != 0x01010101 * (sum_size * (sum_size + 1) / 2)) {
            sum_fail(stream ? "work in a blocking stream was not waited for" : "work in the null stream was not waited for");
            return;
        }
    }
}

static void unsynchronized(void)
{
    static const int counts[] = {SUM_SMALL, SUM_LARGE};
    void *blocking, *reader, *pinned;

    CHECK(cudaStreamCreateWithFlags(&blocking, 0));
    CHECK(cudaMallocHost(&pinned, SUM_LARGE * sizeof(int)));
    for (int i = 0; i < 4; i++) {
        struct sum sum;
        CHECK(cudaStreamCreateWithFlags(&reader, NON_BLOCKING));
        sum_make(&sum, i < 2 ? 'D' : 'B', counts[i % 2]);
        write_late(&sum, NULL, reader, pinned);
        write_late(&sum, blocking, reader, pinned);
        sum_free(&sum);
        CHECK(cudaStreamDestroy(reader));
    }
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(blocking));
}

/* ---- a graph that is captured meanwhile ---- */

struct capture {
    unsigned flags; /* of the stream */
    int mode;
    void *stream, *memory;
    atomic_bool begun, end;
};

static void capture_begin(struct capture *capture)
{
    CHECK(cudaStreamBeginCapture(capture->stream, capture->mode));
    CHECK(cudaMemsetAsync(capture->memory, 7, 4096, capture->stream));
}

/* The capture is whole, and has in it what was put into it: the graph does that when it is launched, and not before. */
static void capture_end(struct capture *capture)
{
    void *graph = NULL, *run;
    unsigned char byte = 0;
    size_t nodes = 0;

    if (cudaStreamEndCapture(capture->stream, &graph) != 0) {
        sum_fail("the capture was spoilt");
        gpu_forget_error();
        return;
    }
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    if (nodes != 1)
        sum_fail("something else was captured");
    gpu_copy(&byte, capture->memory, 1);
    if (byte != 1)
        sum_fail("what was captured has been done");
    CHECK(cudaGraphInstantiateWithFlags(&run, graph, 0));
    CHECK(cudaGraphLaunch(run, capture->stream));
    CHECK(cudaStreamSynchronize(capture->stream));
    gpu_copy(&byte, capture->memory, 1);
    if (byte != 7)
        sum_fail("the captured graph does not do what was captured");
    CHECK(cudaGraphExecDestroy(run));
    CHECK(cudaGraphDestroy(graph));
}

static void *capture_beside(void *argument)
{
    struct capture *capture = argument;

    gpu_start_thread();
    capture_begin(capture);
    capture->begun = true;
    while (!capture->end)
        usleep(200);
    capture_end(capture);
    return NULL;
}

static void capture_once(struct capture *capture, bool beside)
{
    struct sum small, large;
    pthread_t thread;

    CHECK(cudaStreamCreateWithFlags(&capture->stream, capture->flags));
    CHECK(cudaMalloc(&capture->memory, 4096));
    CHECK(cudaMemset(capture->memory, 1, 4096));
    sum_make(&small, 'D', SUM_SMALL);
    sum_make(&large, 'D', SUM_LARGE);
    sum_fill(&small);
    sum_fill(&large);
    capture->begun = capture->end = false;
    if (beside)
        pthread_create(&thread, NULL, capture_beside, capture);
    else
        capture_begin(capture);
    while (beside && !capture->begun)
        usleep(200);
    sum_call(&small, MPI_COMM_WORLD);
    sum_call(&large, MPI_COMM_WORLD);
    capture->end = true;
    if (beside)
        pthread_join(thread, NULL);
    else
        capture_end(capture);
    sum_check(&small);
    sum_check(&large);
    sum_free(&small);
    sum_free(&large);
    CHECK(cudaFree(capture->memory));
    CHECK(cudaStreamDestroy(capture->stream));
}

/* Global, thread-local and relaxed captures; in the calling thread and in another; of both kinds of streams. */
static void captures(void)
{
    for (int i = 0; i < 12; i++) {
        struct capture capture = {.mode = i % 3, .flags = i / 3 % 2 ? 0 : NON_BLOCKING};
        capture_once(&capture, i / 6);
    }
}

/* ---- contexts and GPUs ---- */

static void same_state(const struct gpu_state *before)
{
    struct gpu_state after;

    gpu_look(&after, true);
    if (!gpu_state_same(before, &after))
        sum_fail("the current context or the stack of contexts has changed");
}

/* Buffers of the primary context and of one that was made, in turns, with the one or the other current. */
static void contexts(void)
{
    struct sum primary, made;
    struct gpu_state before;
    void *context;

    sum_make(&primary, 'D', SUM_SMALL);
    sum_once(&primary);
    CHECK(cuCtxCreate_v2(&context, 0, gpu_local_rank() % gpu_count()));
    sum_make(&made, 'D', SUM_LARGE);
    gpu_look(&before, true);
    for (int i = 0; i < 10; i++) {
        sum_once(&made);
        sum_once(&primary);
        same_state(&before);
    }
    CHECK(cuCtxPopCurrent_v2(&context));
    for (int i = 0; i < 3; i++) {
        sum_once(&primary);
        sum_once(&made);
    }
    CHECK(cuCtxPushCurrent_v2(context));
    sum_free(&made);
    CHECK(cuCtxDestroy_v2(context));
    sum_once(&primary);
    sum_free(&primary);
}

/* Bit i: the primary context of GPU i is active. */
static unsigned active_gpus(void)
{
    unsigned mask = 0, flags;
    int active;

    for (int i = 0; i < gpu_count(); i++) {
        CHECK(cuDevicePrimaryCtxGetState(i, &flags, &active));
        mask |= (unsigned)active << i;
    }
    return mask;
}

/* Buffers of two GPUs in one process, one of them current: right, and no third GPU gets a context. */
static void gpus(void)
{
    struct sum own, other;
    unsigned before;

    sum_make(&own, 'D', SUM_LARGE);
    sum_make(&other, 'X', SUM_LARGE);
    before = active_gpus();
    for (int i = 0; i < 4; i++) {
        sum_once(i % 2 == sum_rank % 2 ? &own : &other);
        sum_once(i % 2 == sum_rank % 2 ? &other : &own);
    }
    if (active_gpus() != before)
        sum_fail("a context was made on a GPU that the program does not use");
    sum_free(&own);
    sum_free(&other);
}

/* ---- threads that have no context ---- */

struct bare {
    pthread_t thread;
    MPI_Comm comm;
    struct sum sum;
};

static void *call_bare(void *argument)
{
    struct bare *bare = argument;
    struct gpu_state before;

    gpu_look(&before, true);
    if (before.context || before.depth != 0)
        sum_fail("the thread has a context already");
    sum_call(&bare->sum, bare->comm);
    same_state(&before);
    return NULL;
}

static void bare_threads(void)
{
    enum { THREADS = 4 };
    struct bare bare[THREADS];

    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &bare[i].comm);
        sum_make(&bare[i].sum, 'D', i % 2 ? SUM_SMALL : SUM_LARGE);
    }
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < THREADS; i++) {
            sum_fill(&bare[i].sum);
            pthread_create(&bare[i].thread, NULL, call_bare, &bare[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(bare[i].thread, NULL);
            sum_check(&bare[i].sum);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        sum_free(&bare[i].sum);
        MPI_Comm_free(&bare[i].comm);
    }
}

/* ---- memory ---- */

/* The GPU of a rank may be full before shunt asks for any of it. */
static void full_gpu(void)
{
    enum { BLOCK = 1 << 20, MOST = 64 };
    struct sum sum;
    void *blocks[MOST];
    int n = 0;

    sum_make(&sum, 'D', SUM_LARGE);
    while (n < MOST && gpu_free_bytes() >= 2 * BLOCK && cudaMalloc(&blocks[n], BLOCK) == 0)
        n++;
    sum_once(&sum);
    while (n > 0)
        CHECK(cudaFree(blocks[--n]));
    sum_once(&sum);
    sum_free(&sum);
}

/* Allocations of many sizes, with holes that are filled again, and what lies at their very beginning and end. */
static void many_sizes(void)
{
    enum { BLOCKS = 60 };
    struct gpu_block blocks[BLOCKS] = {0};
    unsigned state = 12345;

    for (int i = 0; i < BLOCKS * 4 / 3; i++) {
        struct gpu_block *block = &blocks[i < BLOCKS ? i : (i - BLOCKS) * 3];
        size_t bytes = 1 + (state = state * 1664525u + 1013904223u) % (1u << (8 + i % 15));
        gpu_free(block);
        gpu_alloc(block, 'D', bytes);
    }
    for (int i = 0; i < BLOCKS; i++) {
        size_t last = blocks[i].bytes - 1, places[] = {0, last / 2, last};
        for (int k = 0; k < 3; k++) {
            unsigned char byte = (unsigned char)(i + sum_rank + 1), got = 0;
            gpu_copy(blocks[i].base + places[k], &byte, 1);
            sum_count_call();
            MPI_Allreduce(MPI_IN_PLACE, blocks[i].base + places[k], 1, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
            gpu_copy(&got, blocks[i].base + places[k], 1);
            if (got != (unsigned char)(sum_size * i + sum_size * (sum_size + 1) / 2))
                sum_fail("a wrong byte");
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        gpu_free(&blocks[i]);
}

/* What the CPU has just written is summed, and it reads the sum at once; every third time a GPU writes before. */
static void managed(void)
{
    static const int counts[] = {1, SUM_SMALL, SUM_LARGE};

    for (int i = 0; i < 12; i++) {
        int n = counts[i % 3], wanted = sum_size * (sum_size + 1) / 2;
        struct gpu_block blocks[2];
        volatile int *send, *recv;
        for (int k = 0; k < 2; k++)
            gpu_alloc(&blocks[k], 'M', (size_t)n * sizeof(int));
        send = (int *)blocks[0].base;
        recv = (int *)blocks[1].base;
        for (int round = 0; round < 6; round++) {
            int add = round % 3 == 2 ? 0x01010101 : round;
            if (round % 3 == 2)
                CHECK(cudaMemset(blocks[0].base, sum_rank + 1, (size_t)n * sizeof(int)));
            for (int k = 0; k < n && round % 3 != 2; k++)
                send[k] = sum_rank + 1 + add;
            sum_count_call();
            MPI_Allreduce(blocks[0].base, blocks[1].base, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            for (int k = 0; k < n; k++) {
                if (recv[k] == (round % 3 == 2 ? wanted * add : wanted + sum_size * add))
                    continue;
                sum_fail("a wrong sum in managed memory");
                break;
            }
        }
        for (int k = 0; k < 2; k++)
            gpu_free(&blocks[k]);
    }
}

/* Host memory that MPI has seen is the application's to register with CUDA, and registered memory is host memory. */
static void registered_memory(void)
{
    enum { BYTES = 1 << 20 };
    int *device, ones[4] = {1, 1, 1, 1}, *host = NULL;

    CHECK(cudaMalloc((void **)&device, BYTES));
    for (int i = 0; i < 6; i++) {
        sum_check_call(posix_memalign((void **)&host, 4096, BYTES), "posix_memalign");
        memset(host, 0, BYTES);
        gpu_copy(device, ones, sizeof ones);
        if (i % 2)
            CHECK(cudaHostRegister(host, BYTES, 0));
        sum_count_call();
        MPI_Allreduce(device, host, BYTES / sizeof(int), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (host[0] != sum_size || host[3] != sum_size)
            sum_fail("a wrong sum in host memory");
        if (i % 2 == 0)
            CHECK(cudaHostRegister(host, BYTES, 0));
        CHECK(cudaHostUnregister(host));
        free(host);
    }
    CHECK(cudaFree(device));
}

/*
 * Calls without a pause between them, as kernels that linger expect: of one size, of several, on several communicators,
 * and with a rank that is late for one.
 */
static void bursts(void)
{
    static const int counts[] = {1, SUM_SMALL, 3000, SUM_LARGE};
    struct sum sums[4];
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};

    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    for (int k = 0; k < 4; k++)
        sum_make(&sums[k], 'D', counts[k]);
    for (int round = 0; round < 6; round++) {
        for (int k = 0; k < 4; k++)
            sum_fill(&sums[k]);
        for (int i = 0; i < 40; i++) {
            int k = round < 3 ? round : i % (round - 1); /* the first rounds one size, the last all of them */
            if (i == 20 && round % 3 == sum_rank)
                usleep(3000);
            sum_call(&sums[k], comms[round == 4 ? i % 2 : 0]);
        }
        for (int k = 0; k < 4; k++) {
            sum_call(&sums[k], MPI_COMM_WORLD);
            sum_check(&sums[k]);
        }
    }
    for (int k = 0; k < 4; k++)
        sum_free(&sums[k]);
    MPI_Comm_free(&comms[1]);
}

enum { ROW = 64, ROWS_PLACES = 4 };

/* Rank r sends rank q 1 + (r + q) % 3 ints of a row, one apart in every other call; each of 4 places gets those of the last such call. */
static void call_rows(struct gpu_block *send, struct gpu_block *recv, int i, int shift)
{
    int counts[16], at[16];
    size_t bytes = (size_t)sum_size * ROW * sizeof(int);

    for (int q = 0; q < sum_size; q++) {
        counts[q] = 1 + (sum_rank + q) % 3;
        at[q] = q * ROW + shift * (i / 2 % 2);
    }
    MPI_Alltoallv(send->base + i % 2 * bytes, counts, at, MPI_INT, recv->base + i % ROWS_PLACES * bytes, counts, at, MPI_INT,
                  MPI_COMM_WORLD);
}

static int sent(int from, int to, int element, int which)
{
    return 1 + which + 2 * (element + ROW * (to + 16 * from));
}

static void check_rows(const int *got, int shift)
{
    for (int i = 0; i < ROWS_PLACES; i++) {
        for (int q = 0; q < sum_size; q++) {
            for (int k = 0; k < ROW; k++) {
                int first = shift * (i / 2 % 2), n = 1 + (sum_rank + q) % 3;
                int wanted = k < first || k >= first + n ? 0 : sent(q, sum_rank, k, i % 2);
                if (got[(i * sum_size + q) * ROW + k] != wanted)
                    sum_fail("a row is wrong");
            }
        }
    }
}

/* Blocks that differ, in a burst: first of one layout, then of two in turns, and with blocks of one size between them. */
static void row_bursts(void)
{
    struct gpu_block send, recv;
    struct sum sum;
    size_t n = (size_t)sum_size * ROW, bytes = n * sizeof(int);
    int *host = calloc(ROWS_PLACES, bytes);

    gpu_alloc(&send, 'D', 2 * bytes);
    gpu_alloc(&recv, 'D', ROWS_PLACES * bytes);
    sum_make(&sum, 'D', SUM_SMALL);
    sum_fill(&sum);
    for (size_t i = 0; i < 2 * n; i++)
        host[i] = sent(sum_rank, (int)(i / ROW) % sum_size, (int)i % ROW, i >= n);
    gpu_copy(send.base, host, 2 * bytes);
    for (int round = 0; round < 4; round++) {
        memset(host, 0, ROWS_PLACES * bytes);
        gpu_copy(recv.base, host, ROWS_PLACES * bytes);
        for (int i = 0; i < 60; i++) {
            if (i == 30 && round % 3 == sum_rank)
                usleep(3000);
            call_rows(&send, &recv, i, round % 2);
            if (round >= 2 && i % 5 == 0)
                sum_call(&sum, MPI_COMM_WORLD);
        }
        gpu_copy(host, recv.base, ROWS_PLACES * bytes);
        check_rows(host, round % 2);
    }
    sum_check(&sum);
    sum_free(&sum);
    gpu_free(&send);
    gpu_free(&recv);
    free(host);
}

/* One thread of rank 0 frees device memory while the ranks call without a pause until it is through. */
static void *free_in_thread(void *context)
{
    for (int i = 0; i < 3; i++) {
        void *memory;
        CHECK(cudaMalloc(&memory, 1 << 20));
        usleep(2000);
        CHECK(cudaFree(memory));
    }
    atomic_store((atomic_int *)context, 1);
    return NULL;
}

static void burst_and_free(void)
{
    struct sum sum;
    atomic_int through = 0;
    pthread_t thread;

    sum_make(&sum, 'D', SUM_SMALL);
    sum_fill(&sum);
    if (sum_rank == 0)
        pthread_create(&thread, NULL, free_in_thread, &through);
    for (int go = 1; go;) {
        for (int i = 0; i < 20; i++)
            sum_call(&sum, MPI_COMM_WORLD);
        go = !atomic_load(&through);
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (sum_rank == 0)
        pthread_join(thread, NULL);
    sum_check(&sum);
    sum_free(&sum);
}

int main(int argc, char **argv)
{
    static const struct sum_mode modes[] = {
        {"bursts", bursts},
        {"row-bursts", row_bursts},
        {"burst-and-free", burst_and_free},
        {"unsynchronized", unsynchronized},
        {"captures", captures},
        {"contexts", contexts},
        {"gpus", gpus},
        {"bare-threads", bare_threads},
        {"full-gpu", full_gpu},
        {"managed", managed},
        {"many-sizes", many_sizes},
        {"registered-memory", registered_memory},
        {NULL, NULL},
    };

    return sum_main(argc, argv, 1, modes, find_calls);
}
