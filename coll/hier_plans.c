/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that run over several nodes. All ranks of a node write the same NODE steps on the same side of the turn. */
#include "coll/hier_inner.h"

const struct hier_plan hier_plans[SHUNT_NCOLLS] = {
    [SHUNT_COLL_ALLREDUCE] = { hier_write_allreduce, .slices = true },
    [SHUNT_COLL_BCAST] = { hier_write_bcast, .slices = true },
    [SHUNT_COLL_REDUCE] = { hier_write_reduce, .slices = true, .device = true },
    [SHUNT_COLL_ALLGATHER] = { hier_write_allgather, .pairs = true },
    [SHUNT_COLL_REDUCE_SCATTER_BLOCK] = { hier_write_reduce_scatter, .device = true },
    [SHUNT_COLL_REDUCE_SCATTER] = { hier_write_reduce_scatter, .device = true },
    [SHUNT_COLL_ALLTOALL] = { hier_write_pairs, .pairs = true },
    [SHUNT_COLL_GATHER] = { hier_write_pairs, .pairs = true },
    [SHUNT_COLL_SCATTER] = { hier_write_pairs, .pairs = true },
};
