/* SPDX-License-Identifier: BSD-3-Clause */
/* Classification, staging, the steps of Allreduce: on the real host MPI with one rank, and a GPU that is only memory. */
#include "mpi/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/float16.h"
#include "mpi/types.h"
#include "test/unit/fake_gpu.h"
#include "test/unit/fake_run.h"
#include "test/unit/no_flights.h"
#include "test/unit/fake_hier.h"

/* ---- helpers ---- */

static int setup(void **state)
{
    void *old;

    (void)state;
    memset(shadow, GUARD, GPU_BYTES);
    memset(managed, GUARD, GPU_BYTES);
    in_use = true;
    no_bounce = plain_known = false;
    queries = copies = steps = runs = failures = counted = 0;
    run_status = SHUNT_OK;
    run_reason = SHUNT_REASON_PEER_ON_HOST;
    bereft = false;
    world = (struct shunt_comm){ .handle = MPI_COMM_WORLD, .size = 2, .board = (struct shunt_board *)&world };
    return shunt_map_put(&shunt_comms, shunt_comm_word(MPI_COMM_WORLD), &world, &old);
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(bounces, 0);
    return 0;
}

static struct shunt_call make_call(const void *send, void *recv, MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    return (struct shunt_call){ .id = SHUNT_CALL_Allreduce, .sendbuf = send, .recvbuf = recv, .count = count,
                                .datatype = type, .op = op, .comm = MPI_COMM_WORLD };
}

struct understood {
    bool device;
    struct shunt_task task;
    enum shunt_reason reason;
};

static struct understood classify(const void *send, void *recv, MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    struct shunt_call call = make_call(send, recv, count, type, op);
    struct understood understood;

    understood.device = shunt_device_task(&call, &world, NULL, &understood.task, &understood.reason);
    return understood;
}

/* What a shim does. True: the hooks have done something, and *rc is set; else the host has got the call as it came. */
static bool shim(struct shunt_call *call, int *rc)
{
    void *kept = NULL;

    errno = EDOM;
    bool done = shunt_hook_stage_before(call, rc, &kept);
    assert_int_equal(errno, EDOM);
    if (done)
        return true;
    *rc = PMPI_Allreduce(call->sendbuf, call->recvbuf, (int)call->count, call->datatype, call->op, call->comm);
    if (kept)
        *rc = shunt_hook_stage_after(call, kept, *rc);
    return kept != NULL;
}

/* On a communicator whose calls do not run on the GPUs. */
static int stage(const void *send, void *recv, MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    struct shunt_call call = make_call(send, recv, count, type, op);
    int rc;

    world.reason = SHUNT_REASON_NOT_REGISTERED;
    assert_true(shim(&call, &rc));
    world.reason = SHUNT_REASON_NONE;
    return rc;
}

static void fill(int32_t *at, int n)
{
    for (int i = 0; i < n; i++)
        ((int32_t *)seen(at))[i] = 1000003 * (i + 1);
}

/* n integers at `at` as fill() writes them, with guards around. */
static void assert_filled(const int32_t *at, int n)
{
    const int32_t *got = seen(at);

    for (int i = 0; i < n; i++)
        assert_int_equal(got[i], 1000003 * (i + 1));
    assert_int_equal(((const unsigned char *)got)[-1], GUARD);
    assert_int_equal(((const unsigned char *)(got + n))[0], GUARD);
}

static void add_pairs(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)n;
    (void)type;
}

/* ---- classification ---- */

static void test_reasons(void **state)
{
    (void)state;
    MPI_Op user;

    PMPI_Op_create(add_pairs, 1, &user);
    assert_int_equal(classify(device, device + 64, 1, MPI_INT, user).reason, SHUNT_REASON_USER_OP);
    PMPI_Op_free(&user);
    assert_int_equal(classify(device, device + 64, 1, MPI_BYTE, MPI_SUM).reason, SHUNT_REASON_OP);
    assert_int_equal(classify(device, device + 64, 1, MPI_LONG_DOUBLE, MPI_SUM).reason, SHUNT_REASON_TYPE);
    assert_int_equal(classify(device, device + 64, 1, MPI_LONG_DOUBLE_INT, MPI_MINLOC).reason, SHUNT_REASON_TYPE);
    assert_int_equal(classify(device, device + 64, 1, MPI_DOUBLE_INT, MPI_MINLOC).reason, SHUNT_REASON_NONE);
    assert_int_equal(classify(device, device + 64, 1, MPI_DOUBLE_INT, MPI_SUM).reason, SHUNT_REASON_OP);
}

