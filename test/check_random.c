/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random collectives: check_random [nonblocking|persistent] [pure] SEED FIRST CASES [NAME]. All of a case follows from the seed and
 * its number alone, on every rank alike. The same call on host memory tells what every byte must be afterwards, with guards
 * around, and what is not to be written poisoned. pure: only cases that must run on the GPUs. NAME: only this collective.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/calls.h"
#include "test/gpu.h"
#include "test/places.h"
#include "test/refer.h"

#define GUARD  64
#define ROOM   (3u << 20)
#define POISON 0xc3

static const struct {
    const char *type;
    enum refer_op_id op;
} pairs[] = {{"INT", REFER_SUM},    {"FLOAT", REFER_SUM},           {"DOUBLE", REFER_MAX},       {"SHORT", REFER_MIN},
             {"LONG", REFER_BXOR},  {"C_FLOAT_COMPLEX", REFER_SUM}, {"SIGNED_CHAR", REFER_MAX},  {"UNSIGNED", REFER_BAND},
             {"DOUBLE", REFER_SUM}, {"C_DOUBLE_COMPLEX", REFER_SUM}, {"UNSIGNED_CHAR", REFER_SUM}};

static struct {
    MPI_Datatype type;
    int size;
} moved[7];

static MPI_Op composed;
static uint64_t seed;
static bool pure;
static long cases, failures, device_calls, host_calls;
static struct gpu_block blocks[2][sizeof GPU_KINDS];
static char images[2][ROOM], wanted[ROOM], sent_host[ROOM], got[ROOM];

/* ---- cases ---- */

struct test {
    long number;
    enum call call;
    const struct place *place;
    bool in_place, large, user; /* user: the operation is the program's own, and does not commute */
    int root, pair, kind; /* which of `pairs` or `moved` */
    size_t size;          /* of an element */
    long count;           /* of collectives that have one */
    long counts[RANKS][RANKS]; /* [p][q]: what p sends to q; of those with one array, [0] */
    char kinds[2][RANKS]; /* send and receive side, by rank in the communicator */
    size_t offsets[2], extents[2]; /* of this rank, bytes */
};

static bool combines(enum call call)
{
    return call == allreduce || call == reduce || call == scan || call == exscan || call == reduce_scatter_block ||
           call == reduce_scatter;
}

static bool rooted(enum call call)
{
    return call == bcast || call == reduce || call == gather || call == scatter || call == gatherv || call == scatterv;
}

static long draw_count(const struct test *test)
{
    static const unsigned most[] = {4, 4, 70, 70, 1000, 9000};
    unsigned limit = most[test->number % 6];

    return below(5) == 0 ? 0 : (long)below(limit);
}

static void draw_counts(struct test *test)
{
    int n = test->place->n;
    bool symmetric = test->in_place && (test->call == alltoallv || test->call == alltoallw);

    test->count = draw_count(test);
    for (int p = 0; p < n; p++) {
        for (int q = 0; q < n; q++) {
            long count = draw_count(test);
            test->counts[p][q] = symmetric && q < p ? test->counts[q][p] : count;
        }
    }
}

static void draw_kinds(struct test *test)
{
    static const char some[] = "DDDDAVMSBHP";
    bool mixed = !pure && below(6) == 0;

    for (int side = 0; side < 2; side++)
        for (int r = 0; r < RANKS; r++)
            test->kinds[side][r] = mixed ? some[below(sizeof some - 1)] : 'D';
}

/* What the host MPI itself gets wrong. */
static bool host_fails(const struct test *test)
{
    /* Open MPI 4.1 hangs behind those of Alltoallv and Alltoallw, and of the latter MPICH 4.0 makes nonsense. */
    bool may_reach_host = form == PERSISTENT || (form == NONBLOCKING && !pure);
    if (may_reach_host && test->in_place && (test->call == alltoallv || test->call == alltoallw))
        return true;
#ifdef OPEN_MPI /* of one rank it takes the displacements for elements */
    return test->call == alltoallw && test->place->n == 1;
#elif defined MPICH_NAME /* and here it ignores them; and where ranks have more sources than destinations, or fewer */
    return (test->call == allgatherv && test->place->n == 1) ||
           (test->call == neighbor_alltoallw && strcmp(test->place->name, "a graph") == 0);
#else
    (void)test;
    return false;
#endif
}

static bool may_be_in_place(const struct test *test)
{
#ifdef MPICH_NAME /* it reads from MPI_IN_PLACE itself */
    if (test->call == reduce)
        return false;
#endif
    return test->call != bcast && !test->place->topology;
}

