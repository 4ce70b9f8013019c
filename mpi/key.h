/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of communicators: 128-bit hashes that every member computes alike from what it knows, without a message.
 *
 * A collective creation call on a parent is named by the parent's key, the kind of call and how many calls of that kind
 * the parent has seen: all ranks of the parent make these calls in the same order. Calls in which only the new members
 * take part (Comm_create_group, Intercomm_create, ..._from_group(s)) are counted per what they all know: kind, parent,
 * members, tag or string.
 *
 * One case is beyond that: two threads that make inter-communicators of the same two groups with the same tag at the
 * same time, told apart by the peer communicator alone, which only the leaders know. They may be taken for each other.
 */
#ifndef SHUNT_MPI_KEY_H
#define SHUNT_MPI_KEY_H

#include <stdint.h>

#include "base/board.h"

enum shunt_kind {
    SHUNT_KIND_ROOT, /* MPI_COMM_WORLD, MPI_COMM_SELF */
    SHUNT_KIND_DUP,
    SHUNT_KIND_IDUP,
    SHUNT_KIND_SPLIT,
    SHUNT_KIND_SPLIT_TYPE,
    SHUNT_KIND_CREATE,
    SHUNT_KIND_CREATE_GROUP,
    SHUNT_KIND_INTER_CREATE,
    SHUNT_KIND_INTER_MERGE,
    SHUNT_KIND_CART,
    SHUNT_KIND_CART_SUB,
    SHUNT_KIND_GRAPH,
    SHUNT_KIND_DIST_GRAPH,
    SHUNT_KIND_FROM_GROUP,
    SHUNT_KIND_PERSISTENT, /* no communicator: the board of a persistent operation */
    SHUNT_KIND_DYNAMIC, /* spawn, accept, connect, join: members of other worlds, no key */
    SHUNT_NKINDS
};

/* What a communicator comes from. */
struct shunt_origin {
    enum shunt_kind kind;
    struct shunt_key parent; /* zero where the members do not share a parent */
    uint32_t count;          /* of the parent's earlier calls of this kind; 0 where counted per group */
    int tag;
    const char *string; /* may be NULL */
};

/* Is this kind counted per group instead of per parent? */
bool shunt_kind_by_group(enum shunt_kind kind);

/*
 * The key of the communicator of `origin` with these world ranks, in order; n2 > 0: an inter-communicator of two groups,
 * which both sides may give in either order. Calls counted per group are counted here.
 */
struct shunt_key shunt_key_make(const struct shunt_origin *origin, const int *ranks, int n, const int *ranks2, int n2);

/* Forget the counts per group: at the end of MPI. */
void shunt_key_reset(void);

#endif
