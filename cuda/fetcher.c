/* SPDX-License-Identifier: BSD-3-Clause */
/* Small copies by a kernel; fetcher.h. */
#include "cuda/fetcher.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"

/* The fatbin made of pack.cu, embedded by image.S. */
extern const unsigned char shunt_pack_fatbin[];
extern const unsigned long shunt_pack_fatbin_size;

enum {
    MOST_BYTES = 1 << 20,      /* of a copy: H200, until the host sees the end: 9.6 us, an engine 10.6; at 2 MiB both 13.7 */
    MOST_BY_CHAR = 4096,       /* the same if only words of less than 4 bytes are possible */
};

/* It mostly ends within microseconds. */
#define ASK_SECONDS 0.01

static CUDA_KERNEL_NODE_PARAMS params_of(const struct shunt_fetcher *fetcher, void **list)
{
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = fetcher->function,
        .gridDimX = fetcher->n,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = SHUNT_FETCH_THREADS,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = list,
    };
}

/* A graph of one node, as in launch.c; now, since it may wait for kernels that run. */
static enum shunt_status make_graph(struct shunt_fetcher *fetcher)
{
    void *list[] = { &fetcher->args };
    fetcher->n = 1;
    CUDA_KERNEL_NODE_PARAMS params = params_of(fetcher, list);
    enum shunt_status status = SHUNT_CUDA(cuGraphCreate(&fetcher->graph, 0));

    fetcher->n = 0;
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuGraphAddKernelNode_v2(&fetcher->node, fetcher->graph, NULL, 0, &params));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuGraphInstantiateWithFlags(&fetcher->exec, fetcher->graph, 0));
    return status;
}

/* Asking for the occupancy loads the kernel completely. */
static enum shunt_status load(struct shunt_fetcher *fetcher, struct shunt_gpu *gpu)
{
    static const uint64_t none[SHUNT_TOLD_WORDS];
    int blocks, low = 0, high = 0;
    enum shunt_status status = SHUNT_CUDA(cuModuleLoadData(&fetcher->module, shunt_pack_fatbin));

    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuModuleGetFunction(&fetcher->function, fetcher->module, "shunt_fetch"));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fetcher->function, SHUNT_FETCH_THREADS, 0));
    if (status == SHUNT_OK)
        status = make_graph(fetcher);
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuCtxGetStreamPriorityRange(&low, &high));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamCreateWithPriority(&fetcher->stream, CU_STREAM_NON_BLOCKING, high));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuMemAlloc_v2(&fetcher->told, sizeof none));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuMemcpyAsync(fetcher->told, (CUdeviceptr)none, sizeof none, gpu->copies));
    return status == SHUNT_OK ? SHUNT_CUDA(cuStreamSynchronize(gpu->copies)) : status;
}

void shunt_fetcher_open(struct shunt_fetcher *fetcher, struct shunt_gpu *gpu, void *pinned)
{
    *fetcher = (struct shunt_fetcher){ .done = pinned };
    memset(pinned, 0, SHUNT_FETCHER_WORDS * sizeof *fetcher->done);
    fetcher->ready = shunt_pack_fatbin_size != 0 && load(fetcher, gpu) == SHUNT_OK;
    fetcher->args.told = (uint64_t *)(uintptr_t)fetcher->told;
    fetcher->args.done = pinned;
}

/* Is a kernel that was called back still there? */
static bool is_stuck(struct shunt_fetcher *fetcher)
{
    if (fetcher->stuck && shunt_driver.cuStreamQuery(fetcher->stream) != CUDA_ERROR_NOT_READY)
        fetcher->stuck = false;
    return fetcher->stuck;
}

bool shunt_fetcher_close(struct shunt_fetcher *fetcher)
{
    bool stuck = is_stuck(fetcher);

    if (!stuck) { /* to free would wait for the kernel, and that for the application */
        if (fetcher->told)
            shunt_driver.cuMemFree_v2(fetcher->told);
        if (fetcher->exec)
            shunt_driver.cuGraphExecDestroy(fetcher->exec);
        if (fetcher->graph)
            shunt_driver.cuGraphDestroy(fetcher->graph);
        if (fetcher->module)
            shunt_driver.cuModuleUnload(fetcher->module);
    }
    if (fetcher->stream)
        shunt_driver.cuStreamDestroy_v2(fetcher->stream);
    *fetcher = (struct shunt_fetcher){ .ready = false };
    return !stuck;
}

bool shunt_fetcher_free(struct shunt_fetcher *fetcher)
{
    /* Where kernels wait for room for ever, copies, which need none, are the better way. */
    return shunt_conf->room_ms != 0 && fetcher->ready && shunt_fetcher_done(fetcher) && !is_stuck(fetcher);
}

/* Of the words that suit both addresses and the length. */
static uint32_t width_of(CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
    uint64_t bits = to | from | bytes | 16;

    return (uint32_t)(bits & -bits);
}

