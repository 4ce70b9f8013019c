/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the scheduler of blocks (schedule.c) and their threads (block.c). */
#ifndef SHUNT_SIM_SCHEDULE_H
#define SHUNT_SIM_SCHEDULE_H

#include "sim/block.h"

/* A block ready to run; fails the kernel if there is no memory. End it when live is 0. */
struct sim_block *sim_block_start(struct sim_launch *launch, unsigned number, bool mean);
void sim_block_end(struct sim_launch *launch, struct sim_block *block);

/* Run the block until all its fibers have spun in vain, or have ended. */
void sim_block_resume(struct sim_launch *launch, struct sim_block *block);

/* Has an application's kernel all of the GPU? (hog.c) */
bool sim_gpu_taken(void);

/* Say on stderr with which seed to repeat the run. */
void sim_say_seed(void);

#endif
