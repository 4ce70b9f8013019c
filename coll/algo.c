/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of device algorithms. */
#include "coll/algo.h"
#include "coll/task.h"

const struct shunt_algo shunt_algos[SHUNT_NALGOS] = {
#define ALGO(COLL, coll, name, words)                                                              \
    [SHUNT_ALGO_##COLL##_##name] = { SHUNT_COLL_##COLL, SHUNT_NAME_##name, #name, words, shunt_plan_##coll##_##name },
#include "coll/algos.def"
#undef ALGO
};

const char *shunt_coll_name(unsigned coll)
{
    static const char *const names[] = {
#define X(id, word) [SHUNT_COLL_##id] = #word,
        SHUNT_COLLS(X)
#undef X
    };
    return coll < SHUNT_NCOLLS ? names[coll] : "?";
}

bool shunt_coll_receives(unsigned coll, int me, int root)
{
    switch (coll) {
    case SHUNT_COLL_BCAST: return me != root;
    case SHUNT_COLL_REDUCE:
    case SHUNT_COLL_GATHER: return me == root;
    case SHUNT_COLL_EXSCAN: return me > 0;
    default: return true;
    }
}

bool shunt_coll_sends(unsigned coll, int q, int me, int root)
{
    bool from_root = coll == SHUNT_COLL_BCAST || coll == SHUNT_COLL_SCATTER;

    return q != me && shunt_coll_receives(coll, me, root) && (!from_root || q == root);
}

uint64_t shunt_coll_blocks(unsigned coll, int n, int me, int root)
{
    bool many = coll == SHUNT_COLL_ALLGATHER || coll == SHUNT_COLL_ALLTOALL || (coll == SHUNT_COLL_GATHER && me == root);

    return many ? (uint64_t)n : 1;
}
