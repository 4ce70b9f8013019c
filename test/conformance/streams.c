/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, events, and which calls wait for work.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t *word; /* pinned */

static void write_word(CUstream stream, uint32_t value)
{
    need(CU(cuStreamWriteValue32_v2)(stream, (CUdeviceptr)(uintptr_t)word, value, 0),
         "cuStreamWriteValue32");
}

static uint32_t read_word(void)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

/* Does work in `second` wait for a gate in `first`? */
static void ask_order(const char *question, CUstream first, CUstream second)
{
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    gate_close(first);
    write_word(second, 1);
    for (int i = 0; i < LONG_ENOUGH_MS && !read_word(); i++)
        usleep(1000);
    uint32_t before = read_word();
    gate_open();
    need(CU(cuCtxSynchronize)(), "cuCtxSynchronize");
    tell(question, "%s", before ? "no" : read_word() ? "yes" : "never done");
}

static void ask_queries(CUstream blocking, CUstream apart)
{
    gate_close(blocking);
    say(CU(cuStreamQuery)(blocking), "query of a stream with work");
    say(CU(cuStreamQuery)(apart), "query of another stream");
    say(CU(cuStreamQuery)(NULL), "query of the legacy stream while a blocking one has work");
    gate_open();
    CU(cuCtxSynchronize)();
    gate_close(apart);
    say(CU(cuStreamQuery)(NULL), "query of the legacy stream while a non-blocking one has work");
    gate_open();
    CU(cuCtxSynchronize)();
    gate_close(NULL);
    say(CU(cuStreamQuery)(NULL), "query of the legacy stream with work");
    say(CU(cuStreamQuery)(blocking), "query of a blocking stream while the legacy one has work");
    gate_open();
    CU(cuCtxSynchronize)();
    say(CU(cuStreamQuery)(NULL), "query when all is done");
}

static void on_host(void *data)
{
    *(int *)data += read_word() == 1 ? 1 : 100;
}

static void ask_host_function(CUstream stream)
{
    int calls = 0;
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    gate_close(stream);
    write_word(stream, 1);
    say(CU(cuLaunchHostFunc)(stream, on_host, &calls), "cuLaunchHostFunc");
    write_word(stream, 2);
    usleep(50000);
    tell("called before its turn", "%d", calls);
    gate_open();
    CU(cuStreamSynchronize)(stream);
    tell("called in its turn", "%d", calls);
}

void ask_streams(void)
{
    CUstream blocking, other, apart;
    unsigned flags = 9;
    int priority = 9;
    need(CU(cuMemHostAlloc)((void **)&word, 4096, 0), "cuMemHostAlloc");
    say(CU(cuStreamCreate)(&blocking, 0), "cuStreamCreate");
    say(CU(cuStreamCreate)(&other, 0), "cuStreamCreate");
    say(CU(cuStreamCreate)(&apart, CU_STREAM_NON_BLOCKING), "cuStreamCreate, non-blocking");
    say(CU(cuStreamCreate)(&apart, 8), "cuStreamCreate with unknown flags");
    say(CU(cuStreamGetFlags)(apart, &flags), "cuStreamGetFlags");
    tell("flags", "%u", flags);
    ask_order("a stream waits for itself", blocking, blocking);
    ask_order("a blocking stream waits for another", blocking, other);
    ask_order("legacy waits for a blocking stream", blocking, NULL);
    ask_order("a blocking stream waits for legacy", NULL, blocking);
    ask_order("legacy waits for a non-blocking stream", apart, NULL);
    ask_order("a non-blocking stream waits for legacy", NULL, apart);
    ask_order("legacy waits for the thread's default stream", CU_STREAM_PER_THREAD, NULL);
    ask_order("the thread's default stream waits for legacy", NULL, CU_STREAM_PER_THREAD);
    ask_order("the thread's default stream waits for a blocking one", blocking,
              CU_STREAM_PER_THREAD);
    ask_order("CU_STREAM_LEGACY waits for the null stream", NULL, CU_STREAM_LEGACY);
    ask_queries(blocking, apart);
    ask_host_function(apart);
    say(CU(cuStreamDestroy_v2)(NULL), "cuStreamDestroy(NULL)");
    say(CU(cuStreamDestroy_v2)(blocking), "cuStreamDestroy");
    say(CU(cuStreamDestroy_v2)(other), "cuStreamDestroy");
    say(CU(cuStreamDestroy_v2)(apart), "cuStreamDestroy");
    say(CU(cuStreamCreateWithPriority)(&apart, 0, -100), "cuStreamCreateWithPriority(-100)");
    CU(cuStreamGetPriority)(apart, &priority);
    tell("priority", "%d", priority);
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    gate_close(apart);
    write_word(apart, 1);
    say(CU(cuStreamDestroy_v2)(apart), "cuStreamDestroy of a stream with work");
    tell("its work was done at once", "%u", read_word());
    gate_open();
    say(CU(cuCtxSynchronize)(), "cuCtxSynchronize");
    tell("its work was done", "%u", read_word());
    say(CU(cuStreamWriteValue32_v2)(NULL, (CUdeviceptr)(uintptr_t)word + 2, 1, 0),
        "write of a misaligned word");
    say(CU(cuStreamWriteValue32_v2)(NULL, (uintptr_t)&priority, 1, 0),
        "write of a word of pageable memory");
}

