/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated runtime's own state: each thread's device and last error, and the primary contexts.
 */
#include "sim/cudart.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "sim/config.h"
#include "sim/errors.def"

static _Thread_local cudaError_t last;
static _Thread_local int device;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool retained[SIM_MAX_GPUS]; /* the primary context, by this library */

#define SIM_X(driver, runtime, words) \
    _Static_assert((int)CUDA_ERROR_##driver == (int)cudaError##runtime, "one error, two numbers");
SIM_ERRORS(SIM_X)
#undef SIM_X

cudaError_t sim_runtime_note(cudaError_t error)
{
    if (error && error != cudaErrorNotReady)
        last = error;
    return error;
}

/* Make the device's primary context current, again if it was reset meanwhile. */
static CUresult use(int wanted)
{
    CUcontext ctx;
    unsigned flags;
    int active;
    pthread_mutex_lock(&lock);
    CUresult result = cuDevicePrimaryCtxGetState(wanted, &flags, &active);
    bool keep = !result && active && retained[wanted];
    if (!result)
        result = cuDevicePrimaryCtxRetain(&ctx, wanted);
    if (!result && keep)
        cuDevicePrimaryCtxRelease(wanted); /* the retain was only to learn the context */
    if (!result)
        retained[wanted] = true;
    pthread_mutex_unlock(&lock);
    return result ? result : cuCtxSetCurrent(ctx);
}

cudaError_t sim_runtime_ready(void)
{
    CUcontext ctx;
    unsigned unused;
    CUresult result = cuInit(0);
    if (!result)
        result = cuCtxGetCurrent(&ctx);
    if (result)
        return sim_runtime_result(result);
    if (!ctx || cuCtxGetApiVersion(ctx, &unused) == CUDA_ERROR_INVALID_CONTEXT)
        result = use(device);
    return sim_runtime_result(result);
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    CUresult result = cuInit(0);
    if (count && result)
        *count = 0;
    return sim_runtime_result(result ? result : cuDeviceGetCount(count));
}

static CUresult check(int wanted)
{
    int count;
    CUresult result = cuInit(0);
    if (!result)
        result = cuDeviceGetCount(&count);
    return result || (wanted >= 0 && wanted < count) ? result : CUDA_ERROR_INVALID_DEVICE;
}

cudaError_t cudaSetDevice(int wanted)
{
    CUresult result = check(wanted);
    if (!result)
        result = use(wanted);
    if (!result)
        device = wanted;
    return sim_runtime_result(result);
}

cudaError_t cudaInitDevice(int wanted, unsigned device_flags, unsigned flags)
{
    (void)device_flags;
    if (flags > 1)
        return sim_runtime_note(cudaErrorInvalidValue);
    CUcontext ctx;
    CUresult result = check(wanted);
    if (!result)
        result = cuCtxGetCurrent(&ctx);
    if (!result)
        result = use(wanted);
    if (!result)
        result = cuCtxSetCurrent(ctx);
    return sim_runtime_result(result);
}

cudaError_t cudaGetDevice(int *wanted)
{
    CUcontext ctx;
    CUdevice current = device;
    CUresult result = cuInit(0);
    if (!result && wanted && !cuCtxGetCurrent(&ctx) && ctx)
        cuCtxGetDevice(&current);
    if (!result && wanted)
        *wanted = current;
    return sim_runtime_result(!result && !wanted ? CUDA_ERROR_INVALID_VALUE : result);
}

cudaError_t cudaDeviceReset(void)
{
    int current;
    cudaError_t error = cudaGetDevice(&current);
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    CUresult result = cuDevicePrimaryCtxReset(current);
    if (!result && retained[current])
        result = cuDevicePrimaryCtxRelease(current);
    retained[current] = false;
    pthread_mutex_unlock(&lock);
    return sim_runtime_result(result);
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    CUresult result = check(device);
    return sim_runtime_result(
        result ? result : cuDevicePrimaryCtxSetFlags(device, flags & CU_CTX_FLAGS_MASK));
}

cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
    int active;
    CUresult result = check(device);
    return sim_runtime_result(result ? result : cuDevicePrimaryCtxGetState(device, flags, &active));
}

