/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives: check_repeats WHAT, as test/parts.h has it.
 */
#include <mpi.h>

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include "test/counted.h"
#include "test/driver_calls.h"
#include "test/parts.h"

#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5 /* Open MPI 5 says that it is MPI 3.1, and has those of MPI 4 */
#define ALLREDUCE_INIT MPIX_Allreduce_init
#define BCAST_INIT     MPIX_Bcast_init
#define BARRIER_INIT   MPIX_Barrier_init
#else
#define ALLREDUCE_INIT MPI_Allreduce_init
#define BCAST_INIT     MPI_Bcast_init
#define BARRIER_INIT   MPI_Barrier_init
#endif

enum { FEW = 4, MANY = 20, INTS = 3000, LARGE = 3 << 20, TAG = 7 };

/* An Allreduce: what the rank brings, the result, the request. */
struct sum {
    struct gpu_block send, recv;
    int n;
    MPI_Request request;
};

static void make(struct sum *sum, int n, MPI_Comm comm)
{
    gpu_alloc(&sum->send, kind, (size_t)n * sizeof(int));
    gpu_alloc(&sum->recv, kind, (size_t)n * sizeof(int));
    sum->n = n;
    CHECK(ALLREDUCE_INIT(sum->send.base, sum->recv.base, n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &sum->request) ==
          MPI_SUCCESS);
}

static void unmake(struct sum *sum)
{
    CHECK(MPI_Request_free(&sum->request) == MPI_SUCCESS && sum->request == MPI_REQUEST_NULL);
    gpu_free(&sum->send);
    gpu_free(&sum->recv);
}

static void fill(struct sum *sum, int value)
{
    set_all(&sum->send, sum->n, value + rank);
    set_all(&sum->recv, sum->n, -1);
}

static int good(const struct sum *sum, int value)
{
    return all_are(&sum->recv, sum->n, sum_of(value), ranks);
}

/* The requests of several, in an array, and back. */
static void gather_requests(const struct sum *sums, MPI_Request *requests, int n)
{
    for (int i = 0; i < n; i++)
        requests[i] = sums[i].request;
}

/* ---- ways to end ---- */

static int is_empty(const MPI_Status *status)
{
    int count = -1;

    MPI_Get_count(status, MPI_BYTE, &count);
    return status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG && count == 0;
}

static void end_some(MPI_Request *requests, int n, int waits)
{
    MPI_Status statuses[MANY];
    int some, indices[MANY];

    for (int ended = 0; ended < n; ended += some) {
        if (waits)
            MPI_Waitsome(n, requests, &some, indices, statuses);
        else
            MPI_Testsome(n, requests, &some, indices, statuses);
        CHECK(some != MPI_UNDEFINED && (some > 0 || !waits));
    }
}

static void end_any(MPI_Request *requests, int n, int waits)
{
    for (int ended = 0; ended < n;) {
        int index = MPI_UNDEFINED, flag = 1;
        if (waits)
            MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
        else
            MPI_Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag || (index >= 0 && index < n));
        ended += flag;
    }
}

/* Asked before it is completed, the end is told twice. */
static void end_asked(MPI_Request *requests, int n)
{
    MPI_Status status;

    for (int i = 0; i < n; i++) {
        int flag = 0, index = -1;
        while (!flag)
            MPI_Request_get_status(requests[i], &flag, &status);
        MPI_Waitany(1, &requests[i], &index, &status);
        CHECK(index == 0);
    }
}

enum { WAYS = 10 };

