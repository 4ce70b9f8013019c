/* SPDX-License-Identifier: BSD-3-Clause */
/* shunt's kernels as functions of the CPU: what libshunt-simkernels.so offers to the simulated driver. */
#ifndef SHUNT_SIM_KERNEL_H
#define SHUNT_SIM_KERNEL_H

#define SIM_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

struct sim_kernel {
    const char *name;
    /*
     * Run the whole grid on the calling thread; returns when all blocks have ended and all their writes are visible.
     * args[i] points to the value of argument i, which must stay as it is until then. May run in several threads at
     * once. A mistake of the kernel (misaligned access, barrier that not all threads reach) prints one line and aborts.
     */
    void (*run)(void *const *args, const unsigned grid[3], const unsigned block[3], unsigned dynamic_shared);
    const unsigned *arg_sizes; /* bytes of each argument, ended by 0 */
};

/* NULL if there is no such kernel. */
SIM_EXPORT const struct sim_kernel *sim_kernel_find(const char *name);

/* Every kernel, in no particular order: call with NULL first; NULL at the end. */
SIM_EXPORT const struct sim_kernel *sim_kernel_next(const struct sim_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif
