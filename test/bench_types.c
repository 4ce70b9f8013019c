/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Halo exchange of a cube of doubles in device memory: bench_types [N [ROUNDS]], on two ranks. Each rank sends the plane
 * beside its rim to the other and receives the rim's, in each of the three directions, by MPI_Send and MPI_Recv with a
 * subarray type; beside it the same by hand: a kernel that packs into a device buffer, a message without gaps, a kernel
 * that unpacks. Prints microseconds for an exchange of both. The planes are checked first.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu.h"

enum { WARM_UP = 5 };

/* One double for each thread: (from, to, n, doubles of a row, bytes from row to row, does it pack?). */
static const char ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry move(.param .u64 from, .param .u64 to, .param .u32 n, .param .u32 row, .param .u64 stride,\n"
    "                     .param .u32 packs)\n"
    "{\n"
    "    .reg .pred %p<3>;\n"
    "    .reg .b32 %r<12>;\n"
    "    .reg .b64 %d<16>;\n"
    "    .reg .f64 %f<2>;\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mov.u32 %r2, %ntid.x;\n"
    "    mov.u32 %r3, %tid.x;\n"
    "    mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "    ld.param.u32 %r5, [n];\n"
    "    setp.ge.u32 %p1, %r4, %r5;\n"
    "    @%p1 ret;\n"
    "    ld.param.u32 %r6, [row];\n"
    "    div.u32 %r7, %r4, %r6;\n"
    "    mul.lo.u32 %r8, %r7, %r6;\n"
    "    sub.u32 %r9, %r4, %r8;\n"
    "    ld.param.u64 %d1, [stride];\n"
    "    cvt.u64.u32 %d2, %r7;\n"
    "    mul.wide.u32 %d3, %r9, 8;\n"
    "    mad.lo.u64 %d4, %d2, %d1, %d3;\n"
    "    mul.wide.u32 %d5, %r4, 8;\n"
    "    ld.param.u32 %r10, [packs];\n"
    "    setp.ne.u32 %p2, %r10, 0;\n"
    "    selp.b64 %d6, %d4, %d5, %p2;\n"
    "    selp.b64 %d7, %d5, %d4, %p2;\n"
    "    ld.param.u64 %d8, [from];\n"
    "    ld.param.u64 %d9, [to];\n"
    "    add.s64 %d10, %d8, %d6;\n"
    "    add.s64 %d11, %d9, %d7;\n"
    "    ld.global.f64 %f1, [%d10];\n"
    "    st.global.f64 [%d11], %f1;\n"
    "    ret;\n"
    "}\n";

static int (*load_module)(void **, const void *);
static int (*get_function)(void **, void *, const char *);
static int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                            void **);
static void *kernel; /* NULL: this GPU cannot run it */

/* The plane number `place` of direction `dim`. */
struct face {
    MPI_Datatype type;
    size_t offset;   /* bytes of its first double */
    unsigned row;    /* doubles that follow each other */
    uint64_t stride; /* bytes from row to row */
};

static int rank, n;
static struct gpu_block cube, buffer;

static struct face make_face(int dim, int place)
{
    int sizes[3] = {n, n, n}, subsizes[3] = {n, n, n}, starts[3] = {0, 0, 0};
    size_t line = (size_t)n * 8, plane = line * (size_t)n;
    struct face face = {.offset = (size_t)place * (dim == 0 ? plane : dim == 1 ? line : 8),
                        .row = dim == 0 ? (unsigned)n * (unsigned)n : dim == 1 ? (unsigned)n : 1,
                        .stride = dim == 1 ? plane : line};

    subsizes[dim] = 1;
    starts[dim] = place;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &face.type);
    MPI_Type_commit(&face.type);
    return face;
}

static void find_kernel(void)
{
    void *module;

    *(void **)&load_module = gpu_function("cuModuleLoadData");
    *(void **)&get_function = gpu_function("cuModuleGetFunction");
    *(void **)&launch_kernel = gpu_function("cuLaunchKernel");
    if (load_module(&module, ptx) != 0 || get_function(&kernel, module, "move") != 0)
        kernel = NULL;
}

/* ---- the two ways ---- */

static void send_type(const struct face *face)
{
    MPI_Send(cube.base, 1, face->type, 1 - rank, 0, MPI_COMM_WORLD);
}