void ask_events(void)
{
    CUevent event, later, plain;
    CUstream stream, waiter;
    float ms = -1;
    need(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    need(CU(cuStreamCreate)(&waiter, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    say(CU(cuEventCreate)(&event, 0), "cuEventCreate");
    say(CU(cuEventCreate)(&later, CU_EVENT_BLOCKING_SYNC), "cuEventCreate, blocking");
    say(CU(cuEventCreate)(&plain, CU_EVENT_DISABLE_TIMING), "cuEventCreate, without timing");
    say(CU(cuEventCreate)(&event, 64), "cuEventCreate with unknown flags");
    say(CU(cuEventQuery)(event), "query before the record");
    say(CU(cuEventSynchronize)(event), "synchronize before the record");
    say(CU(cuStreamWaitEvent)(stream, event, 0), "wait for it before the record");
    say(CU(cuEventElapsedTime)(&ms, event, later), "time before the record");
    say(CU(cuEventRecord)(event, stream), "cuEventRecord");
    gate_close(stream);
    say(CU(cuEventRecord)(later, stream), "cuEventRecord");
    say(CU(cuEventQuery)(later), "query while its stream has work before it");
    say(CU(cuEventSynchronize)(event), "synchronize with the one before");
    say(CU(cuEventElapsedTime)(&ms, event, later), "time while one is to come");
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    say(CU(cuStreamWaitEvent)(waiter, later, 0), "cuStreamWaitEvent");
    write_word(waiter, 1);
    usleep(50000);
    tell("the waiting stream went on", "%u", read_word());
    gate_open();
    say(CU(cuEventSynchronize)(later), "synchronize");
    CU(cuStreamSynchronize)(waiter);
    tell("the waiting stream went on", "%u", read_word());
    say(CU(cuEventElapsedTime)(&ms, event, later), "time");
    tell("it is at least 40 ms and below 10 s", "%d", ms >= 40 && ms < 10000);
    say(CU(cuEventRecord)(plain, NULL), "record without timing");
    say(CU(cuEventElapsedTime)(&ms, event, plain), "time of an event without timing");
    gate_close(stream);
    CU(cuEventRecord)(event, stream);
    say(CU(cuEventDestroy_v2)(event), "cuEventDestroy before it has happened");
    gate_open();
    say(CU(cuStreamSynchronize)(stream), "cuStreamSynchronize");
    CU(cuEventDestroy_v2)(later);
    CU(cuEventDestroy_v2)(plain);
    CU(cuStreamDestroy_v2)(stream);
    CU(cuStreamDestroy_v2)(waiter);
}

/* ---- what waits for work in a non-blocking stream ---- */

struct things {
    CUdeviceptr small, large, managed, mapping, scratch;
    void *pinned, *registered;
    char *pageable;
    CUstream stream, made;
    CUevent event;
    CUipcMemHandle handle;
};

enum { LARGE = 8 << 20 };

static CUresult call_alloc(void *d)
{
    return CU(cuMemAlloc_v2)(&((struct things *)d)->scratch, 64 << 20);
}

static CUresult call_free_small(void *d)
{
    return CU(cuMemFree_v2)(((struct things *)d)->small);
}

static CUresult call_free_large(void *d)
{
    return CU(cuMemFree_v2)(((struct things *)d)->scratch);
}

static CUresult call_free_null(void *d)
{
    (void)d;
    return CU(cuMemFree_v2)(0);
}

static CUresult call_host_alloc(void *d)
{
    return CU(cuMemHostAlloc)(&((struct things *)d)->pinned, LARGE, 0);
}

static CUresult call_host_free(void *d)
{
    return CU(cuMemFreeHost)(((struct things *)d)->pinned);
}

static CUresult call_register(void *d)
{
    return CU(cuMemHostRegister_v2)(((struct things *)d)->registered, LARGE, 0);
}

static CUresult call_unregister(void *d)
{
    return CU(cuMemHostUnregister)(((struct things *)d)->registered);
}

static CUresult call_stream_create(void *d)
{
    return CU(cuStreamCreate)(&((struct things *)d)->made, CU_STREAM_NON_BLOCKING);
}

static CUresult call_stream_destroy(void *d)
{
    return CU(cuStreamDestroy_v2)(((struct things *)d)->made);
}

static CUresult call_copy_in(void *d)
{
    struct things *t = d;
    return CU(cuMemcpyHtoD_v2)(t->large, t->pageable, LARGE);
}

static CUresult call_copy_out(void *d)
{
    struct things *t = d;
    return CU(cuMemcpyDtoH_v2)(t->pageable, t->large, LARGE);
}

static CUresult call_copy_in_same(void *d)
{
    struct things *t = d;
    return CU(cuMemcpyHtoDAsync_v2)(t->large, t->pageable, 16, t->stream);
}

static CUresult call_copy_in_same_large(void *d)
{
    struct things *t = d;
    return CU(cuMemcpyHtoDAsync_v2)(t->large, t->pageable, LARGE, t->stream);
}

static CUresult call_copy_out_same(void *d)
{
    struct things *t = d;
    return CU(cuMemcpyDtoHAsync_v2)(t->pageable, t->large, 16, t->stream);
}

static CUresult call_copy_out_same_pinned(void *d)
{
    struct things *t = d;
    return CU(cuMemcpyDtoHAsync_v2)(t->pinned, t->large, 16, t->stream);
}

static CUresult call_copy_out_same_registered(void *d)
{
    struct things *t = d;
    return CU(cuMemcpyDtoHAsync_v2)(t->registered, t->large, 16, t->stream);
}

static CUresult call_copy_host_same(void *d)
{
    struct things *t = d;
    return CU(cuMemcpyAsync)((uintptr_t)t->pageable, (uintptr_t)t->pinned, 16, t->stream);
}

static CUresult call_memset(void *d)
{
    return CU(cuMemsetD32_v2)(((struct things *)d)->large, 1, 100);
}

static CUresult call_query(void *d)
{
    unsigned type;
    return CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     ((struct things *)d)->large);
}

static CUresult call_export(void *d)
{
    struct things *t = d;
    return CU(cuIpcGetMemHandle)(&t->handle, t->large);
}

static CUresult call_alloc_async(void *d)
{
    struct things *t = d;
    CUresult result = CU(cuMemAllocAsync)(&t->scratch, 1 << 20, t->made);
    return result ? result : CU(cuStreamSynchronize)(t->made);
}

static CUresult call_free_async(void *d)
{
    struct things *t = d;
    CUresult result = CU(cuMemFreeAsync)(t->scratch, t->made);
    return result ? result : CU(cuStreamSynchronize)(t->made);
}

static CUresult call_free_managed(void *d)
{
    return CU(cuMemFree_v2)(((struct things *)d)->managed);
}

static CUresult call_event(void *d)
{
    CUevent event;
    (void)d;
    CUresult result = CU(cuEventCreate)(&event, 0);
    return result ? result : CU(cuEventDestroy_v2)(event);
}

static CUresult call_record_legacy(void *d)
{
    struct things *t = d;
    CUresult result = CU(cuEventRecord)(t->event, NULL);
    return result ? result : CU(cuEventSynchronize)(t->event);
}

static CUresult call_sync_legacy(void *d)
{
    (void)d;
    return CU(cuStreamSynchronize)(NULL);
}

static CUresult call_sync_context(void *d)
{
    (void)d;
    return CU(cuCtxSynchronize)();
}

/* While one thread sits in cuMemFree: does another thread's work get through? */
static void *free_scratch(void *d)
{
    struct things *t = d;
    CUcontext ctx;
    CU(cuDevicePrimaryCtxRetain)(&ctx, 0);
    CU(cuCtxSetCurrent)(ctx);
    CU(cuMemFree_v2)(t->scratch);
    CU(cuDevicePrimaryCtxRelease_v2)(0);
    return NULL;
}

static CUresult call_copy_beside_free(void *d)
{
    struct things *t = d;
    pthread_t thread;
    pthread_create(&thread, NULL, free_scratch, t);
    usleep(50000);
    CUresult result = CU(cuMemcpyDtoDAsync_v2)(t->large, t->large + 4096, 4096, t->made);
    pthread_detach(thread);
    return result;
}

void ask_waits(void)
{
    struct things t = {.registered = aligned_alloc(4096, LARGE), .pageable = malloc(LARGE)};
    memset(t.registered, 0, LARGE);
    memset(t.pageable, 0, LARGE);
    need(CU(cuMemAlloc_v2)(&t.small, 256), "cuMemAlloc");
    need(CU(cuMemAlloc_v2)(&t.large, LARGE), "cuMemAlloc");
    need(CU(cuMemAllocManaged)(&t.managed, 1 << 20, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    need(CU(cuStreamCreate)(&t.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    need(CU(cuEventCreate)(&t.event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    time_call("cuMemAlloc", t.stream, call_alloc, &t);
    time_call("cuMemFree of 256 bytes", t.stream, call_free_small, &t);
    time_call("cuMemFree of 64 MiB", t.stream, call_free_large, &t);
    time_call("cuMemFree(0)", t.stream, call_free_null, &t);
    time_call("cuMemHostAlloc", t.stream, call_host_alloc, &t);
    time_call("cuMemFreeHost", t.stream, call_host_free, &t);
    time_call("cuMemHostRegister", t.stream, call_register, &t);
    time_call("cuMemHostUnregister", t.stream, call_unregister, &t);
    time_call("cuStreamCreate", t.stream, call_stream_create, &t);
    time_call("cuMemcpyHtoD, pageable, 8 MiB", t.stream, call_copy_in, &t);
    time_call("cuMemcpyDtoH, pageable, 8 MiB", t.stream, call_copy_out, &t);
    time_call("cuMemcpyHtoDAsync in that stream, pageable, 16 bytes", t.stream, call_copy_in_same,
              &t);
    time_call("cuMemcpyHtoDAsync in that stream, pageable, 8 MiB", t.stream,
              call_copy_in_same_large, &t);
    time_call("cuMemcpyDtoHAsync in that stream, pageable", t.stream, call_copy_out_same, &t);
    need(CU(cuMemHostAlloc)(&t.pinned, LARGE, 0), "cuMemHostAlloc");
    need(CU(cuMemHostRegister_v2)(t.registered, LARGE, 0), "cuMemHostRegister");
    time_call("cuMemcpyDtoHAsync in that stream, pinned", t.stream, call_copy_out_same_pinned, &t);
    time_call("cuMemcpyDtoHAsync in that stream, registered", t.stream,
              call_copy_out_same_registered, &t);
    time_call("cuMemcpyAsync in that stream, pinned to pageable", t.stream, call_copy_host_same,
              &t);
    time_call("cuMemsetD32", t.stream, call_memset, &t);
    time_call("cuPointerGetAttribute", t.stream, call_query, &t);
    time_call("cuIpcGetMemHandle", t.stream, call_export, &t);
    time_call("cuMemAllocAsync in another stream, and wait for that", t.stream, call_alloc_async,
              &t);
    time_call("cuMemFreeAsync in another stream, and wait for that", t.stream, call_free_async, &t);
    time_call("cuMemFree of managed memory", t.stream, call_free_managed, &t);
    time_call("cuEventRecord on the legacy stream, and wait for it", t.stream, call_record_legacy,
              &t);
    time_call("cuEventCreate and destroy", t.stream, call_event, &t);
    time_call("cuStreamSynchronize of the legacy stream", t.stream, call_sync_legacy, &t);
    time_call("cuCtxSynchronize", t.stream, call_sync_context, &t);
    need(CU(cuMemAlloc_v2)(&t.scratch, 1 << 20), "cuMemAlloc");
    time_call("a copy in another stream while another thread frees", t.stream,
              call_copy_beside_free, &t);
    time_call("cuStreamDestroy of another stream", t.stream, call_stream_destroy, &t);
    CU(cuMemHostUnregister)(t.registered);
    free(t.registered);
    free(t.pageable);
    CU(cuMemFreeHost)(t.pinned);
    CU(cuMemFree_v2)(t.large);
    CU(cuEventDestroy_v2)(t.event);
    CU(cuStreamDestroy_v2)(t.stream);
}
