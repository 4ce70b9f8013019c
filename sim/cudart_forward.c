/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runtime calls that are a driver call under another name, one line each.
 */
#include "sim/cudart.h"

#include <string.h>

#define PTR(p) ((CUdeviceptr)(p))

/* Makes sure of a context, does the driver call, keeps the error. */
#define FORWARD(name, parameters, call)                  \
    cudaError_t name parameters                          \
    {                                                    \
        cudaError_t error = sim_runtime_ready();         \
        return error ? error : sim_runtime_result(call); \
    }

/* ---- memory ---- */

/* No bytes are no error here, and no memory */
static CUresult allocate(void **p, size_t bytes)
{
    if (p && !bytes) {
        *p = NULL;
        return CUDA_SUCCESS;
    }
    return cuMemAlloc((CUdeviceptr *)p, bytes);
}

FORWARD(cudaMalloc, (void **p, size_t bytes), allocate(p, bytes))
FORWARD(cudaMallocPitch, (void **p, size_t *pitch, size_t width, size_t height),
        cuMemAllocPitch((CUdeviceptr *)p, pitch, width, height, 4))
FORWARD(cudaFree, (void *p), cuMemFree(PTR(p)))
FORWARD(cudaMallocManaged, (void **p, size_t bytes, unsigned flags),
        cuMemAllocManaged((CUdeviceptr *)p, bytes, flags))
FORWARD(cudaMallocHost, (void **p, size_t bytes), cuMemHostAlloc(p, bytes, 0))
FORWARD(cudaHostAlloc, (void **p, size_t bytes, unsigned flags), cuMemHostAlloc(p, bytes, flags))
FORWARD(cudaFreeHost, (void *p), p ? cuMemFreeHost(p) : CUDA_SUCCESS)
FORWARD(cudaHostRegister, (void *p, size_t bytes, unsigned flags),
        cuMemHostRegister(p, bytes, flags))
FORWARD(cudaHostUnregister, (void *p), cuMemHostUnregister(p))
FORWARD(cudaHostGetDevicePointer, (void **device, void *p, unsigned flags),
        cuMemHostGetDevicePointer((CUdeviceptr *)device, p, flags))
FORWARD(cudaHostGetFlags, (unsigned *flags, void *p), cuMemHostGetFlags(flags, p))
FORWARD(cudaMemGetInfo, (size_t * unused, size_t *total), cuMemGetInfo(unused, total))
FORWARD(cudaMemPrefetchAsync,
        (const void *p, size_t bytes, struct cudaMemLocation to, unsigned flags,
         cudaStream_t stream),
        cuMemPrefetchAsync(PTR(p), bytes,
                           (CUmemLocation){.type = (CUmemLocationType)to.type, .id = to.id}, flags,
                           stream))
FORWARD(cudaMemAdvise,
        (const void *p, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation at),
        cuMemAdvise(PTR(p), bytes, (CUmem_advise)advice,
                    (CUmemLocation){.type = (CUmemLocationType)at.type, .id = at.id}))
FORWARD(cudaMallocAsync, (void **p, size_t bytes, cudaStream_t stream),
        cuMemAllocAsync((CUdeviceptr *)p, bytes, stream))
FORWARD(cudaMallocFromPoolAsync, (void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
        cuMemAllocFromPoolAsync((CUdeviceptr *)p, bytes, pool, stream))
FORWARD(cudaFreeAsync, (void *p, cudaStream_t stream), cuMemFreeAsync(PTR(p), stream))
FORWARD(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
        cuDeviceGetDefaultMemPool(pool, device))
FORWARD(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device), cuDeviceGetMemPool(pool, device))
FORWARD(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), cuDeviceSetMemPool(device, pool))
FORWARD(cudaMemPoolCreate, (cudaMemPool_t * pool, const struct cudaMemPoolProps *properties),
        cuMemPoolCreate(pool, (const CUmemPoolProps *)properties))
FORWARD(cudaMemPoolDestroy, (cudaMemPool_t pool), cuMemPoolDestroy(pool))
FORWARD(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), cuMemPoolTrimTo(pool, keep))
FORWARD(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
        cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value))
FORWARD(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
        cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value))

