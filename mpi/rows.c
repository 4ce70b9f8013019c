/* SPDX-License-Identifier: BSD-3-Clause */
/* Whom a call is among, and the rows of its sides; rows.h. */
#include "mpi/rows.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/comm.h"
#include "mpi/operand.h"

/* ---- whom the call is among ---- */

static bool needs_groups(const struct shunt_side *side)
{
    return side->who >= SHUNT_WHO_ROOT || side->blocks != SHUNT_BLOCKS_ONE;
}

static bool has_neighbours(const struct shunt_collective *shape)
{
    return shape->recv.blocks == SHUNT_BLOCKS_SOURCES;
}

/* Of a communicator that we do not know the host is asked. False: it does not know it either, and shall say so itself. */
static bool find_groups(MPI_Comm handle, struct shunt_groups *groups)
{
    const struct shunt_comm *comm = shunt_comm_find(handle);
    int inter = 0;

    if (comm)
        *groups = (struct shunt_groups){ .rank = comm->rank, .own = comm->size, .opposite = comm->size, .inter = comm->intercomm };
    else if (handle == MPI_COMM_NULL || shunt_host.Comm_rank(handle, &groups->rank) != MPI_SUCCESS ||
             shunt_host.Comm_size(handle, &groups->own) != MPI_SUCCESS ||
             shunt_host.Comm_test_inter(handle, &inter) != MPI_SUCCESS)
        return false;
    else
        *groups = (struct shunt_groups){ .rank = groups->rank, .own = groups->own, .opposite = groups->own, .inter = inter };
    return !groups->inter || shunt_host.Comm_remote_size(handle, &groups->opposite) == MPI_SUCCESS;
}

/* ---- neighbours ---- */

struct shunt_neighbours {
    int topology; /* MPI_CART ... */
    int sources, destinations;
    int list[]; /* the sources, then the destinations, then room for what the host says besides */
};

static struct shunt_neighbours *new_neighbours(int sources, int destinations)
{
    size_t n = 2 * ((size_t)sources + (size_t)destinations);
    struct shunt_neighbours *neighbours = malloc(sizeof *neighbours + (n + 1) * sizeof(int));

    if (neighbours)
        *neighbours = (struct shunt_neighbours){ .sources = sources, .destinations = destinations };
    return neighbours;
}

/* Each dimension has two neighbours, the lower one first; at the rim MPI_PROC_NULL. */
static bool ask_grid(MPI_Comm comm, struct shunt_neighbours **neighbours)
{
    int n;

    if (shunt_host.Cartdim_get(comm, &n) != MPI_SUCCESS || !(*neighbours = new_neighbours(2 * n, 2 * n)))
        return false;
    for (int i = 0; i < n; i++) {
        int *pair = (*neighbours)->list + 2 * i;
        if (shunt_host.Cart_shift(comm, i, 1, &pair[0], &pair[1]) != MPI_SUCCESS)
            return false;
    }
    memcpy((*neighbours)->list + 2 * n, (*neighbours)->list, 2 * n * sizeof(int));
    return true;
}

static bool ask_graph(MPI_Comm comm, int rank, struct shunt_neighbours **neighbours)
{
    int n;

    if (shunt_host.Graph_neighbors_count(comm, rank, &n) != MPI_SUCCESS || !(*neighbours = new_neighbours(n, n)) ||
        shunt_host.Graph_neighbors(comm, rank, n, (*neighbours)->list) != MPI_SUCCESS)
        return false;
    memcpy((*neighbours)->list + n, (*neighbours)->list, n * sizeof(int));
    return true;
}

static bool ask_dist_graph(MPI_Comm comm, struct shunt_neighbours **neighbours)
{
    int in, out, weighted;

    if (shunt_host.Dist_graph_neighbors_count(comm, &in, &out, &weighted) != MPI_SUCCESS ||
        !(*neighbours = new_neighbours(in, out)))
        return false;
    int *from = (*neighbours)->list, *to = from + in, *weights = to + out;
    return shunt_host.Dist_graph_neighbors(comm, in, from, weights, out, to, weights + in) == MPI_SUCCESS;
}

/* NULL also where there is no topology: the host says so. */
static struct shunt_neighbours *ask_neighbours(MPI_Comm comm, int rank)
{
    struct shunt_neighbours *neighbours = NULL;
    int kind;
    bool found = shunt_host.Topo_test(comm, &kind) == MPI_SUCCESS &&
                 (kind == MPI_CART         ? ask_grid(comm, &neighbours)
                  : kind == MPI_GRAPH      ? ask_graph(comm, rank, &neighbours)
                  : kind == MPI_DIST_GRAPH ? ask_dist_graph(comm, &neighbours)
                                           : false);

    if (!found) {
        free(neighbours);
        return NULL;
    }
    neighbours->topology = kind;
    return neighbours;
}

