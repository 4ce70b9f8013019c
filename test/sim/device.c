/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the simulated GPU does that hardware does too but a program cannot ask it about: device
 * memory faults on the CPU, kernels run beside the program, and a kernel that goes wrong ends the
 * context. Each test is a process of its own: device NAME.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/sim/check.h"

static CUdeviceptr word; /* of device memory */
static CUmodule module;

static void start(void)
{
    CUcontext ctx;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemAlloc(&word, 4096));
    OK(cuMemsetD32(word, 0, 1024));
    OK(cuModuleLoadData(&module, "any"));
}

static CUfunction function(const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

static uint32_t read_word(void)
{
    uint32_t value = 0xdead;
    OK(cuMemcpyDtoH(&value, word, 4));
    return value;
}

/* ---- device memory ---- */

static sigjmp_buf back;

static void on_segv(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static int faults(CUdeviceptr p, int writing)
{
    volatile char *c = (volatile char *)(uintptr_t)p;
    if (sigsetjmp(back, 1))
        return 1;
    if (writing)
        *c = 1;
    else
        (void)*c;
    return 0;
}

static void test_touch(void)
{
    CUdeviceptr managed, pool;
    void *pinned;
    int pipes[2];
    signal(SIGSEGV, on_segv);
    OK(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocAsync(&pool, 100, NULL));
    OK(cuMemAllocHost(&pinned, 100));
    CHECK(faults(word, 0) && faults(word, 1) && faults(word + 4095, 0));
    CHECK(faults(pool, 0) && faults(pool, 1));
    CHECK(!faults(managed, 0) && !faults(managed, 1));
    CHECK(!faults((uintptr_t)pinned, 0) && !faults((uintptr_t)pinned, 1));
    CHECK(!pipe(pipes));
    CHECK(write(pipes[1], (void *)(uintptr_t)word, 16) < 0 && errno == EFAULT);
    OK(cuMemFree(word));
    CHECK(faults(word, 0));
}

/* What the device does with managed and pinned memory the program sees, without a copy. */
static void test_shared(void)
{
    CUdeviceptr managed;
    uint32_t *pinned, *m;
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocHost((void **)&pinned, 4096));
    m = (uint32_t *)(uintptr_t)managed;
    *pinned = *m = 5;
    uint64_t n = 1;
    uint8_t value = 2;
    void *first[] = {&managed, &n, &value}, *second[] = {&pinned, &n, &value};
    OK(cuLaunchKernel(function("add"), 1, 1, 1, 1, 1, 1, 0, NULL, first, NULL));
    OK(cuLaunchKernel(function("add"), 1, 1, 1, 1, 1, 1, 0, NULL, second, NULL));
    OK(cuCtxSynchronize());
    CHECK(*m == 7 && *pinned == 7);
}

/* ---- kernels ---- */

static void test_launch(void)
{
    uint64_t n = 3;
    uint8_t value = 1;
    void *args[] = {&word, &n, &value};
    CUfunction f = function("add"), none;
    OK(cuLaunchKernel(f, 2, 3, 5, 4, 2, 1, 7, NULL, args, NULL));
    CHECK(read_word() == 2 * 3 * 5 * 4 * 2 + 7);
    CHECK(cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, NULL, args, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, NULL, args, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 49153, NULL, args, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 100000, NULL, args, NULL));
    CHECK(cuModuleGetFunction(&none, module, "not_there") == CUDA_ERROR_NOT_FOUND);
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 10,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    OK(cuMemsetD32(word, 0, 1));
    OK(cuLaunchKernelEx(&config, f, args, NULL));
    CHECK(read_word() == 10);
}

/* A launch returns before its kernel has run; kernels of two streams run side by side. */
static void test_beside(void)
{
    CUstream first, second;
    CUdeviceptr flag = word + 64;
    uint32_t one = 1;
    uint64_t n = 1;
    uint8_t value = 1;
    void *waits[] = {&flag, &one}, *raises[] = {&flag, &n, &value}, *adds[] = {&word, &n, &value};
    CUfunction wait = function("wait"), add = function("add");
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuFuncLoad(wait));
    OK(cuFuncLoad(add));
    OK(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, first, waits, NULL));
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, first, adds, NULL));
    CHECK(cuStreamQuery(first) == CUDA_ERROR_NOT_READY);
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, second, raises, NULL));
    OK(cuStreamSynchronize(second));
    OK(cuStreamSynchronize(first));
    CHECK(read_word() == 1);
}

