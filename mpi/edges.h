/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a rank is a neighbour several times: which block that is sent to it is which of those that it receives.
 *
 * MPI says that they match in the order of edges, and in a grid by direction: what goes down comes from above. The hosts do it
 * in three ways, and not alike in all forms of a call; results must not depend on where a call runs. So the host is asked,
 * by such a call of this process with itself.
 */
#ifndef SHUNT_MPI_EDGES_H
#define SHUNT_MPI_EDGES_H

#include "mpi/rows.h"

enum shunt_edges {
    SHUNT_EDGES_UNKNOWN,  /* the host does something else */
    SHUNT_EDGES_IN_ORDER, /* the first that is sent to a rank is the first that it receives from there */
    SHUNT_EDGES_REVERSED, /* it is the last */
    SHUNT_EDGES_ACROSS,   /* in a grid: which goes in a direction comes from the opposite one */
};

/* How this call's blocks match. */
enum shunt_edges shunt_edges_of(const struct shunt_call *call, const struct shunt_groups *groups);

/*
 * Of n neighbours, those that a rank sends to or that it receives from: the how manieth message edge i is of those between the
 * same two ranks, from 0. `edges`: for those that are received; those that are sent are in order.
 */
uint32_t shunt_edge_number(const int *neighbours, int n, int i, enum shunt_edges edges);

#endif
