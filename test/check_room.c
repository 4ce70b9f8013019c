/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of ranks whose application has kernels that own the whole GPU until the call returns: check_room MODE... . The modes
 * are the table at the end. Prints the summary of case.c.
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/case.h"
#include "test/gpu.h"
#include "test/sum.h"

/* CALL(name, arguments): declared here since there is no cuda.h. */
#define CALLS(CALL)                                                     \
    CALL(cudaMallocHost, (void **, size_t))                             \
    CALL(cudaFreeHost, (void *))                                        \
    CALL(cudaStreamCreateWithFlags, (void **, unsigned))                \
    CALL(cudaStreamDestroy, (void *))                                   \
    CALL(cudaStreamSynchronize, (void *))                               \
    CALL(cuModuleLoadData, (void **, const void *))                     \
    CALL(cuModuleUnload, (void *))                                      \
    CALL(cuModuleGetFunction, (void **, void *, const char *))          \
    CALL(cuFuncLoad, (void *))                                          \
    CALL(cudaDeviceGetAttribute, (int *, int, int))                     \
    CALL(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, \
                          void **))

SUM_CALLS(CALLS)

/* ---- the kernel ---- */

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

static int call_and_die(struct sum *sum, bool leaf)
{
    pthread_t thread;

    if (sum_rank == sum_size - 1)
        pthread_create(&thread, NULL, die_soon, NULL);
    return leaf ? MPI_Bcast(sum->send.base, sum->n, MPI_INT, 0, MPI_COMM_WORLD) :
                  MPI_Allreduce(sum->send.base, sum->recv.base, sum->n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* One sum has run, and the next is ready to. */
static void prepare_death(struct hog *hog, struct sum *sum)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    hog_make(hog);
    sum_make(sum, 'D', SUM_SMALL);
    sum_once(sum);
    sum_fill(sum);
}

/* The last rank is killed while the others' kernels find no room; each of them gets an error, not a hang. */
static void hog_and_death(void)
{
    struct hog hog;
    struct sum sum;

    prepare_death(&hog, &sum);
    hog_begin(&hog);
    int rc = call_and_die(&sum, false);
    printf("rank %d: %s\n", sum_rank, rc == MPI_SUCCESS ? "a sum" : "an error");
    fflush(stdout);
    hog_end(&hog);
    _exit(0);
}

/* The last rank's kernel finds no room, and it is killed; the others have done all that they had to do. */
static void hog_and_death_of_a_leaf(void)
{
    struct hog hog;
    struct sum sum;

    prepare_death(&hog, &sum);
    if (sum_rank == sum_size - 1)
        hog_begin(&hog);
    int rc = call_and_die(&sum, true);
    printf("rank %d: %s\n", sum_rank, rc == MPI_SUCCESS ? "a message" : "an error");
    fflush(stdout);
    _exit(0);
}

/* ---- collectives in which not everybody hears from everybody ---- */

/* RING: two blocks for the next rank. The last ones in place: what a rank gets takes the place of what it has sent. */
enum form { BCAST, SCATTER, REDUCE, GATHER, GATHERV, RING, SCAN, ROOTED, SCAN_IN = ROOTED, EXSCAN_IN, ALLTOALLV_IN, FORMS };

struct rooted {
    enum form form;
    int count, last, *host;
    struct gpu_block send, recv;
    int counts[16], places[16]; /* of Gatherv */
    MPI_Comm ring;
};

static int rooted_word(int rank, int i)
{
    return i * 5 + rank * 100003 + 1;
}

static void rooted_fill(struct rooted *r)
{
    int n = r->count * sum_size;

    for (int i = 0; i < n; i++)
        r->host[i] = rooted_word(sum_rank, i);
    gpu_copy(r->send.base, r->host, (size_t)n * sizeof(int));
    if (r->form < ROOTED && (r->form != BCAST || sum_rank != 0))
        memset(r->host, 0xee, (size_t)n * sizeof(int));
    gpu_copy(r->recv.base, r->host, (size_t)n * sizeof(int));
}

/* Of Alltoallv: ranks next to each other exchange their blocks, others nothing. */
static int exchanged(const struct rooted *r, int rank)
{
    return abs(rank - sum_rank) <= 1 ? r->count : 0;
}

static void alltoallv_in_place(struct rooted *r)
{
    for (int q = 0; q < sum_size; q++)
        r->counts[q] = exchanged(r, q);
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_INT, r->recv.base, r->counts, r->places, MPI_INT, MPI_COMM_WORLD);
}

