/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs compiled by nvcc do besides calling the runtime: they register their kernels and
 * launch them. A kernel of which there is no version for the CPU cannot be launched; since many
 * programs look at no error, and would go on with wrong numbers, such a launch ends the program.
 */
#include "sim/cudart.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOREIGN_KERNEL_EXIT = 97 };

/* A kernel of the program: the address of its stub on the host is how the program names it */
struct kernel {
    const void *host;
    char *name;
    CUkernel driver; /* once it has been launched or asked about */
    struct kernel *next;
};

static struct kernel *kernels;
static CUlibrary library;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct kernel *find(const void *host)
{
    struct kernel *k = kernels;
    while (k && k->host != host)
        k = k->next;
    return k;
}

static _Noreturn void end_program(const char *name)
{
    fflush(NULL);
    fprintf(stderr,
            "shunt-sim: the program launches its own GPU kernel %s, which the simulated GPU cannot "
            "run\n",
            name);
    _exit(FOREIGN_KERNEL_EXIT);
}

/* With the lock held. Whether there is such a kernel, by its name */
static CUresult resolve(struct kernel *k)
{
    CUresult result = CUDA_SUCCESS;
    if (k->driver)
        return result;
    if (!library)
        result = cuLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0);
    return result ? result : cuLibraryGetKernel(&k->driver, library, k->name);
}

static cudaError_t launch(struct kernel *k, struct dim3 grid, struct dim3 block, void **args,
                          size_t shared, cudaStream_t stream)
{
    cudaError_t error = sim_runtime_ready();
    if (error)
        return error;
    if (!k)
        return sim_runtime_note(cudaErrorInvalidDeviceFunction);
    pthread_mutex_lock(&lock);
    CUresult result = resolve(k);
    pthread_mutex_unlock(&lock);
    if (result == CUDA_ERROR_NOT_FOUND)
        end_program(k->name);
    if (!result)
        result = cuLaunchKernel((CUfunction)k->driver, grid.x, grid.y, grid.z, block.x, block.y,
                                block.z, (unsigned)shared, stream, args, NULL);
    return sim_runtime_result(result);
}

/* ---- launches ---- */

static _Thread_local struct {
    struct dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configuration;

SIM_RUNTIME_API unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block,
                                                     size_t shared, cudaStream_t stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return 0;
}

SIM_RUNTIME_API cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block,
                                                       size_t *shared, void *stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    memcpy(stream, &configuration.stream, sizeof configuration.stream);
    return cudaSuccess;
}

SIM_RUNTIME_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    pthread_mutex_lock(&lock);
    struct kernel *k = find(host);
    pthread_mutex_unlock(&lock);
    *kernel = (cudaKernel_t)k;
    return k ? cudaSuccess : sim_runtime_note(cudaErrorInvalidDeviceFunction);
}

SIM_RUNTIME_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid,
                                               struct dim3 block, void **args, size_t shared,
                                               cudaStream_t stream)
{
    return launch((struct kernel *)kernel, grid, block, args, shared, stream);
}

SIM_RUNTIME_API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, struct dim3 grid,
                                                    struct dim3 block, void **args, size_t shared,
                                                    cudaStream_t stream)
{
    return launch((struct kernel *)kernel, grid, block, args, shared,
                  stream ? stream : cudaStreamPerThread);
}

cudaError_t cudaLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **args,
                             size_t shared, cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    struct kernel *k = find(host);
    pthread_mutex_unlock(&lock);
    return launch(k, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *host, void **args)
{
    return c ? cudaLaunchKernel(host, c->gridDim, c->blockDim, args, c->dynamicSmemBytes, c->stream)
             : sim_runtime_note(cudaErrorInvalidValue);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *host)
{
    cudaError_t error = sim_runtime_ready();
    pthread_mutex_lock(&lock);
    struct kernel *k = find(host);
    pthread_mutex_unlock(&lock);
    if (!error && !k)
        error = sim_runtime_note(cudaErrorInvalidDeviceFunction);
    if (error)
        return error;
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = 48 << 10;
    return cudaSuccess;
}

/* ---- registration ---- */

SIM_RUNTIME_API void **__cudaRegisterFatBinary(void *image)
{
    void **handle = malloc(sizeof *handle);
    if (handle)
        *handle = image;
    return handle;
}

SIM_RUNTIME_API void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

SIM_RUNTIME_API void __cudaUnregisterFatBinary(void **handle)
{
    free(handle);
}

SIM_RUNTIME_API char __cudaInitModule(void **handle)
{
    (void)handle;
    return 0;
}

SIM_RUNTIME_API void __cudaRegisterFunction(void **handle, const char *host, char *device,
                                            const char *name, int limit, void *tid, void *bid,
                                            void *block, void *grid, int *warp)
{
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid,
        (void)warp;
    struct kernel *k = calloc(1, sizeof *k);
    if (!k || !(k->name = strdup(name))) {
        free(k);
        return;
    }
    k->host = host;
    pthread_mutex_lock(&lock);
    k->next = kernels;
    kernels = k;
    pthread_mutex_unlock(&lock);
}

SIM_RUNTIME_API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
                                       int external, size_t bytes, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)bytes, (void)constant,
        (void)global;
}

SIM_RUNTIME_API void __cudaRegisterManagedVar(void **handle, void **host, char *device,
                                              const char *name, int external, size_t bytes,
                                              int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)bytes, (void)constant,
        (void)global;
}
