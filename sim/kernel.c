/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of this library by name: each registers itself when the library is loaded. */
#include <string.h>

#include "sim/register.h"

static struct sim_registered *all;

void sim_kernel_register(struct sim_registered *kernel)
{
    kernel->next = all;
    all = kernel;
}

const struct sim_kernel *sim_kernel_find(const char *name)
{
    for (const struct sim_registered *k = all; k; k = k->next)
        if (strcmp(k->kernel.name, name) == 0)
            return &k->kernel;
    return NULL;
}

const struct sim_kernel *sim_kernel_next(const struct sim_kernel *kernel)
{
    /* The kernel is the first member of what is registered. */
    const struct sim_registered *next = kernel ? ((const struct sim_registered *)kernel)->next : all;
    return next ? &next->kernel : NULL;
}
