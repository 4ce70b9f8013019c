/* SPDX-License-Identifier: BSD-3-Clause */
/* A call that classify understood: bytes, element type, operation, memory. No MPI type in it. */
#ifndef SHUNT_COLL_TASK_H
#define SHUNT_COLL_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/gpu.h"
#include "cuda/types.h"

/* Calls that are always staged, and counted as such. */
#define SHUNT_OTHERS(X)                                                                            \
    X(GATHERV, gatherv)                                                                            \
    X(SCATTERV, scatterv)                                                                          \
    X(ALLGATHERV, allgatherv)                                                                      \
    X(ALLTOALLV, alltoallv)                                                                        \
    X(ALLTOALLW, alltoallw)                                                                        \
    X(NEIGHBOR_ALLGATHER, neighbor_allgather)                                                      \
    X(NEIGHBOR_ALLGATHERV, neighbor_allgatherv)                                                    \
    X(NEIGHBOR_ALLTOALL, neighbor_alltoall)                                                        \
    X(NEIGHBOR_ALLTOALLV, neighbor_alltoallv)                                                      \
    X(NEIGHBOR_ALLTOALLW, neighbor_alltoallw)                                                      \
    X(REDUCE_LOCAL, reduce_local)                                                                  \
    X(SEND, send)                                                                                  \
    X(RECV, recv)                                                                                  \
    X(SENDRECV, sendrecv)                                                                          \
    X(PUT, put)                                                                                    \
    X(GET, get)                                                                                    \
    X(ACCUMULATE, accumulate)                                                                      \
    X(PACK, pack)                                                                                  \
    X(UNPACK, unpack)                                                                              \
    X(FILE_READ, file_read)                                                                        \
    X(FILE_WRITE, file_write)

/* The collectives that have device algorithms (coll/algos.def) */
#define SHUNT_DEVICE_COLLS(X)                                                                      \
    X(ALLREDUCE, allreduce)                                                                        \
    X(BCAST, bcast)                                                                                \
    X(REDUCE, reduce)                                                                              \
    X(SCAN, scan)                                                                                  \
    X(EXSCAN, exscan)                                                                              \
    X(REDUCE_SCATTER_BLOCK, reduce_scatter_block)                                                  \
    X(REDUCE_SCATTER, reduce_scatter)                                                              \
    X(GATHER, gather)                                                                              \
    X(SCATTER, scatter)                                                                            \
    X(ALLGATHER, allgather)                                                                        \
    X(ALLTOALL, alltoall)

/* X(id, word): the calls that take device memory */
#define SHUNT_COLLS(X) SHUNT_DEVICE_COLLS(X) SHUNT_OTHERS(X)

enum shunt_coll {
#define X(id, word) SHUNT_COLL_##id,
    SHUNT_COLLS(X)
#undef X
    SHUNT_NCOLLS
};

const char *shunt_coll_name(unsigned coll);

/* Does rank `me` get anything; from rank `q`; how many blocks has its receive buffer? */
bool shunt_coll_receives(unsigned coll, int me, int root);
bool shunt_coll_sends(unsigned coll, int q, int me, int root);
uint64_t shunt_coll_blocks(unsigned coll, int n, int me, int root);

struct shunt_task {
    enum shunt_coll coll;
    uint64_t count; /* elements */
    enum shunt_type type;
    enum shunt_op op;
    int root;
    bool in_place;
    bool neutral;     /* zero elements: takes part in nothing */
    const void *send; /* in place: the same as recv */
    void *recv;
    struct shunt_mem send_mem, recv_mem;
};

/* What lower layers need of the host MPI, as functions: called now and then from wait loops. */
struct shunt_progress {
    void (*poke)(void *context); /* drives the host MPI's progress on the operation's communicator */
    void *context;
};

#endif
