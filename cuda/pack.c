/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packing and unpacking on the GPU; pack.h.
 *
 * A small message is packed right into pinned memory, or unpacked from it. A larger one goes through a buffer in device
 * memory, from which the copy engine moves it in pieces, while the CPU empties the piece before: the kernel is launched
 * once for each filling of that buffer. Where no kernel can do it (an element lies in memory of another context or of the
 * host, too, there are no kernels, or no room for them on the GPU), each block is a copy.
 */
#include "cuda/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "cuda/context.h"
#include "cuda/gpu.h"
#include "cuda/packer.h"
#include "cuda/stage.h"

/* Up to so much the kernel itself writes to or reads from pinned memory; reads over the bus take longer. */
#define DIRECT_OUT (256u << 10)
#define DIRECT_IN  (64u << 10)

/* A message on its way. Pieces take turns; `done` is recorded behind the GPU's part of each. */
struct mover {
    struct shunt_gpu *gpu;
    struct shunt_packer *packer;
    const struct shunt_pattern *pattern;
    char *base, *host;
    uint64_t bytes;
    bool image;      /* host memory has the elements as they lie, not packed */
    bool out;
    size_t chunk;    /* bytes of a piece */
    size_t batch;    /* bytes of a filling of the device buffer; 0: kernels access the pieces themselves */
    char *piece[2];
    bool pinned[2];  /* from the pool */
    CUevent done[2];
    unsigned launches;
};

/* ---- the host's end of a piece ---- */

static uint64_t piece_bytes(const struct mover *m, uint64_t at)
{
    return m->bytes - at < m->chunk ? m->bytes - at : m->chunk;
}

static void take_from_host(const struct mover *m, uint64_t at, char *piece)
{
    if (m->image)
        shunt_pattern_gather(m->pattern, m->host, at, piece_bytes(m, at), piece);
    else if (piece != m->host)
        memcpy(piece, m->host + at, piece_bytes(m, at));
}

static void give_to_host(const struct mover *m, uint64_t at, const char *piece)
{
    if (m->image)
        shunt_pattern_scatter(m->pattern, m->host, at, piece_bytes(m, at), piece);
    else if (piece != m->host)
        memcpy(m->host + at, piece, piece_bytes(m, at));
}

/* ---- the GPU's ---- */

static enum shunt_status launch(struct mover *m, uint64_t at, uint64_t bytes, CUdeviceptr packed)
{
    m->launches++;
    return shunt_packer_launch(m->packer, m->pattern, m->base, at, bytes, packed, m->out);
}

/* Between the elements and the device buffer; ended on return, so that copies may follow. */
static enum shunt_status run_batch(struct mover *m, uint64_t at, uint64_t bytes)
{
    enum shunt_status status = launch(m, at, bytes, m->packer->buffer);

    return status == SHUNT_OK ? shunt_packer_wait(m->packer, NULL) : status;
}

static uint64_t batch_bytes(const struct mover *m, uint64_t at)
{
    return m->bytes - at < m->batch ? m->bytes - at : m->batch;
}

/* A single piece has no event: it is done when the stream is. */
static enum shunt_status end_piece(const struct mover *m, unsigned i)
{
    return m->done[i % 2] ? SHUNT_CUDA(cuEventRecord(m->done[i % 2], m->packer->stream)) : SHUNT_OK;
}

static enum shunt_status wait_for_piece(const struct mover *m, unsigned i)
{
    return shunt_packer_wait(m->packer, m->done[i % 2]);
}

/* Piece number i, which begins at `at`, from the device to pinned memory. */
static enum shunt_status move_out(struct mover *m, unsigned i, uint64_t at)
{
    enum shunt_status status = SHUNT_OK;
    CUdeviceptr piece = (CUdeviceptr)m->piece[i % 2];

