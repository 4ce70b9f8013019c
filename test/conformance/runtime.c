/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same for the CUDA runtime: asks it how it behaves and prints one line per answer.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *what, cudaError_t error)
{
    printf("%-64s %s\n", what, cudaGetErrorName(error));
    fflush(stdout);
}

static void tell(const char *what, long value)
{
    printf("%-64s %ld\n", what, value);
    fflush(stdout);
}

#define ASK(call) say(#call, call)

static void ask_pointer(const char *kind, const void *p)
{
    struct cudaPointerAttributes a;
    memset(&a, 0x55, sizeof a);
    cudaError_t error = cudaPointerGetAttributes(&a, p);
    printf("%-16s %s: type %d device %d device pointer %s host pointer %s\n", kind,
           cudaGetErrorName(error), a.type, a.device,
           !a.devicePointer       ? "null"
           : a.devicePointer == p ? "same"
                                  : "other",
           !a.hostPointer       ? "null"
           : a.hostPointer == p ? "same"
                                : "other");
    fflush(stdout);
}

static void ask_devices(void)
{
    int n = -1, device = -1, value = -1;
    CUcontext ctx = (CUcontext)1;
    struct cudaDeviceProp property;
    tell("initialised: cuCtxGetCurrent", cuCtxGetCurrent(&ctx));
    ASK(cudaGetDeviceCount(&n));
    tell("after it: cuCtxGetCurrent", cuCtxGetCurrent(&ctx));
    tell("a context is current", ctx != NULL);
    ASK(cudaGetDevice(&device));
    tell("device", device);
    ASK(cudaSetDevice(n));
    say("peek", cudaPeekAtLastError());
    say("last error", cudaGetLastError());
    say("last error again", cudaGetLastError());
    ASK(cudaSetDevice(0));
    cuCtxGetCurrent(&ctx);
    tell("a context is current", ctx != NULL);
    ASK(cudaGetDeviceProperties(&property, 0));
    tell("major", property.major);
    ASK(cudaGetDeviceProperties(&property, n));
    ASK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
    tell("warp size", value);
    cudaGetLastError();
}

static void ask_memory(void)
{
    void *p = (void *)1, *q;
    char *a = malloc(1000), *b = malloc(1000);
    memset(a, 7, 1000);
    ASK(cudaMalloc(&p, 0));
    tell("null", p == NULL);
    ASK(cudaMalloc(&p, (size_t)1 << 46));
    say("last error", cudaGetLastError());
    ASK(cudaMalloc(&p, 1000));
    ask_pointer("device", p);
    ask_pointer("stack", &p);
    ask_pointer("null", NULL);
    say("last error", cudaGetLastError());
    ASK(cudaMallocManaged(&q, 1000, cudaMemAttachGlobal));
    ask_pointer("managed", q);
    ASK(cudaFree(q));
    ASK(cudaHostAlloc(&q, 1000, cudaHostAllocDefault));
    ask_pointer("pinned", q);
    ASK(cudaFreeHost(q));
    ASK(cudaMallocHost(&q, 0));
    ASK(cudaFreeHost(NULL));
    ASK(cudaFreeHost(a));
    ASK(cudaFree(NULL));
    ASK(cudaFree(a));
    ASK(cudaHostRegister(a, 1000, cudaHostRegisterDefault));
    ask_pointer("registered", a);
    ASK(cudaHostUnregister(a));
    ASK(cudaMemcpy(p, a, 1000, cudaMemcpyHostToDevice));
    ASK(cudaMemcpy(b, p, 1000, cudaMemcpyDeviceToHost));
    tell("the same", !memcmp(a, b, 1000));
    ASK(cudaMemcpy(b, p, 1000, cudaMemcpyDefault));
    ASK(cudaMemcpy(p, a, 1000, cudaMemcpyDeviceToDevice));
    ASK(cudaMemcpy(b, a, 1000, cudaMemcpyHostToDevice));
    ASK(cudaMemcpy(b, a, 1000, cudaMemcpyHostToHost));
    ASK(cudaMemcpy(b, p, 1000, cudaMemcpyHostToHost));
    ASK(cudaMemcpy(b, p, 1000, cudaMemcpyHostToDevice));
    ASK(cudaMemcpy(p, a, 1000, (enum cudaMemcpyKind)17));
    say("last error", cudaGetLastError());
    ASK(cudaFree(p));
    ASK(cudaFree(p));
    say("last error", cudaGetLastError());
    free(a);
    free(b);
}

static void ask_streams(void)
{
    cudaStream_t stream;
    cudaEvent_t event;
    unsigned *word;
    float ms;
    ASK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ASK(cudaEventCreate(&event));
    ASK(cudaHostAlloc((void **)&word, 64, cudaHostAllocDefault));
    *word = 0;
    cuStreamWaitValue32(stream, (CUdeviceptr)(size_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ);
    ASK(cudaStreamQuery(stream));
    say("last error", cudaGetLastError());
    ASK(cudaEventRecord(event, stream));
    ASK(cudaEventQuery(event));
    say("last error", cudaGetLastError());
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    ASK(cudaEventSynchronize(event));
    ASK(cudaEventElapsedTime(&ms, event, event));
    ASK(cudaStreamDestroy(stream));
    ASK(cudaEventDestroy(event));
    ASK(cudaFreeHost(word));
}

static void ask_reset(void)
{
    CUcontext before, after = NULL;
    void *p;
    int active;
    unsigned flags;
    cuCtxGetCurrent(&before);
    ASK(cudaMalloc(&p, 1000));
    ASK(cudaDeviceReset());
    tell("after the reset: cuCtxGetCurrent", cuCtxGetCurrent(&after));
    tell("a context is current, the same", (after != NULL) * 10 + (after == before));
    tell("cuCtxGetDevice", cuCtxGetDevice(&active));
    tell("cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState(0, &flags, &active));
    tell("active", active);
    say("peek", cudaPeekAtLastError());
    ask_pointer("freed by reset", p);
    ASK(cudaFree(p));
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    tell("active", active);
    ASK(cudaMalloc(&p, 1000));
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    tell("active", active);
    ASK(cudaFree(p));
    cudaGetLastError();
}

static void at_exit(void)
{
    void *p;
    ASK(cudaFree(NULL));
    ASK(cudaMalloc(&p, 10));
}

int main(void)
{
    atexit(at_exit);
    CUcontext ctx;
    tell("cuCtxGetCurrent before anything", cuCtxGetCurrent(&ctx));
    tell("cuInit", cuInit(0));
    ask_devices();
    ask_memory();
    ask_streams();
    ask_reset();
    return 0;
}
