/* SPDX-License-Identifier: BSD-3-Clause */
/* What a persistent collective needs to be started on the GPUs; repeat.h. */
#include "mpi/repeat.h"

#include <stdlib.h>

#include "coll/agree.h"
#include "mpi/device.h"
#include "mpi/forms.h"
#include "mpi/life.h"

/* Why this rank cannot take part, as far as it knows alone. */
static enum shunt_reason find_obstacle(const struct shunt_call *call, const struct shunt_comm *comm,
                                       struct shunt_repeat *repeat)
{
    enum shunt_reason reason = SHUNT_REASON_NONE;

    if (!shunt_device_task(call, comm, repeat->spans, &repeat->task, &reason))
        return reason != SHUNT_REASON_NONE ? reason : SHUNT_REASON_NO_ALGORITHM;
    if (shunt_life_arena())
        shunt_arena_set_device_used(shunt_life_arena());
    return reason != SHUNT_REASON_NONE ? reason : comm->reason;
}

/* Each opens the board now and closes it at the end: it is freed when all have. */
static enum shunt_reason open_board(struct shunt_repeat *repeat, const struct shunt_comm *comm, uint64_t sequence)
{
    const struct shunt_origin origin = {
        .kind = SHUNT_KIND_PERSISTENT, .parent = comm->key, .count = (uint32_t)sequence
    };
    int slots[SHUNT_BOARD_RANKS];

    for (int q = 0; q < comm->size; q++)
        slots[q] = shunt_board_slot(comm->board, q);
    /* Where it fails the others learn of it in the arena, and stage. */
    return shunt_board_open_narrow(shunt_life_arena(), shunt_key_make(&origin, NULL, 0, NULL, 0), comm->size, slots, comm->rank,
                                   &repeat->comm.board) == SHUNT_OK
               ? SHUNT_REASON_NONE
               : SHUNT_REASON_BOARD_FULL;
}

static enum shunt_reason ask_all(struct shunt_repeat *repeat, const struct shunt_call *call, const struct shunt_comm *comm)
{
    struct shunt_progress progress = shunt_device_progress(call);
    uint64_t sequence;

    enum shunt_reason reason = shunt_coll_agree(shunt_life_arena(), comm->board, &repeat->task, &progress, &sequence);
    return reason == SHUNT_REASON_NONE ? open_board(repeat, comm, sequence) : reason;
}

static void decide(struct shunt_repeat *repeat, const struct shunt_call *call, struct shunt_comm *comm)
{
    repeat->comm = (struct shunt_comm){ .handle = comm->handle, .size = comm->size, .rank = comm->rank };
    repeat->reason = find_obstacle(call, comm, repeat);
    if (repeat->reason == SHUNT_REASON_NONE && comm->size > 1)
        repeat->reason = ask_all(repeat, call, comm);
    else
        shunt_comm_pass(comm);
}

struct shunt_repeat *shunt_repeat_make(const struct shunt_call *call)
{
    struct shunt_comm *comm = shunt_comm_get(call->comm);
    struct shunt_repeat *repeat = calloc(1, sizeof *repeat);

    if (__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0)
        shunt_flights_meet(call->comm);
    if (!repeat) {
        if (comm)
            shunt_comm_pass(comm);
        return NULL;
    }
    repeat->call = *call;
    if (shunt_call_has_rows(call->id))
        repeat->call.rows = NULL;
    /* For the host's progress, which any communicator drives: the program may free its own. */
    repeat->call.comm = MPI_COMM_SELF;
    repeat->reason = SHUNT_REASON_NOT_REGISTERED;
    if (comm)
        decide(repeat, call, comm);
    return repeat;
}

void shunt_repeat_release(struct shunt_repeat *repeat)
{
    if (!repeat)
        return;
    shunt_board_close(repeat->comm.board);
    free(repeat);
}
