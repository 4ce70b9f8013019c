/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are fetched out of the sender's buffer, rule by rule: check_parcels NAME. Rank 0 sends, rank 1 receives; what
 * each case is for is said with it. Most are to be run with a patience without end (SHUNT_MESSAGE_PATIENCE), so that nothing
 * but the rule lets the sender go on.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpu.h"

enum { BLOCK = 4 << 20, SHORT = 100, BYTES = 3000, FLOOD = 150, MANY = 20000, MANY_BYTES = 256, THREADS = 8, WARM = 8 };

static int rank, ranks, cases;
static atomic_int failures;
static struct gpu_block block;
static char *room;
static MPI_Status many_statuses[MANY];

static void expect(const char *what, long got, long want)
{
    if (got == want)
        return;
    failures++;
    printf("rank %d: %s: %ld, not %ld\n", rank, what, got, want);
}

static char byte_of(int seed, size_t k)
{
    return (char)((size_t)seed * 37 + k * 7 + (k >> 8) * 11 + 1);
}

static void fill(void *at, size_t bytes, int seed)
{
    char *made = malloc(bytes);

    for (size_t k = 0; k < bytes; k++)
        made[k] = byte_of(seed, k);
    gpu_copy(at, made, bytes);
    free(made);
}

static void check_host(const char *what, const char *got, size_t bytes, int seed)
{
    size_t k = 0;

    while (k < bytes && got[k] == byte_of(seed, k))
        k++;
    expect(what, (long)k, (long)bytes);
    cases++;
}

static void check(const char *what, const void *at, size_t bytes, int seed)
{
    char *got = malloc(bytes);

    gpu_copy(got, at, bytes);
    check_host(what, got, bytes, seed);
    free(got);
}

static void expect_count(const char *what, const MPI_Status *status, long want)
{
    int bytes = -1;

    MPI_Get_count(status, MPI_BYTE, &bytes);
    expect(what, bytes, want);
}

