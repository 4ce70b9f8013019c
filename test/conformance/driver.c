/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts, finds the driver, and asks about its beginning and its end. Run it alone: it starts its
 * second process itself.
 */
#include "conformance.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct driver driver;

static const char *name_of(CUresult result)
{
    const char *name = NULL;
    CU(cuGetErrorName)(result, &name);
    return name ? name : "?";
}

void say(CUresult result, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *name = NULL;
    if (CU(cuGetErrorName)(result, &name)) /* the driver has been shut down */
        printf("%-64s error %d\n", text, result);
    else
        printf("%-64s %s\n", text, name);
    fflush(stdout);
}

void tell(const char *question, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("%-64s %s\n", question, text);
    fflush(stdout);
}

void need(CUresult result, const char *what)
{
    if (!result)
        return;
    printf("cannot go on: %s: %s\n", what, name_of(result));
    fflush(stdout);
    _exit(1);
}

/* ---- gates ---- */

static uint32_t *gate; /* pinned: streams wait until it has the number of the gate */
static uint32_t gates;

void gate_close(CUstream stream)
{
    if (!gate)
        need(CU(cuMemHostAlloc)((void **)&gate, 4096, 0), "cuMemHostAlloc");
    gates++;
    need(CU(cuStreamWaitValue32_v2)(stream, (CUdeviceptr)(uintptr_t)gate, gates,
                                    CU_STREAM_WAIT_VALUE_GEQ),
         "wait");
}

void gate_open(void)
{
    __atomic_store_n(gate, gates, __ATOMIC_SEQ_CST);
}

static void *open_later(void *unused)
{
    (void)unused;
    usleep(LONG_ENOUGH_MS * 1000);
    gate_open();
    return NULL;
}

void time_call(const char *what, CUstream stream, CUresult (*call)(void *data), void *data)
{
    pthread_t opener;
    gate_close(stream);
    pthread_create(&opener, NULL, open_later, NULL);
    CUresult result = call(data);
    bool waited = __atomic_load_n(gate, __ATOMIC_SEQ_CST) == gates;
    pthread_join(opener, NULL);
    need(CU(cuStreamSynchronize)(stream), "cuStreamSynchronize");
    printf("%-64s %s, %s\n", what, waited ? "waits" : "returns", name_of(result));
    fflush(stdout);
}

/* ---- the beginning and the end ---- */

static bool find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("no driver: %s\n", dlerror());
        return false;
    }
#define X(name)                                       \
    {                                                 \
        void *symbol = dlsym(library, #name);         \
        if (!symbol)                                  \
            printf("the driver has no " #name "\n");  \
        memcpy(&driver.name, &symbol, sizeof symbol); \
    }
    DRIVER_FUNCTIONS(X)
#undef X
#define X(name) &&driver.name
    return true DRIVER_FUNCTIONS(X);
#undef X
}

static void ask_uninitialized(void)
{
    int n;
    CUdeviceptr p;
    CUcontext ctx;
    unsigned type;
    say(CU(cuDeviceGetCount)(&n), "before cuInit: cuDeviceGetCount");
    say(CU(cuCtxGetCurrent)(&ctx), "before cuInit: cuCtxGetCurrent");
    say(CU(cuMemAlloc_v2)(&p, 16), "before cuInit: cuMemAlloc");
    say(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&n),
        "before cuInit: cuPointerGetAttribute");
    say(CU(cuStreamQuery)(NULL), "before cuInit: cuStreamQuery");
    say(CU(cuInit)(1), "cuInit with flags");
    say(CU(cuDriverGetVersion)(&n), "before cuInit: cuDriverGetVersion");
}

static void ask_without_context(void)
{
    CUdeviceptr p;
    CUdevice device;
    CUcontext ctx = (CUcontext)1;
    CUstream stream;
    unsigned type = 9;
    int on_stack;
    say(CU(cuCtxGetCurrent)(&ctx), "no context: cuCtxGetCurrent");
    tell("no context: the current one", "%s", ctx ? "not null" : "null");
    say(CU(cuCtxGetDevice)(&device), "no context: cuCtxGetDevice");
    say(CU(cuMemAlloc_v2)(&p, 16), "no context: cuMemAlloc");
    say(CU(cuMemFree_v2)(0), "no context: cuMemFree(0)");
    say(CU(cuStreamCreate)(&stream, 0), "no context: cuStreamCreate");
    say(CU(cuStreamQuery)(NULL), "no context: cuStreamQuery");
    say(CU(cuCtxSynchronize)(), "no context: cuCtxSynchronize");
    say(CU(cuCtxPopCurrent_v2)(&ctx), "no context: cuCtxPopCurrent");
    say(CU(cuCtxSetCurrent)(NULL), "no context: cuCtxSetCurrent(NULL)");
    say(CU(cuCtxPushCurrent_v2)(NULL), "no context: cuCtxPushCurrent(NULL)");
    say(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&on_stack),
        "no context: cuPointerGetAttribute of host memory");
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void *value = &type;
    say(CU(cuPointerGetAttributes)(1, &attribute, &value, (uintptr_t)&on_stack),
        "no context: cuPointerGetAttributes of host memory");
}