    if (m->batch == 0) {
        status = launch(m, at, piece_bytes(m, at), piece);
    } else {
        uint64_t within = at % m->batch;
        if (within == 0)
            status = run_batch(m, at, batch_bytes(m, at));
        if (status == SHUNT_OK)
            status =
                SHUNT_CUDA(cuMemcpyAsync(piece, m->packer->buffer + within, piece_bytes(m, at), m->packer->stream));
    }
    return status == SHUNT_OK ? end_piece(m, i) : status;
}

static enum shunt_status move_in(struct mover *m, unsigned i, uint64_t at)
{
    enum shunt_status status;
    CUdeviceptr piece = (CUdeviceptr)m->piece[i % 2];
    uint64_t n = piece_bytes(m, at);

    if (m->batch == 0) {
        status = launch(m, at, n, piece);
    } else {
        uint64_t within = at % m->batch;
        status = SHUNT_CUDA(cuMemcpyAsync(m->packer->buffer + within, piece, n, m->packer->stream));
        if (status == SHUNT_OK && within + n == batch_bytes(m, at - within))
            status = run_batch(m, at - within, within + n);
    }
    return status == SHUNT_OK ? end_piece(m, i) : status;
}

static enum shunt_status run_out(struct mover *m)
{
    uint64_t pieces = (m->bytes + m->chunk - 1) / m->chunk;
    enum shunt_status status = SHUNT_OK;

    for (uint64_t i = 0; i <= pieces && status == SHUNT_OK; i++) {
        if (i < pieces)
            status = move_out(m, i % 2, i * m->chunk);
        if (i > 0 && status == SHUNT_OK) {
            unsigned before = (i - 1) % 2;
            status = wait_for_piece(m, before);
            if (status == SHUNT_OK)
                give_to_host(m, (i - 1) * m->chunk, m->piece[before]);
        }
    }
    return status;
}

static enum shunt_status run_in(struct mover *m)
{
    uint64_t pieces = (m->bytes + m->chunk - 1) / m->chunk;
    enum shunt_status status = SHUNT_OK;

    for (uint64_t i = 0; i < pieces && status == SHUNT_OK; i++) {
        if (i >= 2)
            status = wait_for_piece(m, i % 2);
        if (status == SHUNT_OK) {
            take_from_host(m, i * m->chunk, m->piece[i % 2]);
            status = move_in(m, i % 2, i * m->chunk);
        }
    }
    return status;
}

/* ---- opening and closing ---- */

/* The host memory itself where the GPU may write there, else a piece of the pool, else any memory. */
static bool open_piece(struct mover *m, int i)
{
    if (i == 0 && !m->image && m->bytes <= m->chunk && shunt_pool_has(m->host)) {
        m->piece[0] = m->host;
        return true;
    }
    m->piece[i] = shunt_pool_take();
    m->pinned[i] = m->piece[i] != NULL;
    if (!m->piece[i])
        m->piece[i] = malloc(m->chunk);
    return m->piece[i] != NULL;
}

static void close_mover(struct mover *m)
{
    for (int i = 0; i < 2; i++) {
        if (m->done[i])
            SHUNT_CUDA(cuEventDestroy_v2(m->done[i]));
        if (m->pinned[i])
            shunt_pool_give(m->piece[i]);
        else if (m->piece[i] != m->host)
            free(m->piece[i]);
    }
}

static enum shunt_status open_mover(struct mover *m)
{
    int n = m->bytes > m->chunk ? 2 : 1;
    bool reachable = true; /* by a kernel */

    for (int i = 0; i < n; i++) {
        if (!open_piece(m, i))
            return SHUNT_ERR_MEMORY;
        reachable = reachable && (m->pinned[i] || m->piece[i] == m->host);
        if (n > 1 && SHUNT_CUDA(cuEventCreate(&m->done[i], CU_EVENT_DISABLE_TIMING)) != SHUNT_OK) {
            m->done[i] = NULL;
            return SHUNT_ERR_CUDA;
        }
    }
    if (reachable && n == 1 && m->bytes <= (m->out ? DIRECT_OUT : DIRECT_IN))
        return SHUNT_OK;
    m->batch = shunt_packer_buffer(m->packer, m->chunk, m->bytes);
    return m->batch > 0 || reachable ? SHUNT_OK : SHUNT_PASS;
}

