/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives but Allreduce: check_collectives [FORM] [large] [by=NAME,...] SEND:RECV ..., kinds of memory by rank as in
 * check_allreduce; FORM as in form.h; large: by the functions with large counts, where the MPI has them;
 * by: a few of all cases by each of these algorithms, which hints ask for where there is one.
 * The same call on host memory, made by the host MPI, tells what every byte must be afterwards: results, outputs that
 * are not written, gaps between the elements, and the guards around them. Arguments that do not count on a rank are
 * ones that would do harm if anybody looked at them.
 */
#include <limits.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/form.h"
#include "test/gpu.h"

#define COUNT 1000
#define GUARD 256 /* also room for lower bounds below the buffer's address */
#define RANKS 8
#define ROOM  (2 * GUARD + RANKS * COUNT * 8)
#define KINDS 16 /* pairs of kinds at most */

enum call { BCAST, REDUCE, SCAN, EXSCAN, REDUCE_SCATTER_BLOCK, REDUCE_SCATTER, GATHER, SCATTER, ALLGATHER,
            ALLTOALL, CALLS };
static const char *const names[] = {"bcast", "reduce", "scan", "exscan", "reduce_scatter_block", "reduce_scatter",
                                    "gather", "scatter", "allgather", "alltoall"};

/* What one rank passes. */
struct arguments {
    const void *send;
    void *recv;
    int sendcount, recvcount;
    MPI_Datatype sendtype, recvtype;
    MPI_Op op;
    int root;
    MPI_Comm comm;
};

struct test {
    enum call call;
    const char *place; /* which communicator, for people */
    MPI_Comm comm;
    bool inter, in_place;
    int rank, own, opposite; /* in the communicator */
    int root;                /* as passed */
    bool is_root, is_idle;
    int types, count;
};

static int rank;
static bool large;
static long cases, failures, device_calls, host_calls;
static MPI_Datatype holes;
static MPI_Op add;
static struct gpu_block send_blocks[KINDS], recv_blocks[KINDS];
static int pairs;

/* Sums of what `holes` has: two floats, one of them below the element's address. */
static void add_holes(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++) {
        float *a = (float *)((char *)in + 20 * i), *b = (float *)((char *)inout + 20 * i);
        b[-2] += a[-2];
        b[1] += a[1];
    }
}

static void make_types(void)
{
    MPI_Datatype bare;

    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){-8, 4}, MPI_FLOAT, &bare);
    MPI_Type_create_resized(bare, -8, 20, &holes);
    MPI_Type_commit(&holes);
    MPI_Type_free(&bare);
    MPI_Op_create(add_holes, 1, &add);
}

/* As many for each rank, in the width that the function wants; they live as long as the program. */
static void *same_counts(int count)
{
    static int counts[RANKS];
    static MPI_Count large_counts[RANKS];

    for (int i = 0; i < RANKS; i++)
        large_counts[i] = counts[i] = count;
    return large && MPI_VERSION >= 4 ? (void *)large_counts : counts;
}

static int run_call(enum call call, const struct arguments *a)
{
    switch (call) {
    case BCAST: return FORM_CALL(large, Bcast, Ibcast, a->recv, a->recvcount, a->recvtype, a->root, a->comm);
    case REDUCE:
        return FORM_CALL(large, Reduce, Ireduce,
                         a->send, a->recv, a->sendcount, a->sendtype, a->op, a->root, a->comm);
    case SCAN: return FORM_CALL(large, Scan, Iscan, a->send, a->recv, a->sendcount, a->sendtype, a->op, a->comm);
    case EXSCAN:
        return FORM_CALL(large, Exscan, Iexscan,
                         a->send, a->recv, a->sendcount, a->sendtype, a->op, a->comm);
    case REDUCE_SCATTER_BLOCK:
        return FORM_CALL(large, Reduce_scatter_block, Ireduce_scatter_block,
                         a->send, a->recv, a->recvcount, a->recvtype, a->op, a->comm);
    case REDUCE_SCATTER:
        return FORM_CALL(large, Reduce_scatter, Ireduce_scatter,
                         a->send, a->recv, same_counts(a->recvcount), a->recvtype, a->op, a->comm);
    case GATHER:
        return FORM_CALL(large, Gather, Igather,
                         a->send, a->sendcount, a->sendtype, a->recv, a->recvcount, a->recvtype, a->root, a->comm);
    case SCATTER:
        return FORM_CALL(large, Scatter, Iscatter,
                         a->send, a->sendcount, a->sendtype, a->recv, a->recvcount, a->recvtype, a->root, a->comm);
    case ALLGATHER:
        return FORM_CALL(large, Allgather, Iallgather,
                         a->send, a->sendcount, a->sendtype, a->recv, a->recvcount, a->recvtype, a->comm);
    default:
        return FORM_CALL(large, Alltoall, Ialltoall,
                         a->send, a->sendcount, a->sendtype, a->recv, a->recvcount, a->recvtype, a->comm);
    }
}

