/* SPDX-License-Identifier: BSD-3-Clause */
/* All collectives by number and in the form that form.h says, with their arguments in one struct, for one test program. */
#ifndef SHUNT_TEST_CALLS_H
#define SHUNT_TEST_CALLS_H

#include <mpi.h>
#include <stdbool.h>

#include "test/form.h"

#define CALL_RANKS 9

#define CALLS(X)                                                                                   \
    X(allreduce) X(bcast) X(reduce) X(scan) X(exscan) X(reduce_scatter_block) X(reduce_scatter) X(gather) X(scatter) \
    X(allgather) X(alltoall) X(gatherv) X(scatterv) X(allgatherv) X(alltoallv) X(alltoallw) X(neighbor_allgather)     \
    X(neighbor_allgatherv) X(neighbor_alltoall) X(neighbor_alltoallv) X(neighbor_alltoallw)
enum call {
#define X(name) name,
    CALLS(X)
#undef X
    NCALLS
};
static const char *const names[] = {
#define X(name) #name,
    CALLS(X)
#undef X
};

/* Arrays in the widths that the functions want. */
struct numbers {
    int i[CALL_RANKS];
    MPI_Count c[CALL_RANKS];
    MPI_Aint a[CALL_RANKS];
};

struct arguments {
    const void *send;
    void *recv;
    long sendcount, recvcount;
    struct numbers sendcounts, senddispls, recvcounts, recvdispls;
    MPI_Datatype type, types[CALL_RANKS];
    MPI_Op op;
    int root;
    MPI_Comm comm;
};

/* The call with small counts and with large ones; those with arrays have them in the type C, places in D. */
#define RUN(_c, C, D)                                                                              \
    switch (call) {                                                                                \
    case allreduce:                                                                                \
        return FORM(Allreduce, Iallreduce, _c, a->send, a->recv, a->sendcount, a->type, a->op,     \
            a->comm);                                                                              \
    case bcast: return FORM(Bcast, Ibcast, _c, a->recv, a->recvcount, a->type, a->root, a->comm);  \
    case reduce:                                                                                   \
        return FORM(Reduce, Ireduce, _c, a->send, a->recv, a->sendcount, a->type, a->op, a->root,  \
            a->comm);                                                                              \
    case scan:                                                                                     \
        return FORM(Scan, Iscan, _c, a->send, a->recv, a->sendcount, a->type, a->op, a->comm);     \
    case exscan:                                                                                   \
        return FORM(Exscan, Iexscan, _c, a->send, a->recv, a->sendcount, a->type, a->op,           \
            a->comm);                                                                              \
    case reduce_scatter_block:                                                                     \
        return FORM(Reduce_scatter_block, Ireduce_scatter_block, _c, a->send, a->recv,             \
            a->recvcount, a->type, a->op, a->comm);                                                \
    case reduce_scatter:                                                                           \
        return FORM(Reduce_scatter, Ireduce_scatter, _c, a->send, a->recv, a->recvcounts.C,        \
            a->type, a->op, a->comm);                                                              \
    case gather:                                                                                   \
        return FORM(Gather, Igather, _c, a->send, a->sendcount, a->type, a->recv, a->recvcount,    \
            a->type, a->root, a->comm);                                                            \
    case scatter:                                                                                  \
        return FORM(Scatter, Iscatter, _c, a->send, a->sendcount, a->type, a->recv, a->recvcount,  \
            a->type, a->root, a->comm);                                                            \
    case allgather:                                                                                \
        return FORM(Allgather, Iallgather, _c, a->send, a->sendcount, a->type, a->recv,            \
            a->recvcount, a->type, a->comm);                                                       \
    case alltoall:                                                                                 \
        return FORM(Alltoall, Ialltoall, _c, a->send, a->sendcount, a->type, a->recv,              \
            a->recvcount, a->type, a->comm);                                                       \
    case gatherv:                                                                                  \
        return FORM(Gatherv, Igatherv, _c, a->send, a->sendcount, a->type, a->recv,                \
            a->recvcounts.C, a->recvdispls.D, a->type, a->root, a->comm);                          \
    case scatterv:                                                                                 \
        return FORM(Scatterv, Iscatterv, _c, a->send, a->sendcounts.C, a->senddispls.D, a->type,   \
            a->recv, a->recvcount, a->type, a->root, a->comm);                                     \
    case allgatherv:                                                                               \
        return FORM(Allgatherv, Iallgatherv, _c, a->send, a->sendcount, a->type, a->recv,          \
            a->recvcounts.C, a->recvdispls.D, a->type, a->comm);                                   \
    case alltoallv:                                                                                \
        return FORM(Alltoallv, Ialltoallv, _c, a->send, a->sendcounts.C, a->senddispls.D,          \
            a->type, a->recv, a->recvcounts.C, a->recvdispls.D, a->type, a->comm);                 \
    case alltoallw:                                                                                \
        return FORM(Alltoallw, Ialltoallw, _c, a->send, a->sendcounts.C, a->senddispls.D,          \
            a->types, a->recv, a->recvcounts.C, a->recvdispls.D, a->types, a->comm);               \
    case neighbor_allgather:                                                                       \
        return FORM(Neighbor_allgather, Ineighbor_allgather, _c, a->send, a->sendcount, a->type,   \
            a->recv, a->recvcount, a->type, a->comm);                                              \
    case neighbor_allgatherv:                                                                      \
        return FORM(Neighbor_allgatherv, Ineighbor_allgatherv, _c, a->send, a->sendcount,          \
            a->type, a->recv, a->recvcounts.C, a->recvdispls.D, a->type, a->comm);                 \
    case neighbor_alltoall:                                                                        \
        return FORM(Neighbor_alltoall, Ineighbor_alltoall, _c, a->send, a->sendcount, a->type,     \
            a->recv, a->recvcount, a->type, a->comm);                                              \
    case neighbor_alltoallv:                                                                       \
        return FORM(Neighbor_alltoallv, Ineighbor_alltoallv, _c, a->send, a->sendcounts.C,         \
            a->senddispls.D, a->type, a->recv, a->recvcounts.C, a->recvdispls.D, a->type,          \
            a->comm);                                                                              \
    default:                                                                                       \
        return FORM(Neighbor_alltoallw, Ineighbor_alltoallw, _c, a->send, a->sendcounts.C,         \
            a->senddispls.a, a->types, a->recv, a->recvcounts.C, a->recvdispls.a, a->types,        \
            a->comm);                                                                              \
    }

#if MPI_VERSION >= 4
static int run_large(enum call call, const struct arguments *a)
{
    RUN(_c, c, a)
}
#endif

static int run_call(enum call call, bool large, const struct arguments *a)
{
#if MPI_VERSION >= 4
    if (large)
        return run_large(call, a);
#else
    (void)large;
#endif
    RUN(, i, i)
}

#endif