/* With the packer's lock: there is one buffer. */
static enum shunt_status run_kernels(struct mover *m)
{
    enum shunt_status status = open_mover(m);

    if (status == SHUNT_OK) {
        shunt_gpu_after_legacy(m->gpu, m->packer->stream);
        status = m->out ? run_out(m) : run_in(m);
        /* Before the pieces go, all that is under way to them has come. A kernel that was called back touches none. */
        enum shunt_status end = m->packer->stuck ? SHUNT_PASS : shunt_packer_wait(m->packer, NULL);
        status = status == SHUNT_OK ? end : status;
    }
    close_mover(m);
    return status;
}

/* ---- block by block ---- */

static enum shunt_status copy_block(void *context, int64_t offset, uint64_t packed, uint64_t bytes)
{
    struct mover *m = context;
    CUdeviceptr device = (CUdeviceptr)m->base + (CUdeviceptr)offset;
    CUdeviceptr host = (CUdeviceptr)m->host + (m->image ? (CUdeviceptr)offset : packed);

    m->launches++;
    return SHUNT_CUDA(cuMemcpyAsync(m->out ? host : device, m->out ? device : host, bytes, m->gpu->copies));
}

static enum shunt_status run_copies(struct mover *m, uint64_t first)
{
    m->launches = 0;
    shunt_gpu_after_legacy(m->gpu, m->gpu->copies);
    enum shunt_status status = shunt_pattern_walk(m->pattern, first, m->bytes, copy_block, m);
    enum shunt_status end = SHUNT_CUDA(cuStreamSynchronize(m->gpu->copies));

    shunt_trace("stage", "%s %llu bytes, copies: %u", m->out ? "packed" : "unpacked", (unsigned long long)m->bytes,
                m->launches);
    return status == SHUNT_OK ? end : status;
}

static enum shunt_status run(struct mover *m, bool foreign, int64_t count)
{
    enum shunt_status status = SHUNT_PASS;

    m->chunk = shunt_pool_ready() & ~(size_t)15;
    m->packer = foreign ? NULL : shunt_packer_lock(m->gpu);
    if (m->packer) {
        if (shunt_packer_reaches(m->gpu, m->pattern, m->base, count, m->bytes) &&
            shunt_packer_prepare(m->packer, m->pattern) == SHUNT_OK)
            status = run_kernels(m);
        shunt_packer_unlock(m->packer);
    }
    if (status == SHUNT_PASS)
        return run_copies(m, 0);
    shunt_trace("stage", "%s %llu bytes%s, launches: %u", m->out ? "packed" : "unpacked", (unsigned long long)m->bytes,
                m->image ? " of an image" : "", m->launches);
    return status;
}

/* Of a pattern that is one block it is a copy. */
static enum shunt_status move_dense(const struct mover *m)
{
    int64_t offset = m->pattern->low;
    char *host = m->host + (m->image ? offset : 0);
    char *device = (char *)((uintptr_t)m->base + (uintptr_t)offset);

    return m->out ? shunt_stage_out(host, device, m->bytes) : shunt_stage_in(device, host, m->bytes);
}

static enum shunt_status move(struct mover *m, int64_t count)
{
    struct shunt_gpu_scope scope;
    bool foreign;

    if (m->bytes == 0 || m->pattern->n == 0)
        return SHUNT_OK;
    if (shunt_pattern_is_dense(m->pattern, count))
        return move_dense(m);
    m->gpu = shunt_gpu_of((void *)((uintptr_t)m->base + (uintptr_t)shunt_pattern_first(m->pattern)), &foreign);
    if (!m->gpu)
        return SHUNT_ERR_CUDA;
    enum shunt_status status = shunt_gpu_enter(m->gpu, &scope);
    if (status != SHUNT_OK)
        return status;
    status = run(m, foreign, count);
    shunt_gpu_leave(&scope);
    return status;
}

