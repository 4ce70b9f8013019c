/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicators of this process: for each its size, its key and its board.
 *
 * They are entered when they are created and taken out before the host frees the handle, which it may then give to
 * another communicator at once. All that is asked of the host is local; no message, no communicator of ours.
 */
#ifndef SHUNT_MPI_COMM_H
#define SHUNT_MPI_COMM_H

#include "coll/hier.h"
#include "coll/wishes.h"
#include "mpi/call.h"
#include "mpi/key.h"
#include "mpi/map.h"

struct shunt_comm {
    MPI_Comm handle;
    int size; /* of the local group */
    int rank;
    bool intercomm;
    bool keyed;                /* all members know `key`; else no communicator made from this one has a board */
    enum shunt_reason reason;  /* why there is no board */
    struct shunt_board *board; /* NULL: calls are not counted, or `hier` is there */
    int *slots;                /* owned; in the node's arena, by rank, -1: not there; NULL: nobody is */
    struct shunt_hier *hier;   /* it goes over several nodes, which can meet */
    struct shunt_key key;
    const struct shunt_wishes *_Atomic wishes; /* what its info asks for, or NULL: the settings hold */
    struct shunt_neighbours *_Atomic neighbours; /* owned; NULL: nobody has asked yet */
    _Atomic uint32_t created[SHUNT_NKINDS]; /* creation calls on this communicator so far */
};

extern struct shunt_map shunt_comms;

static inline uintptr_t shunt_comm_word(MPI_Comm handle)
{
    return (uintptr_t)handle; /* a pointer or a number, as the MPI has it */
}

/* The communicator of a handle, or NULL if it is not known. Lock-free. */
static inline struct shunt_comm *shunt_comm_find(MPI_Comm handle)
{
    return shunt_map_find(&shunt_comms, shunt_comm_word(handle));
}

/* Rule 1 of the board, for a call that this rank makes on host memory. */
static inline void shunt_comm_pass(const struct shunt_comm *comm)
{
    shunt_board_pass(comm->hier ? shunt_hier_board(comm->hier) : comm->board);
}

/* The same, with a look at those whose Comm_idup has ended without our seeing its request complete. */
struct shunt_comm *shunt_comm_get(MPI_Comm handle);

/* The slot in the node's arena of another rank; -1: it has none, being elsewhere, or there is no such rank. */
static inline int shunt_comm_slot(const struct shunt_comm *comm, int rank)
{
    return comm->slots && rank >= 0 && rank < comm->size && rank != comm->rank ? comm->slots[rank] : -1;
}

/*
 * Enter a communicator that the host has created. `keyed` false: members may not agree on a key. Never fails: a
 * communicator that cannot be entered is unknown, and its calls are host calls.
 */
void shunt_comm_enter(MPI_Comm handle, const struct shunt_origin *origin, bool keyed);

/* Enter MPI_COMM_WORLD and MPI_COMM_SELF; take everything out and close all boards. */
void shunt_comm_start(void);
void shunt_comm_stop(void);

/* In the child after fork: forget everything, touch nothing. */
void shunt_comm_abandon(void);

/* Call the communicator's error handler for a failure of ours; answers the error to return. */
int shunt_comm_fail(MPI_Comm handle);

#endif