/* A topology never changes, so a communicator that we know keeps the answer. */
static bool find_neighbours(MPI_Comm handle, struct shunt_groups *groups)
{
    struct shunt_comm *comm = shunt_comm_find(handle);
    struct shunt_neighbours *found = comm ? atomic_load_explicit(&comm->neighbours, memory_order_acquire) : NULL, *first = NULL;

    if (!found && !(found = ask_neighbours(handle, groups->rank)))
        return false;
    if (!comm) {
        groups->owned = found;
    } else if (found != atomic_load_explicit(&comm->neighbours, memory_order_relaxed) &&
               !atomic_compare_exchange_strong(&comm->neighbours, &first, found)) {
        free(found); /* another thread was first */
        found = first;
    }
    groups->topology = found->topology;
    groups->sources = found->sources;
    groups->destinations = found->destinations;
    groups->neighbours = found->list;
    return true;
}

bool shunt_groups_find(const struct shunt_call *call, const struct shunt_collective *shape, struct shunt_groups *groups)
{
    *groups = (struct shunt_groups){ 0 };
    if ((needs_groups(&shape->send) || needs_groups(&shape->recv)) && !find_groups(call->comm, groups))
        return false;
    return !has_neighbours(shape) || find_neighbours(call->comm, groups);
}

void shunt_groups_release(struct shunt_groups *groups)
{
    free(groups->owned);
    groups->owned = NULL;
}

bool shunt_groups_count(enum shunt_who who, const struct shunt_call *call, const struct shunt_groups *groups)
{
    bool is_root = groups->inter ? call->root == MPI_ROOT : call->root == groups->rank;
    bool is_idle = groups->inter && call->root == MPI_PROC_NULL;

    switch (who) {
    case SHUNT_WHO_NOBODY: return false;
    case SHUNT_WHO_TO_PEER: return call->root != MPI_PROC_NULL;
    case SHUNT_WHO_FROM_PEER: return call->source != MPI_PROC_NULL;
    case SHUNT_WHO_ROOT: return is_root;
    case SHUNT_WHO_LEAVES: return !is_idle && !(groups->inter && is_root);
    case SHUNT_WHO_OTHERS: return !is_idle && !is_root;
    case SHUNT_WHO_LATER: return groups->rank > 0;
    default: return true;
    }
}

/* ---- rows ---- */

static void number_rows(enum shunt_blocks blocks, const struct shunt_groups *groups, struct shunt_side_rows *rows)
{
    switch (blocks) {
    case SHUNT_BLOCKS_OWN_GROUP: rows->n = groups->own; break;
    case SHUNT_BLOCKS_OPPOSITE_GROUP: rows->n = groups->opposite; break;
    case SHUNT_BLOCKS_SOURCES:
        rows->n = groups->sources;
        rows->peers = groups->neighbours;
        break;
    case SHUNT_BLOCKS_DESTINATIONS:
        rows->n = groups->destinations;
        rows->peers = groups->neighbours + groups->sources;
        break;
    default: rows->n = 1;
    }
}

/* Does the side of the call have a count for each row? */
static bool has_counts(const struct shunt_collective *shape, bool recv)
{
    return (shape->traits & (recv ? SHUNT_TRAIT_RECV_ROWS : SHUNT_TRAIT_SEND_ROWS)) != 0;
}

struct shunt_side_rows shunt_side_rows(const struct shunt_call *call, const struct shunt_collective *shape, bool recv,
                                       const struct shunt_groups *groups)
{
    unsigned family = shunt_call_family(call->id);
    bool second = recv && shape->traits & SHUNT_TRAIT_TWO_TYPES, reduces = family == SHUNT_CALL_Reduce_scatter;
    struct shunt_side_rows rows = { .type = second ? call->recvtype : call->datatype,
                         .large = call->large,
                         .aints = call->large || family == SHUNT_CALL_Neighbor_alltoallw };

    number_rows(recv ? shape->recv.blocks : shape->send.blocks, groups, &rows);
    if (!has_counts(shape, recv)) { /* where the other side has arrays, call->count is this one's */
        rows.count = second && !has_counts(shape, false) ? call->recvcount : call->count;
        return rows;
    }
    rows.counts = recv || reduces ? call->rows->recvcounts : call->rows->sendcounts;
    rows.displs = recv ? call->rows->recvdispls : call->rows->senddispls;
    rows.types = recv ? call->rows->recvtypes : call->rows->sendtypes;
    rows.first = recv && reduces ? groups->rank : 0;
    rows.missing = !rows.counts || (!rows.displs && !reduces);
    return rows;
}

int64_t shunt_row_count(const struct shunt_side_rows *rows, int i)
{
    return !rows->counts ? rows->count : rows->large ? ((const MPI_Count *)rows->counts)[i] : ((const int *)rows->counts)[i];
}

int64_t shunt_row_place(const struct shunt_side_rows *rows, int i)
{
    return rows->aints ? ((const MPI_Aint *)rows->displs)[i] : ((const int *)rows->displs)[i];
}
