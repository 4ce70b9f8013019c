/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives: whether all ranks can start one on the GPUs, and the board on which their starts meet.
 *
 * Only the calls that make them are in order on the communicator, so these take a step on its board: who has device memory
 * arrives and goes on. Once all have, the operation has a board of its own, where start number k of one rank meets that of the
 * others. Where a rank has host memory all starts are the host's, and that rank need not be asked again.
 */
#ifndef SHUNT_MPI_REPEAT_H
#define SHUNT_MPI_REPEAT_H

#include "mpi/comm.h"

enum shunt_repeat_state {
    SHUNT_REPEAT_ASKED,  /* some rank has not made it yet */
    SHUNT_REPEAT_AGREED, /* all are on device memory */
    SHUNT_REPEAT_STAGED,
};

struct shunt_repeat {
    struct shunt_call call; /* as it came; datatypes are duplicates where the program may free them */
    struct shunt_rows rows;
    MPI_Datatype types[2];
    struct shunt_comm comm; /* size and rank of the communicator, which may be freed; its board is this operation's own */
    enum shunt_repeat_state state;
    enum shunt_reason reason;  /* of STAGED */
    struct shunt_round round;  /* of ASKED */
    int slots[SHUNT_BOARD_RANKS];
};

/* Keep of a call what its operation needs later; false: there is no memory. Of nonblocking ones, too. */
bool shunt_repeat_keep(struct shunt_call *call, struct shunt_rows *rows, MPI_Datatype *types);
void shunt_repeat_free_types(MPI_Datatype *types);

/*
 * Make one of a call that may have device memory. Takes the step on the board, whatever becomes of it. NULL: it is staged,
 * *reason says why.
 */
struct shunt_repeat *shunt_repeat_make(const struct shunt_call *call, enum shunt_reason *reason);
void shunt_repeat_release(struct shunt_repeat *repeat);

/* Look once; stage it, if some rank has not made it yet. */
enum shunt_repeat_state shunt_repeat_look(struct shunt_repeat *repeat);
void shunt_repeat_veto(struct shunt_repeat *repeat);

#endif