/* ---- copies and fills ---- */

static CUresult copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return cuMemcpyHtoD(PTR(to), from, bytes);
    case cudaMemcpyDeviceToHost:
        return cuMemcpyDtoH(to, PTR(from), bytes);
    case cudaMemcpyDeviceToDevice:
        return cuMemcpyDtoD(PTR(to), PTR(from), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return cuMemcpy(PTR(to), PTR(from), bytes);
    }
    return (CUresult)cudaErrorInvalidMemcpyDirection;
}

static CUresult copy_async(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                           cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return cuMemcpyHtoDAsync(PTR(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return cuMemcpyDtoHAsync(to, PTR(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return cuMemcpyDtoDAsync(PTR(to), PTR(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return cuMemcpyAsync(PTR(to), PTR(from), bytes, stream);
    }
    return (CUresult)cudaErrorInvalidMemcpyDirection;
}

FORWARD(cudaMemcpy, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind),
        copy(to, from, bytes, kind))
FORWARD(cudaMemcpyAsync,
        (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
        copy_async(to, from, bytes, kind, stream))
FORWARD(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t bytes),
        ((void)to_device, (void)from_device, cuMemcpyDtoD(PTR(to), PTR(from), bytes)))
FORWARD(cudaMemcpyPeerAsync,
        (void *to, int to_device, const void *from, int from_device, size_t bytes,
         cudaStream_t stream),
        ((void)to_device, (void)from_device, cuMemcpyDtoDAsync(PTR(to), PTR(from), bytes, stream)))
FORWARD(cudaMemset, (void *to, int value, size_t bytes),
        cuMemsetD8(PTR(to), (unsigned char)value, bytes))
FORWARD(cudaMemsetAsync, (void *to, int value, size_t bytes, cudaStream_t stream),
        cuMemsetD8Async(PTR(to), (unsigned char)value, bytes, stream))

/* Row by row */
static CUresult copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t height, enum cudaMemcpyKind kind)
{
    CUresult result = width > to_pitch || width > from_pitch ? (CUresult)cudaErrorInvalidPitchValue
                                                             : CUDA_SUCCESS;
    for (size_t row = 0; row < height && !result; row++)
        result =
            copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, kind);
    return result;
}

FORWARD(cudaMemcpy2D,
        (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
         size_t height, enum cudaMemcpyKind kind),
        copy_rows(to, to_pitch, from, from_pitch, width, height, kind))

/* ---- pointers ---- */

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p)
{
    unsigned type = 0;
    _Bool managed = 0;
    int device = -2;
    void *on_device = NULL, *on_host = NULL;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&type, &managed, &device, &on_device, &on_host};
    cudaError_t error = sim_runtime_ready();
    if (!error && !out)
        error = sim_runtime_note(cudaErrorInvalidValue);
    if (!error)
        error = sim_runtime_result(cuPointerGetAttributes(5, names, values, PTR(p)));
    if (error)
        return error;
    memset(out, 0, sizeof *out);
    out->type = managed                      ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                : type                       ? cudaMemoryTypeDevice
                                             : cudaMemoryTypeUnregistered;
    out->device = device;
    out->devicePointer = on_device;
    out->hostPointer = type ? on_host : (void *)p;
    return cudaSuccess;
}

/* ---- streams and events ---- */

FORWARD(cudaStreamCreate, (cudaStream_t * stream), cuStreamCreate(stream, 0))
FORWARD(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
        cuStreamCreate(stream, flags))
FORWARD(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
        cuStreamCreateWithPriority(stream, flags, priority))
FORWARD(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy(stream))
FORWARD(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize(stream))
FORWARD(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery(stream))
FORWARD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
        cuStreamWaitEvent(stream, event, flags))
FORWARD(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags), cuStreamGetFlags(stream, flags))
FORWARD(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
        cuStreamGetPriority(stream, priority))
FORWARD(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), cuStreamGetId(stream, id))
FORWARD(cudaStreamGetDevice, (cudaStream_t stream, int *device), cuStreamGetDevice(stream, device))
FORWARD(cudaStreamAttachMemAsync, (cudaStream_t stream, void *p, size_t bytes, unsigned flags),
        cuStreamAttachMemAsync(stream, PTR(p), bytes, flags))
