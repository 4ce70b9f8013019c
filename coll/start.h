/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that go on after the call that began them. What can fail is done and this rank arrives as in a blocking call;
 * from then on helper.c launches what is decided and finds its end, while the application computes.
 */
#ifndef SHUNT_COLL_START_H
#define SHUNT_COLL_START_H

#include "coll/run.h"

struct shunt_start; /* an operation in which this rank has arrived */

/*
 * Begin `task`. Never waits for a peer. SHUNT_OK: begun, to be ended by shunt_start_end. SHUNT_PASS: not begun; this rank's
 * counter on the board has advanced all the same; *reason says why.
 *
 * An operation whose ranks have not all met on the GPUs yet is begun, and waits for that before it arrives: what can fail is
 * done by then. Until then no later step may be taken on its board but by shunt_coll_start, see shunt_starts_pass.
 */
enum shunt_status shunt_coll_start(struct shunt_arena *arena, struct shunt_board *board, const struct shunt_task *task,
                                   struct shunt_start **start_p, enum shunt_reason *reason);

enum shunt_start_state {
    SHUNT_START_UNDECIDED,
    SHUNT_START_RUNS,
    SHUNT_START_STAGED, /* the GPUs have not and will not run it */
    SHUNT_START_DONE,
};

/* Look once; in the thread that has begun it this drives what is decided, too. Never waits for a thread that is in the driver. */
enum shunt_start_state shunt_start_look(struct shunt_start *start);

/* Do such operations wait on this board, of whose ranks some have not met? And stage them: their steps are taken, in order. */
bool shunt_starts_meet(const struct shunt_board *board);
void shunt_starts_pass(const struct shunt_board *board);

/* For the helper: look whether the ranks of any have met. False: none waits for that. */
bool shunt_starts_look(void);

/* After shunt_drive_close, for the same: the helper does not look any more. */
void shunt_starts_close(void);

/* Stage it, if it is still undecided. */
void shunt_start_veto(struct shunt_start *start);

/* Where its ranks have met. */
const struct shunt_board *shunt_start_board(const struct shunt_start *start);

/* Of one that is DONE (its status) or STAGED (SHUNT_PASS): the answer, as of shunt_coll_run. Gives the operation back. */
enum shunt_status shunt_start_end(struct shunt_start *start, struct shunt_outcome *outcome);

/* Why nothing on this board can be begun by this process. */
enum shunt_reason shunt_start_trouble(const struct shunt_arena *arena, const struct shunt_board *board);

#endif