unsigned shunt_fetcher_pieces(const void *to, const void *from, uint64_t bytes)
{
    uint32_t width = width_of((CUdeviceptr)to, (CUdeviceptr)from, bytes);

    if (bytes == 0 || bytes > MOST_BYTES || (width < 4 && bytes > MOST_BY_CHAR))
        return 0;
    return (unsigned)((bytes + SHUNT_FETCH_PIECE - 1) / SHUNT_FETCH_PIECE);
}

static void cut(struct shunt_fetcher *fetcher, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
    uint32_t width = width_of(to, from, bytes);

    for (uint64_t at = 0; at < bytes; at += SHUNT_FETCH_PIECE) {
        uint64_t left = bytes - at;
        fetcher->args.pieces[fetcher->n++] = (struct shunt_fetch_piece){
            .to = (char *)(uintptr_t)(to + at),
            .from = (const char *)(uintptr_t)(from + at),
            .bytes = left < SHUNT_FETCH_PIECE ? (uint32_t)left : SHUNT_FETCH_PIECE,
            .width = width,
        };
    }
}

static enum shunt_status run(struct shunt_fetcher *fetcher)
{
    void *list[] = { &fetcher->args };
    CUDA_KERNEL_NODE_PARAMS params = params_of(fetcher, list);
    enum shunt_status status =
        SHUNT_CUDA(cuGraphExecKernelNodeSetParams_v2(fetcher->exec, fetcher->node, &params));

    return status == SHUNT_OK ? SHUNT_CUDA(cuGraphLaunch(fetcher->exec, fetcher->stream)) : status;
}

enum shunt_status shunt_fetcher_launch(struct shunt_fetcher *fetcher, const CUdeviceptr *to, const CUdeviceptr *from,
                                       const size_t *bytes, unsigned n)
{
    fetcher->n = fetcher->seen = 0;
    for (unsigned i = 0; i < n; i++)
        cut(fetcher, to[i], from[i], bytes[i]);
    fetcher->args.launch++;
    fetcher->asked = shunt_seconds();
    enum shunt_status status = run(fetcher);
    if (status != SHUNT_OK) {
        fetcher->n = 0;
        fetcher->ready = false;
    }
    return status;
}

bool shunt_fetcher_done(struct shunt_fetcher *fetcher)
{
    /* Acquire: what the block has put there comes before its word. */
    while (fetcher->seen < fetcher->n &&
           atomic_load_explicit(&fetcher->done[fetcher->seen], memory_order_acquire) >= fetcher->args.launch)
        fetcher->seen++;
    return fetcher->seen == fetcher->n;
}

bool shunt_fetcher_due(struct shunt_fetcher *fetcher)
{
    double now = shunt_seconds();
    bool due = now - fetcher->asked > ASK_SECONDS;

    if (due)
        fetcher->asked = now;
    return due;
}

enum shunt_status shunt_fetcher_hurry(struct shunt_fetcher *fetcher, struct shunt_gpu *gpu)
{
    struct shunt_recall_words words = {
        .recalled = fetcher->told + SHUNT_TOLD_RECALLED * sizeof(uint64_t),
        .begun = fetcher->told + SHUNT_TOLD_BEGUN * sizeof(uint64_t),
        .n = 1,
        .pinned = (uint64_t *)(fetcher->done + SHUNT_FETCH_PIECES),
    };
    CUresult result = shunt_driver.cuStreamQuery(fetcher->stream);

    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        fetcher->ready = false;
        return shunt_cuda_check(result, SHUNT_LOG_WARN, "a fetch between GPUs");
    }
    switch (shunt_recall_look(&fetcher->recall, gpu, &words, fetcher->args.launch, shunt_seconds())) {
    case SHUNT_RECALL_MIXED: return result == CUDA_SUCCESS ? SHUNT_PASS : SHUNT_AGAIN;
    case SHUNT_RECALL_UNBEGUN: fetcher->stuck = true; return SHUNT_PASS;
    default: return SHUNT_AGAIN;
    }
}

/* What some block may have fetched already is fetched again. */
enum shunt_status shunt_fetcher_copy(struct shunt_fetcher *fetcher, CUstream stream)
{
    enum shunt_status status = SHUNT_OK;

    shunt_info("message", "no room on the GPU for a kernel that fetches: %u pieces by copy engine", fetcher->n);
    for (unsigned i = 0; i < fetcher->n && status == SHUNT_OK; i++) {
        const struct shunt_fetch_piece *piece = &fetcher->args.pieces[i];
        status = SHUNT_CUDA(
            cuMemcpyAsync((CUdeviceptr)piece->to, (CUdeviceptr)piece->from, piece->bytes, stream));
    }
    if (status != SHUNT_OK)
        SHUNT_CUDA(cuStreamSynchronize(stream));
    fetcher->n = fetcher->seen = 0;
    return status;
}
