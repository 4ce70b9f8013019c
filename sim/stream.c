/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: each has a queue in the shared memory and a thread in its context's executor. The legacy
 * default stream and each thread's default stream are ordinary ones that come into being when they
 * are first used.
 */
#include "sim/driver.h"

#include <stdlib.h>
#include <string.h>

/* This thread's default streams, one per context it was used in */
struct own_stream {
    CUcontext ctx;
    unsigned long long ctx_id; /* a context that was reset is another one */
    struct CUstream_st *stream;
    struct own_stream *next;
};

static struct CUstream_st *retired;
static pthread_key_t own_streams;
static pthread_once_t own_streams_once = PTHREAD_ONCE_INIT;

/*
 * With sim.lock held: the object is void, and kept for another stream, so that a stale handle is
 * found out.
 */
static void retire(struct CUstream_st *s)
{
    s->magic = 0;
    s->next = retired;
    retired = s;
}

static struct CUstream_st *new_object(void)
{
    pthread_mutex_lock(&sim.lock);
    struct CUstream_st *s = retired;
    if (s)
        retired = s->next;
    pthread_mutex_unlock(&sim.lock);
    if (!s)
        return calloc(1, sizeof *s);
    memset(s, 0, sizeof *s);
    return s;
}

/* With sim.lock held: forget destroyed streams whose work is done */
static void reap(CUcontext ctx)
{
    for (struct CUstream_st **at = &ctx->streams; *at;) {
        struct CUstream_st *s = *at;
        if (s->magic == SIM_STREAM_MAGIC || atomic_load(&sim_queue_of(s)->state) != SIM_SLOT_DONE) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        atomic_store(&sim_queue_of(s)->state, SIM_SLOT_FREE);
        retire(s);
    }
}

static int free_queue(void)
{
    static unsigned next;
    for (struct CUctx_st *c = sim.contexts; c; c = c->next)
        reap(c);
    for (unsigned tries = 0; tries < SIM_STREAMS; tries++) {
        unsigned i = next++ % SIM_STREAMS;
        if (atomic_load(&sim.shared->queue[i].state) == SIM_SLOT_FREE) {
            atomic_store(&sim.shared->queue[i].state, SIM_SLOT_LIVE);
            return (int)i;
        }
    }
    return -1;
}

CUresult sim_stream_new(CUcontext ctx, unsigned flags, int priority, struct CUstream_st **stream)
{
    struct CUstream_st *s = new_object();
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&sim.lock);
    int index = free_queue();
    pthread_mutex_unlock(&sim.lock);
    struct sim_request start = {.verb = SIM_STREAM, .queue = (uint32_t)index};
    CUresult result =
        index < 0 ? CUDA_ERROR_OUT_OF_MEMORY : sim_request(&ctx->executor, &start, NULL);
    if (result) {
        if (index >= 0)
            atomic_store(&sim.shared->queue[index].state, SIM_SLOT_FREE);
        pthread_mutex_lock(&sim.lock);
        retire(s);
        pthread_mutex_unlock(&sim.lock);
        return result;
    }
    s->magic = SIM_STREAM_MAGIC;
    s->ctx = ctx;
    s->index = (unsigned)index;
    s->flags = flags;
    s->priority = priority;
    s->id = atomic_fetch_add(&sim.next_id, 1) + 1;
    pthread_mutex_lock(&sim.lock);
    s->next = ctx->streams;
    ctx->streams = s;
    pthread_mutex_unlock(&sim.lock);
    *stream = s;
    return CUDA_SUCCESS;
}

/*
 * After the executor has ended, with sim.lock held: what its streams had not done counts as done.
 */
void sim_streams_forget(CUcontext ctx)
{
    while (ctx->streams) {
        struct CUstream_st *s = ctx->streams;
        struct sim_queue *q = sim_queue_of(s);
        ctx->streams = s->next;
        atomic_store(&q->head, atomic_load(&q->tail));
        atomic_store(&q->completed, atomic_load(&q->submitted));
        atomic_store(&q->host, SIM_HOST_NONE);
        sim_wake(sim_low_half(&q->completed));
        atomic_store(&q->state, SIM_SLOT_FREE);
        retire(s);
    }
    ctx->legacy = NULL;
}