static void test_neutral(void **state)
{
    (void)state;
    MPI_Datatype empty;
    int x = 0;

    PMPI_Type_contiguous(0, MPI_INT, &empty);
    PMPI_Type_commit(&empty);
    assert_false(classify(device, device, 0, MPI_INT, MPI_SUM).device);
    assert_false(classify(NULL, NULL, 0, MPI_INT, MPI_SUM).device);
    assert_false(classify(NULL, NULL, 5, MPI_INT, MPI_SUM).device);
    assert_false(classify(device, device, -1, MPI_INT, MPI_SUM).device);
    assert_false(classify(device, device, 5, MPI_DATATYPE_NULL, MPI_SUM).device);
    assert_false(classify(device, device, 5, empty, MPI_SUM).device);
    assert_false(classify(&x, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM).device);
    assert_int_equal(queries, 0);
    assert_false(classify(MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM).device);
    assert_int_equal(queries, 1);
    PMPI_Type_free(&empty);
}

static void test_kinds(void **state)
{
    (void)state;
    int x[2];
    struct understood operands = classify(device, device + 64, 2, MPI_INT, MPI_MAX);

    assert_true(operands.device);
    assert_int_equal(operands.reason, SHUNT_REASON_NONE);
    assert_int_equal(operands.task.type, SHUNT_TYPE_I32);
    assert_int_equal(operands.task.op, SHUNT_OP_MAX);
    assert_int_equal(operands.task.count, 2);
    assert_ptr_equal(operands.task.recv, device + 64);
    assert_false(operands.task.in_place);

    operands = classify(MPI_IN_PLACE, device, 2, MPI_INT, MPI_MAX);
    assert_true(operands.device && operands.task.in_place);
    assert_ptr_equal(operands.task.send, device);
    assert_int_equal(operands.task.send_mem.kind, SHUNT_MEM_DEVICE);

    operands = classify(x, device, 2, MPI_INT, MPI_MAX);
    assert_true(operands.device && operands.task.send_mem.kind == SHUNT_MEM_HOST);
    operands = classify(device, x, 2, MPI_INT, MPI_MAX);
    assert_true(operands.device && operands.task.recv_mem.kind == SHUNT_MEM_HOST);
    operands = classify(device, managed, 2, MPI_INT, MPI_MAX);
    assert_true(operands.device);
    assert_int_equal(operands.reason, SHUNT_REASON_NONE);
    assert_int_equal(classify(device, device, 2, MPI_INT, MPI_MAX).reason, SHUNT_REASON_ALIASED);
    assert_int_equal(classify(device, device + 4, 2, MPI_INT, MPI_MAX).reason, SHUNT_REASON_ALIASED);
    assert_int_equal(classify(device + 4, device, 2, MPI_INT, MPI_MAX).reason, SHUNT_REASON_ALIASED);
    assert_int_equal(classify(device, device + 8, 2, MPI_INT, MPI_MAX).reason, SHUNT_REASON_NONE);
    assert_false(classify(x, x + 1, 1, MPI_INT, MPI_MAX).device);
}

/* A derived type counts from the first byte that it covers, also from MPI_BOTTOM. */
static void test_derived_kinds(void **state)
{
    (void)state;
    MPI_Datatype absolute, shifted;
    MPI_Aint address;

    PMPI_Get_address(device + 256, &address);
    PMPI_Type_create_hindexed(1, &(int){ 4 }, &address, MPI_INT, &absolute);
    PMPI_Type_create_hindexed(1, &(int){ 1 }, &(MPI_Aint){ 8 }, MPI_INT, &shifted);
    assert_true(classify(MPI_IN_PLACE, MPI_BOTTOM, 1, absolute, MPI_SUM).device);
    assert_int_equal(classify(MPI_BOTTOM, MPI_BOTTOM, 1, absolute, MPI_SUM).reason, SHUNT_REASON_DERIVED_TYPE);
    assert_true(classify(MPI_IN_PLACE, device - 8, 1, shifted, MPI_SUM).device);
    assert_false(classify(MPI_IN_PLACE, device + GPU_BYTES - 8, 1, shifted, MPI_SUM).device);
    PMPI_Type_free(&absolute);
    PMPI_Type_free(&shifted);
}