static void end_all(MPI_Request *requests, int n, int way)
{
    MPI_Status statuses[MANY];
    MPI_Request mixed[MANY + 2];
    int flag = 0, host = -1;

    switch (way % WAYS) {
    case 0: CHECK(MPI_Waitall(n, requests, ignored_statuses) == MPI_SUCCESS); break;
    case 1: end_any(requests, n, 1); break;
    case 2:
        while (!flag)
            MPI_Testall(n, requests, &flag, statuses);
        break;
    case 3: end_some(requests, n, 1); break;
    case 4: end_asked(requests, n); break;
    case 5:
        for (int i = n; i-- > 0;)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        break;
    case 6: end_some(requests, n, 0); break;
    case 7: end_any(requests, n, 0); break;
    case 8:
        for (int i = 0; i < n; i++)
            for (flag = 0; !flag;)
                MPI_Test(&requests[i], &flag, &statuses[i]);
        break;
    default:
        MPI_Irecv(&host, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, &mixed[0]);
        memcpy(mixed + 1, requests, (size_t)n * sizeof *requests);
        mixed[n + 1] = MPI_REQUEST_NULL;
        MPI_Send(&rank, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD);
        MPI_Waitall(n + 2, mixed, ignored_statuses);
        CHECK(host == rank && mixed[0] == MPI_REQUEST_NULL);
        CHECK(memcmp(mixed + 1, requests, (size_t)n * sizeof *requests) == 0);
        break;
    }
}

/* Inactive requests are as good as none to what completes, and stay. */
static void check_inactive(MPI_Request *requests, int n)
{
    MPI_Status statuses[MANY], status;
    MPI_Request before[MANY];
    int flag = 0, index = 0, some = 0, indices[MANY];

    memcpy(before, requests, (size_t)n * sizeof *requests);
    memset(statuses, 0x5a, sizeof statuses);
    CHECK(MPI_Waitall(n, requests, statuses) == MPI_SUCCESS);
    for (int i = 0; i < n; i++)
        CHECK(is_empty(&statuses[i]));
    MPI_Testall(n, requests, &flag, statuses);
    CHECK(flag && is_empty(&statuses[n - 1]));
    MPI_Waitany(n, requests, &index, &status);
    CHECK(index == MPI_UNDEFINED && is_empty(&status));
    MPI_Testany(n, requests, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED && is_empty(&status));
    MPI_Waitsome(n, requests, &some, indices, statuses);
    CHECK(some == MPI_UNDEFINED);
    MPI_Testsome(n, requests, &some, indices, statuses);
    CHECK(some == MPI_UNDEFINED);
    for (int i = 0; i < n; i++) {
        MPI_Wait(&requests[i], &status);
        CHECK(is_empty(&status));
        MPI_Test(&requests[i], &flag, &status);
        CHECK(flag && is_empty(&status));
        MPI_Request_get_status(requests[i], &flag, &status);
        CHECK(flag && is_empty(&status));
    }
    CHECK(memcmp(before, requests, (size_t)n * sizeof *requests) == 0);
}

/* ---- several, in any order ---- */

/* In another order on each rank. */
static void start_all(MPI_Request *requests, int n, int round)
{
    if (round % 3 == 0) {
        CHECK(MPI_Startall(n, requests) == MPI_SUCCESS);
        return;
    }
    for (int i = 0; i < n; i++)
        CHECK(MPI_Start(&requests[(i * 7 + rank * (round + 1)) % n]) == MPI_SUCCESS);
}

static void ways(void)
{
    struct sum sums[FEW];
    MPI_Request requests[FEW];

    for (int i = 0; i < FEW; i++) {
        nap((rank + i) % 2);
        make(&sums[i], 10 + 1500 * i, MPI_COMM_WORLD);
    }
    gather_requests(sums, requests, FEW);
    check_inactive(requests, FEW);
    for (int round = 0; round < 2 * WAYS; round++) {
        for (int i = 0; i < FEW; i++)
            fill(&sums[i], i * round);
        start_all(requests, FEW, round);
        end_all(requests, FEW, round);
        check_inactive(requests, FEW);
        for (int i = 0; i < FEW; i++)
            CHECK(good(&sums[i], i * round));
    }
    for (int i = 0; i < FEW; i++)
        unmake(&sums[i]);
}