static void ask_reset(CUcontext ctx)
{
    CUcontext current, again;
    CUdeviceptr p = 0;
    unsigned flags, type, version;
    int active;
    need(CU(cuMemAlloc_v2)(&p, 1 << 20), "cuMemAlloc");
    say(CU(cuDevicePrimaryCtxReset_v2)(0), "reset: cuDevicePrimaryCtxReset");
    CU(cuDevicePrimaryCtxGetState)(0, &flags, &active);
    tell("reset: active", "%d", active);
    say(CU(cuCtxGetCurrent)(&current), "reset: cuCtxGetCurrent");
    tell("reset: the current one is the old one", "%d", current == ctx);
    say(CU(cuCtxGetApiVersion)(ctx, &version), "reset: cuCtxGetApiVersion of it");
    say(CU(cuMemFree_v2)(p), "reset: cuMemFree of memory it had");
    say(CU(cuMemAlloc_v2)(&p, 16), "reset: cuMemAlloc");
    say(CU(cuStreamQuery)(NULL), "reset: cuStreamQuery");
    say(CU(cuCtxSynchronize)(), "reset: cuCtxSynchronize");
    say(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p),
        "reset: the memory's type");
    say(CU(cuDevicePrimaryCtxRelease_v2)(0), "reset: release of the retain before");
    say(CU(cuDevicePrimaryCtxRetain)(&again, 0), "reset: retain");
    tell("reset: the same context", "%d", again == ctx);
    say(CU(cuMemAlloc_v2)(&p, 16), "reset and retained: cuMemAlloc with the old current one");
    say(CU(cuCtxSetCurrent)(again), "reset and retained: cuCtxSetCurrent");
    say(CU(cuMemAlloc_v2)(&p, 16), "reset and retained: cuMemAlloc");
    say(CU(cuMemFree_v2)(p), "reset and retained: cuMemFree");
    say(CU(cuDevicePrimaryCtxRelease_v2)(0), "reset and retained: release");
    say(CU(cuDevicePrimaryCtxRelease_v2)(0), "release once more");
    say(CU(cuMemAlloc_v2)(&p, 16), "released: cuMemAlloc");
    say(CU(cuCtxSetCurrent)(ctx), "released: cuCtxSetCurrent");
    say(CU(cuCtxPushCurrent_v2)(ctx), "released: cuCtxPushCurrent");
    say(CU(cuCtxSetCurrent)(NULL), "released: cuCtxSetCurrent(NULL)");
}

/* This is registered before the driver is loaded, so it runs after whatever that has registered. */
static void ask_at_exit(void)
{
    int n;
    CUcontext ctx;
    CUdeviceptr p;
    if (!driver.cuInit)
        return;
    say(CU(cuCtxGetCurrent)(&ctx), "at exit: cuCtxGetCurrent");
    say(CU(cuMemAlloc_v2)(&p, 16), "at exit: cuMemAlloc");
    say(CU(cuDeviceGetCount)(&n), "at exit: cuDeviceGetCount");
}

static void ask_all(void)
{
    CUcontext ctx;
    need(CU(cuInit)(0), "cuInit");
    say(CU(cuInit)(0), "cuInit again");
    ask_without_context();
    ask_devices();
    need(CU(cuDevicePrimaryCtxRetain)(&ctx, 0), "cuDevicePrimaryCtxRetain");
    need(CU(cuCtxSetCurrent)(ctx), "cuCtxSetCurrent");
    ask_contexts(ctx);
    ask_memory();
    ask_pointers(ctx);
    ask_copies();
    ask_streams();
    ask_events();
    ask_capture();
    ask_mapping(ctx);
    ask_pools();
    ask_modules();
    ask_waits();
    ask_fork_child();
}

static void ask_about_peers(void)
{
    CUcontext ctx;
    need(CU(cuInit)(0), "cuInit");
    need(CU(cuDevicePrimaryCtxRetain)(&ctx, 0), "cuDevicePrimaryCtxRetain");
    need(CU(cuCtxSetCurrent)(ctx), "cuCtxSetCurrent");
    ask_pieces();
}

/* `driver` asks about everything but what `driver peers` asks about. */
int main(int argc, char **argv)
{
    int pair[2], status = 1;
    bool peers = argc > 1 && !strcmp(argv[1], "peers");
    CUcontext ctx;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!peers)
        atexit(ask_at_exit);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 1;
    /* Before the driver is there: a process that has it cannot be forked */
    pid_t importer = fork();
    if (!find_driver())
        return 77;
    if (!importer) {
        close(pair[0]);
        peers ? ask_peer(pair[1]) : ask_importer(pair[1]);
        _exit(0);
    }
    close(pair[1]);
    if (peers) {
        ask_about_peers();
        ask_owner(pair[0]);
        waitpid(importer, &status, 0);
        return status != 0;
    }
    ask_uninitialized();
    ask_all();
    ask_exporter(pair[0]);
    waitpid(importer, &status, 0);
    need(CU(cuCtxGetCurrent)(&ctx), "cuCtxGetCurrent");
    ask_reset(ctx);
    return status != 0;
}