/* All that ranks must know alike. */
static void draw_test(long number, int only, struct test *test)
{
    *test = (struct test){.number = number};
    draw_state = seed * 1000003 + (uint64_t)number;
    draw();
    test->call = only >= 0 ? (enum call)only : (enum call)below(NCALLS);
    do
        test->place = &places[below((unsigned)n_places)];
    while ((test->call >= neighbor_allgather) != test->place->topology);
    test->root = (int)below((unsigned)test->place->n);
    test->in_place = below(4) == 0 && may_be_in_place(test);
    test->large = MPI_VERSION >= 4 && below(4) == 0;
    do /* the host's result must be right */
        test->pair = (int)below(sizeof pairs / sizeof *pairs);
    while (refer_host_flawed(refer_type_find(pairs[test->pair].type), pairs[test->pair].op));
    test->user = !pure && combines(test->call) && below(6) == 0;
    while (test->user && strcmp(pairs[test->pair].type, "UNSIGNED") != 0)
        test->pair = (test->pair + 1) % (int)(sizeof pairs / sizeof *pairs);
    test->kind = (int)below(sizeof moved / sizeof *moved);
    test->size = combines(test->call) ? refer_type_find(pairs[test->pair].type)->size : (size_t)moved[test->kind].size;
    draw_counts(test);
    draw_kinds(test);
    for (int side = 0; side < 2; side++)
        test->offsets[side] = test->size * below(4);
}

/* ---- arguments ---- */

static void set_number(struct numbers *numbers, int i, long value)
{
    numbers->i[i] = (int)value;
    numbers->c[i] = (MPI_Count)value;
    numbers->a[i] = (MPI_Aint)value;
}

