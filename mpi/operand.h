/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operands of a call: its buffers, and of each which elements the host's call reads and which it writes on this rank.
 *
 * Simple, v and w forms are one thing here: a list of pieces. A table says for each call which of its buffers count on which
 * rank, and how many blocks each holds (coll/colls.def, and what is no collective in operand.c); the nonblocking and the persistent form of a call are as the
 * blocking one. Arguments that do not count on this rank are not looked at.
 */
#ifndef SHUNT_MPI_OPERAND_H
#define SHUNT_MPI_OPERAND_H

#include <stdint.h>

#include "base/status.h"
#include "mpi/call.h"
#include "mpi/forms.h"

/* Elements that follow each other in a buffer. */
struct shunt_piece {
    int64_t offset; /* bytes from the buffer's address */
    int64_t count;  /* above 0 */
    int64_t packed; /* bytes of all elements before it, were they packed; with those of rows that are not touched */
    MPI_Datatype datatype;
    struct shunt_pattern *pattern; /* owned; NULL until shunt_pieces_hold, and of types that are not flattened */
    bool duplicate;                /* the datatype is owned */
};

struct shunt_pieces {
    int n;
    struct shunt_piece *list; /* owned; NULL if there is one at most */
    struct shunt_piece first;
};

static inline const struct shunt_piece *shunt_piece_get(const struct shunt_pieces *pieces, int i)
{
    return pieces->list ? &pieces->list[i] : &pieces->first;
}

/* What a side with a count for each row has of the caller's; valid during the call. */
struct shunt_arrays {
    int n;              /* 0: there are none */
    const void *counts; /* int, or MPI_Count if large */
    const MPI_Datatype *types; /* NULL: all rows have one type */
    bool large;
    bool aints; /* displacements are MPI_Aint, not int */
};

struct shunt_operand {
    char *buffer; /* as the caller passed it */
    struct shunt_pieces read, written;
    struct shunt_arrays arrays;
    bool staged; /* there is memory in it that the host MPI may not touch; else nothing more is known */
    bool mixed;  /* and there may be host memory, too */
};

/* Which collective a family is: enum shunt_coll, SHUNT_NCOLLS if it is none. */
unsigned shunt_call_coll(unsigned family);

/*
 * The operands of a call. In place, and where a call has one buffer only, that is recv. OK: at least one is staged.
 * PASS: none is, or the call has none, or is wrong; then there is nothing to release, and neither is after an error.
 * The arrays of the call are copied; the datatypes are the caller's.
 */
enum shunt_status shunt_operands_find(const struct shunt_call *call, struct shunt_operand *send,
                                      struct shunt_operand *recv);

/* For calls that the table does not know: find out whether an operand whose pieces are set is staged. */
void shunt_operand_look(struct shunt_operand *operand);

/*
 * Must the host MPI not touch a piece? `all`: look at each of an element's blocks (as far as there are few), since they
 * may lie in different memory: absolute addresses do.
 */
bool shunt_piece_on_device(const char *buffer, const struct shunt_piece *piece, bool all);

/*
 * Make the pieces independent of the caller's datatypes, which he may free while the operation is under way: derived ones
 * are flattened, or duplicated.
 */
enum shunt_status shunt_operand_hold(struct shunt_operand *operand);

/* Where the call has the datatype of one side, unless rows have types of their own; NULL if it does not only move data. */
MPI_Datatype *shunt_operand_type(struct shunt_call *call, bool recv);

void shunt_operand_release(struct shunt_operand *operand);

/* Bytes that are read and written, without gaps: for statistics. */
uint64_t shunt_operand_bytes(const struct shunt_operand *operand);

#endif
