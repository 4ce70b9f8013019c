/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events: an event is a place in a queue. Also what else orders streams: waits for and writes of
 * words in memory.
 */
#include "sim/driver.h"

#include <stdlib.h>

static CUresult check(CUevent event)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!event || event->magic != SIM_EVENT_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_same_context(event->ctx, event->ctx_id) ? CUDA_SUCCESS
                                                       : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/*
 * Where events' times are. A record of a destroyed event may still be in a queue: until then its
 * place stays taken.
 */
static struct {
    bool taken;
    unsigned queue;
    uint64_t value;
} times[SIM_EVENTS];

/* Void ones, kept for other events, so that a stale handle is found out. Guarded by sim.lock. */
static struct CUevent_st *retired;

/* SIM_EVENTS if there is none. With sim.lock held. */
static unsigned free_time(void)
{
    static unsigned next;
    for (unsigned tries = 0; tries < SIM_EVENTS; tries++) {
        unsigned i = next++ % SIM_EVENTS;
        if (times[i].taken ||
            atomic_load(&sim.shared->queue[times[i].queue].completed) < times[i].value)
            continue;
        times[i].taken = true;
        return i;
    }
    return SIM_EVENTS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!event || flags & ~7u ||
        (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    struct CUevent_st *e = retired;
    unsigned index = free_time();
    if (!e)
        e = calloc(1, sizeof *e);
    else if (index < SIM_EVENTS)
        retired = e->next;
    pthread_mutex_unlock(&sim.lock);
    if (!e || index == SIM_EVENTS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *e = (struct CUevent_st){
        .magic = SIM_EVENT_MAGIC, .ctx = ctx, .ctx_id = ctx->id, .index = index, .flags = flags};
    *event = e;
    return CUDA_SUCCESS;
}

/* Also after its context has ended */
CUresult cuEventDestroy(CUevent event)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!event || event->magic != SIM_EVENT_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&sim.lock);
    times[event->index].taken = false;
    times[event->index].queue = event->queue;
    times[event->index].value = event->value;
    event->magic = 0;
    event->next = retired;
    retired = event;
    pthread_mutex_unlock(&sim.lock);
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    struct CUstream_st *s;
    CUresult result = check(event);
    if (!result)
        result = sim_stream_of(stream, &s);
    if (result)
        return result;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->ctx != event->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture) {
        event->capture = s->capture;
        event->recorded = false;
        return CUDA_SUCCESS;
    }
    struct sim_cmd record = {.op = SIM_OP_RECORD, .bytes = sizeof record, .event = event->index};
    uint64_t value;
    result = sim_submit(s, &record, NULL, &value);
    if (result)
        return result;
    event->capture = NULL;
    event->queue = s->index;
    event->value = value;
    event->recorded = true;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return cuEventRecordWithFlags(event, stream, 0);
}

/*
 * An event of a capture cannot be waited for, and the capture breaks of it, if it is still going
 * on.
 */
static CUresult captured(const struct CUevent_st *e)
{
    sim_capture_break_if(e->capture);
    return CUDA_ERROR_CAPTURED_EVENT;
}

static bool happened(const struct CUevent_st *e)
{
    return !e->recorded || atomic_load(&sim.shared->queue[e->queue].completed) >= e->value;
}

CUresult cuEventQuery(CUevent event)
{
    CUresult result = check(event);
    if (result)
        return result;
    if (event->capture)
        return captured(event);
    if (happened(event))
        return (CUresult)atomic_load(&sim.shared->error);
    result = sim_error(event->ctx);
    return result ? result : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = check(event);
    if (result)
        return result;
    if (event->capture)
        return captured(event);
    return event->recorded ? sim_wait(event->ctx, &sim.shared->queue[event->queue], event->value)
                           : CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    CUresult result = check(start);
    if (!result)
        result = check(end);
    if (result)
        return result;
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (!start->recorded || !end->recorded || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!happened(start) || !happened(end))
        return CUDA_ERROR_NOT_READY;
    uint64_t from = atomic_load(&sim.shared->event_time[start->index]);
    uint64_t to = atomic_load(&sim.shared->event_time[end->index]);
    *ms = (float)((double)(int64_t)(to - from) * 1e-6);
    return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
SIM_API CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    struct CUstream_st *s;
    CUresult result = check(event);
    if (!result)
        result = sim_stream_of(stream, &s);
    if (result)
        return result;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (event->capture)
        return sim_capture_join(s, event->capture);
    if (s->capture)
        return event->recorded ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_SUCCESS;
    if (happened(event))
        return CUDA_SUCCESS;
    struct sim_cmd wait = {
        .op = SIM_OP_WAIT, .bytes = sizeof wait, .wait = {event->value, event->queue}};
    return sim_submit(s, &wait, NULL, NULL);
}

/* ---- words in memory ---- */

static CUresult word(CUstream stream, enum sim_op op, CUdeviceptr address, uint64_t value,
                     unsigned flags, unsigned width)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (result)
        return result;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(address);
    bool ok = b && b->kind != SIM_REGISTERED && address % width == 0;
    sim_table_unlock();
    unsigned known = op == SIM_OP_WAIT_WORD ? CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH
                                            : CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
    if (!ok || flags & ~known || flags & CU_STREAM_WAIT_VALUE_FLUSH)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_cmd c = {.op = op, .bytes = sizeof c, .word = {address, value, flags, width}};
    return sim_submit(s, &c, NULL, NULL);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned flags)
{
    return word(stream, SIM_OP_WRITE_WORD, address, value, flags, 4);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned flags)
{
    return word(stream, SIM_OP_WRITE_WORD, address, value, flags, 8);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    return word(stream, SIM_OP_WAIT_WORD, address, value, flags, 4);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    return word(stream, SIM_OP_WAIT_WORD, address, value, flags, 8);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops,
                            unsigned flags)
{
    CUresult result = flags || n > 256 || (n && !ops) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (unsigned i = 0; i < n && !result; i++) {
        const CUstreamBatchMemOpParams *o = &ops[i];
        switch (o->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            result = word(stream, SIM_OP_WAIT_WORD, o->waitValue.address, o->waitValue.value,
                          o->waitValue.flags, 4);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            result = word(stream, SIM_OP_WAIT_WORD, o->waitValue.address, o->waitValue.value64,
                          o->waitValue.flags, 8);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            result = word(stream, SIM_OP_WRITE_WORD, o->writeValue.address, o->writeValue.value,
                          o->writeValue.flags, 4);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            result = word(stream, SIM_OP_WRITE_WORD, o->writeValue.address, o->writeValue.value64,
                          o->writeValue.flags, 8);
            break;
        default:
            result = CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return result;
}