/* Rows of these counts in random order with random gaps; answers the elements that they span. `scale`: 1, or bytes. */
static long spread_rows(int n, const long *counts, long scale, struct numbers *numbers, struct numbers *displs)
{
    int order[RANKS];
    long at = (long)below(3);

    for (int i = 0; i < n; i++) {
        int j = (int)below((unsigned)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < n; i++) {
        set_number(numbers, order[i], counts[order[i]]);
        set_number(displs, order[i], at * scale);
        at += counts[order[i]] + (long)below(3);
    }
    return at;
}

/* What this rank sends and receives, in the order of its rows. Answers how many rows. */
static int row_counts(const struct test *test, bool recv, long *counts)
{
    const struct place *place = test->place;
    int me = place->rank, rows = recv ? place->n_in[me] : place->n_out[me];

    for (int i = 0; i < rows; i++) {
        int peer = recv ? place->in[me][i] : place->out[me][i];
        if (peer == MPI_PROC_NULL) {
            counts[i] = test->count;
            continue;
        }
        counts[i] = recv ? test->counts[peer][me] : test->counts[me][peer];
        if (test->call == allgatherv || test->call == neighbor_allgatherv)
            counts[i] = test->counts[0][recv ? peer : me];
        if (test->call == gatherv || test->call == scatterv || test->call == reduce_scatter)
            counts[i] = test->counts[0][i];
        if (test->call >= neighbor_alltoallv && !place->grid) /* in grids hosts do not agree which of several comes first */
            counts[i] += places_earlier(recv ? place->in[me] : place->out[me], i);
    }
    return rows;
}

/* The extents of both buffers, in elements, and the arrays. */
static void make_rows(const struct test *test, struct arguments *a, long *send, long *recv)
{
    const struct place *place = test->place;
    bool wide = test->call == alltoallw || test->call == neighbor_alltoallw;
    long counts[RANKS], scale = wide ? (long)test->size : 1, total = 0;
    int n = place->n, me = place->rank;

    *send = *recv = test->count;
    a->sendcount = a->recvcount = test->count;
    switch (test->call) {
    case reduce_scatter_block:
    case scatter: *send = n * test->count; break;
    case gather:
    case allgather: *recv = n * test->count; break;
    case alltoall: *send = *recv = n * test->count; break;
    case neighbor_allgather: *recv = place->n_in[me] * test->count; break;
    case neighbor_alltoall:
        *send = place->n_out[me] * test->count;
        *recv = place->n_in[me] * test->count;
        break;
    case gatherv:
    case scatterv:
        a->sendcount = a->recvcount = *send = *recv = test->counts[0][me];
        row_counts(test, test->call == gatherv, counts);
        if (test->call == gatherv)
            *recv = spread_rows(n, counts, 1, &a->recvcounts, &a->recvdispls);
        else
            *send = spread_rows(n, counts, 1, &a->sendcounts, &a->senddispls);
        break;
    case allgatherv:
    case neighbor_allgatherv: {
        int rows = row_counts(test, true, counts);
        a->sendcount = *send = test->counts[0][me];
        *recv = spread_rows(rows, counts, 1, &a->recvcounts, &a->recvdispls);
        break;
    }
    case reduce_scatter:
        for (int q = 0; q < n; total += test->counts[0][q], q++)
            set_number(&a->recvcounts, q, test->counts[0][q]);
        *send = total;
        *recv = test->in_place ? total : test->counts[0][me];
        break;
    case alltoallv:
    case alltoallw:
    case neighbor_alltoallv:
    case neighbor_alltoallw: {
        int rows = row_counts(test, false, counts);
        *send = spread_rows(rows, counts, scale, &a->sendcounts, &a->senddispls);
        rows = row_counts(test, true, counts);
        *recv = spread_rows(rows, counts, scale, &a->recvcounts, &a->recvdispls);
        break;
    }
    default: break;
    }
}

static void place_buffers(const struct test *test, char *send, char *recv, struct arguments *a)
{
    bool root = test->place->rank == test->root;

    a->send = send;
    a->recv = recv;
    if (test->in_place && (test->call == scatter || test->call == scatterv))
        a->recv = root ? MPI_IN_PLACE : recv;
    else if (test->in_place && (!rooted(test->call) || root))
        a->send = MPI_IN_PLACE;
}

/* From a generator of this rank's own: places differ from rank to rank. */
static void make_arguments(struct test *test, struct arguments *a)
{
    long send, recv;

    draw_state = seed * 7919 + (uint64_t)test->number * 64 + (uint64_t)test->place->rank;
    draw();
    *a = (struct arguments){.root = test->root, .comm = test->place->comm};
    a->type = combines(test->call) ? refer_type_find(pairs[test->pair].type)->handle : moved[test->kind].type;
    a->op = test->user ? composed : refer_ops[pairs[test->pair].op].handle;
    for (int i = 0; i < RANKS; i++)
        a->types[i] = a->type;
    make_rows(test, a, &send, &recv);
    if (test->in_place && test->call == reduce_scatter_block)
        recv = send;
    test->extents[0] = (size_t)send * test->size;
    test->extents[1] = (size_t)recv * test->size;
}

/* ---- running and comparing ---- */

static void fail(const struct test *test, const char *what, long at, int is, int should)
{
    if (++failures <= 8)
        printf("FAIL world rank %d, rank %d of %d: seed %llu case %ld: %s on %s, size %zu, root %d%s%s, kinds %c:%c: %s, "
               "byte %ld is 0x%02x instead of 0x%02x\n",
               world_rank, test->place->rank, test->place->n, (unsigned long long)seed, test->number, names[test->call],
               test->place->name, test->size, test->root, test->in_place ? ", in place" : "", test->large ? ", large" : "",
               test->kinds[0][test->place->rank], test->kinds[1][test->place->rank], what, at, is & 255, should & 255);
    fflush(stdout);
}

/* Elements that combine must not overflow or round; of others any bytes do. */
static void fill_image(const struct test *test, int side, char *image, size_t bytes)
{
    size_t data = test->extents[side];
    struct refer_source source = {refer_type_find(pairs[test->pair].type), pairs[test->pair].op, REFER_EXACT,
                                  seed + (uint64_t)test->number};

    memset(image, POISON, bytes);
    if (combines(test->call))
        refer_fill(&source, test->place->rank, data / test->size, image + GUARD + test->offsets[side]);
    else
        for (size_t i = 0; i < data; i++)
            image[GUARD + test->offsets[side] + i] = (char)(draw() >> 32);
}

static void compare(const struct test *test, int side, const char *device, const char *should, size_t bytes)
{
    size_t begin = GUARD + test->offsets[side];

    gpu_copy(got, device, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] != should[i]) {
            fail(test, side == 0 ? "send buffer" : "receive buffer", (long)i - (long)begin, got[i], should[i]);
            return;
        }
    }
}

static char *memory_of(int side, char kind)
{
    struct gpu_block *block = &blocks[side][strchr(GPU_KINDS, kind) - GPU_KINDS];

    if (kind != 'H')
        gpu_start(gpu_local_rank());
    if (block->base == NULL)
        gpu_alloc(block, kind, ROOM);
    return block->base;
}

/* How often one call of the form runs: in place, each time with the result of the last. */
static int starts_of(int its_form)
{
    return its_form == PERSISTENT ? FORM_ROUNDS : 1;
}

/*
 * What MPI leaves open, and Open MPI uses (on rank 0, if a count is 0): the rest of the receive buffer where the ranks' results are
 * parts of what was in it. It has to stay as it was.
 */
static void restore_rest(const struct test *test, char *host)
{
    size_t begin = GUARD + test->offsets[1], result;

    if (!test->in_place || (test->call != reduce_scatter && test->call != reduce_scatter_block))
        return;
    result = (size_t)(test->call == reduce_scatter ? test->counts[0][test->place->rank] : test->count) * test->size;
    memcpy(host + begin + result, images[1] + begin + result, test->extents[1] - result);
}

