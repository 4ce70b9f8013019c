/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks of a communicator have to do alike, and find out by a step on its board in which nothing runs. */
#ifndef SHUNT_COLL_AGREE_H
#define SHUNT_COLL_AGREE_H

#include "coll/run.h"

/*
 * Ask all ranks of a board whether an operation that will be begun many times can run on the GPUs; they meet there, and offer
 * and open their buffers. Waits for all of them to ask, as a blocking call does. Takes the step on the board, whatever becomes
 * of it. NONE: each can begin it, and *sequence is the number of the step, the same on all. Else on no rank it can.
 */
enum shunt_reason shunt_coll_agree(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                   const struct shunt_progress *progress, uint64_t *sequence);

/*
 * Ask all ranks whether they stage this operation in parts of `each` elements, of which the host sees each as a collective of its
 * own. Waits for all of them, and takes the step, likewise. NONE: all do. Else on no rank may it be done.
 */
enum shunt_reason shunt_coll_agree_parts(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                         uint64_t each, const struct shunt_progress *progress);

#endif
