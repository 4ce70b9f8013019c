/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies and fills. Memory that the executor sees is copied by it, in stream order. Pageable memory
 * goes through pieces of shared memory that the application fills or empties itself; as on
 * hardware, a copy from it takes the data before it returns, and a copy into it returns when the
 * data is there.
 */
#include "sim/driver.h"

#include <string.h>

/* Larger copies from pageable memory first wait for the stream. */
enum { SMALL_COPY = 64 << 10 };

static pthread_mutex_t bounce_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct sim_queue *queue; /* the piece is free when this */
    uint64_t value;          /* has completed so much */
    CUcontext ctx;
    bool taken;
} bounces[SIM_BOUNCES];

enum place { PAGEABLE, REGISTERED, VISIBLE_HOST, VISIBLE_DEVICE, NOWHERE };

/*
 * Where `bytes` at `p` are, and if the executor sees them. NOWHERE: they run over the end of a
 * block.
 */
static enum place place_of(CUdeviceptr p, size_t bytes)
{
    enum place place = PAGEABLE;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(p);
    if (b) {
        place = b->kind == SIM_REGISTERED ? REGISTERED
                : b->kind == SIM_HOST     ? VISIBLE_HOST
                                          : VISIBLE_DEVICE;
        for (CUdeviceptr end = p + bytes; b && end > b->address + b->bytes;) {
            CUdeviceptr after = b->address + b->bytes;
            b = b->kind == SIM_VMM ? sim_block_at(after) : NULL; /* mappings may adjoin */
        }
        if (!b)
            place = place == REGISTERED ? PAGEABLE : NOWHERE;
    }
    sim_table_unlock();
    return place;
}

CUresult sim_bounce_take(unsigned *index)
{
    static unsigned next;
    for (;;) {
        pthread_mutex_lock(&bounce_lock);
        for (unsigned tries = 0; tries < SIM_BOUNCES; tries++) {
            unsigned i = next++ % SIM_BOUNCES;
            if (bounces[i].taken ||
                (bounces[i].queue && atomic_load(&bounces[i].queue->completed) < bounces[i].value))
                continue;
            bounces[i].taken = true;
            pthread_mutex_unlock(&bounce_lock);
            *index = i;
            return CUDA_SUCCESS;
        }
        unsigned oldest = next % SIM_BOUNCES;
        struct sim_queue *queue = bounces[oldest].queue;
        uint64_t value = bounces[oldest].value;
        CUcontext ctx = bounces[oldest].ctx;
        pthread_mutex_unlock(&bounce_lock);
        CUresult result = queue ? sim_wait(ctx, queue, value) : CUDA_SUCCESS;
        if (result)
            return result;
    }
}

void sim_bounce_put(unsigned index, struct CUstream_st *s, uint64_t value)
{
    pthread_mutex_lock(&bounce_lock);
    bounces[index].queue = value ? sim_queue_of(s) : NULL;
    bounces[index].value = value;
    bounces[index].ctx = s ? s->ctx : NULL;
    bounces[index].taken = false;
    pthread_mutex_unlock(&bounce_lock);
}

static struct sim_cmd copy_command(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return (struct sim_cmd){
        .op = SIM_OP_COPY, .bytes = sizeof(struct sim_cmd), .copy = {to, from, bytes}};
}

/*
 * The executor knows the pieces at the place where it has the shared memory: told as an offset,
 * below all addresses
 */
CUdeviceptr sim_bounce_address(unsigned index)
{
    return offsetof(struct sim_shared, bounce) + (CUdeviceptr)index * SIM_BOUNCE_BYTES;
}

static CUresult from_pageable(struct CUstream_st *s, CUdeviceptr to, const char *from, size_t bytes)
{
    CUresult result = bytes > SMALL_COPY ? sim_stream_wait(s) : CUDA_SUCCESS;
    unsigned i;
    while (bytes && !result) {
        size_t piece = bytes < SIM_BOUNCE_BYTES ? bytes : SIM_BOUNCE_BYTES;
        uint64_t value = 0;
        if ((result = sim_bounce_take(&i)))
            break;
        memcpy(sim.shared->bounce[i], from, piece);
        struct sim_cmd copy = copy_command(to, sim_bounce_address(i), piece);
        result = sim_submit(s, &copy, NULL, &value);
        sim_bounce_put(i, s, value);
        to += piece;
        from += piece;
        bytes -= piece;
    }
    return result;
}

/* Two pieces on their way at any time: one is filled while the other is emptied. */
static CUresult to_pageable(struct CUstream_st *s, char *to, CUdeviceptr from, size_t bytes)
{
    struct {
        unsigned index;
        size_t bytes;
        uint64_t value;
    } way[2] = {{0}};
    CUresult result = CUDA_SUCCESS;
    size_t asked = 0, come = 0;
    for (unsigned turn = 0; come < bytes; turn++) {
        unsigned w = turn & 1;
        if (way[w].bytes) {
            if (!result)
                result = sim_wait(s->ctx, sim_queue_of(s), way[w].value);
            if (!result)
                memcpy(to + come, sim.shared->bounce[way[w].index], way[w].bytes);
            come += way[w].bytes;
            sim_bounce_put(way[w].index, s, result ? way[w].value : 0);
            way[w].bytes = 0;
        }
        if (result && !way[!w].bytes)
            break;
        if (asked == bytes || result || (result = sim_bounce_take(&way[w].index)))
            continue;
        way[w].bytes = bytes - asked < SIM_BOUNCE_BYTES ? bytes - asked : SIM_BOUNCE_BYTES;
        struct sim_cmd copy =
            copy_command(sim_bounce_address(way[w].index), from + asked, way[w].bytes);
        result = sim_submit(s, &copy, NULL, &way[w].value);
        asked += way[w].bytes;
    }
    return result;
}

