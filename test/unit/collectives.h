/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each collective is, for the tests of plans and kernels: how many blocks of elements a rank brings and gets, and
 * what it gets. Everybody's buffers lie in one process. For C and C++.
 */
#ifndef SHUNT_TEST_UNIT_COLLECTIVES_H
#define SHUNT_TEST_UNIT_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "coll/task.h"

static inline bool scatters_sums(unsigned coll)
{
    return coll == SHUNT_COLL_REDUCE_SCATTER_BLOCK || coll == SHUNT_COLL_REDUCE_SCATTER;
}

/* Have its ranks rows of their own, so that blocks differ? */
static inline bool has_rows(unsigned coll)
{
    return coll >= SHUNT_COLL_GATHERV && coll <= SHUNT_COLL_NEIGHBOR_ALLTOALLW;
}

/* Does it combine? (Else it moves.) */
static inline bool combines(unsigned coll)
{
    return coll == SHUNT_COLL_ALLREDUCE || coll == SHUNT_COLL_REDUCE || coll == SHUNT_COLL_SCAN ||
           coll == SHUNT_COLL_EXSCAN || scatters_sums(coll);
}

/* Does everybody send to all, and hear from all? */
static inline bool is_mutual(unsigned coll)
{
    return coll == SHUNT_COLL_ALLREDUCE || coll == SHUNT_COLL_ALLGATHER || coll == SHUNT_COLL_ALLTOALL ||
           scatters_sums(coll);
}

/* Blocks of the send buffer of rank r; of its receive buffer, 0 if it gets nothing. */
static inline uint32_t blocks_in(unsigned coll, uint32_t n, uint32_t root, uint32_t r)
{
    bool many = coll == SHUNT_COLL_ALLTOALL || scatters_sums(coll) ||
                (coll == SHUNT_COLL_SCATTER && r == root);
    return many ? n : 1;
}

static inline uint32_t blocks_out(unsigned coll, uint32_t n, uint32_t root, uint32_t r)
{
    switch (coll) {
    case SHUNT_COLL_REDUCE: return r == root;
    case SHUNT_COLL_GATHER: return r == root ? n : 0;
    case SHUNT_COLL_EXSCAN: return r > 0;
    case SHUNT_COLL_ALLGATHER:
    case SHUNT_COLL_ALLTOALL: return n;
    default: return 1;
    }
}

/* In place: block of the receive buffer where the send buffer begins; -1 - b: block b of the send buffer where the
 * receive buffer begins. */
static inline int block_in_place(unsigned coll, uint32_t root, uint32_t r)
{
    if (coll == SHUNT_COLL_ALLGATHER || (coll == SHUNT_COLL_GATHER && r == root))
        return (int)r;
    return coll == SHUNT_COLL_SCATTER && r == root ? -1 - (int)r : 0;
}

/* The ranks whose data combine on rank r are 0 to this one. */
static inline uint32_t last_operand(unsigned coll, uint32_t n, uint32_t r)
{
    return coll == SHUNT_COLL_SCAN ? r : coll == SHUNT_COLL_EXSCAN ? r - 1 : n - 1;
}

/* Of a collective that moves: block b of what rank r gets, from everybody's send buffers. */
static inline const char *moved_block(unsigned coll, uint32_t root, uint32_t r, uint32_t b, char *const *in,
                                      uint64_t block)
{
    switch (coll) {
    case SHUNT_COLL_BCAST: return in[root];
    case SHUNT_COLL_SCATTER: return in[root] + r * block;
    case SHUNT_COLL_ALLTOALL: return in[b] + r * block;
    default: return in[b]; /* Gather, Allgather */
    }
}

#endif
