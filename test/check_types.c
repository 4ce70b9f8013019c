/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Derived datatypes of device memory: check_types KINDS ..., kinds of memory by rank as in check_allreduce; check_types
 * holes; check_types reuse; check_types absolute; check_types faces; check_types large KINDS.
 * The same call on host memory, made by the host MPI, tells what every byte must be afterwards, gaps included. The
 * summary says how many messages must have been packed and unpacked by a kernel.
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu.h"

#define RANKS   4
#define GUARD   4096 /* also room for what lies below an element's address */
#define ELEMENT 6144 /* bytes that an element may reach */
#define ROOM    (2 * GUARD + (2 * RANKS + 2) * ELEMENT)

enum call { BCAST, ALLGATHER, ALLTOALL, GATHER, SCATTER, ALLTOALLV, ALLTOALLW, SENDRECV, IALLTOALLW, ISENDRECV, CALLS };
static const char *const call_names[] = {"bcast",     "allgather", "alltoall", "gather",     "scatter",
                                         "alltoallv", "alltoallw", "sendrecv", "ialltoallw", "isend"};

static int rank, size;
static long cases, failures, device_calls, packed, unpacked;

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
    char text[200];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (failures++ < 20)
        printf("FAIL rank %d: %s\n", rank, text);
}

/* ---- the datatypes: all of int, but for one; each has gaps ---- */