/* ---- staging ---- */

static void test_stage(void **state)
{
    (void)state;
    int32_t *send = (int32_t *)(device + 4096), *recv = (int32_t *)(device + 65536 + 4), host[100];

    fill(send, 1000);
    assert_int_equal(stage(send, recv, 1000, MPI_INT, MPI_SUM), MPI_SUCCESS);
    assert_filled(recv, 1000);
    assert_int_equal(copies, 2);
    assert_int_equal(stage(MPI_IN_PLACE, send, 1000, MPI_INT, MPI_SUM), MPI_SUCCESS);
    assert_filled(send, 1000);
    assert_int_equal(stage(send, host, 100, MPI_INT, MPI_SUM), MPI_SUCCESS);
    for (int i = 0; i < 100; i++)
        assert_int_equal(host[i], 1000003 * (i + 1));
    assert_int_equal(stage(host, device + 256, 100, MPI_INT, MPI_SUM), MPI_SUCCESS);
    assert_filled((int32_t *)(device + 256), 100);
    assert_int_equal(stage(send, managed + 4, 100, MPI_INT, MPI_SUM), MPI_SUCCESS);
    assert_filled((int32_t *)(managed + 4), 100);
    assert_int_equal(failures, 0);
}

static void test_stage_pairs(void **state)
{
    (void)state;
    struct {
        double value;
        int where;
    } *send = (void *)(device + 4096), *recv = (void *)(device + 65536);

    memset(seen(send), 1, 10 * sizeof *send);
    assert_int_equal(stage(send, recv, 10, MPI_DOUBLE_INT, MPI_MINLOC), MPI_SUCCESS);
    for (int i = 0; i < 10; i++) {
        assert_memory_equal(seen(&recv[i].value), seen(&send[i].value), sizeof send->value);
        assert_memory_equal(seen(&recv[i].where), seen(&send[i].where), sizeof send->where);
    }
    assert_int_equal(*(unsigned char *)seen(recv + 10), GUARD);
    assert_int_equal(copies, 2);
}

static int deny_envelope(MPI_Datatype datatype, int *ints, int *addresses, int *types, int *combiner)
{
    (void)datatype;
    *ints = *addresses = *types = *combiner = 0;
    return MPI_ERR_TYPE;
}

static void stage_gaps(int expected)
{
    MPI_Datatype vector, type;
    MPI_Op user;
    int32_t *send = (int32_t *)(device + 4096), *recv = (int32_t *)(device + 65536);
    static const bool covered[8] = { true, false, true, false, false, true, false, false };

    /* Integers at 0, 2 and 5 of every 8, with the lower bound before the first byte. */
    PMPI_Type_create_indexed_block(3, 1, (const int[]){ 0, 2, 5 }, MPI_INT, &vector);
    PMPI_Type_create_resized(vector, -8, 32, &type);
    PMPI_Type_commit(&type);
    PMPI_Op_create(add_pairs, 1, &user);
    fill(send, 80);
    assert_int_equal(stage(send, recv, 10, type, user), MPI_SUCCESS);
    assert_int_equal(failures, 0);
    const int32_t *got = seen(recv);
    for (int i = -8; i < 88; i++) {
        bool value = i >= 0 && i < 80 && covered[i % 8];
        assert_int_equal(got[i], value ? 1000003 * (i + 1) : (int32_t)0xa5a5a5a5);
    }
    assert_int_equal(copies, expected);

    /* In place nothing changes. */
    memcpy(seen(recv), seen(send), 320);
    assert_int_equal(stage(MPI_IN_PLACE, recv, 10, type, user), MPI_SUCCESS);
    assert_memory_equal(seen(recv), seen(send), 320);
    PMPI_Op_free(&user);
    PMPI_Type_free(&type);
    PMPI_Type_free(&vector);
}

/* What lies in the gaps of a derived type is not written. */
static void test_stage_gaps(void **state)
{
    (void)state;

    stage_gaps(2);
}

/* Nor if nobody knows how the type was made. */
static void test_stage_unknown(void **state)
{
    (void)state;

    shunt_host.Type_get_envelope = deny_envelope;
    stage_gaps(30 + 30);
    shunt_host.Type_get_envelope = PMPI_Type_get_envelope;
}