static bool is_rooted(enum call call)
{
    return call == BCAST || call == REDUCE || call == GATHER || call == SCATTER;
}

static bool has_two_counts(enum call call)
{
    return call >= GATHER;
}

/* Which buffers count on this rank; of Bcast and of what is in place that is the receive buffer alone. */
static void find_significant(const struct test *test, bool *send, bool *recv)
{
    bool leaf = !test->is_idle && !(test->inter && test->is_root);

    *send = *recv = true;
    if (test->call == REDUCE || test->call == GATHER) {
        *send = leaf;
        *recv = test->is_root;
    } else if (test->call == SCATTER) {
        *send = test->is_root;
        *recv = leaf;
    } else if (test->call == BCAST) {
        *send = false;
        *recv = !test->is_idle;
    } else if (test->call == EXSCAN) {
        *recv = test->rank > 0 || test->in_place;
    }
}

/* The arguments on buffers at `send` and `recv`. */
static struct arguments make_arguments(const struct test *test, char *send, char *recv)
{
    bool sends, receives, rooted = is_rooted(test->call);
    MPI_Datatype sendtype = test->types == 1 ? holes : MPI_FLOAT, recvtype = test->types == 0 ? MPI_FLOAT : holes;
    bool scatters = test->call == REDUCE_SCATTER_BLOCK || test->call == REDUCE_SCATTER;
    int scale = scatters && test->inter ? test->opposite : 1;
    struct arguments a = {send, recv, test->types == 2 ? 2 * test->count : test->count, scale * test->count, sendtype, recvtype,
                          sendtype == holes ? add : MPI_SUM, test->root, test->comm};

    find_significant(test, &sends, &receives);
    if (test->in_place && test->call == SCATTER && test->is_root)
        a.recv = MPI_IN_PLACE;
    else if (test->in_place && test->call != SCATTER && (!rooted || test->is_root))
        a.send = MPI_IN_PLACE;
    if (has_two_counts(test->call) && (!sends || a.send == MPI_IN_PLACE)) {
        a.sendcount = INT_MAX / RANKS;
        a.sendtype = MPI_CHAR;
    }
    if (has_two_counts(test->call) && (!receives || a.recv == MPI_IN_PLACE)) {
        a.recvcount = INT_MAX / RANKS;
        a.recvtype = MPI_CHAR;
    }
    return a;
}

/* Small whole numbers: their sums are the same in any order. */
static void fill(char *at, int seed)
{
    for (unsigned i = 0; i < ROOM / sizeof(float); i++) {
        float value = (float)((i * 2654435761u + (unsigned)seed * 40503u) >> 16 & 0xff);
        memcpy(at + i * sizeof value, &value, sizeof value);
    }
}

__attribute__((format(printf, 2, 3))) static void fail(const struct test *test, const char *format, ...)
{
    char text[200];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    failures++;
    if (failures < 20)
        printf("FAIL rank %d: %s on %s, types %d, count %d, root %d%s: %s\n", rank, names[test->call], test->place,
               test->types, test->count, test->root, test->in_place ? ", in place" : "", text);
}

static void compare(const struct test *test, const char *which, char kind, const void *buffer, const char *wanted)
{
    static char got[ROOM];

    gpu_copy(got, buffer, ROOM);
    for (int i = 0; i < ROOM; i++) {
        if (got[i] != wanted[i]) {
            fail(test, "%s buffer of kind %c: byte %d is 0x%02x, on host memory 0x%02x", which, kind, i - GUARD,
                 (unsigned char)got[i], (unsigned char)wanted[i]);
            return;
        }
    }
}

