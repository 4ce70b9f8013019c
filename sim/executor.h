/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of shunt-sim-executor: answering requests (executor.c), doing the work of streams
 * (worker.c), and knowing whose memory is whose (foreign.c).
 */
#ifndef SHUNT_SIM_EXECUTOR_H
#define SHUNT_SIM_EXECUTOR_H

#include "sim/kernel.h"
#include "sim/queue.h"

/* NULL if libshunt-simkernels.so is absent or does not have it. */
const struct sim_kernel *sim_executor_kernel(const char *name);

/* Start the thread that works off queue `index`; 0, or an errno. */
int sim_worker_start(struct sim_shared *shared, unsigned index);

/* Device memory of another process (its executor's pid), mapped here; 0: the address is in none. */
void sim_foreign_add(uint64_t address, uint64_t bytes, int pid);
void sim_foreign_remove(uint64_t address);
int sim_foreign_owner(uint64_t address);

/*
 * The process cannot go on: leave `error` (a CUresult) for the application, wake whoever waits, and
 * end.
 */
_Noreturn void sim_executor_die(int error);

#endif