/* Elements that follow each other without gaps go in one piece; a negative extent goes downwards. */
static void test_stage_derived(void **state)
{
    (void)state;
    MPI_Datatype pair, down;
    MPI_Op user;
    int32_t *send = (int32_t *)(device + 4096), *recv = (int32_t *)(device + 65536);

    PMPI_Type_contiguous(2, MPI_INT, &pair);
    PMPI_Type_commit(&pair);
    PMPI_Type_create_resized(pair, 0, -8, &down);
    PMPI_Type_commit(&down);
    PMPI_Op_create(add_pairs, 1, &user);
    fill(send, 20);
    assert_int_equal(stage(send, recv, 10, pair, user), MPI_SUCCESS);
    assert_filled(recv, 20);
    assert_int_equal(copies, 2);

    memset(seen(recv), GUARD, 1000);
    assert_int_equal(stage(send + 18, recv + 118, 10, down, user), MPI_SUCCESS);
    assert_memory_equal(seen(recv + 100), seen(send), 80);
    assert_int_equal(*(unsigned char *)seen(recv + 99), GUARD);
    assert_int_equal(*(unsigned char *)seen(recv + 120), GUARD);
    PMPI_Op_free(&user);
    PMPI_Type_free(&down);
    PMPI_Type_free(&pair);
}

/* What the host refuses leaves the buffers alone, and its error is the caller's. */
static void test_stage_refused(void **state)
{
    (void)state;
    int class = MPI_SUCCESS;
    double *recv = (double *)(device + 65536);

    int rc = stage(device, recv, 4, MPI_DOUBLE, MPI_BAND);
    assert_int_not_equal(rc, MPI_SUCCESS);
    PMPI_Error_class(rc, &class);
    assert_int_equal(class, MPI_ERR_OP);
    assert_int_equal(*(unsigned char *)seen(recv), GUARD);
    assert_int_equal(failures, 0);

    /* One buffer twice: as on host memory. */
    double x[4] = { 0 };
    int of_host;
    PMPI_Error_class(PMPI_Allreduce(x, x, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), &of_host);
    PMPI_Error_class(stage(recv, recv, 4, MPI_DOUBLE, MPI_SUM), &class);
    assert_int_equal(class, of_host);
    assert_int_equal(failures, 0);

    no_bounce = true;
    assert_int_equal(stage(device, recv, 4, MPI_DOUBLE, MPI_SUM), MPI_ERR_OTHER);
    assert_int_equal(failures, 1);
}

/* ---- steps ---- */

static bool take(const void *send, void *recv, MPI_Count count, MPI_Datatype type, int *rc)
{
    struct shunt_call call = make_call(send, recv, count, type, MPI_SUM);

    return shim(&call, rc);
}

static void assert_call(bool taken, bool expected, int stepped, unsigned path, enum shunt_reason reason)
{
    assert_int_equal(taken, expected);
    assert_int_equal(steps, stepped);
    assert_int_equal(counted_path, path);
    assert_int_equal(counted_reason, reason);
    assert_int_equal(counted, 1);
    steps = counted = 0;
}

