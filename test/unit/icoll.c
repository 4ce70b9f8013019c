/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How nonblocking collectives on host memory reach the host: asked for once, past the board, as they came. On the real host
 * MPI with one rank, and on a GPU that is only memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "base/conf.h"
#include "coll/helper.h"
#include "coll/start.h"
#include "mpi/delivery.h"
#include "mpi/flight.h"
#include "mpi/message.h"
#include "mpi/operation.h"
#include "mpi/poll.h"
#include "mpi/types.h"
#include "test/unit/fake_gpu.h"
#include "test/unit/fake_run.h"
#include "test/unit/fake_hier.h"

/* ---- what is not there: operations on the GPUs, parcels, partitions ---- */

const struct shunt_request_kind shunt_partitions_kind;

enum shunt_status shunt_partitions_make(struct shunt_call *call, struct shunt_operation *operation)
{
    (void)call;
    (void)operation;
    return SHUNT_ERR_INVALID;
}

enum shunt_status shunt_coll_start(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                   struct shunt_start **start_p, enum shunt_reason *reason)
{
    (void)arena;
    (void)board;
    (void)task;
    (void)start_p;
    (void)reason;
    fail_msg("nothing runs here");
    return SHUNT_PASS;
}

enum shunt_start_state shunt_start_look(struct shunt_start *start)
{
    (void)start;
    return SHUNT_START_DONE;
}

enum shunt_start_state shunt_start_glance(struct shunt_start *start)
{
    return shunt_start_look(start);
}

void shunt_start_veto(struct shunt_start *start)
{
    (void)start;
}

const struct shunt_board *shunt_start_board(const struct shunt_start *start)
{
    (void)start;
    return NULL;
}

/* There is no other thread: whoever looks copies. */
bool shunt_helper_send(struct shunt_arena *arena, struct shunt_errand *errand)
{
    (void)arena;
    (void)errand;
    return false;
}

bool shunt_helper_take_back(struct shunt_errand *errand)
{
    (void)errand;
    return false;
}

enum shunt_status shunt_start_end(struct shunt_start *start, struct shunt_outcome *outcome)
{
    (void)start;
    (void)outcome;
    return SHUNT_PASS;
}

bool shunt_starts_meet(const struct shunt_board *board)
{
    (void)board;
    return false;
}

void shunt_starts_pass(const struct shunt_board *board)
{
    (void)board;
}

struct shunt_repeat *shunt_repeat_make(const struct shunt_call *call)
{
    (void)call;
    fail_msg("nothing is persistent here");
    return NULL;
}

void shunt_repeat_release(struct shunt_repeat *repeat)
{
    assert_null(repeat);
}

double shunt_seconds(void)
{
    return 0;
}

void shunt_board_relax(unsigned *spins)
{
    (void)spins;
}

bool shunt_poll_singly;

bool shunt_delivery_before(struct shunt_call *call, int *rc, void **kept, bool *done)
{
    (void)call;
    (void)rc;
    (void)kept;
    (void)done;
    return false;
}

bool shunt_delivery_after(const struct shunt_call *call, void *kept, int *rc)
{
    (void)call;
    (void)kept;
    (void)rc;
    return false;
}

int64_t shunt_message_received(const MPI_Status *status, int error)
{
    (void)status;
    (void)error;
    return 0;
}

int shunt_host_begin(const struct shunt_call *call)
{
    (void)call;
    return MPI_ERR_OTHER;
}

/* ---- requests: each is waited for at once ---- */

static struct shunt_request *tracked;

int shunt_request_track(struct shunt_request *request)
{
    tracked = request;
    return MPI_SUCCESS;
}

int shunt_request_settle(struct shunt_request *request)
{
    return shunt_request_track(request);
}

void shunt_request_renew(MPI_Request handle)
{
    (void)handle;
}

/* ---- helpers ---- */

static int setup(void **state)
{
    void *old;

    (void)state;
    in_use = true;
    no_bounce = plain_known = false;
    queries = copies = steps = failures = 0;
    tracked = NULL;
    world = (struct shunt_comm){ .handle = MPI_COMM_WORLD, .size = 2, .board = (struct shunt_board *)&world,
                                 .reason = SHUNT_REASON_PEER_VETO };
    return shunt_map_put(&shunt_comms, shunt_comm_word(MPI_COMM_WORLD), &world, &old);
}

/* What a shim does, and the program's Wait. */
static void reduce(const void *send, void *recv, int n)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    void *kept = NULL;
    int rc;
    struct shunt_call call = { .id = SHUNT_CALL_Iallreduce, .sendbuf = send, .recvbuf = recv, .count = n,
                               .datatype = MPI_FLOAT, .op = MPI_SUM, .comm = MPI_COMM_WORLD, .requests = &request };

    errno = EDOM;
    assert_false(shunt_hook_icoll_before(&call, &rc, &kept));
    assert_int_equal(errno, EDOM);
    rc = PMPI_Iallreduce(call.sendbuf, call.recvbuf, n, call.datatype, call.op, call.comm, &request);
    assert_int_equal(shunt_hook_issue_after(&call, kept, rc), MPI_SUCCESS);
    PMPI_Wait(&request, &status);
    if (!tracked)
        return;
    assert_int_equal(tracked->kind->done(tracked, MPI_SUCCESS, &status), MPI_SUCCESS);
    tracked->kind->release(tracked);
    tracked = NULL;
}

/* ---- tests ---- */

static void test_host_memory(void **state)
{
    float x = 3, y = 0;

    (void)state;
    reduce(&x, &y, 1);
    assert_int_equal(queries, 2); /* one for each buffer */
    reduce(MPI_IN_PLACE, &y, 1);
    assert_int_equal(queries, 3);
    plain_known = true;
    reduce(&x, &y, 1);
    assert_int_equal(queries, 3);
    assert_int_equal(steps, 3);
    assert_int_equal(bounces, 0);
    assert_true(y == 3);
}

static void test_device_memory(void **state)
{
    float x = 3, y = 0;

    (void)state;
    *(float *)seen(device) = 5;
    reduce(device, &y, 1);
    assert_true(y == 5);
    reduce(&x, device, 1);
    assert_true(*(float *)seen(device) == 3);
    assert_int_equal(steps, 2);
    assert_int_equal(copies, 2);
    assert_int_equal(bounces, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_host_memory, setup),
        cmocka_unit_test_setup(test_device_memory, setup),
    };

    MPI_Init(&argc, &argv);
    shunt_host = (struct shunt_host_table){
        .Test_cancelled = PMPI_Test_cancelled,
        .Type_size = PMPI_Type_size,
        .Type_get_extent_x = PMPI_Type_get_extent_x,
        .Type_get_true_extent_x = PMPI_Type_get_true_extent_x,
        .Type_size_x = PMPI_Type_size_x,
    };
    map_gpu();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