static void receive_type(const struct face *face)
{
    MPI_Recv(cube.base, 1, face->type, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void move_plane(const struct face *face, bool packs)
{
    char *plane = cube.base + face->offset, *from = packs ? plane : buffer.base, *to = packs ? buffer.base : plane;
    unsigned count = (unsigned)n * (unsigned)n, row = face->row, does_pack = packs;
    uint64_t stride = face->stride;
    void *arguments[] = {&from, &to, &count, &row, &stride, &does_pack};

    if (launch_kernel(kernel, (count + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL) != 0)
        MPI_Abort(MPI_COMM_WORLD, 4);
    gpu_synchronize();
}

static void send_by_hand(const struct face *face)
{
    move_plane(face, true);
    MPI_Send(buffer.base, n * n, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD);
}

static void receive_by_hand(const struct face *face)
{
    MPI_Recv(buffer.base, n * n, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    move_plane(face, false);
}

struct way {
    void (*send)(const struct face *face), (*receive)(const struct face *face);
};
static const struct way by_type = {send_type, receive_type}, by_hand = {send_by_hand, receive_by_hand};

static void exchange(const struct way *way, const struct face *inner, const struct face *rim)
{
    if (rank == 0)
        way->send(inner);
    way->receive(rim);
    if (rank == 1)
        way->send(inner);
}

static double measure(const struct way *way, const struct face *inner, const struct face *rim, int rounds)
{
    double start = 0;

    for (int i = 0; i < WARM_UP + rounds; i++) {
        if (i == WARM_UP) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        exchange(way, inner, rim);
    }
    return (MPI_Wtime() - start) / rounds * 1e6;
}

/* ---- is it right? ---- */

static double value(int who, size_t at)
{
    return (double)(at % 1000003) + who * 0.5;
}

static long check(const struct way *way, int dim, const struct face *inner, const struct face *rim, double *host)
{
    size_t all = (size_t)n * (size_t)n * (size_t)n, step = dim == 0 ? (size_t)n * (size_t)n : dim == 1 ? (size_t)n : 1;
    long wrong = 0;

    for (size_t i = 0; i < all; i++)
        host[i] = value(rank, i);
    gpu_copy(cube.base, host, all * 8);
    gpu_synchronize();
    exchange(way, inner, rim);
    gpu_copy(host, cube.base, all * 8);
    for (size_t i = 0; i < all; i++) {
        bool in_rim = i / step % (size_t)n == 0;
        wrong += host[i] != (in_rim ? value(1 - rank, i + step) : value(rank, i));
    }
    return wrong;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"planes (one block)", "rows", "single doubles"};
    int size, rounds = argc > 2 ? atoi(argv[2]) : 50;
    long wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    n = argc > 1 ? atoi(argv[1]) : 512;
    if (size != 2 || n < 2 || rounds < 1) {
        fprintf(stderr, "bench_types [N [ROUNDS]], on two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    gpu_start(gpu_local_rank());
    size_t bytes = (size_t)n * (size_t)n * (size_t)n * 8;
    double *host = malloc(bytes);
    gpu_alloc(&cube, 'D', bytes);
    gpu_alloc(&buffer, 'D', (size_t)n * (size_t)n * 8);
    find_kernel();
    for (int dim = 0; dim < 3; dim++) {
        struct face inner = make_face(dim, 1), rim = make_face(dim, 0);
        wrong += check(&by_type, dim, &inner, &rim, host);
        wrong += kernel ? check(&by_hand, dim, &inner, &rim, host) : 0;
        double typed = measure(&by_type, &inner, &rim, rounds);
        double hand = kernel ? measure(&by_hand, &inner, &rim, rounds) : 0;
        if (rank == 0)
            printf("%-20s %9.1f us with the datatype, %9.1f us by hand, ratio %.2f\n", names[dim], typed, hand,
                   kernel ? typed / hand : 0);
        MPI_Type_free(&inner.type);
        MPI_Type_free(&rim.type);
    }
    gpu_free(&cube);
    gpu_free(&buffer);
    free(host);
    printf("bench_types: rank %d, cube of %d, %ld doubles are wrong%s\n", rank, n, wrong,
           kernel ? "" : "; no kernel by hand on this GPU");
    MPI_Finalize();
    return wrong != 0;
}
