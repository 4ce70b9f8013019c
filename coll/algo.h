/* SPDX-License-Identifier: BSD-3-Clause */
/* The device algorithms, from algos.def, and what they need to write a plan. */
#ifndef SHUNT_COLL_ALGO_H
#define SHUNT_COLL_ALGO_H

#include "base/algos.h"
#include "base/plan.h"

enum shunt_algo_id {
#define ALGO(COLL, coll, name, words) SHUNT_ALGO_##COLL##_##name,
#include "coll/algos.def"
#undef ALGO
    SHUNT_NALGOS
};

/* What all ranks know alike when a plan is written: from the posts and the verdict. */
struct shunt_shape {
    uint32_t n;
    uint32_t flags;  /* SHUNT_PLAN_* */
    uint32_t blocks; /* at most SHUNT_PLAN_BLOCKS */
    uint32_t chunk;  /* bytes, a multiple of 16 */
    uint32_t depth;
    uint32_t root;
    uint64_t bytes; /* of a rank's contribution: the vector, or a block of collectives that have one for each rank */
    uint32_t ways;  /* rings to use side by side; 0: one, in the order of ranks */
    const uint8_t (*order)[SHUNT_PLAN_RANKS]; /* [way]: the ranks as they come in the ring */
    const struct shunt_spans *spans; /* of this rank's blocks, if they differ; else NULL */
};

/* Writes rank `me`'s plan; pure, total for n from 2 to SHUNT_PLAN_RANKS. */
typedef void (*shunt_plan_writer)(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan);

#define ALGO(COLL, coll, name, words)                                                              \
    void shunt_plan_##coll##_##name(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan);
#include "coll/algos.def"
#undef ALGO

struct shunt_algo {
    unsigned coll;   /* enum shunt_coll */
    unsigned number; /* enum shunt_algo_name */
    const char *name, *words;
    shunt_plan_writer write;
};

extern const struct shunt_algo shunt_algos[SHUNT_NALGOS];

#endif
