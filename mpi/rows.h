/* SPDX-License-Identifier: BSD-3-Clause */
/* Whom a call is among, and the rows of each of its sides: counts, places, types, as far as the caller has them in arrays. */
#ifndef SHUNT_MPI_ROWS_H
#define SHUNT_MPI_ROWS_H

#include "coll/colls.h"
#include "mpi/call.h"

struct shunt_neighbours; /* of a communicator; freed by free() */

struct shunt_groups {
    int rank, own, opposite;
    bool inter;
    int topology; /* of neighbours: MPI_CART ... */
    int sources, destinations;
    const int *neighbours;          /* the sources, then the destinations */
    struct shunt_neighbours *owned; /* by these groups, or NULL */
};

/* False: the host does not know the communicator either, or it has no topology; it shall say so itself. */
bool shunt_groups_find(const struct shunt_call *call, const struct shunt_collective *shape, struct shunt_groups *groups);
void shunt_groups_release(struct shunt_groups *groups);

/* Does a side count on this rank? */
bool shunt_groups_count(enum shunt_who who, const struct shunt_call *call, const struct shunt_groups *groups);

/* The rows of one side: each with an element count, a place and a type. */
struct shunt_side_rows {
    int n, first;     /* how many, from which one on */
    const int *peers; /* of neighbours: rows of MPI_PROC_NULL are not touched; else NULL */
    const void *counts;
    int64_t count;      /* of each row, where there are no counts */
    const void *displs; /* NULL: rows follow each other */
    const MPI_Datatype *types;
    MPI_Datatype type; /* of all rows, where there are no types */
    bool missing;      /* the caller has not passed the arrays */
    bool large;        /* counts are MPI_Count, not int */
    bool aints;        /* displacements are MPI_Aint, not int */
};

struct shunt_side_rows shunt_side_rows(const struct shunt_call *call, const struct shunt_collective *shape, bool recv,
                                       const struct shunt_groups *groups);
int64_t shunt_row_count(const struct shunt_side_rows *rows, int i);
int64_t shunt_row_place(const struct shunt_side_rows *rows, int i);

#endif
