/* SPDX-License-Identifier: BSD-3-Clause */
/* Meeting the members of a communicator before an operation: each opens the others' memory, and links are proven. */
#ifndef SHUNT_COLL_MEET_H
#define SHUNT_COLL_MEET_H

#include "coll/drive.h"

/* Seconds that there are for members that neither publish nor pass: a net, as on the board. */
#define SHUNT_PATIENCE 30

/*
 * One look at all members, whose `slots` are by rank. NONE: all have met. NOT_MET: look again, unless *missing, one of those that
 * have not, has ended, or nothing is heard of it for SHUNT_PATIENCE. Else why this operation will not run on the GPUs.
 */
enum shunt_reason shunt_meet_look(struct shunt_arena *arena, const struct shunt_board *board, const int *slots, int *missing);

/* The same until all have met. Never NOT_MET. */
enum shunt_reason shunt_meet_wait(struct shunt_waiter *w, const int *slots);

#endif
