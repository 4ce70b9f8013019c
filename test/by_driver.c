/* SPDX-License-Identifier: BSD-3-Clause */
/* What gpu.c needs of CUDA's runtime, by the driver alone; by_driver.h. */
#include "test/by_driver.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { NO_SUCH_FUNCTION = 999 };

static void *library;
static _Thread_local int current;

/* The driver's function of that name, with these parameters. */
#define DRIVER(name, parameters) ((int (*) parameters)(uintptr_t)dlsym(library, name))

static int set_device(int device)
{
    void *context;
    int rc = DRIVER("cuInit", (unsigned))(0);

    if (rc == 0)
        rc = DRIVER("cuDevicePrimaryCtxRetain", (void **, int))(&context, device);
    if (rc == 0)
        rc = DRIVER("cuCtxSetCurrent", (void *))(context);
    if (rc == 0)
        current = device;
    return rc;
}

static int get_device(int *device)
{
    *device = current;
    return 0;
}

static int count_devices(int *count)
{
    int rc = DRIVER("cuInit", (unsigned))(0);

    return rc == 0 ? DRIVER("cuDeviceGetCount", (int *))(count) : rc;
}

static int allocate(void **memory, size_t bytes)
{
    return DRIVER("cuMemAlloc_v2", (void **, size_t))(memory, bytes ? bytes : 1);
}

static int allocate_managed(void **memory, size_t bytes, unsigned flags)
{
    return DRIVER("cuMemAllocManaged", (void **, size_t, unsigned))(memory, bytes ? bytes : 1, flags);
}

static int allocate_host(void **memory, size_t bytes)
{
    return DRIVER("cuMemAllocHost_v2", (void **, size_t))(memory, bytes ? bytes : 1);
}

static int free_memory(void *memory)
{
    return memory ? DRIVER("cuMemFree_v2", (void *))(memory) : 0;
}

static int free_host(void *memory)
{
    return DRIVER("cuMemFreeHost", (void *))(memory);
}

static int copy(void *to, const void *from, size_t bytes, int direction)
{
    (void)direction;
    return DRIVER("cuMemcpy", (void *, const void *, size_t))(to, from, bytes);
}

static int synchronize(void)
{
    return DRIVER("cuCtxSynchronize", (void))();
}

static int memory_left(size_t *available, size_t *total)
{
    return DRIVER("cuMemGetInfo_v2", (size_t *, size_t *))(available, total);
}

/* The driver keeps none. */
static int last_error(void)
{
    return 0;
}

static int no_such_function(void)
{
    return NO_SUCH_FUNCTION;
}

void *by_driver_find(void *driver, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"cudaSetDevice", (void *)set_device},
        {"cudaGetDevice", (void *)get_device},
        {"cudaGetDeviceCount", (void *)count_devices},
        {"cudaMalloc", (void *)allocate},
        {"cudaMallocManaged", (void *)allocate_managed},
        {"cudaMallocHost", (void *)allocate_host},
        {"cudaFree", (void *)free_memory},
        {"cudaFreeHost", (void *)free_host},
        {"cudaMemcpy", (void *)copy},
        {"cudaDeviceSynchronize", (void *)synchronize},
        {"cudaMemGetInfo", (void *)memory_left},
        {"cudaPeekAtLastError", (void *)last_error},
        {"cudaGetLastError", (void *)last_error},
    };

    library = driver;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].function;
    return (void *)no_such_function;
}