/* Some are started twice and more while others wait, on two communicators. */
static void many(void)
{
    struct sum sums[MANY];
    MPI_Request requests[MANY];
    MPI_Comm comms[2];

    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < MANY; i++)
        make(&sums[i], 1 + i * 997 % INTS, comms[i % 2]);
    gather_requests(sums, requests, MANY);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < MANY; i++)
            fill(&sums[i], i + round);
        start_all(requests, MANY, round);
        for (int i = 0; i < MANY; i += 4) {
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            CHECK(good(&sums[i], i + round));
            fill(&sums[i], round);
            MPI_Start(&requests[i]);
        }
        end_all(requests, MANY, round);
        for (int i = 0; i < MANY; i++)
            CHECK(good(&sums[i], i % 4 == 0 ? round : i + round));
    }
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&comms[i]);
    for (int i = 0; i < MANY; i++)
        unmake(&sums[i]);
}

/* Only some of an array are active. */
static void partly(void)
{
    struct sum sums[FEW];
    MPI_Request requests[FEW];
    MPI_Status statuses[FEW];

    for (int i = 0; i < FEW; i++)
        make(&sums[i], 100 + i, MPI_COMM_WORLD);
    gather_requests(sums, requests, FEW);
    for (int round = 0; round < FEW * 3; round++) {
        int started = round % FEW, index = -1, flag = 0, some, indices[FEW];
        fill(&sums[started], round);
        MPI_Start(&requests[started]);
        switch (round % 3) {
        case 0:
            MPI_Waitany(FEW, requests, &index, &statuses[0]);
            CHECK(index == started);
            break;
        case 1:
            MPI_Waitsome(FEW, requests, &some, indices, statuses);
            CHECK(some == 1 && indices[0] == started);
            break;
        default:
            while (!flag)
                MPI_Testall(FEW, requests, &flag, statuses);
            for (int i = 0; i < FEW; i++)
                CHECK(i == started || is_empty(&statuses[i]));
            break;
        }
        CHECK(good(&sums[started], round));
        check_inactive(requests, FEW);
    }
    for (int i = 0; i < FEW; i++)
        unmake(&sums[i]);
}

/* Made, started or never, made again: what they hold in shared memory is given back. */
static void remade(void)
{
    struct sum sum;

    for (int round = 0; round < 200; round++) {
        make(&sum, 100, MPI_COMM_WORLD);
        if (round % 3 != 2) {
            fill(&sum, round);
            MPI_Start(&sum.request);
            MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
            CHECK(good(&sum, round));
        }
        unmake(&sum);
    }
}

/* So many at a time as programs have for each of their messages; started in another order on each rank. */
static void alive(void)
{
    enum { ALIVE = 2000, INTS_EACH = 64 };
    static MPI_Request requests[ALIVE];
    struct gpu_block send, recv;
    int *host = malloc(sizeof(int) * ALIVE * INTS_EACH), wrong = 0;

    gpu_alloc(&send, kind, sizeof(int) * ALIVE * INTS_EACH);
    gpu_alloc(&recv, kind, sizeof(int) * ALIVE * INTS_EACH);
    set_all(&send, ALIVE * INTS_EACH, rank);
    set_all(&recv, ALIVE * INTS_EACH, -1);
    for (int i = 0; i < ALIVE; i++) {
        size_t at = sizeof(int) * (size_t)i * INTS_EACH;
        CHECK(ALLREDUCE_INIT(send.base + at, recv.base + at, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]) ==
              MPI_SUCCESS);
    }
    for (int at = 0; at < ALIVE; at += 100) {
        for (int i = 0; i < 100; i++)
            MPI_Start(&requests[at + (rank % 2 ? 99 - i : i)]);
        CHECK(MPI_Waitall(100, requests + at, ignored_statuses) == MPI_SUCCESS);
    }
    gpu_copy(host, recv.base, sizeof(int) * ALIVE * INTS_EACH);
    for (int i = 0; i < ALIVE; i++)
        wrong += host[i * INTS_EACH] != sum_of(0) + ranks * (i * INTS_EACH % 7);
    CHECK(wrong == 0);
    for (int i = 0; i < ALIVE; i++)
        MPI_Request_free(&requests[i]);
    gpu_free(&send);
    gpu_free(&recv);
    free(host);
}