/* By a blocking call; where a rank is a neighbour several times, hosts match blocks in another way in each form. */
static int run_on_host(const struct test *test, const struct arguments *a)
{
    int wanted_form = form, rc = MPI_SUCCESS;

    form = test->place->twice ? form : BLOCKING;
    for (int i = 0; i < (form == BLOCKING ? starts_of(wanted_form) : 1) && rc == MPI_SUCCESS; i++) {
        rc = run_call(test->call, test->large, a);
        restore_rest(test, wanted);
    }
    form = wanted_form;
    return rc;
}

static void run_test(struct test *test)
{
    struct arguments a;
    size_t bytes[2];
    char *memory[2], *host[2] = {sent_host, wanted};

    make_arguments(test, &a);
    for (int side = 0; side < 2; side++) {
        bytes[side] = 2 * GUARD + test->offsets[side] + test->extents[side];
        if (bytes[side] > ROOM)
            abort();
        fill_image(test, side, images[side], bytes[side]);
        memcpy(host[side], images[side], bytes[side]);
        memory[side] = memory_of(side, test->kinds[side][test->place->rank]);
        gpu_copy(memory[side], images[side], bytes[side]);
    }
    gpu_synchronize();
    place_buffers(test, sent_host + GUARD + test->offsets[0], wanted + GUARD + test->offsets[1], &a);
    if (run_on_host(test, &a) != MPI_SUCCESS)
        fail(test, "the host refuses it", 0, 0, 0);
    host_calls++;
    place_buffers(test, memory[0] + GUARD + test->offsets[0], memory[1] + GUARD + test->offsets[1], &a);
    form_in_waves = test->place->twice;
    if (run_call(test->call, test->large, &a) != MPI_SUCCESS)
        fail(test, "an error", 0, 0, 0);
    device_calls += starts_of(form);
    for (int side = 0; side < 2; side++)
        compare(test, side, memory[side], host[side], bytes[side]);
}

/* Two numbers of 16 bits are a map x -> a x + b; inout is what comes after. */
static void compose(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const uint32_t *first = in;
    uint32_t *then = inout;

    (void)type;
    for (int i = 0; i < *n; i++) {
        uint32_t a = then[i] >> 16, b = then[i] & 0xffff;
        then[i] = a * (first[i] >> 16) << 16 | ((a * (first[i] & 0xffff) + b) & 0xffff);
    }
}

static void make_types(void)
{
    static const int sizes[] = {1, 2, 4, 8, 16, 3, 12};
    MPI_Datatype plain[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX};

    for (int i = 0; i < 7; i++) {
        moved[i].size = sizes[i];
        if (i < 5) {
            moved[i].type = plain[i];
            continue;
        }
        MPI_Type_contiguous(3, i == 5 ? MPI_BYTE : MPI_INT, &moved[i].type);
        MPI_Type_commit(&moved[i].type);
    }
    MPI_Op_create(compose, 0, &composed);
}

int main(int argc, char **argv)
{
    int only = -1;

    form_start(&argc, &argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    pure = argc > 1 && strcmp(argv[1], "pure") == 0;
    argv += pure;
    argc -= pure;
    seed = strtoull(argv[1], NULL, 10);
    long first = atol(argv[2]), number = atol(argv[3]);
    for (int i = 0; i < NCALLS && argc > 4; i++)
        only = strcmp(names[i], argv[4]) == 0 ? i : only;
    refer_start();
    gpu_start(gpu_local_rank());
    make_types();
    draw_state = seed;
    make_places();
    for (long i = first; i < first + number; i++) {
        struct test test;
        draw_test(i, only, &test);
        if (test.place->comm == MPI_COMM_NULL || host_fails(&test))
            continue;
        cases++;
        run_test(&test);
    }
    long counts[] = {cases, failures, device_calls, host_calls, (long)form_registrations}, sums[5];
    long most = (long)form_most_launches, most_of_all;
    MPI_Reduce(counts, sums, 5, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&most, &most_of_all, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        printf("check_random: ranks %d cases %ld failures %ld device %ld host %ld\n", world_size, sums[0], sums[1], sums[2],
               sums[3]);
    if (world_rank == 0 && form == PERSISTENT)
        printf("a start took %ld launches at most, and all %ld registrations\n", most_of_all, sums[4]);
    for (int i = 0; i < n_places; i++)
        if (places[i].comm != MPI_COMM_NULL)
            MPI_Comm_free(&places[i].comm);
    for (int side = 0; side < 2; side++)
        for (size_t k = 0; k < strlen(GPU_KINDS); k++)
            if (blocks[side][k].base)
                gpu_free(&blocks[side][k]);
    MPI_Finalize();
    return 0;
}