enum direction { ANY, TO_DEVICE, TO_HOST, ON_DEVICE };

static bool on_device(enum place p)
{
    return p == VISIBLE_HOST || p == VISIBLE_DEVICE;
}

/* One side or both are memory that the executor does not see */
static CUresult copy_unseen(struct CUstream_st *s, bool wait, CUdeviceptr to, enum place target,
                            CUdeviceptr from, enum place source, size_t bytes)
{
    char *host_to = (char *)(uintptr_t)to;
    const char *host_from = (const char *)(uintptr_t)from;
    if (s->capture)
        return sim_capture_break(s->capture);
    if (!wait && target == REGISTERED && on_device(source))
        return sim_copy_registered(s, from, host_to, bytes, true);
    if (!wait && source == REGISTERED && on_device(target))
        return sim_copy_registered(s, to, (char *)(uintptr_t)from, bytes, false);
    if (on_device(target))
        return from_pageable(s, to, host_from, bytes);
    if (on_device(source))
        return to_pageable(s, host_to, from, bytes);
    CUresult result = sim_stream_wait(s);
    if (!result)
        memmove(host_to, host_from, bytes);
    return result;
}

static CUresult copy(CUstream stream, bool wait, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                     enum direction direction)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (!result && wait)
        result = sim_capture_check();
    if (result || !bytes)
        return result;
    enum place target = place_of(to, bytes), source = place_of(from, bytes);
    if (target == NOWHERE || source == NOWHERE ||
        ((direction == TO_DEVICE || direction == ON_DEVICE) && !on_device(target)) ||
        ((direction == TO_HOST || direction == ON_DEVICE) && !on_device(source)))
        return CUDA_ERROR_INVALID_VALUE;
    if (!on_device(target) || !on_device(source))
        return copy_unseen(s, wait, to, target, from, source, bytes);
    struct sim_cmd command = copy_command(to, from, bytes);
    result = sim_submit(s, &command, NULL, NULL);
    /* Between two places on the device the host does not wait */
    bool host = target == VISIBLE_HOST || source == VISIBLE_HOST;
    return !result && wait && host ? sim_stream_wait(s) : result;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(NULL, true, to, from, bytes, ANY);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    sim_count(SIM_COPIES);
    return copy(stream, false, to, from, bytes, ANY);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy(NULL, true, to, (uintptr_t)from, bytes, TO_DEVICE);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy(stream, false, to, (uintptr_t)from, bytes, TO_DEVICE);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    return copy(NULL, true, (uintptr_t)to, from, bytes, TO_HOST);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(stream, false, (uintptr_t)to, from, bytes, TO_HOST);
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(NULL, true, to, from, bytes, ON_DEVICE);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(stream, false, to, from, bytes, ON_DEVICE);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx,
                      size_t bytes)
{
    if (!to_ctx || !from_ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy(NULL, true, to, from, bytes, ON_DEVICE);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx,
                           size_t bytes, CUstream stream)
{
    if (!to_ctx || !from_ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy(stream, false, to, from, bytes, ON_DEVICE);
}

#if CUDA_VERSION >= 13000
/* Attributes only allow it to be faster. */
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t n,
                            CUmemcpyAttributes *attributes, size_t *first, size_t n_attributes,
                            CUstream stream)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!to || !from || !bytes || !n || !attributes || !first || !n_attributes ||
        n_attributes > n || first[0] || !stream || stream == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && !result; i++)
        result = copy(stream, false, to[i], from[i], bytes[i], ANY);
    return result;
}
#endif

/* ---- fills ---- */

static CUresult fill(CUstream stream, bool wait, CUdeviceptr to, unsigned value, size_t count,
                     unsigned width)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (!result && wait)
        result = sim_capture_check();
    if (result || !count)
        return result;
    enum place place = place_of(to, count * width);
    if (to % width || !on_device(place))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_cmd set = {.op = SIM_OP_SET, .bytes = sizeof set, .set = {to, count, value, width}};
    result = sim_submit(s, &set, NULL, NULL);
    /* A fill of device memory is not waited for */
    return !result && wait && place == VISIBLE_HOST ? sim_stream_wait(s) : result;
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill(NULL, true, to, value, count, 1);
}

CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count)
{
    return fill(NULL, true, to, value, count, 2);
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count)
{
    return fill(NULL, true, to, value, count, 4);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill(stream, false, to, value, count, 1);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    return fill(stream, false, to, value, count, 2);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    return fill(stream, false, to, value, count, 4);
}