/* ---- with others ---- */

/* Between starts and ends there are collectives of all kinds, persistent ones of the host too. */
static void between(void)
{
    struct sum sums[FEW];
    MPI_Request requests[FEW], barrier, other;

    for (int i = 0; i < FEW; i++)
        make(&sums[i], 50 + i, MPI_COMM_WORLD);
    gather_requests(sums, requests, FEW);
    CHECK(BARRIER_INIT(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier) == MPI_SUCCESS);
    for (int round = 0; round < 20; round++) {
        int all = 0, theirs = 0;
        MPI_Comm dup;
        for (int i = 0; i < FEW; i++)
            fill(&sums[i], i + round);
        nap((rank * 7 + round * 3) % 5 == 0);
        start_all(requests, FEW, round);
        MPI_Start(&barrier);
        if (round % 2)
            MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Iallreduce(&rank, &theirs, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &other);
        if (round % 5 == 4) {
            MPI_Comm_dup(MPI_COMM_WORLD, &dup);
            MPI_Comm_free(&dup);
        }
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        end_all(requests, FEW, round);
        MPI_Wait(&other, MPI_STATUS_IGNORE);
        CHECK(round % 2 == 0 || all == ranks * (ranks - 1) / 2);
        CHECK(theirs == ranks * (ranks - 1) / 2);
        for (int i = 0; i < FEW; i++)
            CHECK(good(&sums[i], i + round));
    }
    MPI_Request_free(&barrier);
    for (int i = 0; i < FEW; i++)
        unmake(&sums[i]);
}

/* Rank 0 waits for the others in the host MPI or in the driver, and they for it in the collective. */
static void blocked(void)
{
    struct sum sum;

    make(&sum, 1000, MPI_COMM_WORLD);
    for (int round = 0; round < 2 * DRIVER_CALLS; round++) {
        int message = -1;
        fill(&sum, round);
        if (rank > 0) {
            nap(5); /* so that rank 0 is there before the decision */
            MPI_Start(&sum.request);
            MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
            MPI_Ssend(&round, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
        } else {
            MPI_Start(&sum.request);
            if (kind != 'H')
                failures += driver_call(round % DRIVER_CALLS);
            for (int q = 1; q < ranks; q++) {
                if (round % 2 == 1)
                    MPI_Probe(q, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Recv(&message, 1, MPI_INT, q, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK(message == round);
            }
            MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
        }
        CHECK(good(&sum, round));
    }
    unmake(&sum);
}

/* ---- threads ---- */

static void *use_thread(void *context)
{
    struct sum sums[FEW];
    MPI_Request requests[FEW];

    if (kind != 'H')
        gpu_start_thread();
    for (int i = 0; i < FEW; i++)
        make(&sums[i], 50 + 700 * i, *(MPI_Comm *)context);
    gather_requests(sums, requests, FEW);
    for (int round = 0; round < 30; round++) {
        int all = 0;
        for (int i = 0; i < FEW; i++)
            fill(&sums[i], round * i);
        start_all(requests, FEW, round);
        if (round % 8 == 0)
            MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)context);
        end_all(requests, FEW, round % 2 ? 0 : 3);
        for (int i = 0; i < FEW; i++)
            CHECK(good(&sums[i], round * i));
    }
    for (int i = 0; i < FEW; i++)
        unmake(&sums[i]);
    return NULL;
}

static void threads(void)
{
    run_threads(use_thread);
}

/* ---- what is kept ---- */

/* The datatype is gone before the first start. */
static void types(void)
{
    struct gpu_block block;
    MPI_Request request;
    MPI_Datatype type;

    gpu_alloc(&block, kind, INTS * sizeof(int));
    MPI_Type_contiguous(4, MPI_INT, &type);
    MPI_Type_commit(&type);
    CHECK(BCAST_INIT(block.base, INTS / 4, type, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request) == MPI_SUCCESS);
    MPI_Type_free(&type);
    for (int round = 0; round < 5; round++) {
        set_all(&block, INTS, rank == 0 ? round : -1);
        nap((rank + round) % 3);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(all_are(&block, INTS, round, 1));
    }
    MPI_Request_free(&request);
    gpu_free(&block);
}

/* Nothing in them, but persistent requests all the same, among others; without buffers, and with. */
static void nothing(void)
{
    MPI_Request requests[3], all[3];
    MPI_Status statuses[3];
    struct sum sum;

    make(&sum, INTS, MPI_COMM_WORLD);
    CHECK(ALLREDUCE_INIT(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]) == MPI_SUCCESS);
    CHECK(ALLREDUCE_INIT(sum.send.base, sum.recv.base, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]) ==
          MPI_SUCCESS);
    requests[2] = sum.request;
    for (int round = 0; round < 3; round++) {
        fill(&sum, round);
        memcpy(all, requests, sizeof all);
        CHECK(MPI_Startall(3, all) == MPI_SUCCESS);
        CHECK(MPI_Waitall(3, all, statuses) == MPI_SUCCESS);
        CHECK(memcmp(all, requests, sizeof all) == 0);
        CHECK(good(&sum, round));
    }
    for (int i = 0; i < 2; i++)
        CHECK(MPI_Request_free(&requests[i]) == MPI_SUCCESS && requests[i] == MPI_REQUEST_NULL);
    unmake(&sum);
}

