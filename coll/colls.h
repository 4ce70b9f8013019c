/* SPDX-License-Identifier: BSD-3-Clause */
/* What each collective is, from colls.def: the one table of who sends what and who receives it. */
#ifndef SHUNT_COLL_COLLS_H
#define SHUNT_COLL_COLLS_H

#include <stdbool.h>
#include <stdint.h>

/* Calls that are no collectives: always staged, and counted as such. */
#define SHUNT_OTHERS(X)                                                                            \
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

/* The calls that take device memory; collectives first. */
enum shunt_coll {
#define COLLECTIVE(ID, word, ...) SHUNT_COLL_##ID,
#include "coll/colls.def"
#undef COLLECTIVE
#define X(ID, word) SHUNT_COLL_##ID,
    SHUNT_OTHERS(X)
#undef X
    SHUNT_NCOLLS
};

/* On which ranks a buffer counts. */
enum shunt_who {
    SHUNT_WHO_NOBODY,
    SHUNT_WHO_ALL,
    SHUNT_WHO_TO_PEER,   /* who sends to a rank: not to MPI_PROC_NULL */
    SHUNT_WHO_FROM_PEER, /* who receives from one */
    SHUNT_WHO_ROOT,
    SHUNT_WHO_LEAVES, /* with whom the root exchanges data: itself too, unless in an inter-communicator */
    SHUNT_WHO_OTHERS, /* the same without the root */
    SHUNT_WHO_LATER,  /* all but rank 0 */
};

/* How many blocks it has: of an inter-communicator the opposite group is the remote one. */
enum shunt_blocks {
    SHUNT_BLOCKS_ONE,
    SHUNT_BLOCKS_OWN_GROUP,
    SHUNT_BLOCKS_OPPOSITE_GROUP,
    SHUNT_BLOCKS_SOURCES,
    SHUNT_BLOCKS_DESTINATIONS,
    SHUNT_BLOCKS_OWN_ROW, /* one, of the own group's */
};

/* What is read in place: as many elements as otherwise from the other buffer, or blocks of the receive side. */
enum shunt_in_place { SHUNT_IN_PLACE_AS_SENT, SHUNT_IN_PLACE_ITS_ROW, SHUNT_IN_PLACE_ITS_ROWS };

enum shunt_traits {
    SHUNT_TRAIT_COMBINES = 1,   /* its result is computed from its operands; else it moves them */
    SHUNT_TRAIT_PREFIX = 2,     /* of the ranks up to one's own */
    SHUNT_TRAIT_ONE_BUFFER = 4, /* which is the receive buffer on all ranks */
    SHUNT_TRAIT_TWO_TYPES = 8,  /* the receive side has a count and a type of its own */
    SHUNT_TRAIT_SEND_ROWS = 16, /* each block of the send side has a count, in an array */
    SHUNT_TRAIT_RECV_ROWS = 32,
};

struct shunt_side {
    enum shunt_who who;
    enum shunt_blocks blocks;
};

struct shunt_collective {
    struct shunt_side send, recv;
    enum shunt_in_place in_place;
    unsigned traits;
};

/* By enum shunt_coll; what is no collective has nobody who sends or receives. */
extern const struct shunt_collective shunt_collectives[SHUNT_NCOLLS];

const char *shunt_coll_name(unsigned coll);

/* Among ranks of one group: does rank `me` get anything; from rank `q`; how many blocks has its receive buffer? */
bool shunt_coll_receives(unsigned coll, int me, int root);
bool shunt_coll_sends(unsigned coll, int q, int me, int root);
uint64_t shunt_coll_blocks(unsigned coll, int n, int me, int root);

/* Has it a root; does everybody send to all, and hear from all? */
bool shunt_coll_rooted(unsigned coll);
bool shunt_coll_mutual(unsigned coll);

static inline bool shunt_coll_has(unsigned coll, unsigned traits)
{
    return (shunt_collectives[coll].traits & traits) != 0;
}

#endif
