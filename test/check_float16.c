/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shunt's own datatypes as a program meets them: handles from MPI_Init to MPI_Finalize, sums whose bits are known, what
 * MPI still refuses. check_float16 none: where shunt does not take part. check_float16 session: in an MPI session.
 * check_float16 KINDS: kinds of memory by world rank (gpu.h); 4 ranks for the sums of four. Linked with -lshunt or with
 * shunt preloaded: the functions are weak.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/shunt.h"
#include "test/gpu.h"
#include "test/short_float.h"

#pragma weak shunt_type_float16
#pragma weak shunt_type_bfloat16

#define COUNT 1000

static const struct short_layout ieee = {10, 15}, brain = {7, 127};
static MPI_Datatype float16, bfloat16;
static struct gpu_block send, recv;
static const char *kinds;
static int rank, size, cases, failures, device, host;

static void expect(int good, const char *what)
{
    cases++;
    if (good)
        return;
    failures++;
    printf("FAIL rank %d: %s\n", rank, what);
    fflush(stdout);
}

static int is_null(MPI_Datatype type)
{
    return type == MPI_DATATYPE_NULL;
}

static void put(struct gpu_block *to, const uint16_t *from)
{
    if (to->kind == 'H')
        memcpy(to->base, from, COUNT * sizeof *from);
    else
        gpu_copy(to->base, from, COUNT * sizeof *from);
}

static void get(uint16_t *to, const struct gpu_block *from)
{
    if (from->kind == 'H')
        memcpy(to, from->base, COUNT * sizeof *to);
    else
        gpu_copy(to, from->base, COUNT * sizeof *to);
}

static int reduce(MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    *(send.kind == 'H' ? &host : &device) += 1;
    return MPI_Allreduce(send.base, recv.base, COUNT, type, op, comm);
}

/* All elements of this rank are `mine`; the result is from a to b, and the same on all ranks. */
static void check_value(MPI_Datatype type, MPI_Op op, float mine, float a, float b, const char *what)
{
    const struct short_layout *layout = type == float16 ? &ieee : &brain;
    uint16_t data[COUNT], first;
    int good = 1;

    for (int i = 0; i < COUNT; i++)
        data[i] = short_nearest(layout, mine);
    put(&send, data);
    memset(data, 0xc3, sizeof data);
    put(&recv, data);
    expect(reduce(type, op, MPI_COMM_WORLD) == MPI_SUCCESS, what);
    get(data, &recv);
    for (int i = 0; i < COUNT; i++)
        good &= data[i] == data[0];
    good &= data[0] == short_nearest(layout, a) || data[0] == short_nearest(layout, b) ||
            (short_value(layout, data[0]) > a && short_value(layout, data[0]) < b);
    if (!good)
        printf("rank %d: %s gives 0x%04x\n", rank, what, data[0]);
    expect(good, what);
    first = data[0];
    MPI_Bcast(&first, 1, MPI_UINT16_T, 0, MPI_COMM_WORLD);
    expect(data[0] == first, "the ranks hold different bits");
}

static int on_gpus(void)
{
    return strspn(kinds, "D") == strlen(kinds);
}

/* Four operands: rounded once, on the GPUs; after each sum of two, in an order of the host's choice, elsewhere. */
static void check_four(void)
{
    static const float few[] = {256, 1, 1, 1}, ones[] = {2048, 1, 1, 1}, over[] = {60000, 60000, -60000, -60000};

    check_value(bfloat16, MPI_SUM, few[rank], on_gpus() ? 260 : 256, 260, "bfloat16 256 + 1 + 1 + 1");
    check_value(float16, MPI_SUM, ones[rank], on_gpus() ? 2052 : 2048, 2052, "float16 2048 + 1 + 1 + 1");
    if (on_gpus())
        check_value(float16, MPI_SUM, over[rank], 0, 0, "float16 60000 + 60000 - 60000 - 60000");
}

static void check_values(void)
{
    float last = rank == size - 1;

    check_value(float16, MPI_SUM, 1, (float)size, (float)size, "float16 sum of ones");
    check_value(bfloat16, MPI_SUM, 1, (float)size, (float)size, "bfloat16 sum of ones");
    check_value(float16, MPI_SUM, last ? 0x1p-24f : 0, 0x1p-24f, 0x1p-24f, "the least of float16");
    check_value(bfloat16, MPI_SUM, last ? 0x1p-133f : 0, 0x1p-133f, 0x1p-133f, "the least of bfloat16");
    check_value(float16, MPI_SUM, 65504, INFINITY, INFINITY, "float16 beyond the largest");
    check_value(bfloat16, MPI_PROD, 0x1p127f, INFINITY, INFINITY, "bfloat16 beyond the largest");
    check_value(float16, MPI_MIN, last ? NAN : -INFINITY, NAN, NAN, "float16 MIN with a NaN");
    check_value(bfloat16, MPI_MAX, last ? INFINITY : NAN, NAN, NAN, "bfloat16 MAX with a NaN");
    check_value(bfloat16, MPI_MIN, last ? -3 : 5, -3, -3, "bfloat16 MIN");
    check_value(float16, MPI_MAX, last ? -3 : 5, 5, 5, "float16 MAX");
    check_value(float16, MPI_MAX, last ? -0.0f : 0.0f, 0.0f, -0.0f, "float16 MAX of zeros");
    if (size == 4)
        check_four();
}

/* A function of the program's own. */
static void take_last(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)count;
    (void)type;
}