/* Who needs room hears from all, or from the first rank; the others need not hear from it. */
static void rooted_call(struct rooted *r)
{
    void *in = r->send.base, *out = r->recv.base;

    switch (r->form) {
    case BCAST: MPI_Bcast(out, r->count, MPI_INT, 0, MPI_COMM_WORLD); break;
    case SCATTER: MPI_Scatter(in, r->count, MPI_INT, out, r->count, MPI_INT, 0, MPI_COMM_WORLD); break;
    case REDUCE: MPI_Reduce(in, out, r->count, MPI_INT, MPI_SUM, r->last, MPI_COMM_WORLD); break;
    case GATHER: MPI_Gather(in, r->count, MPI_INT, out, r->count, MPI_INT, r->last, MPI_COMM_WORLD); break;
    case GATHERV:
        MPI_Gatherv(in, r->counts[sum_rank], MPI_INT, out, r->counts, r->places, MPI_INT, r->last, MPI_COMM_WORLD);
        break;
    case SCAN_IN: MPI_Scan(MPI_IN_PLACE, out, r->count, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case EXSCAN_IN: MPI_Exscan(MPI_IN_PLACE, out, r->count, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case ALLTOALLV_IN: alltoallv_in_place(r); break;
    case RING:
        MPI_Neighbor_alltoallv(in, (int[]){r->count, r->count}, r->places, MPI_INT, out, (int[]){r->count, r->count}, r->places,
                               MPI_INT, r->ring);
        break;
    default: MPI_Scan(in, out, r->count, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    }
}

/* Element i of the receive buffer of this rank. */
static int rooted_wanted(const struct rooted *r, int i)
{
    const int count = r->count, none = (int)0xeeeeeeee, root = r->last == sum_rank;
    const bool prefix = r->form == SCAN || r->form == SCAN_IN || r->form == EXSCAN_IN;
    int total = 0, from = i / count, last = prefix ? sum_rank - (r->form == EXSCAN_IN) : sum_size - 1;

    if (r->form == ALLTOALLV_IN)
        return exchanged(r, from) ? rooted_word(from, sum_rank * count + i % count) : rooted_word(sum_rank, i);
    if (r->form >= ROOTED && (i >= count || last < 0))
        return rooted_word(sum_rank, i);
    switch (r->form) {
    case BCAST: return i < count || sum_rank == 0 ? rooted_word(0, i) : none;
    case SCATTER: return i < count ? rooted_word(0, sum_rank * count + i) : none;
    case GATHER: return root ? rooted_word(from, i % count) : none;
    case GATHERV: return root && i % count < r->counts[from] ? rooted_word(from, i % count) : none;
    case RING: return i < 2 * count ? rooted_word((sum_rank + sum_size - 1) % sum_size, i) : none;
    default:
        for (int q = 0; q <= last; q++)
            total += rooted_word(q, i);
        return i < count && (root || prefix) ? total : none;
    }
}

static void rooted_once(struct rooted *r)
{
    int n = r->count * sum_size;

    rooted_fill(r);
    rooted_call(r);
    gpu_copy(r->host, r->recv.base, (size_t)n * sizeof(int));
    /* (What Exscan leaves on the first rank, no rule says.) */
    for (int i = r->form == EXSCAN_IN && sum_rank == 0 ? r->count : 0; i < n; i++) {
        if (r->host[i] != rooted_wanted(r, i)) {
            sum_fail("a collective with a root is wrong");
            return;
        }
    }
    test_tally.cases++;
}

static void rooted_make(struct rooted *r, enum form form, int count)
{
    const int next = (sum_rank + 1) % sum_size, last = (sum_rank + sum_size - 1) % sum_size, to[] = {next, next}, from[] = {last, last};
    size_t bytes = (size_t)count * (size_t)sum_size * sizeof(int);

    *r = (struct rooted){.form = form, .count = count, .last = sum_size - 1, .host = malloc(bytes)};
    for (int q = 0; q < sum_size; q++) {
        r->counts[q] = count - 3 * q;
        r->places[q] = q * count;
    }
    gpu_alloc(&r->send, 'D', bytes);
    gpu_alloc(&r->recv, 'D', bytes);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, to, 2, to, from, MPI_INFO_NULL, 0, &r->ring);
}

static void rooted_free(struct rooted *r)
{
    MPI_Comm_free(&r->ring);
    free(r->host);
    gpu_free(&r->send);
    gpu_free(&r->recv);
}

/* The last rank finds no room, while the others have done all that they were to do. */
static void rooted(int count)
{
    struct hog hog;

    hog_make(&hog);
    for (int form = 0; form < FORMS; form++) {
        struct rooted r;
        rooted_make(&r, (enum form)form, count);
        rooted_once(&r);
        if (sum_rank == r.last)
            hog_begin(&hog);
        rooted_once(&r);
        if (sum_rank == r.last)
            hog_end(&hog);
        rooted_once(&r);
        rooted_free(&r);
    }
    hog_free(&hog);
}

static void hogs_and_rooted(void)
{
    rooted(25);
}

static void hogs_and_large_rooted(void)
{
    rooted(60000);
}

/* ---- a rank whose kernel has sent and left, and finds no room when it is to come back ---- */

enum { LINES = 140000 }; /* elements whose sums are stored straight into the others' receive buffers */

static void *end_hog_late(void *hog)
{
    gpu_start_thread();
    usleep(1500000);
    hog_end(hog);
    return NULL;
}

static void *hog_for_long(void *hog)
{
    gpu_start_thread();
    usleep(200000);
    hog_begin(hog);
    usleep(4500000);
    hog_end(hog);
    return NULL;
}

/* The first rank's kernel begins when the others' have left; all that they have sent is there, so it can do its part. */
static void hogs_and_late_ranks(void)
{
    struct hog hog;
    struct sum sum;
    pthread_t thread;

    hog_make(&hog);
    sum_make(&sum, 'D', LINES);
    for (int i = 0; i < 3; i++)
        sum_once(&sum);
    sum_fill(&sum);
    if (sum_rank == 0)
        hog_begin(&hog);
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_create(&thread, NULL, sum_rank == 0 ? end_hog_late : hog_for_long, &hog);
    sum_call(&sum, MPI_COMM_WORLD);
    sum_check(&sum);
    pthread_join(thread, NULL);
    sum_once(&sum);
    sum_free(&sum);
    hog_free(&hog);
}

int main(int argc, char **argv)
{
    static const struct sum_mode modes[] = {
        {"sums", hogs},
        {"late", hogs_and_late_ranks},
        {"types", hogs_and_types},
        {"messages", hogs_and_messages},
        {"rooted", hogs_and_rooted},
        {"large-rooted", hogs_and_large_rooted},
        {"death", hog_and_death},
        {"death-of-a-leaf", hog_and_death_of_a_leaf},
        {NULL, NULL},
    };

    return sum_main(argc, argv, 1, modes, find_calls);
}