static int attribute(int wanted, CUdevice_attribute which)
{
    int value = 0;
    cuDeviceGetAttribute(&value, which, wanted);
    return value;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int wanted)
{
    CUresult result = check(wanted);
    if (!result && !p)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return sim_runtime_result(result);
    memset(p, 0, sizeof *p);
    cuDeviceGetName(p->name, sizeof p->name, wanted);
    cuDeviceGetUuid((CUuuid *)&p->uuid, wanted);
    cuDeviceTotalMem(&p->totalGlobalMem, wanted);
    p->sharedMemPerBlock =
        (size_t)attribute(wanted, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    p->totalConstMem = (size_t)attribute(wanted, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    p->memPitch = (size_t)attribute(wanted, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    p->sharedMemPerMultiprocessor =
        (size_t)attribute(wanted, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    p->sharedMemPerBlockOptin =
        (size_t)attribute(wanted, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    p->reservedSharedMemPerBlock =
        (size_t)attribute(wanted, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
#define FIELD(field, name) p->field = attribute(wanted, CU_DEVICE_ATTRIBUTE_##name);
    FIELD(regsPerBlock, MAX_REGISTERS_PER_BLOCK)
    FIELD(warpSize, WARP_SIZE)
    FIELD(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)
    FIELD(maxThreadsDim[0], MAX_BLOCK_DIM_X)
    FIELD(maxThreadsDim[1], MAX_BLOCK_DIM_Y)
    FIELD(maxThreadsDim[2], MAX_BLOCK_DIM_Z)
    FIELD(maxGridSize[0], MAX_GRID_DIM_X)
    FIELD(maxGridSize[1], MAX_GRID_DIM_Y)
    FIELD(maxGridSize[2], MAX_GRID_DIM_Z)
    FIELD(major, COMPUTE_CAPABILITY_MAJOR)
    FIELD(minor, COMPUTE_CAPABILITY_MINOR)
    FIELD(multiProcessorCount, MULTIPROCESSOR_COUNT)
    FIELD(canMapHostMemory, CAN_MAP_HOST_MEMORY)
    FIELD(concurrentKernels, CONCURRENT_KERNELS)
    FIELD(ECCEnabled, ECC_ENABLED)
    FIELD(pciBusID, PCI_BUS_ID)
    FIELD(asyncEngineCount, ASYNC_ENGINE_COUNT)
    FIELD(unifiedAddressing, UNIFIED_ADDRESSING)
    FIELD(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH)
    FIELD(l2CacheSize, L2_CACHE_SIZE)
    FIELD(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR)
    FIELD(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED)
    FIELD(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR)
    FIELD(managedMemory, MANAGED_MEMORY)
    FIELD(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS)
    FIELD(cooperativeLaunch, COOPERATIVE_LAUNCH)
    FIELD(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR)
    FIELD(hostRegisterSupported, HOST_REGISTER_SUPPORTED)
    FIELD(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED)
#undef FIELD
    return cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidConfiguration:
        return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDeviceFunction:
        return "cudaErrorInvalidDeviceFunction";
    case cudaErrorInvalidPitchValue:
        return "cudaErrorInvalidPitchValue";
    case cudaErrorInvalidMemcpyDirection:
        return "cudaErrorInvalidMemcpyDirection";
#define SIM_X(driver, runtime, words) \
    case cudaError##runtime:          \
        return "cudaError" #runtime;
        SIM_ERRORS(SIM_X)
#undef SIM_X
    default:
        return "unrecognized error code";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction:
        return "invalid device function";
    case cudaErrorInvalidPitchValue:
        return "invalid pitch argument";
    case cudaErrorInvalidMemcpyDirection:
        return "invalid copy direction for memcpy";
    case cudaSuccess:
        return "no error";
#define SIM_X(driver, runtime, words) \
    case cudaError##runtime:          \
        return words;
        SIM_ERRORS(SIM_X)
#undef SIM_X
    default:
        return "unrecognized error code";
    }
}

/* ---- versions and the driver's entry points ---- */

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return sim_runtime_note(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    return sim_runtime_result(cuDriverGetVersion(version));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **entry, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found;
    CUresult result = cuGetProcAddress(name, entry, (int)version, flags, &found);
    if (status)
        *status = found == CU_GET_PROC_ADDRESS_SUCCESS ? cudaDriverEntryPointSuccess
                                                       : cudaDriverEntryPointSymbolNotFound;
    return sim_runtime_result(result == CUDA_ERROR_NOT_FOUND && status ? CUDA_SUCCESS : result);
}

SIM_RUNTIME_API cudaError_t cudaGetDriverEntryPoint(const char *name, void **entry,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(name, entry, CUDART_VERSION, flags, status);
}