static void count_call(const struct test *test, const struct gpu_block *send, const struct gpu_block *recv)
{
    struct arguments a = make_arguments(test, send->base, recv->base);
    bool sends, receives;

    find_significant(test, &sends, &receives);
    sends = sends && a.send != MPI_IN_PLACE && !gpu_kind_on_host(send->kind);
    receives = receives && a.recv != MPI_IN_PLACE && !gpu_kind_on_host(recv->kind);
    if (test->count > 0 && (sends || receives))
        device_calls++;
    else
        host_calls++;
}

/* One call on memory of these kinds; what must be in the buffers afterwards is known. */
static void run_on(const struct test *test, const struct gpu_block *send, const struct gpu_block *recv, const char *sent,
                   const char *received, const char *wanted)
{
    struct gpu_state before = {0}, after = {0};

    gpu_copy(send->base, sent, ROOM);
    gpu_copy(recv->base, received, ROOM);
    gpu_synchronize();
    struct arguments a = make_arguments(test, send->base + GUARD, recv->base + GUARD);
    if (test->count == 0 && form == BLOCKING) { /* nobody may follow these; Open MPI's MPIX_Reduce_init refuses them */
        a.send = a.send == MPI_IN_PLACE ? a.send : NULL;
        a.recv = a.recv == MPI_IN_PLACE ? a.recv : NULL;
    }
    count_call(test, send, recv);
    gpu_provoke_error();
    gpu_look(&before, false);
    int rc = run_call(test->call, &a);
    gpu_look(&after, false);
    gpu_forget_error();
    if (rc != MPI_SUCCESS)
        fail(test, "answers %d", rc);
    if (!gpu_state_same(&before, &after))
        fail(test, "the state of CUDA has changed");
    compare(test, "send", send->kind, send->base, sent);
    compare(test, "receive", recv->kind, recv->base, wanted);
}

static void run_test(struct test *test)
{
    static char sent[ROOM], received[ROOM], wanted[ROOM];

    cases++;
    test->is_root = is_rooted(test->call) && (test->inter ? test->root == MPI_ROOT : test->root == test->rank);
    test->is_idle = is_rooted(test->call) && test->inter && test->root == MPI_PROC_NULL;
    fill(sent, 2 * rank);
    fill(received, 2 * rank + 1);
    memcpy(wanted, received, ROOM);
    struct arguments a = make_arguments(test, sent + GUARD, wanted + GUARD);
    if (run_call(test->call, &a) != MPI_SUCCESS)
        fail(test, "the host MPI refuses it");
    host_calls++;
    for (int i = 0; i < pairs; i++)
        run_on(test, &send_blocks[i], &recv_blocks[i], sent, received, wanted);
}

#ifdef MPICH_NAME
/* The library that is there, which need not be the one that this was built for: Intel MPI has MPICH's ABI. */
static bool is_intel(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    MPI_Get_library_version(text, &length);
    return strncmp(text, "Intel", 5) == 0;
}

/*
 * MPICH 4.0 by itself reads from MPI_IN_PLACE at a root that is not rank 0, in its algorithm for long messages; MPICH 5.0
 * frees what it has not allocated, with such a root and elements with gaps. What Intel MPI leaves in the gaps is by chance.
 */
static bool breaks_host(const struct test *test)
{
    const bool gaps = test->types && !test->inter;

    return test->call == REDUCE &&
           ((gaps && is_intel()) ||
            (test->root != 0 && ((test->in_place && test->count > 50) || (gaps && MPICH_NUMVERSION >= 50000000))));
}
#else
static bool breaks_host(const struct test *test)
{
    (void)test;
    return false;
}
#endif

/* What has an algorithm of a name. */
static const struct {
    const char *algorithm, *calls;
} have[] = {
    { "oneshot", "bcast reduce scan exscan reduce_scatter_block reduce_scatter gather scatter allgather alltoall " },
    { "copy", "bcast gather scatter allgather alltoall " },
    { "ring", "bcast reduce reduce_scatter_block reduce_scatter allgather " },
    { "tree", "bcast reduce " },
};

static void ask_for(const char *algorithm, MPI_Info info)
{
    char key[64];

    for (size_t i = 0; i < sizeof have / sizeof *have; i++) {
        if (strcmp(have[i].algorithm, algorithm) != 0)
            continue;
        for (const char *at = have[i].calls; *at; at += strcspn(at, " ") + 1) {
            snprintf(key, sizeof key, "shunt_%.*s", (int)strcspn(at, " "), at);
            MPI_Info_set(info, key, algorithm);
        }
    }
}