static int class_of(int rc)
{
    int class;

    MPI_Error_class(rc, &class);
    return class;
}

/* What MPI says of derived types stays. */
static void check_refusals(void)
{
    MPI_Datatype copy;
    MPI_Op own;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_dup(bfloat16, &copy);
    MPI_Op_create(take_last, 0, &own);
    expect(class_of(reduce(float16, MPI_BAND, comm)) == MPI_ERR_OP, "BAND is not refused");
    expect(class_of(reduce(bfloat16, MPI_MINLOC, comm)) == MPI_ERR_OP, "MINLOC is not refused");
    expect(class_of(reduce(copy, MPI_SUM, comm)) == MPI_ERR_OP, "SUM of a copy of the type is not refused");
    expect(reduce(float16, own, comm) == MPI_SUCCESS, "an operation of the program's own is refused");
    MPI_Op_free(&own);
    MPI_Type_free(&copy);
    MPI_Comm_free(&comm);
}

static void check_handles(void)
{
    MPI_Count lb, extent;
    int bytes;

    expect(!is_null(float16) && !is_null(bfloat16) && float16 != bfloat16, "two handles");
    expect(shunt_type_float16() == float16 && shunt_type_bfloat16() == bfloat16, "the same handles again");
    MPI_Type_size(float16, &bytes);
    MPI_Type_get_extent_x(bfloat16, &lb, &extent);
    expect(bytes == 2 && lb == 0 && extent == 2, "an element is 2 bytes");
}

static void check_data_calls(void)
{
    uint16_t got[3] = {0}, sent[3] = {(uint16_t)rank, 7, 9};

    MPI_Sendrecv(sent, 3, float16, (rank + 1) % size, 0, got, 3, float16, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    expect(got[0] == (rank + size - 1) % size && got[1] == 7 && got[2] == 9, "Sendrecv");
}

/* 1.5 of each rank, on rank 0. */
static void check_sum(const char *what)
{
    uint16_t data[COUNT];
    int good = 1;

    get(data, &recv);
    for (int i = 0; i < COUNT; i++)
        good &= data[i] == short_nearest(&ieee, 1.5f * (float)size);
    expect(rank != 0 || good, what);
}

static void prepare_sum(void)
{
    uint16_t data[COUNT];

    for (int i = 0; i < COUNT; i++)
        data[i] = 0;
    put(&recv, data);
    for (int i = 0; i < COUNT; i++)
        data[i] = short_nearest(&ieee, 1.5f);
    put(&send, data);
}

/* Reductions of other names and forms. */
static void check_other_forms(void)
{
    MPI_Request request;

    prepare_sum();
    MPI_Reduce(send.base, recv.base, COUNT, float16, MPI_SUM, 0, MPI_COMM_WORLD);
    check_sum("Reduce");
    for (int round = 0; round < 3; round++) {
        prepare_sum();
        MPI_Ireduce(send.base, recv.base, COUNT, float16, MPI_SUM, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_sum("Ireduce");
    }
#if MPI_VERSION >= 4
    prepare_sum();
    MPI_Reduce_init(send.base, recv.base, COUNT, float16, MPI_SUM, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check_sum("Reduce_init");
    MPI_Request_free(&request);
#endif
}

static void check_all(void)
{
    char kind = kinds[(size_t)rank % strlen(kinds)];

    if (kind != 'H')
        gpu_start(gpu_local_rank());
    gpu_alloc(&send, kind, COUNT * 2);
    gpu_alloc(&recv, kind, COUNT * 2);
    check_handles();
    check_values();
    check_refusals();
    check_data_calls();
    check_other_forms();
    gpu_free(&send);
    gpu_free(&recv);
}

static void print_summary(void)
{
    int mine[] = {cases, failures, device, host}, all[4];

    MPI_Reduce(mine, all, 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_float16: ranks %d cases %d failures %d device %d host %d\n", size, all[0], all[1], all[2], all[3]);
    fflush(stdout);
}

#if MPI_VERSION >= 4
/* The world's ranks without MPI_Init. */
static int run_in_session(void)
{
    uint16_t data = 0x3f80; /* 1 */
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "check_float16", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    expect(!is_null(shunt_type_bfloat16()), "a handle in a session");
    MPI_Allreduce(MPI_IN_PLACE, &data, 1, shunt_type_bfloat16(), MPI_SUM, comm);
    expect(data == short_nearest(&brain, (float)size), "a sum in a session");
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    expect(is_null(shunt_type_bfloat16()), "a handle after the last session");
    printf("check_float16: ranks 1 cases %d failures %d device 0 host 1\n", cases, failures);
    return failures > 0;
}
#endif

int main(int argc, char **argv)
{
    kinds = argc > 1 ? argv[1] : "D";
    if (!shunt_type_float16 || !shunt_type_bfloat16) {
        fprintf(stderr, "check_float16: shunt is not in this process\n");
        return 2;
    }
    expect(is_null(shunt_type_float16()) && is_null(shunt_type_bfloat16()), "handles before MPI_Init");
#if MPI_VERSION >= 4
    if (strcmp(kinds, "session") == 0)
        return run_in_session();
#endif
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    float16 = shunt_type_float16();
    bfloat16 = shunt_type_bfloat16();
    if (strcmp(kinds, "none") == 0)
        expect(is_null(float16) && is_null(bfloat16), "handles where shunt does not take part");
    else
        check_all();
    print_summary();
    MPI_Finalize();
    expect(is_null(shunt_type_float16()), "a handle after MPI_Finalize");
    return failures > 0;
}