FORWARD(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
        cuLaunchHostFunc(stream, function, data))
FORWARD(cudaEventCreate, (cudaEvent_t * event), cuEventCreate(event, 0))
FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags),
        cuEventCreate(event, flags))
FORWARD(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy(event))
FORWARD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord(event, stream))
FORWARD(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
        cuEventRecordWithFlags(event, stream, flags))
FORWARD(cudaEventQuery, (cudaEvent_t event), cuEventQuery(event))
FORWARD(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))
FORWARD(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
        cuEventElapsedTime(ms, start, end))

/* ---- capture and graphs ---- */

FORWARD(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
        cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
FORWARD(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
        cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode))
FORWARD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
        cuStreamEndCapture(stream, graph))
FORWARD(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
        cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status))
FORWARD(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), cuGraphCreate(graph, flags))
FORWARD(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
FORWARD(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiate(exec, graph, flags))
FORWARD(cudaGraphInstantiateWithFlags,
        (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiate(exec, graph, flags))
FORWARD(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), cuGraphUpload(exec, stream))
FORWARD(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), cuGraphLaunch(exec, stream))
FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t exec), cuGraphExecDestroy(exec))

/* ---- devices ---- */

FORWARD(cudaDeviceSynchronize, (void), cuCtxSynchronize())
FORWARD(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device),
        cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device))
FORWARD(cudaDeviceGetPCIBusId, (char *text, int room, int device),
        cuDeviceGetPCIBusId(text, room, device))
FORWARD(cudaDeviceGetByPCIBusId, (int *device, const char *text),
        cuDeviceGetByPCIBusId(device, text))
FORWARD(cudaDeviceCanAccessPeer, (int *can, int device, int peer),
        cuDeviceCanAccessPeer(can, device, peer))
FORWARD(cudaDeviceGetP2PAttribute,
        (int *value, enum cudaDeviceP2PAttr attribute, int device, int peer),
        cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, device, peer))
FORWARD(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
        cuCtxGetStreamPriorityRange(least, greatest))
FORWARD(cudaDeviceGetLimit, (size_t * value, enum cudaLimit limit),
        cuCtxGetLimit(value, (CUlimit)limit))
FORWARD(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value),
        cuCtxSetLimit((CUlimit)limit, value))

/* The peer's primary context comes into being by this, and stays: as with the real runtime */
static CUresult enable_peer(int peer, unsigned flags)
{
    CUcontext ctx;
    CUresult result = cuDevicePrimaryCtxRetain(&ctx, peer);
    return result ? result : cuCtxEnablePeerAccess(ctx, flags);
}

static CUresult disable_peer(int peer)
{
    CUcontext ctx;
    CUresult result = cuDevicePrimaryCtxRetain(&ctx, peer);
    if (result)
        return result;
    result = cuCtxDisablePeerAccess(ctx);
    cuDevicePrimaryCtxRelease(peer);
    return result;
}

FORWARD(cudaDeviceEnablePeerAccess, (int peer, unsigned flags), enable_peer(peer, flags))
FORWARD(cudaDeviceDisablePeerAccess, (int peer), disable_peer(peer))

/* ---- other processes ---- */

static CUresult open_memory(void **p, cudaIpcMemHandle_t handle, unsigned flags)
{
    CUipcMemHandle same;
    memcpy(&same, &handle, sizeof same);
    return cuIpcOpenMemHandle((CUdeviceptr *)p, same, flags);
}

FORWARD(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *p),
        cuIpcGetMemHandle((CUipcMemHandle *)handle, PTR(p)))
FORWARD(cudaIpcOpenMemHandle, (void **p, cudaIpcMemHandle_t handle, unsigned flags),
        open_memory(p, handle, flags))
FORWARD(cudaIpcCloseMemHandle, (void *p), cuIpcCloseMemHandle(PTR(p)))
FORWARD(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
        cuIpcGetEventHandle((CUipcEventHandle *)handle, event))
FORWARD(cudaProfilerStart, (void), CUDA_SUCCESS)
FORWARD(cudaProfilerStop, (void), CUDA_SUCCESS)