/*
 * The stream ends when it has done its work; nobody waits for that, but whoever waits for the
 * context does.
 */
static CUresult destroy(struct CUstream_st *s)
{
    struct sim_cmd end = {.op = SIM_OP_EXIT, .bytes = sizeof end};
    pthread_mutex_lock(&s->ctx->submit);
    CUresult result = sim_submit_locked(s, &end, NULL, NULL);
    s->magic = 0;
    pthread_mutex_unlock(&s->ctx->submit);
    return result;
}

static void end_thread(void *list)
{
    while (list) {
        struct own_stream *o = list;
        list = o->next;
        if (!sim_ready() && sim_same_context(o->ctx, o->ctx_id))
            destroy(o->stream);
        free(o);
    }
}

static void make_key(void)
{
    pthread_key_create(&own_streams, end_thread);
}

static CUresult own_stream(CUcontext ctx, struct CUstream_st **stream)
{
    pthread_once(&own_streams_once, make_key);
    for (struct own_stream *o = pthread_getspecific(own_streams); o; o = o->next)
        if (o->ctx == ctx && o->ctx_id == ctx->id) {
            *stream = o->stream;
            return CUDA_SUCCESS;
        }
    struct own_stream *o = calloc(1, sizeof *o);
    CUresult result = o ? sim_stream_new(ctx, 0, 0, &o->stream) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(o);
        return result;
    }
    o->ctx = ctx;
    o->ctx_id = ctx->id;
    o->next = pthread_getspecific(own_streams);
    pthread_setspecific(own_streams, o);
    *stream = o->stream;
    return CUDA_SUCCESS;
}

static CUresult legacy_stream(CUcontext ctx, struct CUstream_st **stream)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&ctx->submit);
    *stream = ctx->legacy;
    if (!*stream && !(result = sim_stream_new(ctx, 0, 0, stream)))
        ctx->legacy = *stream;
    pthread_mutex_unlock(&ctx->submit);
    return result;
}

CUresult sim_stream_of(CUstream handle, struct CUstream_st **stream)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!handle || handle == CU_STREAM_LEGACY) {
        *stream = ctx->legacy;
        return *stream ? CUDA_SUCCESS : legacy_stream(ctx, stream);
    }
    if (handle == CU_STREAM_PER_THREAD)
        return own_stream(ctx, stream);
    if (handle->magic != SIM_STREAM_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    *stream = handle;
    return sim_context_usable(handle->ctx);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    return sim_stream_new(ctx, flags, priority, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream)
{
    struct CUstream_st *s;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    result = sim_stream_of(stream, &s);
    return result ? result : destroy(s);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (result)
        return result;
    return s->capture ? sim_capture_break(s->capture) : sim_stream_wait(s);
}

CUresult cuStreamQuery(CUstream stream)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (result)
        return result;
    if (s->capture)
        return sim_capture_break(s->capture);
    CUgraph spoilt = s == s->ctx->legacy ? sim_capture_of_blocking(s->ctx) : NULL;
    if (spoilt) {
        sim_capture_break(spoilt);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    struct sim_queue *q = sim_queue_of(s);
    if (atomic_load(&q->completed) < atomic_load(&q->submitted)) {
        result = sim_error(s->ctx);
        return result ? result : CUDA_ERROR_NOT_READY;
    }
    return s == s->ctx->legacy ? sim_blocking_idle(s->ctx) : CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (!result)
        *flags = s->flags;
    return result;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (!result)
        *priority = s->priority;
    return result;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (!result)
        *id = s->id;
    return result;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (!result)
        *ctx = s->ctx;
    return result;
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (!result)
        *device = s->ctx->device;
    return result;
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr p, size_t bytes, unsigned flags)
{
    struct CUstream_st *s;
    (void)p;
    (void)bytes;
    (void)flags;
    return sim_stream_of(stream, &s);
}
