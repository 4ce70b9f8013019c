/* SPDX-License-Identifier: BSD-3-Clause */
/* How a kernel gets into the list that sim_kernel_find searches: GPU_KERNEL in gpu.cuh makes one of these. */
#ifndef SHUNT_SIM_REGISTER_H
#define SHUNT_SIM_REGISTER_H

#include "sim/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sim_registered {
    struct sim_kernel kernel;
    struct sim_registered *next;
};

/* Not thread-safe: for static constructors. `kernel` stays for the life of the library. */
void sim_kernel_register(struct sim_registered *kernel);

#ifdef __cplusplus
}
#endif
#endif
