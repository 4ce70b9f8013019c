/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of device algorithms. */
#include "coll/algo.h"
#include "coll/colls.h"

const struct shunt_algo shunt_algos[SHUNT_NALGOS] = {
#define ALGO(COLL, coll, name, words)                                                              \
    [SHUNT_ALGO_##COLL##_##name] = { SHUNT_COLL_##COLL, SHUNT_NAME_##name, #name, words, shunt_plan_##coll##_##name },
#include "coll/algos.def"
#undef ALGO
};
