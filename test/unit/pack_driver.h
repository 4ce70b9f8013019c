/* SPDX-License-Identifier: BSD-3-Clause */
/* A driver whose streams do everything at once, for the test of packing; kernels are those of the simulation. */
#ifndef SHUNT_TEST_UNIT_PACK_DRIVER_H
#define SHUNT_TEST_UNIT_PACK_DRIVER_H

#include <string.h>

#include "cuda/driver.h"
#include "sim/kernel.h"

static unsigned launches;
static const struct sim_kernel *kernels[2]; /* pack, unpack */

static CUresult find_function(CUfunction *function, CUmodule module, const char *name)
{
    (void)module;
    *function = (CUfunction)kernels[strcmp(name, "shunt_pack") != 0];
    return CUDA_SUCCESS;
}

static CUresult run_kernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                           unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    (void)stream;
    (void)extra;
    launches++;
    ((const struct sim_kernel *)function)
        ->run(params, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz }, shared);
    return CUDA_SUCCESS;
}

static CUresult occupy(int *blocks, CUfunction function, int threads, size_t shared)
{
    (void)function;
    (void)threads;
    (void)shared;
    *blocks = 1;
    return CUDA_SUCCESS;
}

static CUresult find_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute;
    (void)device;
    *value = 2; /* small grids: threads have several rounds */
    return CUDA_SUCCESS;
}

static CUresult load_module(CUmodule *module, const void *image)
{
    (void)image;
    *module = (CUmodule)module;
    return CUDA_SUCCESS;
}

static CUresult find_device(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult create_event(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)event;
    return CUDA_SUCCESS;
}

static CUresult accept_event(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

static CUresult find_priorities(int *low, int *high)
{
    *low = *high = 0;
    return CUDA_SUCCESS;
}

static CUresult create_stream(CUstream *stream, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    *stream = (CUstream)stream;
    return CUDA_SUCCESS;
}

static CUresult record_event(CUevent event, CUstream stream)
{
    (void)event;
    (void)stream;
    return CUDA_SUCCESS;
}

static CUresult accept_stream(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static CUresult unload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

#endif
