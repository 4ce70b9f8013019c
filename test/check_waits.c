/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank in MPI_Allreduce whose other threads sit in calls of CUDA that wait for kernels: check_waits KERNEL MODE... .
 * The modes are the table at the end. KERNEL: a name that a kernel loaded by this program may have (simulated GPUs only
 * have kernels with the names of those that were compiled for them). Prints the summary of case.c.
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
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
    CALL(cuFuncLoad, (void *))                                          \
    CALL(cudaDeviceGetAttribute, (int *, int, int))                     \
    CALL(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, \
                          void **))

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

    MPI_Recv(NULL, 0, MPI_INT, 1, 2, apart, MPI_STATUS_IGNORE);
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

/* ---- a kernel of the application that has the whole GPU until MPI_Allreduce returns ---- */

#define PROCESSORS 16 /* cudaDevAttrMultiProcessorCount */
#define FULL       2048 /* threads of a processor */

static const char hog_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry hog(.param .u64 word)\n{\n"
    "\t.reg .u64 %a;\n\t.reg .u32 %v;\n\t.reg .pred %p;\n"
    "\tld.param.u64 %a, [word];\n"
    "again:\n\tld.volatile.global.u32 %v, [%a];\n\tsetp.eq.u32 %p, %v, 0;\n\t@%p bra again;\n\tret;\n}\n";

struct hog {
    void *module, *function, *stream;
    volatile unsigned *word;
    int processors;
};

static void hog_make(struct hog *hog)
{
    CHECK(cuModuleLoadData(&hog->module, hog_text));
    CHECK(cuModuleGetFunction(&hog->function, hog->module, "hog"));
    CHECK(cuFuncLoad(hog->function));
    CHECK(cudaMallocHost((void **)&hog->word, sizeof *hog->word));
    CHECK(cudaStreamCreateWithFlags(&hog->stream, NON_BLOCKING));
    CHECK(cudaDeviceGetAttribute(&hog->processors, PROCESSORS, sum_rank % gpu_count()));
}

static void hog_begin(struct hog *hog)
{
    volatile unsigned *word = hog->word;
    void *arguments[] = {&word};

    *hog->word = 0;
    CHECK(cuLaunchKernel(hog->function, (unsigned)hog->processors * FULL / 1024, 1, 1, 1024, 1, 1, 0, hog->stream, arguments,
                         NULL));
    usleep(50000);
}

static void hog_end(struct hog *hog)
{
    *hog->word = 1;
    CHECK(cudaStreamSynchronize(hog->stream));
}

static void hog_free(struct hog *hog)
{
    CHECK(cudaStreamDestroy(hog->stream));
    CHECK(cudaFreeHost((void *)hog->word));
    CHECK(cuModuleUnload(hog->module));
}

/* In MPI_Allreduce, and long before the others' patience is at its end. */
static void *die_soon(void *unused)
{
    (void)unused;
    usleep(100000);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Rank 0's alone, then those of all. Calls behind the first meet a stream that is blocked; afterwards all is as before. */
static void hogs(void)
{
    static const int counts[] = {SUM_SMALL, SUM_LARGE};
    struct hog hog;

    hog_make(&hog);
    for (int i = 0; i < 4; i++) {
        bool mine = i >= 2 || sum_rank == 0;
        struct sum sum;
        sum_make(&sum, 'D', counts[i % 2]);
        sum_once(&sum);
        sum_fill(&sum);
        if (mine)
            hog_begin(&hog);
        sum_call(&sum, MPI_COMM_WORLD);
        sum_check(&sum);
        sum_call(&sum, MPI_COMM_WORLD);
        sum_check(&sum);
        if (mine)
            hog_end(&hog);
        for (int k = 0; k < 3; k++)
            sum_once(&sum);
        sum_free(&sum);
    }
    hog_free(&hog);
}

/* Blocks of ints with gaps, from rank to rank. */
struct strided {
    int blocks;
    MPI_Datatype type;
    size_t bytes;
    struct gpu_block send, recv;
    int *host;
};

enum { BLOCK = 2000, STRIDE = 3000 };

static void strided_make(struct strided *s, int blocks)
{
    s->blocks = blocks;
    s->bytes = (size_t)blocks * STRIDE * sizeof(int);
    MPI_Type_vector(blocks, BLOCK, STRIDE, MPI_INT, &s->type);
    MPI_Type_commit(&s->type);
    gpu_alloc(&s->send, 'D', s->bytes);
    gpu_alloc(&s->recv, 'D', s->bytes);
    s->host = malloc(s->bytes);
}

static void strided_free(struct strided *s)
{
    free(s->host);
    gpu_free(&s->send);
    gpu_free(&s->recv);
    MPI_Type_free(&s->type);
}

static int strided_word(int rank, int i)
{
    return i * 7 + rank * 1000003 + 1;
}

/* Everybody sends to the next rank; `packed`: from host memory without gaps. */
static void strided_pass(struct strided *s, bool packed)
{
    int next = (sum_rank + 1) % sum_size, before = (sum_rank + sum_size - 1) % sum_size;

    for (int i = 0; i < s->blocks * STRIDE; i++)
        s->host[i] = strided_word(sum_rank, i);
    gpu_copy(s->send.base, s->host, s->bytes);
    memset(s->host, 0xee, s->bytes);
    gpu_copy(s->recv.base, s->host, s->bytes);
    for (int i = 0; i < s->blocks * BLOCK; i++)
        s->host[i] = strided_word(sum_rank, i / BLOCK * STRIDE + i % BLOCK);
    MPI_Sendrecv(packed ? (void *)s->host : s->send.base, packed ? s->blocks * BLOCK : 1, packed ? MPI_INT : s->type, next, 0,
                 s->recv.base, 1, s->type, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* `come`: what was sent must be there; else nothing may have been written since the last look. */
static void strided_check(struct strided *s, bool come)
{
    int before = (sum_rank + sum_size - 1) % sum_size;

    gpu_copy(s->host, s->recv.base, s->bytes);
    for (int i = 0; i < s->blocks * STRIDE; i++) {
        int wanted = come && i % STRIDE < BLOCK ? strided_word(before, i) : (int)0xeeeeeeee;
        if (s->host[i] != wanted) {
            sum_fail(come ? "a strided message is wrong" : "a kernel that was called back has written");
            return;
        }
    }
    test_tally.cases++;
}

/* Types that kernels pack, while kernels of the application own the GPU. What is left of ours must not write later. */
static void hogs_and_types(void)
{
    /* One piece by the kernel itself, one through device memory, many. Few blocks: while a kernel does not end, the driver
     * takes no more than some thousand copies. */
    static const int blocks[] = {7, 100, 600};
    struct hog hog;

    hog_make(&hog);
    for (int k = 0; k < 6; k++) {
        bool packed = k % 2; /* what is called back first is a kernel that unpacks */
        struct strided s;
        strided_make(&s, blocks[k / 2]);
        strided_pass(&s, packed);
        strided_check(&s, true);
        hog_begin(&hog);
        for (int i = 0; i < 2; i++) {
            strided_pass(&s, packed);
            strided_check(&s, true);
        }
        memset(s.host, 0xee, s.bytes);
        gpu_copy(s.recv.base, s.host, s.bytes);
        hog_end(&hog);
        usleep(100000);
        strided_check(&s, false);
        for (int i = 0; i < 3; i++) {
            strided_pass(&s, packed);
            strided_check(&s, true);
        }
        strided_free(&s);
    }
    hog_free(&hog);
}

/* A message around the ring. */
static void ring_pass(struct gpu_block *send, struct gpu_block *recv, char *host, int bytes, int turn)
{
    int next = (sum_rank + 1) % sum_size, before = (sum_rank + sum_size - 1) % sum_size;

    memset(host, 16 * turn + sum_rank, (size_t)bytes);
    gpu_copy(send->base, host, (size_t)bytes);
    MPI_Sendrecv(send->base, bytes, MPI_BYTE, next, 0, recv->base, bytes, MPI_BYTE, before, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    gpu_copy(host, recv->base, (size_t)bytes);
    for (int i = 0; i < bytes; i++)
        if (host[i] != (char)(16 * turn + before)) {
            sum_fail("a message is wrong");
            return;
        }
    test_tally.cases++;
}

/* Messages that a kernel fetches, while kernels of the application own the GPU. */
static void hogs_and_messages(void)
{
    enum { LONGEST = 100000 };
    static const int sizes[] = {1001, 20000, LONGEST};
    struct gpu_block send, recv;
    struct hog hog;
    char *host = malloc(LONGEST);

    gpu_alloc(&send, 'D', LONGEST);
    gpu_alloc(&recv, 'D', LONGEST);
    hog_make(&hog);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 6; i++)
            ring_pass(&send, &recv, host, sizes[k], i);
        hog_begin(&hog);
        for (int i = 6; i < 8; i++)
            ring_pass(&send, &recv, host, sizes[k], i);
        memset(host, 0x55, LONGEST);
        gpu_copy(recv.base, host, LONGEST);
        hog_end(&hog);
        usleep(100000);
        gpu_copy(host, recv.base, LONGEST);
        for (int i = 0; i < LONGEST; i++)
            if (host[i] != 0x55) {
                sum_fail("a kernel that was called back has written");
                break;
            }
    }
    hog_free(&hog);
    gpu_free(&send);
    gpu_free(&recv);
    free(host);
}

/* The last rank is killed while the others' kernels find no room; each of them gets an error, not a hang. */
static void hog_and_death(void)
{
    struct hog hog;
    struct sum sum;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    hog_make(&hog);
    sum_make(&sum, 'D', SUM_SMALL);
    sum_once(&sum);
    sum_fill(&sum);
    hog_begin(&hog);
    if (sum_rank == sum_size - 1) {
        pthread_t thread;
        pthread_create(&thread, NULL, die_soon, NULL);
    }
    int rc = MPI_Allreduce(sum.send.base, sum.recv.base, sum.n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: %s\n", sum_rank, rc == MPI_SUCCESS ? "a sum" : "an error");
    fflush(stdout);
    hog_end(&hog);
    _exit(0);
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
        {"hogs", hogs},
        {"hogs-and-types", hogs_and_types},
        {"hogs-and-messages", hogs_and_messages},
        {"hog-and-death", hog_and_death},
        {NULL, NULL},
    };

    kernel_name = argc > 1 ? argv[1] : "";
    return sum_main(argc, argv, 2, modes, prepare);
}