/* Until the receiver has opened the sender's block messages are plain. */
static void warm(void)
{
    for (int i = 0; i < WARM; i++) {
        for (int from = 0; from < 2; from++) {
            if (rank == from)
                MPI_Send(block.base, 65536, MPI_BYTE, 1 - from, 99, MPI_COMM_WORLD);
            if (rank == 1 - from)
                MPI_Recv(block.base, 65536, MPI_BYTE, from, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static int class_of(int rc)
{
    int class;

    MPI_Error_class(rc, &class);
    return class;
}

/* ---- a receive that is shorter than a descriptor ---- */

/* In each of the ways in which such a message can be received, the error is told and the sender goes on. */
static int receive_short(int way)
{
    char small[SHORT];
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    MPI_Message message;
    int rc, probed = BYTES;

    switch (way) {
    case 0: return MPI_Recv(small, SHORT, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    case 1:
        MPI_Irecv(small, SHORT, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
        return MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    case 2:
        MPI_Irecv(block.base, SHORT, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &requests[1]);
        rc = MPI_Waitall(2, requests, statuses);
        expect("class of Waitall", class_of(rc), MPI_ERR_IN_STATUS);
        return statuses[1].MPI_ERROR;
    case 3:
        MPI_Recv_init(small, SHORT, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Start(&requests[0]);
        rc = MPI_Wait(&requests[0], &statuses[0]);
        MPI_Request_free(&requests[0]);
        return rc;
    case 4:
        MPI_Mprobe(0, 5, MPI_COMM_WORLD, &message, &statuses[0]);
        MPI_Get_count(&statuses[0], MPI_BYTE, &probed);
        expect("size told by Mprobe", probed, BYTES);
        return MPI_Mrecv(small, SHORT, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    default: return MPI_Recv(block.base, SHORT, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
    }
}

static void run_short(void)
{
    MPI_Status status;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < FLOOD; i++) {
        if (rank == 0)
            MPI_Send(block.base, BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        if (rank == 1)
            expect("class of a receive that is too short", class_of(receive_short(i % 6)), MPI_ERR_TRUNCATE);
    }
    /* And what comes then is told and received as it is. */
    if (rank == 0) {
        fill(block.base, 2 * BYTES, 1);
        MPI_Send(block.base, 2 * BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Probe(0, 5, MPI_COMM_WORLD, &status);
        expect_count("size after short receives", &status, 2 * BYTES);
        MPI_Recv(block.base, 2 * BYTES, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &status);
        expect_count("received after short receives", &status, 2 * BYTES);
        check("after short receives", block.base, 2 * BYTES, 1);
    }
}

/* ---- probes ---- */

/* Three of one tag under way: matched, received but not completed, and waiting. Each is told its own size. */
static void run_probe(void)
{
    const int sizes[] = {1000, 2000, 3000, 4000};
    MPI_Request requests[4];
    MPI_Message message[2];
    MPI_Status status;
    int flag = 0;

    for (int i = 0; i < 4; i++)
        if (rank == 0) {
            fill(block.base + i * 65536, (size_t)sizes[i], i);
            MPI_Isend(block.base + i * 65536, sizes[i], MPI_BYTE, 1, 5, MPI_COMM_WORLD, &requests[i]);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Waitall(4, requests, many_statuses);
    if (rank != 1)
        return;
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message[0], &status);
    expect_count("Mprobe", &status, sizes[0]);
    MPI_Irecv(block.base + 65536, sizes[1], MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
    while (!flag)
        MPI_Improbe(0, 5, MPI_COMM_WORLD, &flag, &message[1], &status);
    expect_count("Improbe behind a receive", &status, sizes[2]);
    for (flag = 0; !flag;)
        MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, &status);
    expect_count("Iprobe behind matched messages", &status, sizes[3]);
    expect("source", status.MPI_SOURCE, 0);
    expect("tag", status.MPI_TAG, 5);
    MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    expect_count("Probe", &status, sizes[3]);
    MPI_Recv(block.base + 3 * 65536, sizes[3], MPI_BYTE, 0, 5, MPI_COMM_WORLD, &status);
    MPI_Imrecv(block.base + 2 * 65536, sizes[2], MPI_BYTE, &message[1], &requests[2]);
    MPI_Wait(&requests[2], &status);
    expect_count("Imrecv", &status, sizes[2]);
    MPI_Mrecv(block.base, sizes[0], MPI_BYTE, &message[0], &status);
    expect_count("Mrecv", &status, sizes[0]);
    MPI_Wait(&requests[1], &status);
    expect_count("Irecv", &status, sizes[1]);
    for (int i = 0; i < 4; i++)
        check("a probed message", block.base + i * 65536, (size_t)sizes[i], i);
}

/* ---- calls that wait for something else ---- */

/* Rank 0 sends the other message only when the first has been fetched: rank 1 has to do that while it waits for the other. */
static void run_wait(void)
{
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    int index = -1, indices[3], flag;

    for (int way = 0; way < 6; way++) {
        char *data = block.base + way * 65536, word = 0;
        if (rank == 0) {
            fill(data, BYTES, way);
            MPI_Isend(data, BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &requests[0]);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_BYTE, 1, 6, MPI_COMM_WORLD);
        }
        if (rank != 1)
            continue;
        MPI_Irecv(data, BYTES, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(&word, 1, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &requests[2]);
        switch (way) {
        case 0: MPI_Wait(&requests[2], MPI_STATUS_IGNORE); break;
        case 1: MPI_Waitall(2, (MPI_Request[]){requests[0], requests[2]}, statuses); break;
        case 2: MPI_Waitany(1, &requests[2], &index, MPI_STATUS_IGNORE); break;
        case 3: MPI_Waitsome(1, &requests[2], &index, indices, statuses); break;
        case 4: MPI_Waitall(3, requests, statuses); break;
        default:
            for (flag = 0; !flag;)
                MPI_Testall(3, requests, &flag, statuses);
        }
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        check("fetched while waiting for another", data, BYTES, way);
    }
}

/* While a collective is under way calls that wait are loops; what is sent in them is not what the program has given. */
static void run_flying(void)
{
    MPI_Request request;
    MPI_Status status;
    float *sum = (float *)(block.base + (3 << 19));
    int peer = 1 - rank;

    for (int i = 0; i < 6; i++) {
        if (rank == 0)
            MPI_Iallreduce(MPI_IN_PLACE, sum, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        fill(block.base, 4 * BYTES, 2 * i + rank);
        if (i % 2) {
            MPI_Sendrecv(block.base, BYTES, MPI_FLOAT, peer, 5, block.base + 65536, BYTES, MPI_FLOAT, peer, 5,
                         MPI_COMM_WORLD, &status);
        } else if (rank == 0) {
            MPI_Probe(1, 5, MPI_COMM_WORLD, &status);
            expect_count("probed while a collective is under way", &status, 4 * BYTES);
            MPI_Probe(1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(block.base + 65536, BYTES, MPI_FLOAT, 1, 5, MPI_COMM_WORLD, &status);
            MPI_Send(block.base, BYTES, MPI_FLOAT, 1, 5, MPI_COMM_WORLD);
        } else {
            MPI_Send(block.base, BYTES, MPI_FLOAT, 0, 5, MPI_COMM_WORLD);
            MPI_Recv(block.base + 65536, BYTES, MPI_FLOAT, 0, 5, MPI_COMM_WORLD, &status);
        }
        expect_count("received while a collective is under way", &status, 4 * BYTES);
        check("while a collective is under way", block.base + 65536, 4 * BYTES, 2 * i + peer);
        if (rank == 1)
            MPI_Iallreduce(MPI_IN_PLACE, sum, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* The program frees its datatype while the receive is under way, and makes another. */
static void run_types(void)
{
    MPI_Datatype type, other;
    MPI_Request request;

    for (int i = 0; i < 4; i++) {
        if (rank == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            fill(block.base, 4 * BYTES, i);
            MPI_Send(block.base, 4 * BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        }
        if (rank == 1) {
            MPI_Type_contiguous(BYTES, MPI_INT, &type);
            MPI_Type_commit(&type);
            MPI_Irecv(i % 2 ? block.base : room, 1, type, 0, 5, MPI_COMM_WORLD, &request);
            MPI_Type_free(&type);
            MPI_Type_vector(7, 1, 9, MPI_SHORT, &other);
            MPI_Type_commit(&other);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Type_free(&other);
            check("of a type that has been freed", i % 2 ? block.base : room, 4 * BYTES, i);
        }
    }
}

/* ---- receives that began before CUDA was in use ---- */

static void run_early(void)
{
    char host[2][64] = {{0}};
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    /* One ends before, one after, of which rank 1 does not know which it will be; and it gets what is sent from a GPU. */
    if (rank == 1)
        for (int i = 0; i < 2; i++)
            MPI_Irecv(room + i * BLOCK / 2, BLOCK / 2, MPI_BYTE, 0, 3 + i, MPI_COMM_WORLD, &requests[i]);
    if (rank == 0)
        MPI_Send(host[0], 64, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    gpu_start(gpu_local_rank());
    gpu_alloc(&block, 'D', BLOCK);
    warm();
    if (rank == 0) {
        fill(block.base, BYTES, 4);
        MPI_Send(block.base, BYTES, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
    }
    if (rank == 1) {
        MPI_Status status;
        MPI_Wait(&requests[1], &status);
        expect_count("a receive from before CUDA", &status, BYTES);
        check("a receive from before CUDA", room + BLOCK / 2, BYTES, 4);
    }
}

/* Rank 1 never uses CUDA at all. */
static void run_never(void)
{
    MPI_Request request = MPI_REQUEST_NULL;

    if (rank == 0) {
        gpu_start(gpu_local_rank());
        gpu_alloc(&block, 'D', BLOCK);
    }
    for (int i = 0; i < 20; i++) {
        if (rank == 0) {
            fill(block.base, BYTES, i);
            MPI_Send(block.base, BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
            continue;
        }
        if (i % 2) {
            MPI_Recv(room, BYTES, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(room, BYTES, MPI_BYTE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        check_host("without CUDA", room, BYTES, i);
    }
    if (rank == 1)
        expect("CUDA is in use", gpu_mapped("libcuda"), 0);
}

/* ---- senders that go on, or away ---- */

/* A large receive is under way while its process sits in a barrier of the host, which waits for the sender. */
static void run_barrier(void)
{
    const int bytes = 100000000;
    MPI_Request request;
    struct gpu_block large;

    gpu_alloc(&large, 'D', (size_t)bytes);
    for (int i = 0; i < 3; i++) {
        if (rank == 0) {
            fill(large.base, (size_t)bytes, i);
            MPI_Send(large.base, bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (rank == 1) {
            MPI_Irecv(large.base, bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            check("over a barrier", large.base, (size_t)bytes, i);
        }
    }
    gpu_free(&large);
}

/* Send returns, and the sender resets its device. */
static void run_reset(void)
{
    char word = 0;

    if (rank == 0) {
        fill(block.base, BYTES, 1);
        MPI_Send(block.base, BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        gpu_reset();
        block.base = NULL;
        MPI_Send(&word, 1, MPI_BYTE, 1, 6, MPI_COMM_WORLD);
    }
    if (rank == 1) {
        MPI_Recv(&word, 1, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(block.base, BYTES, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check("after a reset of the sender's device", block.base, BYTES, 1);
    }
}

/* A request that is freed is nobody's; the end of its communicator, or of MPI, says that the buffer is the program's again. */
static void run_freed(bool disconnect)
{
    MPI_Request request;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == 0) {
        fill(block.base, BYTES, 1);
        MPI_Isend(block.base, BYTES, MPI_BYTE, 1, 5, disconnect ? comm : MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    if (rank == 1 && disconnect)
        MPI_Irecv(block.base, BYTES, MPI_BYTE, 0, 5, comm, &request);
    MPI_Comm_disconnect(&comm);
    if (disconnect && rank == 0)
        fill(block.base, BYTES, 2); /* before the other looks at what has come */
    if (rank == 1) {
        usleep(300000);
        disconnect ? MPI_Wait(&request, MPI_STATUS_IGNORE) :
                     MPI_Recv(block.base, BYTES, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check("of a request that was freed", block.base, BYTES, 1);
    }
}

/* Not before it is matched. */
static void run_matched(void)
{
    MPI_Request request;
    int flag = 1;
    char word = 0;

    for (int i = 0; i < 2; i++) {
        if (rank == 0) {
            fill(block.base, BYTES, i);
            MPI_Issend(block.base, BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
            for (int k = 0; k < 20; k++) {
                usleep(5000);
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
                expect("a synchronous send that is not matched has ended", flag, 0);
            }
            MPI_Send(&word, 1, MPI_BYTE, 1, 6, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (rank == 1) {
            MPI_Recv(&word, 1, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(block.base, BYTES, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check("a synchronous send", block.base, BYTES, i);
        }
    }
}

/* ---- many ---- */

static void run_many(void)
{
    MPI_Request *requests = malloc(MANY * sizeof *requests);
    struct gpu_block large;

    gpu_alloc(&large, 'D', (size_t)MANY * MANY_BYTES);
    for (int i = 0; i < 8; i++) { /* as warm() */
        if (rank == 0)
            MPI_Send(large.base, BLOCK, MPI_BYTE, 1, 99, MPI_COMM_WORLD);
        if (rank == 1)
            MPI_Recv(large.base, BLOCK, MPI_BYTE, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0)
        fill(large.base, (size_t)MANY * MANY_BYTES, 1);
    for (int i = 0; i < MANY; i++) {
        char *at = large.base + (size_t)i * MANY_BYTES;
        if (rank == 0)
            MPI_Isend(at, MANY_BYTES, MPI_BYTE, 1, i % 7, MPI_COMM_WORLD, &requests[i]);
        if (rank == 1)
            MPI_Irecv(at, MANY_BYTES, MPI_BYTE, 0, i % 7, MPI_COMM_WORLD, &requests[i]);
    }
    if (rank < 2)
        MPI_Waitall(MANY, requests, many_statuses);
    if (rank == 1)
        check("one of many", large.base, (size_t)MANY * MANY_BYTES, 1);
    gpu_free(&large);
    free(requests);
}

/* ---- threads ---- */

static void *exchange(void *argument)
{
    int t = *(const int *)argument, peer = 1 - rank;
    char *to = block.base + (size_t)(2 * t) * 65536, *from = to + 65536;
    MPI_Request requests[2];
    MPI_Status statuses[2];

    gpu_start_thread();
    for (int i = 0; i < 20; i++) {
        int bytes = i % 2 ? 40000 : 300;
        fill(from, (size_t)bytes, 10 * t + rank);
        MPI_Irecv(to, bytes, MPI_BYTE, peer, t, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(from, bytes, MPI_BYTE, peer, t, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        expect_count("between threads", &statuses[0], bytes);
        check("between threads", to, (size_t)bytes, 10 * t + peer);
    }
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        pthread_create(&threads[t], NULL, exchange, &numbers[t]);
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
}

/* ---- to itself ---- */

static void run_self(void)
{
    MPI_Request request;
    MPI_Status status;

    for (int i = 0; i < 4; i++) {
        fill(block.base, BYTES, i);
        MPI_Irecv(block.base + 65536, 2 * BYTES, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : rank, 5, MPI_COMM_WORLD, &request);
        MPI_Send(block.base, BYTES, MPI_BYTE, rank, 5, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        expect_count("to itself", &status, BYTES);
        check("to itself", block.base + 65536, BYTES, i);
        MPI_Sendrecv(block.base, BYTES, MPI_BYTE, rank, 6, block.base + 131072, BYTES, MPI_BYTE, rank, 6, MPI_COMM_WORLD, &status);
        check("Sendrecv with itself", block.base + 131072, BYTES, i);
    }
}

static void run_disconnected(void)
{
    run_freed(true);
}

static void run_finalized(void)
{
    run_freed(false);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases_by_name[] = {
    {"short", run_short}, {"probe", run_probe}, {"wait", run_wait}, {"flying", run_flying}, {"types", run_types},
    {"early", run_early}, {"never", run_never}, {"barrier", run_barrier}, {"reset", run_reset},
    {"disconnected", run_disconnected}, {"finalized", run_finalized}, {"matched", run_matched}, {"many", run_many},
    {"threads", run_threads}, {"self", run_self},
};

static bool is(const char *name, const char *other)
{
    return strcmp(name, other) == 0;
}

static bool run(const char *name)
{
    for (size_t i = 0; i < sizeof cases_by_name / sizeof cases_by_name[0]; i++)
        if (is(name, cases_by_name[i].name)) {
            cases_by_name[i].run();
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    bool late = is(name, "early") || is(name, "never");
    int provided, totals[2], mine[2];

    if (!late)
        gpu_start(gpu_local_rank());
    MPI_Init_thread(&argc, &argv, is(name, "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    room = malloc(BLOCK);
    if (!late) {
        gpu_alloc(&block, 'D', BLOCK);
        warm();
    }
    if (!run(name))
        expect("cases of that name", 0, 1);
    memcpy(mine, (int[]){failures, cases}, sizeof mine);
    if (!is(name, "reset"))
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Reduce(mine, totals, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_parcels: ranks %d cases %d failures %d device 0 host 0\n", ranks, totals[1], totals[0]);
    MPI_Finalize();
    free(room);
    return failures != 0;
}
