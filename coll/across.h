/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sum, over nodes, of a vector in host memory, of which each node has one: its counterparts exchange it over the network.
 * Small: everybody sends all to all. Large: slice j goes to node j, which adds, and sends the sum to all. Nodes are added in their order.
 */
#ifndef SHUNT_COLL_ACROSS_H
#define SHUNT_COLL_ACROSS_H

#include "cuda/types.h"
#include "ucx/net.h"

#define SHUNT_ACROSS_NODES 1024 /* at most */

enum shunt_across_state { SHUNT_ACROSS_IDLE, SHUNT_ACROSS_GATHERS, SHUNT_ACROSS_SPREADS, SHUNT_ACROSS_DONE, SHUNT_ACROSS_FAILED };

/* One under way; zeroed before it is first used. */
struct shunt_across {
    enum shunt_across_state state;
    int n, me;        /* nodes, and this one */
    const int *peers; /* the counterpart's world rank of each node: the caller's */
    enum shunt_type type;
    enum shunt_op op;
    struct shunt_net_tag tag;
    char *data; /* the caller's: this node's vector, and then the sum */
    uint64_t count;
    bool whole;
    char *in;                     /* what the others have sent; owned */
    size_t in_bytes;
    struct shunt_net_part *parts; /* 4 for each node; owned */
};

/* Begin. False: no memory, and nothing has been begun. No two with the same tag, the last 16 bits of which are ours. */
bool shunt_across_begin(struct shunt_across *across, char *data, uint64_t count, struct shunt_net_tag tag);

/* Look once, and do what is to be done next. */
enum shunt_across_state shunt_across_advance(struct shunt_across *across);

/* Give back what is owned; what UCX may still look at is left where it is. */
void shunt_across_drop(struct shunt_across *across);

#endif
