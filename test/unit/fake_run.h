/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Allreduce finds around it, for unit tests: a communicator of two ranks with a board that counts steps, and a run
 * on the GPUs that answers what the test has set.
 */
#ifndef SHUNT_TEST_UNIT_FAKE_RUN_H
#define SHUNT_TEST_UNIT_FAKE_RUN_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "base/stats.h"
#include "coll/agree.h"
#include "coll/run.h"
#include "cuda/flow.h"
#include "mpi/comm.h"
#include "mpi/life.h"

struct shunt_host_table shunt_host;
struct shunt_map shunt_comms = SHUNT_MAP_INITIALIZER;
static struct shunt_comm world;
static int steps, runs, failures;
static enum shunt_status run_status;
static enum shunt_reason run_reason;
static bool bereft; /* a member has died */
static unsigned counted_path;
static enum shunt_reason counted_reason;
static int counted;

struct shunt_arena *shunt_life_arena(void)
{
    return (struct shunt_arena *)&steps;
}

MPI_Group shunt_life_world_group(void)
{
    return MPI_GROUP_EMPTY;
}

bool shunt_life_forked(void)
{
    return false;
}

bool shunt_life_has_threads(void)
{
    return false;
}

bool shunt_life_has_session(void)
{
    return false;
}

int shunt_arena_set_device_used(struct shunt_arena *arena)
{
    (void)arena;
    return 0;
}

void shunt_hook_coll(const struct shunt_call *call)
{
    struct shunt_comm *comm = shunt_comm_find(call->comm);

    steps += comm != NULL && comm->board != NULL;
}

struct shunt_comm *shunt_comm_get(MPI_Comm handle)
{
    return shunt_comm_find(handle);
}

int shunt_comm_fail(MPI_Comm handle)
{
    assert_true(handle == MPI_COMM_WORLD);
    failures++;
    return MPI_ERR_OTHER;
}

void shunt_board_pass(struct shunt_board *board)
{
    steps += board != NULL;
}

bool shunt_board_bereft(const struct shunt_board *board)
{
    assert_non_null(board);
    return bereft;
}

enum shunt_status shunt_coll_run(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                 const struct shunt_progress *progress, struct shunt_outcome *outcome)
{
    (void)arena;
    assert_int_equal(task->type, SHUNT_TYPE_F32);
    assert_int_equal(task->op, SHUNT_OP_SUM);
    progress->poke(progress->context);
    runs++;
    steps += board != NULL;
    outcome->algo = 1;
    outcome->reason = run_reason;
    errno = EIO;
    return run_status;
}

/* Nothing here is long enough to be staged in parts. */
enum shunt_reason shunt_coll_agree_parts(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                         uint64_t each, const struct shunt_progress *progress)
{
    (void)arena, (void)board, (void)task, (void)each, (void)progress;
    fail_msg("staged in parts");
    return SHUNT_REASON_PEER_VETO;
}

bool shunt_flow_open(const void *device, struct shunt_flow *flow)
{
    (void)device, (void)flow;
    return false;
}

void shunt_flow_close(struct shunt_flow *flow)
{
    (void)flow;
}

enum shunt_status shunt_flow_out(struct shunt_flow *flow, unsigned piece, const void *device, size_t bytes)
{
    (void)flow, (void)piece, (void)device, (void)bytes;
    return SHUNT_ERR_CUDA;
}

enum shunt_status shunt_flow_back(struct shunt_flow *flow, unsigned piece, void *device, size_t bytes)
{
    return shunt_flow_out(flow, piece, device, bytes);
}

enum shunt_status shunt_flow_wait(struct shunt_flow *flow, unsigned piece)
{
    (void)flow, (void)piece;
    return SHUNT_ERR_CUDA;
}

void shunt_stats_count(unsigned coll, unsigned path, enum shunt_reason reason, uint64_t bytes)
{
    (void)bytes;
    assert_int_equal(coll, SHUNT_COLL_ALLREDUCE);
    counted_path = path;
    counted_reason = reason;
    counted++;
}

void shunt_stats_lingered(unsigned coll)
{
    (void)coll;
    fail_msg("no kernel lingers here");
}

void shunt_stats_hosted(unsigned coll)
{
    (void)coll;
}

#endif
