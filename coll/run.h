/* SPDX-License-Identifier: BSD-3-Clause */
/* From a task to its end on the GPUs: prepare, arrive on the board, obey the decision, launch, wait. */
#ifndef SHUNT_COLL_RUN_H
#define SHUNT_COLL_RUN_H

#include "base/board.h"
#include "coll/task.h"

struct shunt_outcome {
    unsigned algo;            /* enum shunt_algo_name, of SHUNT_OK */
    enum shunt_reason reason; /* of SHUNT_PASS */
    bool lingered;            /* of SHUNT_OK: done without a launch */
    bool hosted;              /* of SHUNT_OK: some of it went by host memory */
};

/*
 * Run `task` on the GPUs together with the board's other members.
 *
 * SHUNT_OK: done, the result is visible to every stream. SHUNT_PASS: not run; this rank's counter on the board has
 * advanced all the same; stage, outcome->reason says why. SHUNT_ERR_*: failed after the point of no return: an MPI
 * error. board may be NULL (SHUNT_PASS). `progress` is poked while waiting.
 */
enum shunt_status shunt_coll_run(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                 const struct shunt_progress *progress, struct shunt_outcome *outcome);

/*
 * Close what is open here of the peers' user memory, unless an operation of this process is under way. Answers how many
 * blocks are still open.
 */
int shunt_coll_flush(void);

/* Close what peers have declared dead, open what they offer, if nothing of this process is under way. */
void shunt_coll_tidy(struct shunt_arena *arena);

/*
 * What these processes know of themselves as a machine, once they have met: the hash of their node (0: not known) and of the
 * group, and the farthest link of all pairs: "NV18", "PIX", "SHM" for host memory. False: they have not met, or no memory.
 */
struct shunt_topology {
    uint64_t machine, group;
    char farthest[16];
};
bool shunt_select_topology(struct shunt_arena *arena, const int *slots, int n, struct shunt_topology *topology);

/* Check the settings that name algorithms, once, at start: says what is refused and what is allowed. */
void shunt_select_start(void);

#endif