static MPI_Datatype make_vector(void)
{
    MPI_Datatype type;
    MPI_Type_vector(16, 3, 7, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_hvector(void)
{
    MPI_Datatype type;
    MPI_Type_create_hvector(9, 2, 41, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_indexed(void)
{
    MPI_Datatype type;
    MPI_Type_indexed(5, (int[]){3, 0, 1, 7, 2}, (int[]){90, 4, 0, 33, 60}, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_hindexed(void)
{
    MPI_Datatype type;
    int lengths[40];
    MPI_Aint places[40];
    for (int i = 0; i < 40; i++) {
        lengths[i] = 1 + i * i % 4;
        places[i] = 50 * i + i * i % 7 - 100;
    }
    MPI_Type_create_hindexed(40, lengths, places, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_indexed_block(void)
{
    MPI_Datatype type;
    int places[100];
    for (int i = 0; i < 100; i++)
        places[i] = 4 * ((i * 37) % 100) + i % 3;
    MPI_Type_create_indexed_block(100, 1, places, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_hindexed_block(void)
{
    MPI_Datatype type;
    MPI_Type_create_hindexed_block(4, 2, (MPI_Aint[]){-17, 0, 800, 1601}, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_struct(void)
{
    MPI_Datatype type;
    MPI_Type_create_struct(3, (int[]){1, 2, 5}, (MPI_Aint[]){0, 8, 29}, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE, MPI_CHAR},
                           &type);
    return type;
}

static MPI_Datatype make_subarray(void)
{
    MPI_Datatype type;
    MPI_Type_create_subarray(3, (int[]){8, 10, 12}, (int[]){4, 3, 5}, (int[]){2, 6, 1}, MPI_ORDER_C, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_darray(void)
{
    MPI_Datatype type;
    MPI_Type_create_darray(4, 2, 2, (int[]){20, 30}, (int[]){MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
                           (int[]){3, MPI_DISTRIBUTE_DFLT_DARG}, (int[]){2, 2}, MPI_ORDER_FORTRAN, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_resized(void)
{
    MPI_Datatype type, column;
    MPI_Type_vector(16, 1, 9, MPI_INT, &column);
    MPI_Type_create_resized(column, -12, 4, &type); /* columns of a matrix: elements lie in the gaps of each other */
    MPI_Type_free(&column);
    return type;
}

static MPI_Datatype make_dup(void)
{
    MPI_Datatype type, indexed = make_indexed();
    MPI_Type_dup(indexed, &type);
    MPI_Type_free(&indexed);
    return type;
}

static MPI_Datatype make_nested(void)
{
    MPI_Datatype type, row, parts[2] = {make_indexed(), make_struct()};
    MPI_Type_create_struct(2, (int[]){2, 3}, (MPI_Aint[]){0, 800}, parts, &row);
    MPI_Type_create_hvector(3, 1, 1500, row, &type);
    MPI_Type_free(&row);
    MPI_Type_free(&parts[0]);
    MPI_Type_free(&parts[1]);
    return type;
}

static MPI_Datatype make_pairs(void)
{
    MPI_Datatype type;
    MPI_Type_vector(6, 2, 3, MPI_SHORT_INT, &type); /* with padding inside of each */
    return type;
}

static const struct {
    const char *name;
    MPI_Datatype (*make)(void);
} makers[] = {
    {"vector", make_vector},         {"hvector", make_hvector},           {"indexed", make_indexed},
    {"hindexed", make_hindexed},     {"indexed_block", make_indexed_block}, {"hindexed_block", make_hindexed_block},
    {"struct", make_struct},         {"subarray", make_subarray},         {"darray", make_darray},
    {"resized", make_resized},       {"dup", make_dup},                   {"nested", make_nested},
    {"pairs", make_pairs},
};
enum { TYPES = sizeof makers / sizeof makers[0] };

/* ---- calls ---- */

struct test {
    enum call call;
    int type; /* number of its maker */
    MPI_Datatype datatype;
    int count;      /* elements for each rank */
    int root;
    int bytes;      /* of `count` elements; the other side of gather and scatter has them as bytes */
    size_t room;    /* of a buffer */
};

/* Rows in another order, with gaps between them; the last type is a predefined one. */
struct rows {
    int counts[RANKS], displs[RANKS], places[RANKS];
    MPI_Datatype types[RANKS];
};

static void make_rows(const struct test *test, struct rows *rows)
{
    MPI_Aint lb, extent;

    MPI_Type_get_extent(test->datatype, &lb, &extent);
    for (int i = 0; i < size; i++) {
        rows->counts[i] = test->count;
        rows->displs[i] = (size - 1 - i) * (test->count + 1);
        rows->places[i] = (int)(rows->displs[i] * extent);
        rows->types[i] = test->datatype;
    }
}

/* A duplicate, which is freed when the operation has begun. */
static int run_nonblocking(const struct test *test, const void *send, void *recv)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    struct rows rows;
    MPI_Datatype type;
    int rc, n = test->count;

    MPI_Type_dup(test->datatype, &type);
    make_rows(test, &rows);
    for (int i = 0; i < size; i++)
        rows.types[i] = type;
    if (test->call == IALLTOALLW) {
        rc = MPI_Ialltoallw(send, rows.counts, rows.places, rows.types, recv, rows.counts, rows.places, rows.types,
                            MPI_COMM_WORLD, &requests[0]);
    } else {
        rc = MPI_Irecv(recv, n, type, (rank + size - 1) % size, 3, MPI_COMM_WORLD, &requests[0]);
        rc = rc ? rc : MPI_Isend(send, n, type, (rank + 1) % size, 3, MPI_COMM_WORLD, &requests[1]);
    }
    MPI_Type_free(&type);
    MPI_Type_vector(2, 1, 900, MPI_DOUBLE, &type); /* mostly the same handle */
    for (int i = 0; i < 2 && rc == MPI_SUCCESS; i++)
        rc = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    return rc;
}

static int run_call(const struct test *test, const void *send, void *recv)
{
    struct rows rows;

    MPI_Datatype type = test->datatype;
    int n = test->count, root = test->root;

    switch (test->call) {
    case BCAST: return MPI_Bcast(recv, n, type, root, MPI_COMM_WORLD);
    case ALLGATHER: return MPI_Allgather(send, n, type, recv, n, type, MPI_COMM_WORLD);
    case ALLTOALL: return MPI_Alltoall(send, n, type, recv, n, type, MPI_COMM_WORLD);
    case GATHER: return MPI_Gather(send, n, type, recv, test->bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    case SCATTER: return MPI_Scatter(send, test->bytes, MPI_BYTE, recv, n, type, root, MPI_COMM_WORLD);
    case ALLTOALLV:
        make_rows(test, &rows);
        return MPI_Alltoallv(send, rows.counts, rows.displs, type, recv, rows.counts, rows.displs, type, MPI_COMM_WORLD);
    case ALLTOALLW:
        make_rows(test, &rows);
        return MPI_Alltoallw(send, rows.counts, rows.places, rows.types, recv, rows.counts, rows.places, rows.types,
                             MPI_COMM_WORLD);
    case SENDRECV:
        return MPI_Sendrecv(send, n, type, (rank + 1) % size, 0, recv, n, type, (rank + size - 1) % size, 0,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    default: return run_nonblocking(test, send, recv);
    }
}

/* How many messages must be packed and unpacked on this rank: rows that are apart are one each. */
static void expect(const struct test *test, int *packs, int *unpacks)
{
    bool is_root = rank == test->root;
    int rows = test->call == ALLTOALLV || test->call == ALLTOALLW || test->call == IALLTOALLW ? size : 1;

    *packs = test->call == BCAST ? is_root : test->call != SCATTER ? rows : 0;
    *unpacks = test->call == BCAST ? !is_root : test->call != GATHER ? rows : 0;
}

static void fill(char *at, int seed, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)((i * 2654435761u + (unsigned)seed * 40503u) >> 13);
}

static void compare(const struct test *test, char kind, const char *which, const char *buffer, const char *wanted)
{
    char *got = malloc(test->room);

    gpu_copy(got, buffer, test->room);
    for (size_t i = 0; i < test->room; i++) {
        if (got[i] != wanted[i]) {
            fail("%s of %d %s from %d, %s buffer of kind %c: byte %td is 0x%02x, on host memory 0x%02x",
                 call_names[test->call], test->count, makers[test->type].name, test->root, which, kind,
                 (ptrdiff_t)i - GUARD, (unsigned char)got[i], (unsigned char)wanted[i]);
            break;
        }
    }
    free(got);
}

/* On memory of that kind; what must be in the buffers afterwards is known. */
static void run_on(const struct test *test, char kind, const char *sent, const char *received, const char *wanted)
{
    struct gpu_block send, recv;
    struct gpu_state before = {0}, after = {0};
    int packs, unpacks;

    gpu_alloc(&send, kind, test->room);
    gpu_alloc(&recv, kind, test->room);
    gpu_copy(send.base, sent, test->room);
    gpu_copy(recv.base, received, test->room);
    gpu_synchronize();
    expect(test, &packs, &unpacks);
    if (!gpu_kind_on_host(kind)) {
        device_calls++;
        packed += packs;
        unpacked += unpacks;
    }
    gpu_provoke_error();
    gpu_look(&before, false);
    int rc = run_call(test, send.base + GUARD, recv.base + GUARD);
    gpu_look(&after, false);
    gpu_forget_error();
    if (rc != MPI_SUCCESS || !gpu_state_same(&before, &after))
        fail("%s of %s answers %d, or the state of CUDA has changed", call_names[test->call], makers[test->type].name, rc);
    compare(test, kind, "send", send.base, sent);
    compare(test, kind, "receive", recv.base, wanted);
    gpu_free(&send);
    gpu_free(&recv);
}

static void run_test(const struct test *test, int n_kinds, char **kinds)
{
    char *sent = malloc(test->room), *received = malloc(test->room), *wanted = malloc(test->room);

    cases++;
    fill(sent, 2 * rank, test->room);
    fill(received, 2 * rank + 1, test->room);
    memcpy(wanted, received, test->room);
    if (run_call(test, sent + GUARD, wanted + GUARD) != MPI_SUCCESS)
        fail("the host MPI refuses %s", call_names[test->call]);
    for (int i = 0; i < n_kinds; i++)
        run_on(test, kinds[i][(size_t)rank % strlen(kinds[i])], sent, received, wanted);
    free(sent);
    free(received);
    free(wanted);
}

static void run_types(int n_kinds, char **kinds)
{
    struct test test = {.room = ROOM};

    for (test.type = 0; test.type < TYPES; test.type++) {
        test.datatype = makers[test.type].make();
        MPI_Type_commit(&test.datatype);
        for (test.call = 0; test.call < CALLS; test.call++) {
            MPI_Type_size(test.datatype, &test.bytes);
            test.count = 1 + test.call % 2;
            test.bytes *= test.count;
            test.root = (int)test.call % size;
            run_test(&test, n_kinds, kinds);
        }
        MPI_Type_free(&test.datatype);
    }
}

/* Rows of a matrix: messages of several pieces, beyond what the pool and the buffer hold at a time. */
static void run_large(int n_kinds, char **kinds)
{
    struct test test = {.room = 2 * GUARD + (size_t)RANKS * 40000 * 24, .count = 1, .type = 0};

    MPI_Type_create_hvector(40000, 2, 24, MPI_INT, &test.datatype);
    MPI_Type_commit(&test.datatype);
    MPI_Type_size(test.datatype, &test.bytes);
    for (test.call = 0; test.call < CALLS; test.call++)
        run_test(&test, n_kinds, kinds);
    MPI_Type_free(&test.datatype);
}

/* ---- other programs ---- */

/* Handles come again for other datatypes, some right after a free, and must not be taken for those. */
static void run_reuse(void)
{
    enum { N = 600, INTS = 4000 };
    static int data[INTS], got[INTS];
    struct gpu_block block;
    MPI_Datatype types[3];

    gpu_alloc(&block, 'D', sizeof data);
    for (int i = 0; i < N; i++) {
        int n = 1 + i % 13, stride = 2 + i % 17, root = i % size;
        for (int k = 0; k < INTS; k++)
            data[k] = rank == root ? k + i : -1;
        gpu_copy(block.base, data, sizeof data);
        gpu_synchronize();
        MPI_Type_vector(n, 1, stride, MPI_INT, &types[i % 3]);
        MPI_Type_commit(&types[i % 3]);
        MPI_Bcast(block.base, 2, types[i % 3], root, MPI_COMM_WORLD);
        gpu_copy(got, block.base, sizeof got);
        for (int k = 0; k < INTS; k++) {
            int extent = (n - 1) * stride + 1;
            bool inside = k < 2 * extent && k % extent % stride == 0;
            if (got[k] != (inside ? k + i : data[k])) {
                fail("vector %d, %d ints %d apart: int %d is %d", i, n, stride, k, got[k]);
                break;
            }
        }
        device_calls++;
        packed += n > 1 && rank == root;
        unpacked += n > 1 && rank != root;
        if (i % 3 == 2)
            for (int k = 0; k < 3; k++)
                MPI_Type_free(&types[k]);
        cases++;
    }
    gpu_free(&block);
}

/* Blocks on every other piece of a range, of which the pieces between are not mapped. */
static void run_holes(void)
{
    enum { INTS = 1000 };
    static int data[INTS], got[INTS + 2];
    struct gpu_block block;
    MPI_Datatype type;

    gpu_alloc(&block, 'R', 16 << 20);
    char *root = block.root;
    int pieces = (int)(block.root_bytes / block.piece), blocks = (pieces + 1) / 2;
    for (int i = 1; i < pieces; i += 2)
        gpu_make_hole(&block, i);
    MPI_Type_create_hvector(blocks, INTS, (MPI_Aint)(2 * block.piece), MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int from = 0; from < size; from++) {
        for (int i = 0; i < blocks; i++) {
            for (int k = 0; k < INTS; k++)
                data[k] = rank == from ? 10000 * from + 100 * i + k : -1;
            gpu_copy(root + 2 * (size_t)i * block.piece + 4096, data, sizeof data);
        }
        gpu_synchronize();
        if (MPI_Bcast(root + 4096, 1, type, from, MPI_COMM_WORLD) != MPI_SUCCESS)
            fail("the range with holes is refused");
        for (int i = 0; i < blocks; i++) {
            gpu_copy(got, root + 2 * (size_t)i * block.piece + 4092, sizeof got);
            for (int k = 0; k < INTS; k++)
                if (got[k + 1] != 10000 * from + 100 * i + k)
                    fail("block %d: int %d is %d", i, k, got[k + 1]);
        }
        device_calls++;
        packed += rank == from;
        unpacked += rank != from;
        cases++;
    }
    MPI_Type_free(&type);
    gpu_free(&block);
}

/* Types that hold the addresses of blocks in different memory, the host's before, between or behind the others. */
static void run_absolute(void)
{
    enum { BLOCKS = 4, INTS = 100 };
    struct gpu_block blocks[BLOCKS];
    MPI_Aint places[BLOCKS];
    MPI_Datatype type;
    int data[INTS];

    for (int host = 0; host < BLOCKS; host++) {
        for (int i = 0; i < BLOCKS; i++) {
            gpu_alloc(&blocks[i], i == host ? 'H' : i == 2 ? 'M' : 'D', sizeof data);
            places[i] = (MPI_Aint)(intptr_t)blocks[i].base;
            for (int k = 0; k < INTS; k++)
                data[k] = 1000 * rank + 100 * i + k;
            gpu_copy(blocks[i].base, data, sizeof data);
        }
        gpu_synchronize();
        MPI_Type_create_hindexed_block(BLOCKS, INTS - 10, places, MPI_INT, &type);
        MPI_Type_commit(&type);
        if (MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
            fail("absolute addresses are refused");
        MPI_Type_free(&type);
        for (int i = 0; i < BLOCKS; i++) {
            gpu_copy(data, blocks[i].base, sizeof data);
            for (int k = 0; k < INTS; k++)
                if (data[k] != (k < INTS - 10 ? 0 : 1000 * rank) + 100 * i + k)
                    fail("host block %d, block %d: int %d is %d", host, i, k, data[k]);
            gpu_free(&blocks[i]);
        }
        device_calls++;
        cases++;
    }
}

/* Faces of a cube go out and others come in: one array on both sides, which is no mistake where nothing is in both. */
enum { EDGE = 20, CELLS = EDGE * EDGE * EDGE };

static MPI_Datatype make_face(int place)
{
    int sizes[3] = {EDGE, EDGE, EDGE}, subsizes[3] = {EDGE, EDGE, 1}, starts[3] = {0, 0, place};
    MPI_Datatype type;

    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static int exchange_faces(bool neighbours, double *cube, MPI_Comm ring, MPI_Datatype *inner, MPI_Datatype *rim)
{
    const int ones[2] = {1, 1};
    const MPI_Aint places[2] = {0, 0};

    if (neighbours)
        return MPI_Neighbor_alltoallw(cube, ones, places, inner, cube, ones, places, rim, ring);
    return MPI_Sendrecv(cube, 1, inner[0], (rank + size - 1) % size, 0, cube, 1, rim[1], (rank + 1) % size, 0, ring,
                        MPI_STATUS_IGNORE);
}

static void run_faces(void)
{
    static double cube[CELLS], got[CELLS];
    MPI_Datatype inner[2] = {make_face(1), make_face(EDGE - 2)}, rim[2] = {make_face(0), make_face(EDGE - 1)};
    struct gpu_block block;
    MPI_Comm ring;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &(int){1}, 0, &ring);
    gpu_alloc(&block, 'D', sizeof cube);
    for (int neighbours = 0; neighbours < 2; neighbours++) {
        for (int i = 0; i < CELLS; i++)
            cube[i] = rank * CELLS + i;
        gpu_copy(block.base, cube, sizeof cube);
        gpu_synchronize();
        if (exchange_faces(neighbours, cube, ring, inner, rim) != MPI_SUCCESS ||
            exchange_faces(neighbours, (double *)block.base, ring, inner, rim) != MPI_SUCCESS)
            fail("faces are refused");
        gpu_copy(got, block.base, sizeof got);
        if (memcmp(got, cube, sizeof got) != 0)
            fail("the cube is not what it is on host memory");
        device_calls++;
        cases++;
        packed += 1 + neighbours;
        unpacked += 1 + neighbours;
    }
    for (int i = 0; i < 2; i++) {
        MPI_Type_free(&inner[i]);
        MPI_Type_free(&rim[i]);
    }
    MPI_Comm_free(&ring);
    gpu_free(&block);
}

int main(int argc, char **argv)
{
    long mine[4], all[4];
    const char *mode = argc > 1 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    gpu_start(gpu_local_rank());
    if (strcmp(mode, "holes") == 0)
        run_holes();
    else if (strcmp(mode, "reuse") == 0)
        run_reuse();
    else if (strcmp(mode, "absolute") == 0)
        run_absolute();
    else if (strcmp(mode, "faces") == 0)
        run_faces();
    else if (strcmp(mode, "large") == 0)
        run_large(argc - 2, argv + 2);
    else
        run_types(argc - 1, argv + 1);
    memcpy(mine, (long[]){failures, device_calls, packed, unpacked}, sizeof mine);
    PMPI_Allreduce(mine, all, 4, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_types: ranks %d cases %ld failures %ld device %ld packed %ld unpacked %ld\n", size, cases, all[0],
               all[1], all[2], all[3]);
    MPI_Finalize();
    return all[0] != 0;
}
