/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions (module.c) and how a launch of one becomes a command (launch.c), for streams and graphs
 * alike.
 */
#ifndef SHUNT_SIM_LAUNCH_H
#define SHUNT_SIM_LAUNCH_H

#include "sim/driver.h"

enum { SIM_FUNCTION_MAGIC = 0x66756e63, SIM_KERNEL_MAGIC = 0x6b65726e };

struct CUfunc_st {
    uint32_t magic;
    CUcontext ctx;
    unsigned long long ctx_id;
    CUmodule module; /* NULL if it comes from a library */
    char *name;
    uint64_t kernel;    /* address in the executor */
    bool loaded;        /* as hardware loads code: at the first launch, if nobody asked before */
    int dynamic_shared; /* the most that a launch may ask for, bytes */
    uint32_t arg_sizes[SIM_MAX_ARGS + 1];
    struct CUfunc_st *next;
};

/* A command with its arguments behind it */
struct sim_launch {
    struct sim_cmd cmd;
    unsigned char args[SIM_MAX_ARG_BYTES];
};

/* The function that a handle of a program means: a CUfunction, or a CUkernel passed for one */
CUresult sim_function_of(CUfunction handle, struct CUfunc_st **function);

/* A new function of that name in the context */
CUresult sim_function_new(CUcontext ctx, const char *name, struct CUfunc_st **function);

CUresult sim_launch_build(const struct CUfunc_st *f, const unsigned grid[3],
                          const unsigned block[3], unsigned shared, void **params, void **extra,
                          struct sim_launch *launch);

/* Load the code: waits for all work of the context, as on hardware. */
CUresult sim_function_load(struct CUfunc_st *f);

#endif
