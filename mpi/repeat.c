/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collectives: whether all ranks can start one on the GPUs; repeat.h. */
#include "mpi/repeat.h"

#include <stdlib.h>

#include "base/conf.h"
#include "coll/start.h"
#include "mpi/device.h"
#include "mpi/life.h"
#include "mpi/types.h"

/* How long the call that makes one waits for the others, who mostly make it at the same time. */
#define GRACE_SECONDS 1e-3

static const bool rows_forms[SHUNT_NCALLS] = { SHUNT_CALL_ROWS };
static const bool two_types[SHUNT_NCALLS] = { SHUNT_CALL_TWO_TYPES };

/* ---- what is kept of a call ---- */

/* The program may free the datatype of a call at once. Ours and the predefined ones stay. */
static bool keep_type(MPI_Datatype *type, MPI_Datatype *duplicate)
{
    if (*type == MPI_DATATYPE_NULL || shunt_types_find(*type))
        return true;
    if (shunt_host.Type_dup(*type, duplicate) != MPI_SUCCESS)
        return false;
    *type = *duplicate;
    return true;
}

bool shunt_repeat_keep(struct shunt_call *call, struct shunt_rows *rows, MPI_Datatype *types)
{
    types[0] = types[1] = MPI_DATATYPE_NULL;
    if (rows_forms[call->id]) {
        *rows = *call->rows;
        call->rows = rows;
    }
    if (keep_type(&call->datatype, &types[0]) && (!two_types[call->id] || keep_type(&call->recvtype, &types[1])))
        return true;
    shunt_repeat_free_types(types);
    return false;
}

void shunt_repeat_free_types(MPI_Datatype *types)
{
    for (int i = 0; i < 2; i++)
        if (types[i] != MPI_DATATYPE_NULL)
            shunt_host.Type_free(&types[i]);
}

/* ---- agreeing ---- */

/* Take the step on the communicator's board. Answers why not. */
static enum shunt_reason ask(struct shunt_repeat *repeat, struct shunt_comm *comm, const struct shunt_task *task)
{
    const struct shunt_post post = {
        .coll = task->coll, .count = task->count, .type = task->type, .op = task->op, .root = task->root
    };
    enum shunt_reason reason = SHUNT_REASON_NONE;

    if (shunt_board_arrive(comm->board, &post, shunt_start_agree, NULL, &repeat->round, &reason) != SHUNT_OK)
        return reason;
    for (int q = 0; q < comm->size; q++)
        repeat->slots[q] = shunt_board_slot(comm->board, q);
    repeat->comm = (struct shunt_comm){ .handle = comm->handle, .size = comm->size, .rank = comm->rank };
    repeat->comm.key = shunt_key_make(
        &(struct shunt_origin){
            .kind = SHUNT_KIND_PERSISTENT, .parent = comm->key, .count = (uint32_t)repeat->round.sequence },
        NULL, 0, NULL, 0);
    return SHUNT_REASON_NONE;
}

/* Once all have agreed each opens the board, and closes it at the end: it is freed when all have. */
static void open_board(struct shunt_repeat *repeat)
{
    if (shunt_board_open(shunt_life_arena(), repeat->comm.key, repeat->comm.size, repeat->slots, repeat->comm.rank,
                         &repeat->comm.board) != SHUNT_OK) {
        repeat->comm.board = NULL;
        repeat->reason = SHUNT_REASON_BOARD_FULL;
        repeat->state = SHUNT_REPEAT_STAGED; /* for all: the board's other members learn of it in the arena */
    }
}

enum shunt_repeat_state shunt_repeat_look(struct shunt_repeat *repeat)
{
    if (repeat->state != SHUNT_REPEAT_ASKED)
        return repeat->state;
    enum shunt_round_state state = shunt_round_poll(&repeat->round);
    if (state == SHUNT_ROUND_UNDECIDED)
        return repeat->state;
    repeat->state = state == SHUNT_ROUND_RUN ? SHUNT_REPEAT_AGREED : SHUNT_REPEAT_STAGED;
    repeat->reason = shunt_round_verdict(&repeat->round)->reason;
    shunt_round_leave(&repeat->round);
    if (repeat->state == SHUNT_REPEAT_AGREED)
        open_board(repeat);
    return repeat->state;
}

void shunt_repeat_veto(struct shunt_repeat *repeat)
{
    if (repeat->state == SHUNT_REPEAT_ASKED)
        shunt_round_veto(&repeat->round, SHUNT_REASON_OVERTAKEN);
}

/* ---- making ---- */

static enum shunt_reason find_reason(const struct shunt_call *call, const struct shunt_comm *comm, struct shunt_task *task)
{
    enum shunt_reason reason = SHUNT_REASON_NONE;

    if (!shunt_device_serves(call) || !shunt_device_task(call, comm, task, &reason))
        return reason != SHUNT_REASON_NONE ? reason : SHUNT_REASON_NO_ALGORITHM;
    if (reason != SHUNT_REASON_NONE)
        return reason;
    if (comm->reason != SHUNT_REASON_NONE)
        return comm->reason;
    if (comm->size > SHUNT_BOARD_RANKS)
        return SHUNT_REASON_TOO_MANY_RANKS;
    if (comm->size == 1)
        return SHUNT_REASON_NO_ALGORITHM;
    return shunt_conf->reproducible ? SHUNT_REASON_REPRODUCIBLE : SHUNT_REASON_NONE;
}

static void await_agreement(struct shunt_repeat *repeat)
{
    double start = shunt_seconds();
    unsigned spins = 0;

    while (shunt_repeat_look(repeat) == SHUNT_REPEAT_ASKED && shunt_seconds() - start < GRACE_SECONDS)
        shunt_board_relax(&spins);
}

struct shunt_repeat *shunt_repeat_make(const struct shunt_call *call, enum shunt_reason *reason)
{
    struct shunt_comm *comm = shunt_comm_get(call->comm);
    struct shunt_repeat *repeat = comm ? calloc(1, sizeof *repeat) : NULL;
    struct shunt_task task;

    *reason = repeat ? find_reason(call, comm, &task) : SHUNT_REASON_NOT_REGISTERED;
    if (*reason == SHUNT_REASON_NONE) {
        repeat->call = *call;
        if (!shunt_repeat_keep(&repeat->call, &repeat->rows, repeat->types))
            *reason = SHUNT_REASON_PEER_VETO;
    }
    if (*reason != SHUNT_REASON_NONE) {
        if (comm)
            shunt_board_pass(comm->board);
        free(repeat);
        return NULL;
    }
    *reason = ask(repeat, comm, &task);
    if (*reason == SHUNT_REASON_NONE) {
        await_agreement(repeat);
        return repeat;
    }
    shunt_repeat_free_types(repeat->types);
    free(repeat);
    return NULL;
}

void shunt_repeat_release(struct shunt_repeat *repeat)
{
    if (!repeat)
        return;
    shunt_repeat_veto(repeat);
    shunt_repeat_look(repeat); /* if all have agreed after all, the board waits for this rank's close */
    shunt_board_close(repeat->comm.board);
    shunt_repeat_free_types(repeat->types);
    free(repeat);
}
