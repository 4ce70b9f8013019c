/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of several blocks between two ranks is which; edges.h. */
#include "mpi/edges.h"

#include <pthread.h>
#include <stdatomic.h>

#include "mpi/life.h"
#include "mpi/operand.h"

#define EDGES 4     /* of the process with itself; of a grid, in two dimensions */
#define TAG   24095 /* of the making of a communicator; a program that makes one of MPI_COMM_SELF has another */

static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static const int ones[EDGES] = { 1, 1, 1, 1 }, places[EDGES] = { 0, 1, 2, 3 }, selves[EDGES];
static const MPI_Aint bytes[EDGES] = { 0, sizeof(int), 2 * sizeof(int), 3 * sizeof(int) };

/* A communicator of this process alone. By its group: in collectives on MPI_COMM_SELF another thread of the program may be. */
static int make_own(MPI_Comm *own)
{
    MPI_Group group;
    int rc = shunt_host.Comm_group(MPI_COMM_SELF, &group);

    if (rc != MPI_SUCCESS)
        return rc;
    rc = shunt_host.Comm_create_group(MPI_COMM_SELF, group, TAG, own);
    shunt_host.Group_free(&group);
    return rc;
}

/* One in which this process is its own neighbour. */
static int make_comm(MPI_Comm own, int topology, MPI_Comm *comm)
{
    static const int periods[EDGES / 2] = { 1, 1 }, degree[1] = { EDGES };

    switch (topology) {
    case MPI_CART: return shunt_host.Cart_create(own, EDGES / 2, ones, periods, 0, comm);
    case MPI_GRAPH: return shunt_host.Graph_create(own, 1, degree, selves, 0, comm);
    default:
        return shunt_host.Dist_graph_create_adjacent(own, EDGES, selves, ones, EDGES, selves, ones, MPI_INFO_NULL, 0,
                                                     comm);
    }
}

static int call_blocking(unsigned family, const int *sent, int *got, MPI_Comm comm)
{
    const MPI_Datatype types[EDGES] = { MPI_INT, MPI_INT, MPI_INT, MPI_INT };

    switch (family) {
    case SHUNT_CALL_Neighbor_alltoall: return shunt_host.Neighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm);
    case SHUNT_CALL_Neighbor_alltoallv:
        return shunt_host.Neighbor_alltoallv(sent, ones, places, MPI_INT, got, ones, places, MPI_INT, comm);
    default: return shunt_host.Neighbor_alltoallw(sent, ones, bytes, types, got, ones, bytes, types, comm);
    }
}

static int call_nonblocking(unsigned family, const int *sent, int *got, MPI_Comm comm)
{
    const MPI_Datatype types[EDGES] = { MPI_INT, MPI_INT, MPI_INT, MPI_INT };
    MPI_Request request = MPI_REQUEST_NULL;
    int rc;

    switch (family) {
    case SHUNT_CALL_Neighbor_alltoall:
        rc = shunt_host.Ineighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm, &request);
        break;
    case SHUNT_CALL_Neighbor_alltoallv:
        rc = shunt_host.Ineighbor_alltoallv(sent, ones, places, MPI_INT, got, ones, places, MPI_INT, comm, &request);
        break;
    default: rc = shunt_host.Ineighbor_alltoallw(sent, ones, bytes, types, got, ones, bytes, types, comm, &request);
    }
    return rc == MPI_SUCCESS ? shunt_host.Wait(&request, MPI_STATUS_IGNORE) : rc;
}

/* What edge i received, if they match so. */
static int expected(enum shunt_edges edges, int i)
{
    return edges == SHUNT_EDGES_IN_ORDER ? i : edges == SHUNT_EDGES_REVERSED ? EDGES - 1 - i : i ^ 1;
}

static enum shunt_edges recognise(const int *got, int topology)
{
    for (int edges = SHUNT_EDGES_IN_ORDER; edges <= (topology == MPI_CART ? SHUNT_EDGES_ACROSS : SHUNT_EDGES_REVERSED); edges++) {
        int same = 0;
        while (same < EDGES && got[same] == expected(edges, same))
            same++;
        if (same == EDGES)
            return (enum shunt_edges)edges;
    }
    return SHUNT_EDGES_UNKNOWN;
}

static enum shunt_edges ask_host(unsigned family, bool blocking, int topology)
{
    int got[EDGES] = { -1, -1, -1, -1 };
    MPI_Comm own, comm;

    if (make_own(&own) != MPI_SUCCESS)
        return SHUNT_EDGES_UNKNOWN;
    int rc = make_comm(own, topology, &comm);
    if (rc == MPI_SUCCESS) {
        rc = blocking ? call_blocking(family, places, got, comm) : call_nonblocking(family, places, got, comm);
        shunt_host.Comm_free(&comm);
    }
    shunt_host.Comm_free(&own);
    return rc == MPI_SUCCESS ? recognise(got, topology) : SHUNT_EDGES_UNKNOWN;
}

/* Of Neighbor_allgather all blocks that a rank sends are the same. */
enum shunt_edges shunt_edges_of(const struct shunt_call *call, const struct shunt_groups *groups)
{
    static _Atomic signed char known[3][3][2]; /* by call, topology and form: 1 + what the host has answered */
    const unsigned family = shunt_call_family(call->id);
    const int which = family == SHUNT_CALL_Neighbor_alltoall  ? 0 :
                      family == SHUNT_CALL_Neighbor_alltoallv ? 1 :
                      family == SHUNT_CALL_Neighbor_alltoallw ? 2 :
                                                                -1;
    const int kind = groups->topology == MPI_CART ? 0 : groups->topology == MPI_GRAPH ? 1 : 2;
    const bool blocking = call->id == family;

    if (which < 0)
        return SHUNT_EDGES_IN_ORDER;
    if (shunt_life_world_group() == MPI_GROUP_NULL) /* nor is there MPI_COMM_SELF */
        return SHUNT_EDGES_UNKNOWN;
    _Atomic signed char *answer = &known[which][kind][blocking];
    if (atomic_load_explicit(answer, memory_order_relaxed) == 0) {
        pthread_mutex_lock(&asking);
        if (atomic_load_explicit(answer, memory_order_relaxed) == 0)
            atomic_store_explicit(answer, (signed char)(1 + ask_host(family, blocking, groups->topology)), memory_order_relaxed);
        pthread_mutex_unlock(&asking);
    }
    return (enum shunt_edges)(atomic_load_explicit(answer, memory_order_relaxed) - 1);
}

/* The place of edge i among those of its rank. */
static int key_of(int i, enum shunt_edges edges)
{
    return edges == SHUNT_EDGES_REVERSED ? -i : edges == SHUNT_EDGES_ACROSS ? i ^ 1 : i;
}

uint32_t shunt_edge_number(const int *neighbours, int n, int i, enum shunt_edges edges)
{
    uint32_t before = 0;

    for (int k = 0; k < n; k++)
        before += neighbours[k] == neighbours[i] && key_of(k, edges) < key_of(i, edges);
    return before;
}
