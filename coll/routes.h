/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine means to a group of ranks: the rings around them, and from which size on they are the better way. */
#ifndef SHUNT_COLL_ROUTES_H
#define SHUNT_COLL_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/board.h"
#include "base/plan.h"
#include "topo/graph.h"

struct shunt_routes {
    uint64_t hash; /* of what the ranks' GPUs are and how they are joined */
    uint32_t ways; /* rings of different orders */
    uint8_t order[SHUNT_PLAN_WAYS][SHUNT_PLAN_RANKS]; /* [way]: the ranks */
    bool hosted;   /* some hop of a ring goes by host memory */
    uint64_t ring_from[2]; /* [0]: Allreduce; [1]: block size of Allgather and Reduce_scatter; UINT64_MAX: no size */
};

/* As many rings of them as a verdict has room for; and rank number k of a ring in it. */
void shunt_routes_put(const struct shunt_routes *routes, int n, struct shunt_verdict *verdict);
uint8_t shunt_routes_rank(const struct shunt_verdict *verdict, uint32_t n, uint32_t way, uint32_t k);

/* Equal where GPUs and what is between them are, in this order; as it would be with peer access wherever the driver allows it. */
uint64_t shunt_routes_hash(const struct shunt_topo *machine);

/* Of the GPUs of a machine, GPU r that of rank r. Pure. */
void shunt_routes_make(const struct shunt_topo *machine, const struct shunt_topo_limits *limits,
                       struct shunt_routes *routes);

#endif
