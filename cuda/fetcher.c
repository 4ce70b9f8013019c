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
    LONE_COPIES = 4,           /* that are worth a launch */
    ONE_BLOCK = SHUNT_FETCH_PIECE, /* of a copy that is ordered: to pass the order on takes longer than they would save */
    LEAST_PIECE = 16384,
};

/* Device memory: told.h's words, the last launch that leads (stay.cuh), and at the next lines orders on their way. */
enum { LEADS_AT = SHUNT_TOLD_WORDS * sizeof(uint64_t), RELAY_AT = 128 };
struct device_words {
    char words[RELAY_AT + SHUNT_FETCH_WORDS * sizeof(struct shunt_fetch_word)];
};

/* It mostly ends within microseconds. */
#define ASK_SECONDS 0.01

static CUDA_KERNEL_NODE_PARAMS params_of(const struct shunt_fetcher *fetcher, void **list)
{
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = fetcher->function,
        .gridDimX = fetcher->args.window_ns != 0 && fetcher->n < SHUNT_FETCH_GRID ? SHUNT_FETCH_GRID : fetcher->n,
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
    static const struct device_words none;
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
        status = SHUNT_CUDA(cuMemcpyAsync(fetcher->told, (CUdeviceptr)&none, sizeof none, gpu->copies));
    return status == SHUNT_OK ? SHUNT_CUDA(cuStreamSynchronize(gpu->copies)) : status;
}

