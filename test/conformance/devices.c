/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, contexts, capture and graphs, modules.
 */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

void ask_devices(void)
{
    static const struct {
        const char *name;
        CUdevice_attribute attribute;
    } asked[] = {
        {"compute capability, major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {"compute capability, minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        {"unified addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
        {"managed memory", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
        {"concurrent managed access", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
        {"pageable memory access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
        {"host native atomics", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
        {"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED},
        {"memory pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
        {"virtual memory management", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
        {"POSIX file handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
        {"64-bit stream memory operations", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
        {"cooperative launch", CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
        {"threads per block", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
        {"threads per multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
        {"shared memory per block", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
        {"shared memory per block, opted in",
         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
        {"shared memory per multiprocessor",
         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
        {"warp size", CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    };
    CUdevice device;
    CUuuid uuid;
    char name[100] = "", bus[32] = "";
    int n, value, domain, number, slot;
    size_t bytes;
    unsigned flags;
    say(CU(cuDeviceGetCount)(&n), "cuDeviceGetCount");
    say(CU(cuDeviceGet)(&device, -1), "cuDeviceGet(-1)");
    say(CU(cuDeviceGet)(&device, n), "cuDeviceGet(count)");
    need(CU(cuDeviceGet)(&device, 0), "cuDeviceGet");
    say(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, n),
        "attribute of a device that is not");
    say(CU(cuDeviceGetAttribute)(&value, (CUdevice_attribute)9999, 0), "attribute that is not");
    say(CU(cuDeviceGetUuid_v2)(&uuid, device), "cuDeviceGetUuid");
    need(CU(cuDeviceGetName)(name, sizeof name, device), "cuDeviceGetName");
    tell("device name begins with", "%.6s", name);
    need(CU(cuDeviceGetPCIBusId)(bus, sizeof bus, device), "cuDeviceGetPCIBusId");
    tell("bus id has three numbers, length", "%d, %zu",
         sscanf(bus, "%x:%x:%x", &domain, &number, &slot), strlen(bus));
    say(CU(cuDeviceGetPCIBusId)(bus, 12, device), "cuDeviceGetPCIBusId with room for 12");
    say(CU(cuDeviceTotalMem_v2)(&bytes, device), "cuDeviceTotalMem");
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        value = -1;
        CU(cuDeviceGetAttribute)(&value, asked[i].attribute, device);
        tell(asked[i].name, "%d", value);
    }
    say(CU(cuDevicePrimaryCtxGetState)(0, &flags, &value), "cuDevicePrimaryCtxGetState");
    tell("active, flags", "%d, %u", value, flags);
    say(CU(cuDevicePrimaryCtxRelease_v2)(0), "release without retain");
    say(CU(cuDeviceCanAccessPeer)(&value, 0, 0), "cuDeviceCanAccessPeer of itself");
    tell("can access itself as a peer", "%d", value);
    say(CU(cuDeviceCanAccessPeer)(&value, 0, n), "cuDeviceCanAccessPeer of a device that is not");
    say(CU(cuDeviceGetP2PAttribute)(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
        "cuDeviceGetP2PAttribute of itself");
}

void ask_contexts(CUcontext ctx)
{
    CUcontext same, made, popped = NULL;
    CUdevice device = -1;
    unsigned flags, version = 0;
    int active, least, greatest;
    say(CU(cuDevicePrimaryCtxRetain)(&same, 0), "retain again");
    tell("the same context", "%d", same == ctx);
    say(CU(cuDevicePrimaryCtxRelease_v2)(0), "release");
    CU(cuDevicePrimaryCtxGetState)(0, &flags, &active);
    tell("active after one of two releases", "%d", active);
    say(CU(cuCtxGetDevice)(&device), "cuCtxGetDevice");
    tell("device", "%d", device);
    say(CU(cuCtxGetApiVersion)(ctx, &version), "cuCtxGetApiVersion");
    say(CU(cuCtxDestroy_v2)(ctx), "cuCtxDestroy of a primary context");
    say(CU(cuCtxPushCurrent_v2)(ctx), "cuCtxPushCurrent");
    say(CU(cuCtxPopCurrent_v2)(&popped), "cuCtxPopCurrent");
    tell("popped what was pushed", "%d", popped == ctx);
    CU(cuCtxGetCurrent)(&same);
    tell("the one below is current again", "%d", same == ctx);
    say(CU(cuCtxSetCurrent)(NULL), "cuCtxSetCurrent(NULL)");
    CU(cuCtxGetCurrent)(&same);
    tell("then current", "%s", same ? "not null" : "null");
    need(CU(cuCtxSetCurrent)(ctx), "cuCtxSetCurrent");
    say(CU(cuCtxGetStreamPriorityRange)(&least, &greatest), "cuCtxGetStreamPriorityRange");
    tell("least, greatest", "%d, %d", least, greatest);
    say(CU(cuCtxCreate_v2)(&made, 0, 0), "cuCtxCreate");
    CU(cuCtxGetCurrent)(&same);
    tell("the new one is current", "%d", same == made);
    say(CU(cuCtxDestroy_v2)(made), "cuCtxDestroy");
    CU(cuCtxGetCurrent)(&same);
    tell("the one below is current again", "%d", same == ctx);
    need(CU(cuCtxSetCurrent)(ctx), "cuCtxSetCurrent");
    say(CU(cuCtxEnablePeerAccess)(ctx, 0), "cuCtxEnablePeerAccess to itself");
    say(CU(cuCtxDisablePeerAccess)(ctx), "cuCtxDisablePeerAccess to itself");
}

/* Graphs as capture makes them */
static void ask_captured(CUstream stream, CUdeviceptr p)
{
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUgraphNode nodes[4];
    CUgraphNodeType type = 99;
    size_t n = 4;
    uint32_t value = 0;
    CU(cuMemsetD32_v2)(p, 0, 1);
    need(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
         "cuStreamBeginCapture");
    say(CU(cuMemsetD32Async)(p, 7, 1, stream), "capturing: cuMemsetD32Async");
    say(CU(cuStreamEndCapture)(stream, &graph), "cuStreamEndCapture");
    say(CU(cuGraphGetNodes)(graph, nodes, &n), "cuGraphGetNodes");
    CU(cuGraphNodeGetType)(nodes[0], &type);
    tell("captured nodes, type of the first is memset", "%zu, %d", n,
         type == CU_GRAPH_NODE_TYPE_MEMSET);
    CU(cuMemcpyDtoH_v2)(&value, p, 4);
    tell("the captured fill was not done", "%d", value == 0);
    say(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), "cuGraphInstantiate");
    say(CU(cuGraphDestroy)(graph), "cuGraphDestroy");
    say(CU(cuGraphLaunch)(exec, stream), "cuGraphLaunch");
    say(CU(cuStreamSynchronize)(stream), "cuStreamSynchronize");
    CU(cuMemcpyDtoH_v2)(&value, p, 4);
    tell("the launched fill was done", "%d", value == 7);
    say(CU(cuGraphExecDestroy)(exec), "cuGraphExecDestroy");
}

void ask_capture(void)
{
    CUstream stream;
    CUgraph graph;
    CUdeviceptr p, q;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUevent event;
    need(CU(cuMemAlloc_v2)(&p, 4096), "cuMemAlloc");
    need(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    need(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    say(CU(cuStreamIsCapturing)(stream, &status), "cuStreamIsCapturing");
    tell("status", "%d", status);
    say(CU(cuStreamBeginCapture_v2)(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
        "capture of the legacy stream");
    say(CU(cuStreamEndCapture)(stream, &graph), "end without a beginning");
    ask_captured(stream, p);
    say(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
        "cuStreamBeginCapture, global");
    say(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "a second beginning");
    CU(cuStreamIsCapturing)(stream, &status);
    tell("status", "%d", status);
    say(CU(cuThreadExchangeStreamCaptureMode)(&mode), "cuThreadExchangeStreamCaptureMode");
    tell("the mode before was", "%d", mode);
    say(CU(cuMemAlloc_v2)(&q, 4096), "capturing, thread relaxed: cuMemAlloc");
    say(CU(cuMemcpyDtoH_v2)(&status, p, 4), "capturing, thread relaxed: cuMemcpyDtoH");
    say(CU(cuStreamQuery)(NULL), "capturing, thread relaxed: query of the legacy stream");
    say(CU(cuEventRecord)(event, NULL), "capturing, thread relaxed: record on the legacy stream");
    CU(cuThreadExchangeStreamCaptureMode)(&mode);
    say(CU(cuMemFree_v2)(q), "capturing, thread global: cuMemFree");
    CU(cuStreamIsCapturing)(stream, &status);
    tell("status", "%d", status);
    say(CU(cuMemsetD32Async)(p, 1, 1, stream), "invalidated: cuMemsetD32Async");
    say(CU(cuStreamEndCapture)(stream, &graph), "invalidated: cuStreamEndCapture");
    say(CU(cuMemFree_v2)(q), "cuMemFree");
    need(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
         "cuStreamBeginCapture");
    say(CU(cuStreamSynchronize)(stream), "capturing: cuStreamSynchronize");
    say(CU(cuStreamEndCapture)(stream, &graph), "then cuStreamEndCapture");
    need(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
         "cuStreamBeginCapture");
    say(CU(cuStreamQuery)(stream), "capturing: cuStreamQuery");
    say(CU(cuStreamEndCapture)(stream, &graph), "then cuStreamEndCapture");
    need(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
         "cuStreamBeginCapture");
    say(CU(cuEventRecord)(event, stream), "capturing: cuEventRecord");
    say(CU(cuEventQuery)(event), "query of an event of a capture");
    say(CU(cuStreamEndCapture)(stream, &graph), "then cuStreamEndCapture");
    CU(cuEventDestroy_v2)(event);
    CU(cuStreamDestroy_v2)(stream);
    CU(cuMemFree_v2)(p);
}

void ask_modules(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                              ".visible .entry nothing()\n{\n    ret;\n}\n";
    CUmodule module = NULL;
    CUfunction function;
    CUmoduleLoadingMode mode;
    void *entry = NULL;
    CUdriverProcAddressQueryResult found;
    const char *text;
    say(CU(cuModuleLoadData)(&module, NULL), "cuModuleLoadData of nothing");
    say(CU(cuModuleLoadData)(&module, ptx), "cuModuleLoadData of PTX");
    say(CU(cuModuleGetFunction)(&function, module, "absent"), "a function that is not there");
    say(CU(cuModuleUnload)(module), "cuModuleUnload");
    say(CU(cuModuleGetLoadingMode)(&mode), "cuModuleGetLoadingMode");
    tell("lazy", "%d", mode == CU_MODULE_LAZY_LOADING);
    say(CU(cuGetProcAddress_v2)("cuMemAlloc", &entry, 13000, 0, &found),
        "cuGetProcAddress(cuMemAlloc)");
    tell("found, and it is the symbol cuMemAlloc_v2", "%d, %d", found,
         entry == (void *)(uintptr_t)driver.cuMemAlloc_v2);
    say(CU(cuGetProcAddress_v2)("cuNoSuchThing", &entry, 13000, 0, &found),
        "cuGetProcAddress of what is not");
    tell("found, null", "%d, %d", found, entry == NULL);
    say(CU(cuGetErrorString)(CUDA_ERROR_INVALID_VALUE, &text), "cuGetErrorString");
    tell("the words", "%s", text);
    say(CU(cuGetErrorName)((CUresult)12345, &text), "cuGetErrorName of what is not");
}