/* More launches than fit into a queue, of arguments that do not divide its size */
static void test_many(void)
{
    enum { LAUNCHES = 5000 };
    uint64_t n = 1;
    uint8_t value = 1;
    void *args[] = {&word, &n, &value};
    CUstream stream;
    CUfunction f = function("add");
    OK(cuStreamCreate(&stream, 0));
    for (int i = 0; i < LAUNCHES; i++) {
        OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
        if (i % 7 == 0)
            OK(cuStreamWriteValue32(stream, word + 128, (uint32_t)i, 0));
    }
    OK(cuStreamSynchronize(stream));
    CHECK(read_word() == LAUNCHES);
}

static void test_graph(void)
{
    CUgraph graph;
    CUgraphNode node, last;
    CUgraphExec exec;
    uint64_t n = 1;
    uint8_t value = 3;
    void *args[] = {&word, &n, &value};
    CUDA_KERNEL_NODE_PARAMS params = {.func = function("add"),
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = args};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cuGraphAddKernelNode(&last, graph, &node, 1, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphUpload(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    CHECK(read_word() == 6);
    value = 100;
    OK(cuGraphLaunch(exec, NULL)); /* has the arguments of its making */
    CHECK(read_word() == 12);
    OK(cuGraphExecKernelNodeSetParams(exec, node, &params));
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphExecDestroy(exec));
    CHECK(read_word() == 12 + 100 + 3);
}

/* ---- what ends a context ---- */

/* A kernel that touches what is not mapped */
static void test_illegal(void)
{
    CUdeviceptr wrong = word + 4096;
    uint64_t n = 1;
    uint8_t value = 1;
    void *args[] = {&wrong, &n, &value};
    void *p;
    CUcontext ctx;
    OK(cuLaunchKernel(function("add"), 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemAlloc(&wrong, 16) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuStreamQuery(NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemAllocHost(&p, 16) == CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuMemAlloc(&word, 4096));
    OK(cuMemsetD32(word, 9, 1));
    CHECK(read_word() == 9);
}

static void test_abort(void)
{
    OK(cuLaunchKernel(function("give_up"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
}

/* ---- the runtime ---- */

void **__cudaRegisterFatBinary(void *image);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *warp);
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                     cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared,
                                       void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
                               void **args, size_t shared, cudaStream_t stream);

/* What nvcc makes of stub<<<grid, block, shared, stream>>>(…) */
static void launch_stub(const char *stub, void **args)
{
    static const struct dim3 grid = {2, 1, 1}, block = {3, 1, 1};
    struct dim3 g, b;
    size_t shared;
    cudaStream_t stream;
    cudaKernel_t kernel;
    OK(__cudaPushCallConfiguration(grid, block, 0, NULL));
    OK(__cudaGetKernel(&kernel, stub));
    OK(__cudaPopCallConfiguration(&g, &b, &shared, &stream));
    OK(__cudaLaunchKernel(kernel, g, b, args, shared, stream));
}

static void test_runtime(void)
{
    static const char stub;
    uint32_t *p, value = 0;
    uint64_t n = 1;
    uint8_t one = 1;
    void *args[] = {&p, &n, &one};
    void **handle = __cudaRegisterFatBinary(NULL);
    __cudaRegisterFunction(handle, &stub, NULL, "add", -1, NULL, NULL, NULL, NULL, NULL);
    OK(cudaMalloc((void **)&p, 16));
    OK(cudaMemset(p, 0, 16));
    launch_stub(&stub, args);
    OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    CHECK(value == 6);
    OK(cudaLaunchKernel(&stub, (struct dim3){1, 1, 1}, (struct dim3){1, 1, 1}, args, 0, NULL));
    OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    CHECK(value == 7);
    __cudaUnregisterFatBinary(handle);
}

/* Ends the program with 97: the script looks */
static void test_foreign(void)
{
    static const char stub;
    __cudaRegisterFunction(__cudaRegisterFatBinary(NULL), &stub, NULL, "_Z6jacobiPf", -1, NULL,
                           NULL, NULL, NULL, NULL);
    printf("before\n");
    launch_stub(&stub, NULL);
    exit(1);
}

/* ---- several contexts and threads ---- */

static void *use_default_stream(void *ctx)
{
    uint64_t n = 1;
    uint8_t value = 1;
    void *args[] = {&word, &n, &value};
    OK(cuCtxSetCurrent(ctx));
    for (int i = 0; i < 50; i++) {
        CUdeviceptr p;
        uint32_t seen = 0;
        OK(cuMemAlloc(&p, 5000));
        OK(cuMemsetD32Async(p, 77, 1250, CU_STREAM_PER_THREAD));
        OK(cuLaunchKernel(function("add"), 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        OK(cuMemcpyDtoHAsync(&seen, p + 4996, 4, CU_STREAM_PER_THREAD));
        CHECK(seen == 77);
        OK(cuMemFree(p));
    }
    return NULL;
}

static void test_threads(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    CUcontext ctx;
    OK(cuCtxGetCurrent(&ctx));
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, use_default_stream, ctx));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(read_word() == 50 * THREADS);
}

/*
 * Two devices in one process: memory of one is seen by the other's kernels; events order their
 * streams.
 */
static void test_devices(void)
{
    CUcontext first, second;
    CUdeviceptr there, wait_word;
    CUstream a, b;
    CUevent event;
    uint64_t n = 1;
    uint8_t value = 5;
    uint32_t one = 1;
    int can = 0;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can);
    OK(cuCtxGetCurrent(&first));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    OK(cuMemAlloc(&there, 4096));
    OK(cuMemsetD32(there, 1, 1));
    OK(cuCtxEnablePeerAccess(first, 0));
    CHECK(cuCtxEnablePeerAccess(first, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(&second));
    wait_word = word + 64;
    void *waits[] = {&wait_word, &one}, *args[] = {&there, &n, &value};
    CUfunction wait = function("wait"), add = function("add");
    OK(cuFuncLoad(add)); /* its first launch would wait for the kernel before it */
    OK(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, a, waits, NULL));
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, a, args, NULL));
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    uint32_t seen = 0;
    OK(cuMemcpyDtoHAsync(&seen, there, 0, b));
    CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    OK(cuMemsetD32(wait_word, 1, 1));
    OK(cuCtxPushCurrent(second));
    OK(cuMemcpyDtoHAsync(&seen, there, 4, b));
    CHECK(seen == 6);
    CUdevice device = -1;
    OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
    CHECK(device == 1);
    OK(cuEventDestroy(event));
}

/* ---- faults ---- */

static void test_nomem(void)
{
    CUdeviceptr p;
    void *host;
    OK(cuMemAlloc(&p, 1 << 20));
    CHECK(cuMemAlloc(&p, (1 << 20) + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAllocHost(&host, 2 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_noipc(void)
{
    CUipcMemHandle handle;
    CHECK(cuIpcGetMemHandle(&handle, word) == CUDA_ERROR_NOT_SUPPORTED);
}

static void test_nop2p(void)
{
    int can = 1;
    CUcontext second;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(!can);
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    CHECK(cuCtxEnablePeerAccess(second, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

/* ---- two processes, each of which sees one GPU only ---- */

static void open_other(int from, CUresult expected)
{
    CUipcMemHandle handle;
    CUdeviceptr p;
    CUuuid uuid;
    uint32_t seen = 0;
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    start();
    OK(cuDeviceGetUuid(&uuid, 0));
    CHECK(read(from, &handle, sizeof handle) == sizeof handle);
    CHECK(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == expected);
    if (!expected) {
        OK(cuMemcpyDtoH(&seen, p, 4));
        CHECK(seen == 42);
        OK(cuIpcCloseMemHandle(p));
    }
    exit(0);
}

static void across(CUresult expected)
{
    int pipes[2], back_pipes[2], status = 1;
    CUipcMemHandle handle;
    CHECK(!pipe(pipes) && !pipe(back_pipes));
    pid_t child = fork();
    if (!child) {
        close(back_pipes[0]);
        open_other(pipes[0], expected);
    }
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    start();
    OK(cuMemsetD32(word, 42, 1));
    OK(cuCtxSynchronize());
    OK(cuIpcGetMemHandle(&handle, word));
    CHECK(write(pipes[1], &handle, sizeof handle) == sizeof handle);
    CHECK(waitpid(child, &status, 0) == child && !status);
}

static void test_across(void)
{
    across(CUDA_SUCCESS);
}

static void test_across_nop2p(void)
{
    across(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

/*
 * The exporter is killed: its memory stays readable where it is open, and cannot be opened any
 * more.
 */
static void test_orphan(void)
{
    int pipes[2], status;
    CUipcMemHandle handles[2];
    CUdeviceptr p, q;
    uint32_t seen = 0;
    CHECK(!pipe(pipes));
    pid_t child = fork();
    if (!child) {
        start();
        OK(cuMemAlloc(&q, 4096));
        OK(cuMemsetD32(word, 42, 1));
        OK(cuCtxSynchronize());
        OK(cuIpcGetMemHandle(&handles[0], word));
        OK(cuIpcGetMemHandle(&handles[1], q));
        CHECK(write(pipes[1], handles, sizeof handles) == sizeof handles);
        pause();
    }
    CHECK(read(pipes[0], handles, sizeof handles) == sizeof handles);
    start();
    OK(cuIpcOpenMemHandle(&p, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    kill(child, SIGKILL);
    CHECK(waitpid(child, &status, 0) == child);
    usleep(300000);
    OK(cuMemcpyDtoH(&seen, p, 4));
    CHECK(seen == 42);
    CHECK(cuIpcOpenMemHandle(&q, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
          CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcCloseMemHandle(p));
}

/* What a reset makes void is found out, also after the context has come back. */
static void test_reset(void)
{
    CUcontext ctx;
    CUstream stream, fresh;
    CUevent event;
    CUfunction f = function("add");
    uint64_t n = 1;
    uint8_t value = 1;
    void *args[] = {&word, &n, &value};
    OK(cuStreamCreate(&stream, 0));
    OK(cuEventCreate(&event, 0));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuMemAlloc(&word, 4096));
    CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventRecord(event, NULL) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL) == CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(event));
    OK(cuStreamCreate(&fresh, 0));
    OK(cuMemsetD32Async(word, 3, 1, fresh));
    OK(cuStreamSynchronize(fresh));
    CHECK(read_word() == 3);
}

/* ---- the end of memory, and of programs ---- */

/* Memory has an end, and what is freed can be had again */
static void test_full(void)
{
    CUdeviceptr p[100];
    size_t unused, total;
    int n = 0;
    CUresult result = CUDA_SUCCESS;
    OK(cuMemGetInfo(&unused, &total));
    CHECK(total == 64 << 20 && unused < total);
    while (n < 100 && !(result = cuMemAlloc(&p[n], 4 << 20)))
        n++;
    CHECK(n == 15 && result == CUDA_ERROR_OUT_OF_MEMORY);
    for (int round = 0; round < 20; round++) {
        OK(cuMemFree(p[0]));
        OK(cuMemAlloc(&p[0], 4 << 20));
        OK(cuMemsetD8(p[0], 1, 4 << 20));
    }
}

/* The script ends or kills it and looks what stays behind. */
static void test_sleep(void)
{
    uint32_t *pinned, one = 1;
    CUstream stream;
    OK(cuMemAllocHost((void **)&pinned, 4096));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    *pinned = 0;
    void *args[] = {&pinned, &one};
    OK(cuLaunchKernel(function("wait"), 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    printf("ready\n");
    fflush(stdout);
    sleep(60);
}

#define TEST(name)            \
    {                         \
#name, test_##name, 0 \
    }
#define BARE(name)            \
    {                         \
#name, test_##name, 1 \
    } /* starts by itself, after it has forked */

static const struct {
    const char *name;
    void (*run)(void);
    int bare;
} tests[] = {
    TEST(touch),   TEST(shared),       TEST(launch),  TEST(beside),  TEST(many),    TEST(graph),
    TEST(illegal), TEST(abort),        TEST(runtime), TEST(foreign), TEST(threads), TEST(devices),
    TEST(nomem),   TEST(noipc),        TEST(nop2p),   TEST(full),    TEST(reset),   TEST(sleep),
    BARE(across),  BARE(across_nop2p), BARE(orphan),
};

int main(int argc, char **argv)
{
    for (unsigned i = 0; argc == 2 && i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i].name, argv[1])) {
            if (!tests[i].bare)
                start();
            tests[i].run();
            return 0;
        }
    fprintf(stderr, "usage: device NAME\n");
    return 2;
}
