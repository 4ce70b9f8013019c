/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream capture: what would go into the stream goes into a graph. A stream that waits for an event
 * of a capturing stream joins its capture.
 */
#include <stdlib.h>

#include "sim/graph.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUgraph_st *captures; /* under way, in the whole process */
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/*
 * A call that might disturb a capture is refused, and the captures become invalid: those of this
 * thread, or, if this thread is in global mode, those that any thread began in global mode. In
 * relaxed mode everything is allowed.
 */
CUresult sim_capture_check(void)
{
    CUresult result = CUDA_SUCCESS;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || !captures)
        return result;
    pthread_mutex_lock(&lock);
    for (struct CUgraph_st *g = captures; g; g = g->next_capture) {
        bool own = pthread_equal(g->thread, pthread_self());
        if (g->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
            (!own && (thread_mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
                      g->mode != CU_STREAM_CAPTURE_MODE_GLOBAL)))
            continue;
        g->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/*
 * The capture of a blocking stream of the context, or NULL: the legacy stream would come after it,
 * so as long as it goes on that stream is of no use.
 */
CUgraph sim_capture_of_blocking(CUcontext ctx)
{
    CUgraph graph = NULL;
    pthread_mutex_lock(&sim.lock);
    for (struct CUstream_st *s = ctx->streams; s && !graph; s = s->next)
        if (!(s->flags & CU_STREAM_NON_BLOCKING))
            graph = s->capture;
    pthread_mutex_unlock(&sim.lock);
    return graph;
}

CUresult sim_capture_break(CUgraph graph)
{
    graph->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void sim_capture_break_if(CUgraph graph)
{
    pthread_mutex_lock(&lock);
    for (struct CUgraph_st *g = captures; g; g = g->next_capture)
        if (g == graph)
            g->invalid = true;
    pthread_mutex_unlock(&lock);
}

CUresult sim_capture_add(struct CUstream_st *s, const struct sim_cmd *cmd, const void *args)
{
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return sim_graph_add(s->capture, cmd, args, NULL);
}

CUresult sim_capture_join(struct CUstream_st *s, CUgraph graph)
{
    if (s->capture && s->capture != graph)
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    if (s == s->ctx->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    s->capture = graph;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    struct CUstream_st *s;
    CUgraph graph;
    CUresult result = sim_stream_of(stream, &s);
    if (result)
        return result;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s == s->ctx->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    result = cuGraphCreate(&graph, 0);
    if (result)
        return result;
    graph->id = atomic_fetch_add(&sim.next_id, 1) + 1;
    graph->mode = mode;
    graph->origin = s;
    graph->thread = pthread_self();
    pthread_mutex_lock(&lock);
    graph->next_capture = captures;
    captures = graph;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&s->ctx->submit);
    s->capture = graph;
    pthread_mutex_unlock(&s->ctx->submit);
    return CUDA_SUCCESS;
}

/* Every stream that the capture has spread to is an ordinary one again. */
static void leave_capture(CUgraph graph, CUcontext ctx)
{
    pthread_mutex_lock(&lock);
    for (struct CUgraph_st **at = &captures; *at; at = &(*at)->next_capture)
        if (*at == graph) {
            *at = graph->next_capture;
            break;
        }
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&ctx->submit);
    pthread_mutex_lock(&sim.lock);
    for (struct CUstream_st *s = ctx->streams; s; s = s->next)
        if (s->capture == graph)
            s->capture = NULL;
    pthread_mutex_unlock(&sim.lock);
    pthread_mutex_unlock(&ctx->submit);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (result)
        return result;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph g = s->capture;
    if (!g)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (g->origin != s)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (g->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(g->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    leave_capture(g, s->ctx);
    *graph = g->invalid ? NULL : g;
    if (!g->invalid)
        return CUDA_SUCCESS;
    cuGraphDestroy(g);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (result)
        return result;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    /* Asking does not spoil the capture, using it would */
    return s == s->ctx->legacy && sim_capture_of_blocking(s->ctx)
               ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
               : CUDA_SUCCESS;
}

static CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph, size_t *n)
{
    struct CUstream_st *s;
    CUresult result = cuStreamIsCapturing(stream, status);
    if (!result)
        result = sim_stream_of(stream, &s);
    if (result || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return result;
    if (id)
        *id = s->capture->id;
    if (graph)
        *graph = s->capture;
    if (n)
        *n = 0;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **dependencies, size_t *n)
{
    (void)dependencies; /* the order of the nodes is all that counts: there are none to name */
    return capture_info(stream, status, id, graph, n);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                CUgraph *graph, const CUgraphNode **dependencies,
                                const CUgraphEdgeData **edges, size_t *n)
{
    (void)dependencies;
    (void)edges;
    return capture_info(stream, status, id, graph, n);
}