/* A count of some chunks' length and a small one, of each call that has this algorithm. */
static void run_by(const char *algorithm)
{
    struct test test = {.place = algorithm};
    MPI_Info info;

    MPI_Info_create(&info);
    ask_for(algorithm, info);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &test.comm);
    MPI_Info_free(&info);
    MPI_Comm_rank(test.comm, &test.rank);
    MPI_Comm_size(test.comm, &test.own);
    test.opposite = test.own;
    for (test.call = 0; test.call < CALLS; test.call++) {
        test.root = is_rooted(test.call) ? test.own - 1 : 0;
        for (int in_place = 0; in_place < (test.call == BCAST ? 1 : 2); in_place++) {
            test.in_place = in_place;
            test.count = in_place ? 7 : COUNT;
            run_test(&test);
        }
    }
    MPI_Comm_free(&test.comm);
}

/* All counts and types of one call. There is no room for many elements with gaps. */
static void run_shapes(struct test *test)
{
    static const int counts[] = {0, 1, 7, COUNT};

    for (test->types = 0; test->types < (has_two_counts(test->call) ? 3 : 2); test->types++) {
        for (int i = 0; i < 4; i++) {
            test->count = test->types && counts[i] > 50 ? 50 : counts[i];
            /* Of types that differ in place only one side's counts, and it cannot be told that they do. */
            if ((test->types < 2 || !test->in_place) && !breaks_host(test))
                run_test(test);
        }
    }
}

/* An Allreduce between the others: on the GPUs, if all ranks have counted alike. */
static void run_sum(const struct test *test)
{
    struct gpu_block block;
    float value = (float)(test->rank + 1), wanted = (float)(test->own * (test->own + 1) / 2);

    gpu_alloc(&block, 'D', sizeof value);
    gpu_copy(block.base, &value, sizeof value);
    gpu_synchronize();
    MPI_Allreduce(MPI_IN_PLACE, block.base, 1, MPI_FLOAT, MPI_SUM, test->comm);
    gpu_copy(&value, block.base, sizeof value);
    if (value != wanted)
        fail(test, "the sum behind it is %g instead of %g", (double)value, (double)wanted);
    gpu_free(&block);
}

static void run_intra(MPI_Comm comm)
{
    struct test test = {.comm = comm, .place = "the world"};

    MPI_Comm_rank(comm, &test.rank);
    MPI_Comm_size(comm, &test.own);
    test.opposite = test.own;
    for (test.call = 0; test.call < CALLS; test.call++) {
        for (int in_place = 0; in_place < (test.call == BCAST ? 1 : 2); in_place++) {
            test.in_place = in_place;
            for (test.root = 0; test.root < (is_rooted(test.call) ? 2 : 1); test.root++)
                run_shapes(&test);
        }
        test.root = 0;
        run_sum(&test);
    }
}

/* Wrong calls: the error that the host MPI has for them, and nothing is written. */
static void run_wrong(MPI_Comm comm)
{
    struct test test = {.call = BCAST, .place = "the world", .comm = comm, .root = RANKS + 1, .count = 7};
    static char sent[ROOM];

    fill(sent, rank);
    for (int i = 0; i < pairs; i++) {
        gpu_copy(recv_blocks[i].base, sent, ROOM);
        gpu_synchronize();
        int class = MPI_SUCCESS, rc = MPI_Bcast(recv_blocks[i].base + GUARD, test.count, MPI_FLOAT, test.root, comm);
        MPI_Error_class(rc, &class);
        if (class != MPI_ERR_ROOT)
            fail(&test, "answers class %d", class);
        compare(&test, "receive", recv_blocks[i].kind, recv_blocks[i].base, sent);
        rc = MPI_Allgather(recv_blocks[i].base, 1, MPI_DATATYPE_NULL, recv_blocks[i].base, 1, MPI_DATATYPE_NULL, comm);
        MPI_Error_class(rc, &class);
        if (class != MPI_ERR_TYPE)
            fail(&test, "a null datatype answers class %d", class);
        rc = MPI_Bcast(recv_blocks[i].base + GUARD, -1, MPI_FLOAT, 0, comm);
        MPI_Error_class(rc, &class);
        if (class != MPI_ERR_COUNT)
            fail(&test, "a count of -1 answers class %d", class);
        device_calls += !gpu_kind_on_host(recv_blocks[i].kind);
        cases++;
    }
}

