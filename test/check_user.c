/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User-defined operations and derived types: check_user SEND RECV, kinds of memory as in check_allreduce. The same
 * call on host memory, made by the host MPI, tells what every byte must be afterwards: results, gaps between and
 * inside the elements, and the guards around them. An operation touches its arguments, so it faults on device memory.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu.h"

#define GUARD  4096 /* also room for lower bounds below the buffer's address */
#define EXTENT 128  /* most bytes from one element to the next */
#define COUNT  300

static int rank, size;
static long cases, failures, device_calls, host_calls, neutral_calls;
static char send_kind, recv_kind;
static MPI_Datatype expected_type;

/* ---- operations ---- */

struct pair {
    long long a, b;
};

/* (a, b) then (c, d) is (a c, b c + d): not commutative. inout is the right operand. */
static void chain(void *in, void *inout, int *n, MPI_Datatype *type)
{
    struct pair *left = in, *right = inout;

    if (*type != expected_type)
        failures++;
    for (int i = 0; i < *n; i++)
        right[i] = (struct pair){left[i].a * right[i].a, left[i].b * right[i].a + right[i].b};
}

/* On each byte that the type has, the larger: works on elements of any shape, gaps untouched. */
static void larger(void *in, void *inout, int *n, MPI_Datatype *type)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    int bytes, position = 0, packed;
    char left[EXTENT], right[EXTENT];

    MPI_Type_get_extent(*type, &lb, &extent);
    MPI_Type_get_true_extent(*type, &true_lb, &true_extent);
    MPI_Type_size(*type, &bytes);
    for (int i = 0; i < *n; i++) {
        packed = 0;
        MPI_Pack((char *)in + i * extent, 1, *type, left, EXTENT, &packed, MPI_COMM_SELF);
        packed = 0;
        MPI_Pack((char *)inout + i * extent, 1, *type, right, EXTENT, &packed, MPI_COMM_SELF);
        for (int byte = 0; byte < packed; byte++)
            right[byte] = left[byte] > right[byte] ? left[byte] : right[byte];
        position = 0;
        MPI_Unpack(right, packed, &position, (char *)inout + i * extent, 1, *type, MPI_COMM_SELF);
    }
}

/* ---- types ---- */

static void make_pair(MPI_Datatype *type)
{
    MPI_Type_contiguous(2, MPI_LONG_LONG_INT, type);
}

static void make_contiguous(MPI_Datatype *type)
{
    MPI_Type_contiguous(3, MPI_INT, type);
}

static void make_vector(MPI_Datatype *type)
{
    MPI_Type_vector(3, 2, 5, MPI_INT, type);
}

static void make_wide(MPI_Datatype *type)
{
    MPI_Type_create_resized(MPI_INT, 0, 24, type);
}

static void make_struct(MPI_Datatype *type)
{
    int lengths[] = {1, 3, 1};
    MPI_Aint at[] = {0, 5, 16};
    MPI_Datatype types[] = {MPI_INT, MPI_CHAR, MPI_DOUBLE};

    MPI_Type_create_struct(3, lengths, at, types, type);
}

/* The data lie below and above the address that is passed. */
static void make_below(MPI_Datatype *type)
{
    int lengths[] = {2, 1};
    MPI_Aint at[] = {-16, 64};
    MPI_Datatype types[] = {MPI_INT, MPI_INT}, bare;

    MPI_Type_create_struct(2, lengths, at, types, &bare);
    MPI_Type_create_resized(bare, -16, 96, type);
    MPI_Type_free(&bare);
}

static void make_far(MPI_Datatype *type)
{
    int lengths[] = {2};
    MPI_Aint at[] = {64};
    MPI_Datatype types[] = {MPI_INT};

    MPI_Type_create_struct(1, lengths, at, types, type);
}

static void make_empty(MPI_Datatype *type)
{
    MPI_Type_contiguous(0, MPI_INT, type);
}

static const struct {
    const char *name;
    void (*make)(MPI_Datatype *type);
} shapes[] = {
    {"pair", make_pair},   {"contiguous", make_contiguous}, {"vector", make_vector}, {"wide", make_wide},
    {"struct", make_struct}, {"below", make_below},         {"far", make_far},       {"empty", make_empty},
};

/* ---- one case ---- */

#define ROOM (2 * GUARD + COUNT * EXTENT)

/* Small values, everywhere: also in the gaps, so that gaps that were written show. */
static void fill(char *image, int seed, const char *shape)
{
    if (strcmp(shape, "pair") != 0) {
        for (int i = 0; i < ROOM; i++)
            image[i] = (char)((seed * 37 + i * 11 + (i * i) % 17) % 100);
        return;
    }
    memset(image, 0x33, ROOM);
    for (int i = 0; i < COUNT; i++)
        memcpy(image + GUARD + 16 * i, &(struct pair){seed + 2, seed}, sizeof(struct pair));
}

