/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Putting commands into streams, in the order that the default stream's rules want, and waiting for
 * them.
 */
#include "sim/driver.h"

#include <stdlib.h>
#include <string.h>

/* What waits sleeps this long at most before it looks whether the executor still lives. */
enum { LOOK_AGAIN_MS = 100 };

CUresult sim_wait(CUcontext ctx, struct sim_queue *q, uint64_t value)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t done = atomic_load(&q->completed);
    if (done >= value)
        return (CUresult)atomic_load(&sim.shared->error);
    atomic_fetch_add(&q->waiters, 1);
    while ((done = atomic_load(&q->completed)) < value && !(result = sim_error(ctx)))
        sim_sleep(sim_low_half(&q->completed), (uint32_t)done, LOOK_AGAIN_MS);
    atomic_fetch_sub(&q->waiters, 1);
    return result ? result : (CUresult)atomic_load(&sim.shared->error);
}

/* Room for `bytes` in one piece: the oldest commands have to be done first if there is none */
static CUresult make_room(CUcontext ctx, struct sim_queue *q, uint32_t bytes)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t tail = atomic_load(&q->tail);
    while (!result && tail + bytes - atomic_load(&q->head) > SIM_RING_BYTES) {
        uint64_t done = atomic_load(&q->completed);
        if (tail + bytes - atomic_load(&q->head) > SIM_RING_BYTES)
            result = sim_wait(ctx, q, done + 1);
    }
    return result;
}

static void publish(struct sim_queue *q, uint32_t bytes)
{
    atomic_fetch_add(&q->tail, bytes);
    if (atomic_load(&q->sleeping))
        sim_wake(sim_low_half(&q->tail));
}

/* With the context's submit lock held */
static CUresult put(struct CUstream_st *s, const struct sim_cmd *cmd, const void *args,
                    uint64_t *value)
{
    struct sim_queue *q = sim_queue_of(s);
    uint32_t at = atomic_load(&q->tail) % SIM_RING_BYTES;
    CUresult result = CUDA_SUCCESS;
    if (at + cmd->bytes > SIM_RING_BYTES) {
        result = make_room(s->ctx, q, SIM_RING_BYTES - at);
        if (result)
            return result;
        struct sim_cmd *skip = (struct sim_cmd *)(q->ring + at);
        skip->op = SIM_OP_SKIP;
        skip->bytes = SIM_RING_BYTES - at;
        publish(q, skip->bytes);
        at = 0;
    }
    result = make_room(s->ctx, q, cmd->bytes);
    if (result)
        return result;
    memcpy(q->ring + at, cmd, sizeof *cmd);
    if (cmd->bytes > sizeof *cmd)
        memcpy(q->ring + at + sizeof *cmd, args, cmd->bytes - sizeof *cmd);
    uint64_t now = atomic_fetch_add(&q->submitted, 1) + 1;
    publish(q, cmd->bytes);
    if (value)
        *value = now;
    return CUDA_SUCCESS;
}

static CUresult put_wait(struct CUstream_st *s, struct CUstream_st *other, uint64_t value)
{
    struct sim_cmd wait = {.op = SIM_OP_WAIT, .bytes = sizeof wait, .wait = {value, other->index}};
    return put(s, &wait, NULL, NULL);
}

static bool blocking(const struct CUstream_st *s)
{
    return !(s->flags & CU_STREAM_NON_BLOCKING);
}

/*
 * The legacy default stream goes after everything given to blocking streams before, and blocking
 * streams after everything given to it before. With the submit lock held; the list of streams
 * changes only under it and sim.lock.
 */
static CUresult put_default_order(struct CUstream_st *s)
{
    struct CUstream_st *legacy = s->ctx->legacy;
    CUresult result = CUDA_SUCCESS;
    if (!legacy || !blocking(s))
        return result;
    if (s != legacy) {
        uint64_t value = atomic_load(&sim_queue_of(legacy)->submitted);
        if (s->legacy_seen < value && atomic_load(&sim_queue_of(legacy)->completed) < value)
            result = put_wait(s, legacy, value);
        s->legacy_seen = value;
        return result;
    }
    pthread_mutex_lock(&sim.lock);
    for (struct CUstream_st *o = s->ctx->streams; o && !result; o = o->next) {
        uint64_t value = atomic_load(&sim_queue_of(o)->submitted);
        if (o != s && blocking(o) && atomic_load(&sim_queue_of(o)->completed) < value)
            result = put_wait(s, o, value);
    }
    pthread_mutex_unlock(&sim.lock);
    return result;
}

CUresult sim_submit_locked(struct CUstream_st *s, const struct sim_cmd *cmd, const void *args,
                           uint64_t *value)
{
    CUresult result = sim_context_usable(s->ctx);
    CUgraph spoilt;
    if (!result && s->capture)
        return sim_capture_add(s, cmd, args);
    if (!result && s == s->ctx->legacy && (spoilt = sim_capture_of_blocking(s->ctx))) {
        sim_capture_break(spoilt);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!result)
        result = put_default_order(s);
    return result ? result : put(s, cmd, args, value);
}

CUresult sim_submit(struct CUstream_st *s, const struct sim_cmd *cmd, const void *args,
                    uint64_t *value)
{
    pthread_mutex_lock(&s->ctx->submit);
    CUresult result = sim_submit_locked(s, cmd, args, value);
    pthread_mutex_unlock(&s->ctx->submit);
    return result;
}

CUresult sim_stream_wait(struct CUstream_st *s)
{
    struct sim_queue *q = sim_queue_of(s);
    if (s == s->ctx->legacy) {
        /*
         * Its work includes what blocking streams were given before: a point in it waits for all of
         * that
         */
        struct sim_cmd point = {.op = SIM_OP_NOTHING, .bytes = sizeof point};
        uint64_t value = 0;
        CUresult result = sim_submit(s, &point, NULL, &value);
        return result ? result : sim_wait(s->ctx, q, value);
    }
    return sim_wait(s->ctx, q, atomic_load(&q->submitted));
}

CUresult sim_blocking_idle(CUcontext ctx)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim.lock);
    for (struct CUstream_st *s = ctx->streams; s && !result; s = s->next) {
        struct sim_queue *q = sim_queue_of(s);
        if (blocking(s) && atomic_load(&q->completed) < atomic_load(&q->submitted))
            result = CUDA_ERROR_NOT_READY;
    }
    pthread_mutex_unlock(&sim.lock);
    return result;
}

CUresult sim_context_wait(CUcontext ctx)
{
    struct {
        struct sim_queue *q;
        uint64_t value;
    } work[SIM_STREAMS];
    unsigned n = 0;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim.lock);
    for (struct CUstream_st *s = ctx->streams; s && n < SIM_STREAMS; s = s->next) {
        work[n].q = sim_queue_of(s);
        work[n++].value = atomic_load(&sim_queue_of(s)->submitted);
    }
    pthread_mutex_unlock(&sim.lock);
    for (unsigned i = 0; i < n && !result; i++)
        result = sim_wait(ctx, work[i].q, work[i].value);
    return result ? result : (CUresult)atomic_load(&sim.shared->error);
}