void shunt_fetcher_open(struct shunt_fetcher *fetcher, struct shunt_gpu *gpu, void *pinned)
{
    *fetcher = (struct shunt_fetcher){ .done = (_Atomic uint64_t *)pinned + SHUNT_STAY_WORDS };
    memset(pinned, 0, SHUNT_FETCHER_WORDS * sizeof *fetcher->done);
    shunt_stay_open(&fetcher->stay, pinned);
    fetcher->ready = shunt_pack_fatbin_size != 0 && load(fetcher, gpu) == SHUNT_OK;
    fetcher->args.told = (uint64_t *)(uintptr_t)fetcher->told;
    fetcher->args.leads = (uint64_t *)(uintptr_t)(fetcher->told + LEADS_AT);
    fetcher->args.relay = (struct shunt_fetch_word *)(uintptr_t)(fetcher->told + RELAY_AT);
    fetcher->args.done = (uint64_t *)fetcher->done;
    fetcher->args.order = (const struct shunt_fetch_word *)fetcher->stay.orders.words;
    fetcher->args.state = (uint64_t *)fetcher->stay.orders.state;
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

    if (!stuck && shunt_fetcher_done(fetcher))
        shunt_stay_quit(&fetcher->stay, ++fetcher->number, fetcher->stream);
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

/* Do the first so many blocks of the kernel that stays wait for orders? */
static bool have_stayed(const struct shunt_fetcher *fetcher, unsigned blocks)
{
    for (unsigned i = 0; i < blocks; i++) {
        uint64_t done = atomic_load_explicit(&fetcher->done[i], memory_order_relaxed);
        if (done < SHUNT_FETCH_DONE(fetcher->stay.launch, true) || done % 2 == 0)
            return false;
    }
    return true;
}

static void put_address(uint32_t *words, CUdeviceptr address)
{
    words[0] = (uint32_t)address;
    words[1] = (uint32_t)(address >> 32);
}

/* As an order; of 0 copies: it is none. */
static void make_order(struct shunt_fetch_order *order, const CUdeviceptr *to, const CUdeviceptr *from,
                       const size_t *bytes, unsigned n)
{
    size_t share = (bytes[0] / SHUNT_FETCH_GRID + 15) & ~(size_t)15;

    *order = (struct shunt_fetch_order){ .n = 0, .blocks = (uint16_t)(n < SHUNT_FETCH_GRID ? n : SHUNT_FETCH_GRID), .piece = UINT32_MAX };
    if (n == 1 && bytes[0] > ONE_BLOCK) {
        order->piece = share < LEAST_PIECE ? LEAST_PIECE : (uint32_t)share;
        order->blocks = (uint16_t)((bytes[0] + order->piece - 1) / order->piece);
    }
    for (unsigned i = 0; i < n; i++) {
        struct shunt_fetch_copy *copy = &order->copies[i];
        put_address(copy->to, to[i]);
        put_address(copy->from, from[i]);
        copy->bytes = (uint32_t)bytes[i];
        copy->width = width_of(to[i], from[i], bytes[i]);
    }
    order->n = (uint16_t)n;
}

/* Of several copies a block does each as a whole. */
static bool is_orderly(const size_t *bytes, unsigned n)
{
    bool small = n <= SHUNT_FETCH_COPIES;

    for (unsigned i = 0; i < n && n > 1; i++)
        small &= bytes[i] <= SHUNT_FETCH_PIECE;
    return small;
}

/* By the kernel that stays. False: there is none any more. */
static bool give_order(struct shunt_fetcher *fetcher, const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes,
                       unsigned n)
{
    struct shunt_fetch_order order = { .n = 0 };

    if (!fetcher->stay.orders.alive)
        return false;
    if (is_orderly(bytes, n))
        make_order(&order, to, from, bytes, n);
    if (order.n == 0 || !have_stayed(fetcher, order.blocks)) {
        shunt_stay_quit(&fetcher->stay, ++fetcher->number, fetcher->stream);
        return false;
    }
    fetcher->awaited = order.blocks;
    return shunt_stay_give(&fetcher->stay, &order, ++fetcher->number, fetcher->stream);
}

unsigned shunt_fetcher_most(const struct shunt_fetcher *fetcher)
{
    return fetcher->stay.orders.alive ? SHUNT_FETCH_COPIES : LONE_COPIES;
}

enum shunt_status shunt_fetcher_launch(struct shunt_fetcher *fetcher, const CUdeviceptr *to, const CUdeviceptr *from,
                                       const size_t *bytes, unsigned n)
{
    enum shunt_status status = SHUNT_OK;

    shunt_stay_begin(&fetcher->stay);
    fetcher->n = fetcher->seen = 0;
    for (unsigned i = 0; i < n; i++)
        cut(fetcher, to[i], from[i], bytes[i]);
    fetcher->asked = shunt_seconds();
    fetcher->ordered = give_order(fetcher, to, from, bytes, n);
    if (fetcher->ordered)
        return status;
    fetcher->args.launch = ++fetcher->number;
    fetcher->args.window_ns = shunt_stay_launch(&fetcher->stay, fetcher->number);
    fetcher->args.n = fetcher->awaited = fetcher->n;
    status = run(fetcher);
    if (status != SHUNT_OK) {
        fetcher->n = fetcher->awaited = 0;
        fetcher->ready = fetcher->stay.orders.alive = false;
    }
    return status;
}

bool shunt_fetcher_done(struct shunt_fetcher *fetcher)
{
    if (fetcher->seen == fetcher->awaited)
        return true;
    /* Acquire: what the block has put there comes before its word. */
    while (fetcher->seen < fetcher->awaited &&
           atomic_load_explicit(&fetcher->done[fetcher->seen], memory_order_acquire) / 2 >= fetcher->number)
        fetcher->seen++;
    if (fetcher->seen < fetcher->awaited)
        return false;
    shunt_stay_end(&fetcher->stay);
    return true;
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

    if (result == CUDA_SUCCESS) {
        /*
         * What has ended does no more: it was called back, or block 0 has passed an order on, and then that it leaves,
         * before another block had looked (doc/model/stay.pml).
         */
        return shunt_fetcher_done(fetcher) ? SHUNT_AGAIN : SHUNT_PASS;
    }
    if (result != CUDA_ERROR_NOT_READY) {
        fetcher->ready = fetcher->stay.orders.alive = false;
        return shunt_cuda_check(result, SHUNT_LOG_WARN, "a fetch between GPUs");
    }
    if (shunt_recall_look(&fetcher->recall, gpu, &words, fetcher->args.launch, shunt_seconds()) != SHUNT_RECALL_UNBEGUN)
        return SHUNT_AGAIN;
    fetcher->stuck = true;
    return SHUNT_PASS;
}

/* What some block may have fetched already is fetched again. */
enum shunt_status shunt_fetcher_copy(struct shunt_fetcher *fetcher, CUstream stream)
{
    enum shunt_status status = SHUNT_OK;

    shunt_info("message", fetcher->stuck ? "no room on the GPU for a kernel that fetches: %u pieces by copy engine" :
                                           "a kernel that fetches has left something undone: %u pieces by copy engine",
               fetcher->n);
    for (unsigned i = 0; i < fetcher->n && status == SHUNT_OK; i++) {
        const struct shunt_fetch_piece *piece = &fetcher->args.pieces[i];
        status = SHUNT_CUDA(
            cuMemcpyAsync((CUdeviceptr)piece->to, (CUdeviceptr)piece->from, piece->bytes, stream));
    }
    if (status != SHUNT_OK)
        SHUNT_CUDA(cuStreamSynchronize(stream));
    fetcher->n = fetcher->awaited = fetcher->seen = 0;
    fetcher->stay.orders.alive = false;
    return status;
}
