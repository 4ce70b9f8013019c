/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of CUDA that wait for all work of the GPU, or may; for one test program. */
#ifndef SHUNT_TEST_DRIVER_CALLS_H
#define SHUNT_TEST_DRIVER_CALLS_H

#include <stdio.h>
#include <stdlib.h>

#include "test/gpu.h"

typedef int driver_function();

static int driver_failures;

static inline void driver_answers(const char *name, int rc)
{
    if (rc != 0) {
        driver_failures++;
        printf("%s answers %d\n", name, rc);
    }
}

#define DRIVER(name, ...) driver_answers(#name, ((driver_function *)gpu_function(#name))(__VA_ARGS__))

/* The first kernel that the application loads; the simulated GPU knows it by this name. */
static inline void driver_load_kernel(void)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry shunt_ll_U32_SUM()\n{\n\tret;\n}\n";
    void *module = NULL, *function = NULL;

    DRIVER(cuModuleLoadData, &module, text);
    DRIVER(cuModuleGetFunction, &function, module, "shunt_ll_U32_SUM");
    DRIVER(cuFuncLoad, function);
    DRIVER(cuModuleUnload, module);
}

static inline void driver_use_stream(void)
{
    static char bytes[4096];
    void *stream = NULL, *memory = NULL;

    DRIVER(cudaMalloc, &memory, sizeof bytes);
    DRIVER(cudaStreamCreate, &stream);
    DRIVER(cudaMemcpyAsync, memory, bytes, sizeof bytes, 1, stream);
    DRIVER(cudaStreamDestroy, stream);
    DRIVER(cudaMemcpy, bytes, memory, sizeof bytes, 2);
    DRIVER(cudaFree, memory);
}

enum { DRIVER_CALLS = 7 };

/* Make some of them; answers how many have failed. */
static inline int driver_call(int which)
{
    void *memory = NULL;
    int before = driver_failures;

    switch (which) {
    case 0: DRIVER(cudaDeviceSynchronize); break;
    case 1:
    case 2:
        DRIVER(cudaMalloc, &memory, (size_t)1 << (which == 1 ? 20 : 30));
        DRIVER(cudaFree, memory);
        break;
    case 3:
        DRIVER(cudaMallocHost, &memory, (size_t)4096);
        DRIVER(cudaFreeHost, memory);
        break;
    case 4:
        memory = aligned_alloc(4096, 4096);
        DRIVER(cudaHostRegister, memory, (size_t)4096, 0);
        DRIVER(cudaHostUnregister, memory);
        free(memory);
        break;
    case 5: driver_use_stream(); break;
    default: driver_load_kernel(); break;
    }
    return driver_failures - before;
}

#endif