/* Exactly one step on the board, whatever becomes of the call. */
static void test_steps(void **state)
{
    (void)state;
    float x = 1, y;
    int rc = -1;

    in_use = false;
    assert_call(take(&x, &y, 1, MPI_FLOAT, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_int_equal(queries, 0);
    in_use = true;
    assert_call(take(&x, &y, 1, MPI_FLOAT, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_call(take(device, device, 0, MPI_FLOAT, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_call(take(device, device, -1, MPI_FLOAT, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
#if !defined MPICH_NUMVERSION || MPICH_NUMVERSION < 50000000 /* MPICH 5 ends by an assertion of its own */
    assert_call(take(&x, &y, 1, MPI_DATATYPE_NULL, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_int_not_equal(rc, MPI_SUCCESS);
#endif

    assert_call(take(device, device + 64, 8, MPI_FLOAT, &rc), true, 1, SHUNT_PATH_GPU + 1, SHUNT_REASON_NONE);
    assert_int_equal(rc, MPI_SUCCESS);
    run_status = SHUNT_PASS;
    assert_call(take(device, device + 64, 8, MPI_FLOAT, &rc), true, 1, SHUNT_PATH_STAGED, SHUNT_REASON_PEER_ON_HOST);
    assert_int_equal(rc, MPI_SUCCESS);
    assert_call(take(&x, device, 1, MPI_FLOAT, &rc), true, 1, SHUNT_PATH_STAGED, SHUNT_REASON_PEER_ON_HOST);
    assert_int_equal(runs, 3);
    assert_int_equal(failures, 0);

    run_status = SHUNT_ERR_CUDA;
    assert_true(take(device, device + 64, 8, MPI_FLOAT, &rc));
    assert_int_equal(rc, MPI_ERR_OTHER);
    assert_int_equal(steps, 1);
    assert_int_equal(failures, 1);
}

/* A veto is staged, unless it comes of a member that has died: the host MPI would wait for that one for ever. */
static void test_member_that_died(void **state)
{
    int rc = -1;

    (void)state;
    run_status = SHUNT_PASS;
    run_reason = SHUNT_REASON_PEER_VETO;
    assert_call(take(device, device + 64, 8, MPI_FLOAT, &rc), true, 1, SHUNT_PATH_STAGED, SHUNT_REASON_PEER_VETO);
    assert_int_equal(rc, MPI_SUCCESS);
    bereft = true;
    assert_true(take(device, device + 64, 8, MPI_FLOAT, &rc));
    assert_int_equal(rc, MPI_ERR_OTHER);
    run_reason = SHUNT_REASON_PEER_ON_HOST; /* of another, that has seen it before */
    assert_true(take(device, device + 64, 8, MPI_FLOAT, &rc));
    assert_int_equal(rc, MPI_ERR_OTHER);
    assert_int_equal(failures, 2);
}

/* Host memory that is known without a query; not so if a derived type leads from there to elsewhere. */
static void test_plain(void **state)
{
    (void)state;
    MPI_Datatype far;
    float x = 1, y;
    int rc = -1;

    plain_known = true;
    assert_call(take(&x, &y, 1, MPI_FLOAT, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_call(take(MPI_IN_PLACE, &y, 1, MPI_FLOAT, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_int_equal(queries, 0);
    plain_known = false; /* elsewhere it takes one for each buffer */
    assert_call(take(&x, &y, 1, MPI_FLOAT, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_int_equal(queries, 2);
    assert_call(take(MPI_IN_PLACE, &y, 1, MPI_FLOAT, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_int_equal(queries, 3);
    plain_known = true;
    assert_int_equal(stage(&x, device, 1, MPI_FLOAT, MPI_SUM), MPI_SUCCESS);
    steps = counted = 0;
    PMPI_Type_create_hindexed(1, &(int){ 1 }, &(MPI_Aint){ device - (char *)&y }, MPI_FLOAT, &far);
    PMPI_Type_commit(&far);
    struct shunt_call call = make_call(MPI_IN_PLACE, &y, 1, far, MPI_SUM);
    void *kept = NULL;
    no_bounce = true; /* so that it ends where its image would be made */
    assert_true(shunt_hook_stage_before(&call, &rc, &kept));
    assert_int_equal(steps, 1);
    assert_int_equal(failures, 1);
    assert_true(classify(MPI_IN_PLACE, &y, 1, far, MPI_SUM).device);
    PMPI_Type_free(&far);
}

/* shunt's own types: the host is called with an operation that it accepts, whatever is known of the buffers. */
static void test_float16(void **state)
{
    (void)state;
    MPI_Datatype bfloat16 = shunt_float16_get(SHUNT_FLOAT16_BRAIN);
    uint16_t x[2] = { 0x3f80, 0xc000 }, y[2] = { 0 };
    int rc = -1;

    in_use = false;
    assert_call(take(x, y, 2, bfloat16, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_int_equal(rc, MPI_SUCCESS);
    assert_memory_equal(x, y, sizeof x);
    in_use = plain_known = true;
    y[0] = 0;
    assert_call(take(x, y, 2, bfloat16, &rc), false, 1, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_memory_equal(x, y, sizeof x);
    memcpy(shadow, x, sizeof x);
    assert_int_equal(classify(device, device + 64, 2, bfloat16, MPI_SUM).task.type, SHUNT_TYPE_BF16);
    assert_int_equal(stage(device, y, 2, bfloat16, MPI_SUM), MPI_SUCCESS);
    assert_int_equal(stage(device, device + 64, 2, bfloat16, MPI_PROD), MPI_SUCCESS);
    assert_memory_equal(shadow + 64, x, sizeof x);
    assert_int_equal(shadow[64 + sizeof x] & 0xff, GUARD);
    shunt_float16_stop();
}

static void test_no_board(void **state)
{
    (void)state;
    int rc = -1;

    world.board = NULL;
    world.reason = SHUNT_REASON_NOT_REGISTERED;
    assert_call(take(device, device + 64, 8, MPI_FLOAT, &rc), true, 0, SHUNT_PATH_STAGED,
                SHUNT_REASON_NOT_REGISTERED);
    world.reason = SHUNT_REASON_NONE;
    world.size = 1;
    memset(shadow, 7, 32);
    assert_call(take(device, device + 64, 8, MPI_FLOAT, &rc), true, 0, SHUNT_PATH_LOCAL, SHUNT_REASON_NONE);
    assert_memory_equal(shadow + 64, shadow, 32);
    assert_int_equal(shadow[96] & 0xff, GUARD);
    assert_call(take(MPI_IN_PLACE, device + 64, 8, MPI_FLOAT, &rc), true, 0, SHUNT_PATH_LOCAL, SHUNT_REASON_NONE);
    assert_int_equal(copies, 2);

    /* A communicator that nobody told us about. */
    shunt_map_remove(&shunt_comms, shunt_comm_word(MPI_COMM_WORLD), NULL);
    assert_call(take(device, device + 64, 8, MPI_FLOAT, &rc), true, 0, SHUNT_PATH_STAGED,
                SHUNT_REASON_NOT_REGISTERED);
    in_use = false;
    assert_call(take(&rc, &rc, 1, MPI_FLOAT, &rc), false, 0, SHUNT_PATH_HOST, SHUNT_REASON_NONE);
    assert_int_equal(runs, 0);
}

/* A communicator's error handler may jump out of the staged call: its memory comes back with the next one. */
static jmp_buf out;

static void jump(MPI_Comm *comm, int *rc, ...)
{
    (void)comm;
    (void)rc;
    longjmp(out, 1);
}

static void test_jump(void **state)
{
    (void)state;
    MPI_Errhandler handler;
    int32_t *send = (int32_t *)(device + 4096);

    PMPI_Comm_create_errhandler(jump, &handler);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (setjmp(out) == 0) {
        stage(device, device + 65536, 4, MPI_DOUBLE, MPI_BAND);
        fail();
    }
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    PMPI_Errhandler_free(&handler);
    assert_true(bounces > 0);
    fill(send, 10);
    assert_int_equal(stage(MPI_IN_PLACE, send, 10, MPI_INT, MPI_SUM), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reasons, setup, teardown),
        cmocka_unit_test_setup_teardown(test_neutral, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_derived_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stage_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stage_gaps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stage_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stage_derived, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stage_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_member_that_died, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_float16, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_board, setup, teardown),
        cmocka_unit_test_setup_teardown(test_jump, setup, teardown),
    };

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    shunt_host = (struct shunt_host_table){
        .Allreduce = PMPI_Allreduce,
        .Finalized = PMPI_Finalized,
        .Initialized = PMPI_Initialized,
        .Iprobe = PMPI_Iprobe,
        .Op_create = PMPI_Op_create,
        .Op_free = PMPI_Op_free,
        .Pack = PMPI_Pack,
        .Pack_size = PMPI_Pack_size,
        .Type_commit = PMPI_Type_commit,
        .Type_contiguous = PMPI_Type_contiguous,
        .Type_create_keyval = PMPI_Type_create_keyval,
        .Type_free = PMPI_Type_free,
        .Type_free_keyval = PMPI_Type_free_keyval,
        .Type_get_contents = PMPI_Type_get_contents,
        .Type_get_envelope = PMPI_Type_get_envelope,
        .Type_dup = PMPI_Type_dup,
        .Type_get_extent_x = PMPI_Type_get_extent_x,
        .Type_get_true_extent_x = PMPI_Type_get_true_extent_x,
        .Type_set_attr = PMPI_Type_set_attr,
        .Type_set_name = PMPI_Type_set_name,
        .Type_size = PMPI_Type_size,
        .Type_size_x = PMPI_Type_size_x,
        .Unpack = PMPI_Unpack,
    };
    map_gpu();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