static void put(struct gpu_block *block, const char *image)
{
    gpu_copy(block->base, image, ROOM);
}

static int reduce(bool bare, bool in_place, char *send, char *recv, int count, MPI_Datatype type, MPI_Op op)
{
    void *from = in_place ? MPI_IN_PLACE : send + GUARD;

    return bare ? PMPI_Allreduce(from, recv + GUARD, count, type, op, MPI_COMM_WORLD)
                : MPI_Allreduce(from, recv + GUARD, count, type, op, MPI_COMM_WORLD);
}

/* The chain in rank order, by this program's own arithmetic. */
static void check_chain(const char *image, int count)
{
    struct pair all = {2, 0}, got;

    for (int r = 1; r < size; r++)
        all = (struct pair){all.a * (r + 2), all.b * (r + 2) + r};
    for (int i = 0; i < count; i++) {
        memcpy(&got, image + GUARD + 16 * i, sizeof got);
        if (got.a != all.a || got.b != all.b) {
            printf("FAIL rank %d: the chain is (%lld,%lld), expected (%lld,%lld)\n", rank, got.a, got.b, all.a,
                   all.b);
            failures++;
            return;
        }
    }
}

static void count_call(int count, MPI_Datatype type, bool in_place)
{
    int bytes;

    MPI_Type_size(type, &bytes);
    cases++;
    if (count == 0 || bytes == 0)
        neutral_calls++;
    else if (gpu_kind_on_host(recv_kind) && (in_place || gpu_kind_on_host(send_kind)))
        host_calls++;
    else
        device_calls++;
}

static void run(int shape, int count, bool in_place, bool free_early)
{
    static char mine[ROOM], before[ROOM], wanted[ROOM], got[ROOM];
    bool is_pair = strcmp(shapes[shape].name, "pair") == 0;
    struct gpu_block send, recv;
    MPI_Datatype type;
    MPI_Op op;

    shapes[shape].make(&type);
    MPI_Type_commit(&type);
    expected_type = type;
    MPI_Op_create(is_pair ? chain : larger, !is_pair, &op);
    fill(mine, rank, shapes[shape].name);
    memset(before, 0x44, ROOM);
    memcpy(wanted, in_place ? mine : before, ROOM);
    gpu_alloc(&send, send_kind, ROOM);
    gpu_alloc(&recv, recv_kind, ROOM);
    put(&send, mine);
    put(&recv, wanted);
    gpu_synchronize();
    reduce(true, in_place, mine, wanted, count, type, op);
    host_calls++;
    count_call(count, type, in_place);
    reduce(false, in_place, send.base, recv.base, count, type, op);
    if (free_early) {
        MPI_Type_free(&type);
        MPI_Op_free(&op);
    }
    gpu_copy(got, recv.base, ROOM);
    for (int i = 0; i < ROOM; i++) {
        if (got[i] != wanted[i]) {
            printf("FAIL rank %d: %s count %d%s: byte %d is 0x%02x, on host memory 0x%02x\n", rank,
                   shapes[shape].name, count, in_place ? " in place" : "", i - GUARD, (unsigned char)got[i],
                   (unsigned char)wanted[i]);
            failures++;
            break;
        }
    }
    if (is_pair)
        check_chain(got, count);
    gpu_copy(got, send.base, ROOM);
    if (memcmp(got, mine, ROOM) != 0) {
        printf("FAIL rank %d: %s count %d: the send buffer has changed\n", rank, shapes[shape].name, count);
        failures++;
    }
    gpu_free(&send);
    gpu_free(&recv);
    if (!free_early) {
        MPI_Type_free(&type);
        MPI_Op_free(&op);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 7, COUNT};
    int shape_count = sizeof shapes / sizeof *shapes;
    long mine[5], all[5];

    if (argc != 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    send_kind = argv[1][(size_t)rank % strlen(argv[1])];
    recv_kind = argv[2][(size_t)rank % strlen(argv[2])];
    if (send_kind != 'H' || recv_kind != 'H')
        gpu_start(gpu_local_rank());
    for (int shape = 0; shape < shape_count; shape++)
        for (int i = 0; i < 4; i++)
            for (int in_place = 0; in_place < 2; in_place++)
                run(shape, counts[i], in_place, (i + in_place) % 2);
    memcpy(mine, (long[]){failures, cases, device_calls, host_calls, neutral_calls}, sizeof mine);
    PMPI_Allreduce(mine, all, 5, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_user: ranks %d cases %ld failures %ld calls %ld device %ld host %ld neutral %ld\n", size, cases,
               all[0], all[1], all[2], all[3], all[4]);
    MPI_Finalize();
    return all[0] != 0;
}