/* Types that hold the addresses themselves. */
static void run_absolute(MPI_Comm comm)
{
    struct test test = {.call = BCAST, .place = "the world", .comm = comm, .count = 1};
    static char received[ROOM], wanted[ROOM];
    MPI_Datatype type;

    for (int i = 0; i < pairs; i++) {
        MPI_Aint at = (MPI_Aint)(intptr_t)(recv_blocks[i].base + GUARD);
        fill(received, rank);
        fill(wanted, 0);
        memcpy(wanted, received, GUARD);
        memcpy(wanted + GUARD + 4, received + GUARD + 4, 8);
        memcpy(wanted + GUARD + 16, received + GUARD + 16, ROOM - GUARD - 16);
        gpu_copy(recv_blocks[i].base, received, ROOM);
        gpu_synchronize();
        MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){at, at + 12}, MPI_FLOAT, &type);
        MPI_Type_commit(&type);
        if (MPI_Bcast(MPI_BOTTOM, 1, type, 0, comm) != MPI_SUCCESS)
            fail(&test, "fails on MPI_BOTTOM");
        MPI_Type_free(&type);
        compare(&test, "absolute", recv_blocks[i].kind, recv_blocks[i].base, wanted);
        device_calls += !gpu_kind_on_host(recv_blocks[i].kind);
        cases++;
    }
}

/* The first rank and all others; either has the root once. */
static void run_inter(void)
{
    struct test test = {.place = "an inter-communicator", .inter = true};
    bool low = rank == 0;
    MPI_Comm local;

    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, low ? 1 : 0, 5, &test.comm);
    MPI_Comm_free(&local);
    MPI_Comm_set_errhandler(test.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(test.comm, &test.rank);
    MPI_Comm_size(test.comm, &test.own);
    MPI_Comm_remote_size(test.comm, &test.opposite);
    for (test.call = 0; test.call < CALLS; test.call++) {
        if (test.call == SCAN || test.call == EXSCAN)
            continue;
        for (int side = 0; side < (is_rooted(test.call) ? 2 : 1); side++) {
            test.root = low != (side == 0) ? 0 : test.rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
            run_shapes(&test);
        }
    }
    MPI_Comm_free(&test.comm);
}

static void run_everything(void)
{
    run_intra(MPI_COMM_WORLD);
    run_wrong(MPI_COMM_WORLD);
    run_absolute(MPI_COMM_WORLD);
    run_inter();
}

static char pick(const char *kinds, size_t length)
{
    return kinds[(size_t)rank % length];
}

int main(int argc, char **argv)
{
    long mine[3], all[3];
    int size;

    form_start(&argc, &argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    large = argc > 1 && strcmp(argv[1], "large") == 0;
    argc -= large;
    argv += large;
    char *by = argc > 1 && strncmp(argv[1], "by=", 3) == 0 ? argv[1] + 3 : NULL;
    argc -= by != NULL;
    argv += by != NULL;
    gpu_start(gpu_local_rank());
    for (pairs = 0; pairs < argc - 1 && pairs < KINDS; pairs++) {
        const char *colon = strchr(argv[pairs + 1], ':');
        gpu_alloc(&send_blocks[pairs], pick(argv[pairs + 1], (size_t)(colon - argv[pairs + 1])), ROOM);
        gpu_alloc(&recv_blocks[pairs], pick(colon + 1, strlen(colon + 1)), ROOM);
    }
    make_types();
    if (by == NULL)
        run_everything();
    for (char *name = by ? strtok(by, ",") : NULL; name; name = strtok(NULL, ","))
        run_by(name);
    for (int i = 0; i < pairs; i++) {
        gpu_free(&send_blocks[i]);
        gpu_free(&recv_blocks[i]);
    }
    MPI_Op_free(&add);
    MPI_Type_free(&holes);
    memcpy(mine, (long[]){failures, device_calls, host_calls}, sizeof mine);
    PMPI_Allreduce(mine, all, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_collectives: ranks %d cases %ld failures %ld device %ld host %ld\n", size, cases, all[0], all[1],
               all[2]);
    MPI_Finalize();
    return all[0] != 0;
}
