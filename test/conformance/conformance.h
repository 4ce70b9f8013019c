/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that asks a CUDA driver how it behaves and prints one line per answer. What it prints does not depend on
 * the machine, so that a run on hardware and a run on the simulated GPU can be compared line by line.
 */
#ifndef SHUNT_TEST_CONFORMANCE_H
#define SHUNT_TEST_CONFORMANCE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The driver's functions that are called here; the name is that of the symbol. */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuCtxDisablePeerAccess) X(cuCtxEnablePeerAccess)        \
    X(cuCtxGetApiVersion) X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxGetStreamPriorityRange)      \
    X(cuCtxPopCurrent_v2) X(cuCtxPushCurrent_v2) X(cuCtxSetCurrent) X(cuCtxSynchronize)            \
    X(cuDeviceCanAccessPeer) X(cuDeviceGet) X(cuDeviceGetAttribute) X(cuDeviceGetCount)            \
    X(cuDeviceGetDefaultMemPool) X(cuDeviceGetMemPool) X(cuDeviceGetName)                          \
    X(cuDeviceGetP2PAttribute) X(cuDeviceGetPCIBusId) X(cuDeviceGetUuid_v2)                        \
    X(cuDevicePrimaryCtxGetState) X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset_v2)    \
    X(cuDevicePrimaryCtxRetain) X(cuDeviceTotalMem_v2) X(cuDriverGetVersion) X(cuEventCreate)      \
    X(cuEventDestroy_v2) X(cuEventElapsedTime) X(cuEventQuery) X(cuEventRecord)                    \
    X(cuEventSynchronize) X(cuGetErrorName) X(cuGetErrorString) X(cuGetProcAddress_v2)             \
    X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphExecDestroy) X(cuGraphGetNodes)                    \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphNodeGetType) X(cuInit)                \
    X(cuIpcCloseMemHandle) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle_v2) X(cuLaunchHostFunc)       \
    X(cuMemAddressFree) X(cuMemAddressReserve) X(cuMemAllocAsync) X(cuMemAllocHost_v2)             \
    X(cuMemAllocManaged) X(cuMemAlloc_v2) X(cuMemCreate) X(cuMemExportToShareableHandle)           \
    X(cuMemFreeAsync) X(cuMemFreeHost) X(cuMemFree_v2) X(cuMemGetAddressRange_v2)                  \
    X(cuMemGetAllocationGranularity) X(cuMemGetInfo_v2) X(cuMemHostAlloc)                          \
    X(cuMemHostGetDevicePointer_v2) X(cuMemHostGetFlags) X(cuMemHostRegister_v2)                   \
    X(cuMemHostUnregister) X(cuMemImportFromShareableHandle) X(cuMemMap) X(cuMemPoolCreate)        \
    X(cuMemPoolDestroy) X(cuMemRelease) X(cuMemRetainAllocationHandle) X(cuMemSetAccess) X(cuMemUnmap) X(cuMemcpy)                \
    X(cuMemcpyAsync) X(cuMemcpyDtoDAsync_v2) X(cuMemcpyDtoD_v2) X(cuMemcpyDtoHAsync_v2)            \
    X(cuMemcpyDtoH_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyHtoD_v2) X(cuMemcpyPeer)                  \
    X(cuMemsetD16_v2) X(cuMemsetD32Async) X(cuMemsetD32_v2) X(cuMemsetD8_v2)                       \
    X(cuModuleGetFunction) X(cuModuleGetLoadingMode) X(cuModuleLoadData) X(cuModuleUnload)         \
    X(cuPointerGetAttribute) X(cuPointerGetAttributes) X(cuStreamBeginCapture_v2)                  \
    X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuStreamDestroy_v2) X(cuStreamEndCapture)    \
    X(cuStreamGetFlags) X(cuStreamGetPriority) X(cuStreamIsCapturing) X(cuStreamQuery)             \
    X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamWaitValue32_v2)                          \
    X(cuStreamWriteValue32_v2) X(cuThreadExchangeStreamCaptureMode)

/* cuda.h has these under a macro, or for other versions of itself */
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device);

struct driver {
#define X(name) __typeof__(name) *name;
    DRIVER_FUNCTIONS(X)
#undef X
};
extern struct driver driver;

/* Call a function of the driver */
#define CU(name) driver.name

/* One line: what was asked, and the name of the error that came */
void say(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One line: what was asked, and the answer */
void tell(const char *question, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What has to work for the next questions to make sense; ends the program if it does not. */
void need(CUresult result, const char *what);

/* Puts a wait into a stream that only gate_open ends: whatever comes after it in the stream is still to be done. */
void gate_close(CUstream stream);
void gate_open(void);

/* What has not happened after this time waits for something; a busy machine must not be mistaken for that. */
enum { LONG_ENOUGH_MS = 400 };

/*
 * Does a call return while the stream `stream` is held up? The gate is closed in it, `call` runs, and the gate opens
 * after LONG_ENOUGH_MS. Prints "waits" or "returns" and the name of the error.
 */
void time_call(const char *what, CUstream stream, CUresult (*call)(void *data), void *data);

void ask_devices(void);
void ask_contexts(CUcontext ctx);
void ask_memory(void);
void ask_pointers(CUcontext ctx);
void ask_copies(void);
void ask_streams(void);
void ask_events(void);
void ask_waits(void);
void ask_capture(void);
void ask_mapping(CUcontext ctx);
void ask_pools(void);
void ask_modules(void);

/* Two processes: `other` is a socket to the peer; both return when both are through. */
void ask_exporter(int other);
void ask_importer(int other);
void ask_fork_child(void);

/* Between the two; the program ends if the other has. meet: both come here before either goes on. */
void send_all(int other, const void *data, size_t bytes);
void receive_all(int other, void *data, size_t bytes);
void meet(int other);
void send_descriptor(int other, int descriptor);
int receive_descriptor(int other); /* -1: none came */

/* The same for `driver peers`, with two GPUs. */
void ask_pieces(void);
void ask_owner(int other);
void ask_peer(int other);

#endif