enum shunt_status shunt_pack_out(const struct shunt_pattern *pattern, const void *base, int64_t count, uint64_t bytes,
                                 char *packed)
{
    struct mover m = { .pattern = pattern, .base = (char *)base, .host = packed, .bytes = bytes, .out = true };

    return move(&m, count);
}

enum shunt_status shunt_pack_in(const struct shunt_pattern *pattern, void *base, int64_t count, uint64_t bytes,
                                const char *packed)
{
    struct mover m = { .pattern = pattern, .base = base, .host = (char *)packed, .bytes = bytes };

    return move(&m, count);
}

enum shunt_status shunt_pack_fill(const struct shunt_pattern *pattern, const void *base, int64_t count, uint64_t bytes,
                                  char *image)
{
    struct mover m = { .pattern = pattern, .base = (char *)base, .host = image, .bytes = bytes, .image = true, .out = true };

    return move(&m, count);
}

enum shunt_status shunt_pack_return(const struct shunt_pattern *pattern, void *base, int64_t count, uint64_t bytes,
                                    const char *image)
{
    struct mover m = { .pattern = pattern, .base = base, .host = (char *)image, .bytes = bytes, .image = true };

    return move(&m, count);
}

/* ---- between places on one GPU ---- */

/* One launch, whatever its size, since there is nothing to take turns with. */
static enum shunt_status run_kernel(struct mover *m, uint64_t first, int64_t count)
{
    enum shunt_status status = SHUNT_PASS;

    if ((m->packer = shunt_packer_lock(m->gpu)) == NULL)
        return status;
    if (shunt_packer_reaches(m->gpu, m->pattern, m->base, count, first + m->bytes) &&
        shunt_packer_prepare(m->packer, m->pattern) == SHUNT_OK) {
        shunt_gpu_after_legacy(m->gpu, m->packer->stream);
        status = launch(m, first, m->bytes, (CUdeviceptr)m->host);
        if (status == SHUNT_OK)
            status = shunt_packer_wait(m->packer, NULL);
    }
    shunt_packer_unlock(m->packer);
    return status;
}

/* Of one block. */
static enum shunt_status run_copy(struct mover *m, uint64_t first)
{
    shunt_gpu_after_legacy(m->gpu, m->gpu->copies);
    enum shunt_status status = copy_block(m, m->pattern->low + (int64_t)first, 0, m->bytes);
    enum shunt_status end = SHUNT_CUDA(cuStreamSynchronize(m->gpu->copies));

    return status == SHUNT_OK ? end : status;
}

enum shunt_status shunt_pack_between(const struct shunt_pattern *pattern, const void *base, uint64_t first, uint64_t bytes,
                                     char *packed, bool packing)
{
    struct mover m = { .pattern = pattern, .base = (char *)base, .host = packed, .bytes = bytes, .out = packing };
    int64_t count = (int64_t)((first + bytes - 1) / pattern->bytes) + 1;
    struct shunt_gpu_scope scope;
    bool foreign;

    m.gpu = shunt_gpu_of((void *)((uintptr_t)base + (uintptr_t)shunt_pattern_first(pattern)), &foreign);
    if (m.gpu == NULL || foreign || m.gpu != shunt_gpu_of(packed, &foreign))
        return SHUNT_PASS;
    enum shunt_status status = shunt_gpu_enter(m.gpu, &scope);
    if (status != SHUNT_OK)
        return status;
    if (shunt_pattern_is_dense(pattern, count))
        status = run_copy(&m, first);
    else if ((status = run_kernel(&m, first, count)) == SHUNT_PASS)
        status = run_copies(&m, first);
    shunt_gpu_leave(&scope);
    return status;
}