/*
 * So large that it goes straight into receive buffers, once they are open everywhere: by the first start. Nothing is registered
 * then any more, and a start is a launch.
 */
static void large(void)
{
    struct gpu_block block;
    MPI_Request request;
    struct sum sum;

    gpu_alloc(&block, kind, LARGE * sizeof(int));
    CHECK(BCAST_INIT(block.base, LARGE, MPI_INT, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request) == MPI_SUCCESS);
    make(&sum, LARGE / 2, MPI_COMM_WORLD);
    unsigned long long registrations = sim_counted("registrations");
    for (int round = 0; round < 3; round++) {
        set_all(&block, LARGE, rank == 1 ? round : -1);
        if (kind != 'H')
            gpu_synchronize(); /* copy engines wait for nothing */
        nap(10);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(all_are(&block, LARGE, round, 1));
        fill(&sum, round);
        unsigned long long launches = sim_counted("launches");
        MPI_Start(&sum.request);
        MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
        CHECK(good(&sum, round));
        CHECK(registrations == 0 || sim_counted("launches") == launches + 1);
    }
    CHECK(sim_counted("registrations") == registrations);
    unmake(&sum);
    MPI_Request_free(&request);
    gpu_free(&block);
}

/* The first call on device memory is that of a persistent collective, and the first start runs. */
static void first(void)
{
    struct sum sum;

    nap(rank == 0 ? 0 : 200);
    make(&sum, 100, MPI_COMM_WORLD);
    for (int round = 0; round < 2; round++) {
        fill(&sum, round);
        MPI_Start(&sum.request);
        MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
        CHECK(good(&sum, round));
    }
    unmake(&sum);
}

/* The program ends, and has not freed what it made; one is freed while it is active, which MPI does not allow. */
static void left_over(void)
{
    struct sum sums[3];

    for (int i = 0; i < 3; i++)
        make(&sums[i], INTS, MPI_COMM_WORLD);
    for (int i = 1; i < 3; i++) {
        fill(&sums[i], i);
        MPI_Start(&sums[i].request);
    }
    MPI_Wait(&sums[1].request, MPI_STATUS_IGNORE);
    MPI_Request_free(&sums[2].request);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "ways", ways },       { "many", many },   { "partly", partly }, { "remade", remade }, { "between", between },
        { "blocked", blocked }, { "types", types }, { "large", large },   { "first", first },   { "left", left_over },
        { "threads", threads }, { "alive", alive }, { "nothing", nothing },
    };

    return run_parts(argc, argv, parts, sizeof parts / sizeof *parts, NULL);
}
