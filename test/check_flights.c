/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that go on while the program does something else: check_flights WHAT [COUNT], as test/parts.h has it.
 */
#include <unistd.h>

#include "test/driver_calls.h"
#include "test/parts.h"

enum { MANY = 24, INTS = 5000, LARGE = 1 << 18, TAG = 7 };

/* Two buffers: what the rank brings, and the result. */
struct pair {
    struct gpu_block send, recv;
    int n;
};

static void make_pair(struct pair *pair, int n)
{
    gpu_alloc(&pair->send, kind, (size_t)n * sizeof(int));
    gpu_alloc(&pair->recv, kind, (size_t)n * sizeof(int));
    pair->n = n;
}

static void free_pair(struct pair *pair)
{
    gpu_free(&pair->send);
    gpu_free(&pair->recv);
}

static void start(struct pair *pair, int value, MPI_Comm comm, MPI_Request *request)
{
    set_all(&pair->send, pair->n, value + rank);
    set_all(&pair->recv, pair->n, -1);
    CHECK(MPI_Iallreduce(pair->send.base, pair->recv.base, pair->n, MPI_INT, MPI_SUM, comm, request) == MPI_SUCCESS);
}

static int good(const struct pair *pair, int value)
{
    return all_are(&pair->recv, pair->n, sum_of(value), ranks);
}

/* The ranks meet on the GPUs, so that what follows can run there. */
static void meet(void)
{
    struct pair pair;

    make_pair(&pair, 16);
    for (int i = 0; i < 3; i++) {
        set_all(&pair.send, pair.n, rank);
        MPI_Allreduce(pair.send.base, pair.recv.base, pair.n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(good(&pair, 0));
    }
    free_pair(&pair);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- many at once ---- */

static void many(void)
{
    struct pair pairs[MANY];
    MPI_Request requests[MANY];

    for (int i = 0; i < MANY; i++)
        make_pair(&pairs[i], 1 + i * 997 % INTS);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++)
            start(&pairs[i], i + round, MPI_COMM_WORLD, &requests[round == 1 ? MANY - 1 - i : i]);
        if (round == 2)
            for (int i = MANY - 1; i >= 0; i--)
                CHECK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE) == MPI_SUCCESS);
        else
            CHECK(MPI_Waitall(MANY, requests, ignored_statuses) == MPI_SUCCESS);
        for (int i = 0; i < MANY; i++) {
            CHECK(good(&pairs[i], i + round));
            CHECK(requests[i] == MPI_REQUEST_NULL);
        }
    }
    for (int i = 0; i < MANY; i++)
        free_pair(&pairs[i]);
}

/* Two communicators in different order on different ranks, with something between that waits for the whole device. */
static void crossed(void)
{
    MPI_Comm comms[2];
    MPI_Request requests[2];
    struct pair pairs[2];

    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        make_pair(&pairs[i], INTS);
    }
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2; i++) {
            int which = (i + rank) % 2;
            start(&pairs[which], which + round, comms[which], &requests[which]);
            if (rank == 0 && i == 0 && kind != 'H')
                gpu_synchronize();
        }
        MPI_Waitall(2, requests, ignored_statuses);
        for (int i = 0; i < 2; i++)
            CHECK(good(&pairs[i], i + round));
    }
    for (int i = 0; i < 2; i++) {
        free_pair(&pairs[i]);
        MPI_Comm_free(&comms[i]);
    }
}

/* ---- what waits for the device, before a late rank has begun ---- */

static void late(void)
{
    struct pair pair;
    MPI_Request request;

    make_pair(&pair, INTS);
    for (int round = 0; round < 2 * DRIVER_CALLS; round++) {
        int message = round;
        if (rank > 0)
            MPI_Recv(&message, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        start(&pair, round, MPI_COMM_WORLD, &request);
        if (rank == 0) {
            failures += driver_call(round % DRIVER_CALLS);
            for (int q = 1; q < ranks; q++)
                MPI_Send(&message, 1, MPI_INT, q, TAG, MPI_COMM_WORLD);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(good(&pair, round));
    }
    free_pair(&pair);
}

/* ---- order with other collectives of the same communicator ---- */

static void order(void)
{
    struct pair pairs[3];
    MPI_Request requests[3];

    for (int i = 0; i < 3; i++)
        make_pair(&pairs[i], 100 + i);
    for (int round = 0; round < 30; round++) {
        int mine = rank, all = 0, others = 0;
        MPI_Request request;
        MPI_Comm dup;
        for (int i = 0; i < 3; i++) {
            nap((rank * 7 + round * 3 + i) % 5 == 0);
            start(&pairs[i], round + i, MPI_COMM_WORLD, &requests[i]);
            if (round % 3 == i)
                MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (round % 4 == i)
                MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Iallreduce(&mine, &others, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        if (round % 10 == 9) {
            MPI_Comm_dup(MPI_COMM_WORLD, &dup);
            MPI_Comm_free(&dup);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Waitall(3, requests, ignored_statuses);
        CHECK(all == sum_of(0) && others == sum_of(0));
        for (int i = 0; i < 3; i++)
            CHECK(good(&pairs[i], round + i));
    }
    for (int i = 0; i < 3; i++)
        free_pair(&pairs[i]);
}

/* Rank 0 sits in a blocking host call, of which others send the end only when the collective has ended for them. */
static void blocked(void)
{
    struct pair pair;
    MPI_Request request, host;
    MPI_Status status;
    int message = 0;

    make_pair(&pair, 1000);
    for (int round = 0; round < 10; round++) {
        if (rank > 0)
            nap(5); /* so that rank 0 is there before the decision */
        start(&pair, round, MPI_COMM_WORLD, &request);
        if (rank > 0) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Ssend(&round, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
            continue;
        }
        for (int q = 1; q < ranks; q++) {
            message = -1;
            if (round % 5 == 0) {
                MPI_Recv(&message, 1, MPI_INT, q, TAG, MPI_COMM_WORLD, &status);
            } else if (round % 5 == 1) {
                MPI_Probe(q, TAG, MPI_COMM_WORLD, &status);
                MPI_Recv(&message, 1, MPI_INT, q, TAG, MPI_COMM_WORLD, &status);
            } else if (round % 5 == 2) {
                MPI_Irecv(&message, 1, MPI_INT, q, TAG, MPI_COMM_WORLD, &host);
                MPI_Wait(&host, &status);
            } else if (round % 5 == 3) {
                int mine = 0, self = 0;
                MPI_Irecv(&self, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, &host);
                MPI_Sendrecv(&mine, 1, MPI_INT, 0, TAG + 1, &message, 1, MPI_INT, q, TAG, MPI_COMM_WORLD, &status);
                MPI_Wait(&host, MPI_STATUS_IGNORE);
            } else {
                MPI_Message matched;
                MPI_Mprobe(q, TAG, MPI_COMM_WORLD, &matched, &status);
                MPI_Mrecv(&message, 1, MPI_INT, &matched, &status);
            }
            CHECK(message == round && status.MPI_SOURCE == q && status.MPI_TAG == TAG);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(good(&pair, round));
    }
    CHECK(rank > 0 || good(&pair, 9));
    free_pair(&pair);
}

/* ---- without MPI ---- */

/* Calls no MPI until the result is there, or for 30 s; then the others have a second to find theirs. */
static void compute(const struct pair *pair, int value)
{
    double begin = now();

    while (!good(pair, value) && now() - begin < 30)
        nap(1);
    nap(1000);
}

/* Rank 0 computes, until its result is there; the others are done before it calls MPI again. */
static void alone(void)
{
    struct pair pair;
    MPI_Request request;
    int flag = 0;

    make_pair(&pair, LARGE);
    for (int round = 0; round < 2; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank > 0)
            nap(50);
        start(&pair, round, MPI_COMM_WORLD, &request);
        if (rank == 0)
            compute(&pair, round);
        else
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        double own = now(), first = own; /* one clock: all ranks are on one node */
        CHECK(good(&pair, round));
        if (rank == 0) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            CHECK(flag);
        }
        MPI_Bcast(&first, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        CHECK(own <= first);
    }
    free_pair(&pair);
}

/* ---- ranks that have not met on the GPUs ---- */

/* Several that wait for that, then a blocking one, which waits for those. */
static void unmet(void)
{
    struct pair pairs[4], last;
    MPI_Request requests[4];

    make_pair(&last, 10);
    for (int i = 0; i < 4; i++)
        make_pair(&pairs[i], 10 + 100 * i);
    set_all(&last.send, last.n, rank);
    nap(40 * rank);
    for (int i = 0; i < 4; i++)
        start(&pairs[i], i, MPI_COMM_WORLD, &requests[i]);
    MPI_Allreduce(last.send.base, last.recv.base, last.n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(good(&last, 0));
    MPI_Waitall(4, requests, ignored_statuses);
    for (int i = 0; i < 4; i++) {
        CHECK(good(&pairs[i], i));
        free_pair(&pairs[i]);
    }
    free_pair(&last);
}

/* Collectives of the host come before they have met. */
static void parted(void)
{
    struct pair pairs[2];
    MPI_Request requests[2];
    int all = 0;

    for (int i = 0; i < 2; i++)
        make_pair(&pairs[i], 500);
    start(&pairs[0], 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    start(&pairs[1], 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(2, requests, ignored_statuses);
    CHECK(all == sum_of(0));
    for (int i = 0; i < 2; i++) {
        CHECK(good(&pairs[i], i + 1));
        free_pair(&pairs[i]);
    }
}

/* ---- ways to end ---- */

static void end_all(int way, MPI_Request *requests, int n)
{
    MPI_Status statuses[MANY];
    int indices[MANY], flag = 0, index, ended = 0;

    memset(statuses, 0x5a, sizeof statuses);
    switch (way) {
    case 0:
        while (!flag)
            MPI_Testall(n, requests, &flag, statuses);
        break;
    case 1:
        for (int i = 0; i < n; i++) {
            MPI_Waitany(n, requests, &index, &statuses[0]);
            CHECK(index >= 0 && index < n && requests[index] == MPI_REQUEST_NULL);
        }
        MPI_Waitany(n, requests, &index, &statuses[0]);
        CHECK(index == MPI_UNDEFINED);
        break;
    case 2:
        for (int some; ended < n; ended += some) {
            MPI_Waitsome(n, requests, &some, indices, statuses);
            CHECK(some > 0);
        }
        break;
    case 3:
        while (ended < n) {
            MPI_Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE);
            ended += flag && index != MPI_UNDEFINED;
        }
        break;
    case 4:
        for (int i = 0; i < n; i++) {
            for (flag = 0; !flag;)
                MPI_Request_get_status(requests[i], &flag, &statuses[i]);
            CHECK(requests[i] != MPI_REQUEST_NULL);
            MPI_Test(&requests[i], &flag, &statuses[i]);
            CHECK(flag && statuses[i].MPI_ERROR == 0x5a5a5a5a);
        }
        break;
    default:
        MPI_Waitall(n, requests, statuses);
        break;
    }
    for (int i = 0; i < n; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL);
}

static void ways(void)
{
    struct pair pairs[4];
    MPI_Request requests[8];

    for (int i = 0; i < 4; i++)
        make_pair(&pairs[i], 300 * (i + 1));
    for (int way = 0; way < 6; way++) {
        int out[2] = { rank, 2 * rank }, in[2] = { -1, -1 };
        for (int i = 0; i < 4; i++)
            start(&pairs[i], i + way, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(&out[0], 1, MPI_INT, (rank + 1) % ranks, TAG, MPI_COMM_WORLD, &requests[4]);
        MPI_Irecv(&in[0], 1, MPI_INT, (rank + ranks - 1) % ranks, TAG, MPI_COMM_WORLD, &requests[5]);
        MPI_Isend(&out[1], 1, MPI_INT, rank, TAG + 1, MPI_COMM_WORLD, &requests[6]);
        MPI_Irecv(&in[1], 1, MPI_INT, rank, TAG + 1, MPI_COMM_WORLD, &requests[7]);
        end_all(way, requests, 8);
        CHECK(in[0] == (rank + ranks - 1) % ranks && in[1] == 2 * rank);
        for (int i = 0; i < 4; i++)
            CHECK(good(&pairs[i], i + way));
    }
    for (int i = 0; i < 4; i++)
        free_pair(&pairs[i]);
}

/* The datatype and the communicator are gone before the end. */
static void freed(void)
{
    struct pair pair;

    make_pair(&pair, 4000);
    for (int round = 0; round < 10; round++) {
        MPI_Request request;
        MPI_Comm comm;
        MPI_Datatype type;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Type_contiguous(4, MPI_INT, &type);
        MPI_Type_commit(&type);
        set_all(&pair.recv, pair.n, rank == 0 ? round : -1);
        nap((rank + round) % 3);
        MPI_Ibcast(pair.recv.base, pair.n / 4, type, 0, comm, &request);
        MPI_Type_free(&type);
        MPI_Comm_free(&comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(all_are(&pair.recv, pair.n, round, 1));
    }
    free_pair(&pair);
}

/* Freed while it is under way, which MPI does not allow; the end of its communicator waits for it, and no longer. */
static void orphans(void)
{
    struct pair pair;

    make_pair(&pair, INTS);
    for (int round = 0; round < 5; round++) {
        MPI_Request request;
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        start(&pair, round, comm, &request);
        MPI_Request_free(&request);
        double begin = now();
        MPI_Comm_disconnect(&comm);
        CHECK(now() - begin < 5);
        CHECK(good(&pair, round));
    }
    free_pair(&pair);
}

/* ---- threads ---- */

static void *use_thread(void *context)
{
    MPI_Comm comm = *(MPI_Comm *)context;
    struct pair pairs[3];
    MPI_Request requests[3];

    if (kind != 'H')
        gpu_start_thread();
    for (int i = 0; i < 3; i++)
        make_pair(&pairs[i], 50 + 1000 * i);
    for (int round = 0; round < 30; round++) {
        int mine = 1, all = 0;
        for (int i = 0; i < 3; i++)
            start(&pairs[i], round * i, comm, &requests[i]);
        if (round % 4 == 0)
            MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
        CHECK(round % 4 != 0 || all == ranks);
        MPI_Waitall(3, requests, ignored_statuses);
        for (int i = 0; i < 3; i++)
            CHECK(good(&pairs[i], round * i));
    }
    for (int i = 0; i < 3; i++)
        free_pair(&pairs[i]);
    return NULL;
}

static void threads(void)
{
    run_threads(use_thread);
}

/* ---- memory ---- */

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int rounds = 1000;

static void flat(void)
{
    struct pair pair;
    MPI_Request request;
    long half = 0;

    make_pair(&pair, 256);
    for (int round = 0; round < rounds; round++) {
        if (round == rounds / 2)
            half = resident_kib();
        start(&pair, round, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(round % 97 != 0 || good(&pair, round));
    }
    CHECK(resident_kib() - half < 512);
    free_pair(&pair);
}

/* ---- death ---- */

/* The last rank dies when the others have begun. They get an error, soon. */
static void death(void)
{
    struct pair pair;
    MPI_Request request;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    make_pair(&pair, INTS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == ranks - 1) {
        nap(100);
        _exit(3);
    }
    start(&pair, 0, MPI_COMM_WORLD, &request);
    int rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
    printf("rank %d: %s\n", rank, rc == MPI_SUCCESS ? "no error" : "an error");
    fflush(stdout);
    _exit(rc == MPI_SUCCESS);
}

/* The program ends with operations under way, whose memory it leaves alone. */
static void left_over(void)
{
    struct pair pair;
    MPI_Request request;

    make_pair(&pair, INTS);
    start(&pair, 0, MPI_COMM_WORLD, &request);
}

static void nothing(void)
{
}

/* Most parts begin when the ranks have met. */
static void begin(const char *what)
{
    static const char *const strangers[] = { "first", "unmet", "parted", "lone" };

    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        if (strcmp(what, strangers[i]) == 0)
            return;
    meet();
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "many", many },   { "crossed", crossed }, { "late", late },   { "order", order },     { "blocked", blocked },
        { "alone", alone }, { "ways", ways },       { "freed", freed }, { "threads", threads }, { "death", death },
        { "orphans", orphans }, { "first", late }, { "flat", flat }, { "left", left_over }, { "meet", nothing },
        { "unmet", unmet }, { "parted", parted }, { "lone", alone },
    };

    if (argc > 2)
        rounds = atoi(argv[2]);
    return run_parts(argc, argv, parts, sizeof parts / sizeof *parts, begin);
}
