/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels: loading, launching an operation, looking whether it is done.
 *
 * A kernel is launched as a graph of one node, with its arguments set anew each time: measured on H200, from the call
 * to the host's sight of the done word, 5.2 us against 7.2 for a plain launch, and against 7 (one block) to 68 (32
 * blocks) for arguments that the kernel reads from pinned memory.
 */
#include "cuda/launch.h"

#include <stdio.h>
#include <string.h>

#include "cuda/copies.h"
#include "cuda/exchange.h"
#include "cuda/linger.h"
#include "cuda/steps.h"

/* The fatbin made of kernels.cu, embedded by image.S. */
extern const unsigned char shunt_kernels_fatbin[];
extern const unsigned long shunt_kernels_fatbin_size;

enum shape { LL, PLAN, SPANS, SHAPES }; /* SPANS: LL of slices that differ, which only MOVE has */

#define DONE_LINE 8 /* done words in a cache line; the GPU has taken each from the cache */

/* How long a kernel waits for its peers before it leaves: doubles with each launch. */
#define WINDOW_NS     200000ull
#define WINDOW_MAX_NS 10000000ull

/*
 * A kernel has two graphs, which take turns: when an operation follows closely, the kernel of the one before has given
 * its answer but not ended, and launching a graph that still runs costs the driver more.
 */
#define GRAPHS 2

struct graph {
    CUgraph graph;
    CUgraphExec exec; /* NULL until first used */
    CUgraphNode node;
};

struct kernel {
    CUfunction function;
    struct graph graphs[GRAPHS];
    unsigned turn;
};

static struct {
    CUmodule module;
    struct kernel kernels[SHAPES][SHUNT_NTYPES][SHUNT_NOPS];
} loaded;

static const char *const shape_names[SHAPES] = { "ll", "plan", "spans" };
static const int most_threads[SHAPES] = { SHUNT_LL_MOST, SHUNT_THREADS, SHUNT_LL_MOST };

/* Load one kernel and lower *max_blocks to the grid of it that is resident at once. Asking loads it completely. */
static enum shunt_status kernel_load(enum shape shape, enum shunt_type type, enum shunt_op op, int processors,
                                     const char *op_id, int *max_blocks)
{
    struct kernel *kernel = &loaded.kernels[shape][type][op];
    char name[64];
    int per_processor = 0;

    snprintf(name, sizeof name, "shunt_%s_%s_%s", shape_names[shape], shunt_type_name(type), op_id);
    enum shunt_status status = SHUNT_CUDA(cuModuleGetFunction(&kernel->function, loaded.module, name));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel->function,
                                                                     most_threads[shape], 0));
    if (status == SHUNT_OK && per_processor * processors < *max_blocks)
        *max_blocks = per_processor * processors;
    return status;
}

enum shunt_status shunt_kernels_load(struct shunt_gpu *gpu, uint16_t *max_blocks)
{
    static const char *const op_ids[] = {
#define X(id, word) [SHUNT_OP_##id] = #id,
        SHUNT_DEEDS(X)
#undef X
    };
    int processors = 1, blocks = SHUNT_GRID;
    CUdevice device;
    enum shunt_type kernel_type;

    if (shunt_kernels_fatbin_size == 0)
        return SHUNT_ERR_CUDA;
    enum shunt_status status = SHUNT_CUDA(cuModuleLoadData(&loaded.module, shunt_kernels_fatbin));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuDeviceGet(&device, gpu->ordinal));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    for (int shape = 0; shape < SHAPES; shape++) {
        for (int type = 0; type < SHUNT_NTYPES; type++) {
            for (int op = 0; op < SHUNT_NOPS && status == SHUNT_OK; op++) {
                if ((shape != SPANS || op == SHUNT_OP_MOVE) && shunt_kernel_find(type, op, &kernel_type) &&
                    (int)kernel_type == type)
                    status = kernel_load(shape, type, op, processors, op_ids[op], &blocks);
            }
        }
    }
    if (status == SHUNT_OK && blocks < SHUNT_PLAN_TEAMS)
        status = SHUNT_ERR_LIMIT;
    *max_blocks = (uint16_t)blocks;
    return status;
}

static void kernel_close(struct kernel *kernel)
{
    for (int i = 0; i < GRAPHS; i++) {
        if (kernel->graphs[i].exec != NULL)
            shunt_driver.cuGraphExecDestroy(kernel->graphs[i].exec);
        if (kernel->graphs[i].graph != NULL)
            shunt_driver.cuGraphDestroy(kernel->graphs[i].graph);
    }
}

void shunt_kernels_unload(void)
{
    for (int shape = 0; shape < SHAPES; shape++) {
        for (int type = 0; type < SHUNT_NTYPES; type++) {
            for (int op = 0; op < SHUNT_NOPS; op++)
                kernel_close(&loaded.kernels[shape][type][op]);
        }
    }
    if (loaded.module != NULL)
        shunt_driver.cuModuleUnload(loaded.module);
    memset(&loaded, 0, sizeof loaded);
}

/* Made on its first launch. */
static enum shunt_status graph_make(struct graph *graph, const CUDA_KERNEL_NODE_PARAMS *params)
{
    enum shunt_status status = SHUNT_CUDA(cuGraphCreate(&graph->graph, 0));

    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuGraphAddKernelNode_v2(&graph->node, graph->graph, NULL, 0, params));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0));
    return status;
}

static enum shunt_status kernel_run(struct shunt_gpu *gpu, struct kernel *kernel, unsigned blocks, unsigned threads,
                                    void *args)
{
    void *list[] = { args };
    CUDA_KERNEL_NODE_PARAMS params = {
        .func = kernel->function,
        .gridDimX = blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = list,
    };
    struct graph *graph = &kernel->graphs[kernel->turn++ % GRAPHS];
    enum shunt_status status = SHUNT_OK;

    if (graph->exec == NULL)
        status = graph_make(graph, &params);
    else
        status = SHUNT_CUDA(cuGraphExecKernelNodeSetParams_v2(graph->exec, graph->node, &params));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuGraphLaunch(graph->exec, gpu->stream));
    return status;
}

static bool is_direct(const struct shunt_plan *plan)
{
    return (plan->flags & SHUNT_PLAN_LL) && (plan->flags & SHUNT_PLAN_ZERO_COPY);
}

uint64_t shunt_launch_writers(const struct shunt_plan *plan)
{
    return is_direct(plan) ? ((UINT64_C(1) << plan->n) - 1) & ~(UINT64_C(1) << plan->me) : 0;
}

static void fill_head(struct shunt_khead *head, struct shunt_device *device, struct shunt_launch *launch)
{
    uint64_t window = launch->launches < 6 ? WINDOW_NS << launch->launches : WINDOW_MAX_NS;

    *head = (struct shunt_khead){
        .ticket = launch->ticket,
        .window_ns = window < WINDOW_MAX_NS ? window : WINDOW_MAX_NS,
        .done = device->done,
        .abort = device->abort,
        .skip = { launch->skip[0], launch->skip[1] },
        .n = (uint8_t)launch->plan->n,
        .me = (uint8_t)launch->plan->me,
        .system = launch->managed || (launch->plan->flags & SHUNT_PLAN_HOSTED) || is_direct(launch->plan),
        .launch = launch->launches,
    };
}

/* Enough threads for a message of one block; whole blocks else. */
static unsigned ll_threads(const struct shunt_ll_op *op, bool direct)
{
    uint64_t units = (op->bytes + SHUNT_LL_UNIT - 1) / SHUNT_LL_UNIT;

    if (op->lines)
        return direct ? SHUNT_LINE_DIRECT : SHUNT_LINE_THREADS;
    if (units == 0) /* a rank that neither sends nor receives */
        return 32;
    return units < SHUNT_LL_THREADS ? ((unsigned)units + 31) / 32 * 32 : SHUNT_LL_THREADS;
}

static void fill_ll(struct shunt_device *device, struct shunt_launch *launch, struct shunt_ll_args *args)
{
    const struct shunt_plan *plan = launch->plan;

    *args = (struct shunt_ll_args){
        .ll_bytes = device->layout.ll_bytes,
        .lines = device->layout.lines,
        .line_bytes = device->layout.line_bytes,
        .line_room = (uint32_t)(device->layout.line_bytes / SHUNT_LINE_WIRE),
    };
    fill_head(&args->head, device, launch);
    shunt_exchange_of(plan, &args->exchange);
    shunt_exchange_op(plan, launch->in, launch->out, launch->ticket, &args->exchange, &args->op);
    for (uint32_t q = 0; q < plan->n; q++) {
        int slot = launch->slots[q];
        args->to[q] = shunt_peer_to(slot);
        args->from[q] = shunt_peer_from(slot);
        args->channel[q] = (uint8_t)shunt_peer_channel(slot);
        if (args->exchange.direct && q != plan->me)
            args->outs[q] = shunt_peer_buffer(slot, &launch->posts[q]->recv);
    }
}

bool shunt_launch_ready(struct shunt_arena *arena, const struct shunt_launch *launch)
{
    const struct shunt_plan *plan = launch->plan;
    const struct shunt_step *send = &plan->steps[0];

    if (!(plan->flags & SHUNT_PLAN_LL) || plan->n_steps == 0 || send->kind != SHUNT_STEP_COPY)
        return true;
    for (uint32_t i = 0; i < send->n_in; i++) {
        struct shunt_ref to = plan->refs[send->first_ref + 2 * i + 1];
        if (to.space == SHUNT_SPACE_SCRATCH0 && to.rank != plan->me &&
            !shunt_peer_ll_free(arena, launch->slots[to.rank]))
            return false;
    }
    return true;
}

static void take_turns(struct shunt_launch *launch, const struct shunt_exchange *x)
{
    const struct shunt_plan *plan = launch->plan;

    for (uint32_t q = 0; q < plan->n; q++) {
        if (q != plan->me)
            launch->turns |= shunt_peer_ll_turn(launch->slots[q], launch->ticket, x->send[q] != SHUNT_NO_SLICE,
                                                x->recv[q] != SHUNT_NO_SLICE)
                             << q;
    }
}

/* Of slices that differ the kernel has more arguments: behind these, and read only by it. */
static enum shunt_status start_ll(struct shunt_device *device, struct shunt_launch *launch, struct kernel *kernel)
{
    struct shunt_spans_args all;
    struct shunt_ll_args *args = &all.ll;

    fill_ll(device, launch, args);
    if (launch->plan->spans != NULL)
        all.spans = *launch->plan->spans;
    if (launch->launches == 0) {
        take_turns(launch, &args->exchange);
        launch->grid = launch->plan->blocks;
        launch->threads = ll_threads(&args->op, args->exchange.direct);
        launch->units = args->op.lines ? SHUNT_LINE_UNITS(args->op.bytes) : (args->op.bytes + SHUNT_LL_UNIT - 1) / SHUNT_LL_UNIT;
    }
    args->op.turns = launch->turns;
    launch->lingered = shunt_linger_serve(device, launch, args);
    if (launch->lingered)
        return SHUNT_OK;
    shunt_linger_args(launch, &args->linger);
    enum shunt_status status = kernel_run(device->gpu, kernel, launch->grid, launch->threads, &all);
    if (status == SHUNT_OK)
        shunt_linger_launched(launch, args);
    return status;
}

/* Address modulo 16 of what rank q sends, to this rank if blocks differ: it lies in scratch as it lies in the sender's memory. */
static uint32_t sent_align(const struct shunt_launch *launch, uint32_t q)
{
    return launch->plan->spans != NULL ? launch->rows[q]->align[launch->plan->me] : launch->posts[q]->send.align % 16;
}

static void fill_ranks(struct shunt_plan_args *args, const struct shunt_launch *launch)
{
    const struct shunt_plan *plan = launch->plan;

    for (uint32_t q = 0; q < plan->n; q++) {
        int slot = launch->slots[q];
        const struct shunt_post *post = launch->posts[q];
        args->to[q] = shunt_peer_to(slot);
        args->from[q] = shunt_peer_from(slot);
        args->hosted |= (uint32_t)shunt_peer_hosted(slot) << q;
        args->channel[q] = (uint8_t)shunt_peer_channel(slot);
        args->align[q] = (uint8_t)sent_align(launch, q);
        if (q == plan->me)
            args->out[q] = launch->out;
        else if (plan->flags & SHUNT_PLAN_ZERO_COPY)
            args->out[q] = shunt_peer_buffer(slot, plan->flags & SHUNT_PLAN_READS ? &post->send : &post->recv);
    }
}

static enum shunt_status start_plan(struct shunt_device *device, struct shunt_launch *launch, struct kernel *kernel)
{
    const struct shunt_plan *plan = launch->plan;
    struct shunt_plan_args args = {
        .in = launch->in,
        .rings = { device->layout.rings, device->layout.host_rings },
        .ring_bytes = { device->layout.ring_bytes, device->layout.host_ring_bytes },
    };

    shunt_linger_quit(device);
    fill_head(&args.head, device, launch);
    fill_ranks(&args, launch);
    shunt_plan_args_of(plan, &args);
    launch->grid = plan->blocks * SHUNT_PLAN_TEAMS;
    return kernel_run(device->gpu, kernel, launch->grid, SHUNT_THREADS, &args);
}

/* What a plan touches beside its own user's memory: what lies as in the peers' send buffers, and their receive buffers. */
static uint64_t peers_align(const struct shunt_launch *launch)
{
    uint64_t all = 0;

    for (uint32_t q = 0; q < launch->plan->n && !(launch->plan->flags & SHUNT_PLAN_LL); q++)
        all |= sent_align(launch, q) | (launch->plan->flags & SHUNT_PLAN_ZERO_COPY ? launch->posts[q]->recv.align : 0);
    return all;
}

/* The largest type that suits everything that this rank's kernel touches. */
static enum shunt_type type_of_move(const struct shunt_launch *launch)
{
    const struct shunt_plan *plan = launch->plan;
    uint64_t all = (uintptr_t)launch->in | (uintptr_t)launch->out | peers_align(launch) |
                   (plan->spans != NULL ? 0 : plan->bytes | (plan->slices > 1 ? plan->slice_bytes : 0));

    for (uint32_t q = 0; q < plan->n && plan->spans != NULL; q++) {
        const struct shunt_span *in = &plan->spans->in[q], *out = &plan->spans->out[q];
        all |= (in->bytes != 0 ? in->at | in->bytes : 0) | (out->bytes != 0 ? out->at | out->bytes : 0);
    }
    return all % 8 == 0 ? SHUNT_TYPE_U64 : all % 4 == 0 ? SHUNT_TYPE_U32 : all % 2 == 0 ? SHUNT_TYPE_U16 : SHUNT_TYPE_U8;
}

enum shunt_status shunt_launch_start(struct shunt_device *device, struct shunt_launch *launch)
{
    enum shape shape = !(launch->plan->flags & SHUNT_PLAN_LL) ? PLAN : launch->plan->spans != NULL ? SPANS : LL;
    enum shunt_type type;
    struct shunt_gpu_scope scope;
    enum shunt_status status = shunt_gpu_enter(device->gpu, &scope);

    if (status != SHUNT_OK)
        return status;
    if (launch->plan->flags & SHUNT_PLAN_ENGINES) {
        status = shunt_copies_start(device, launch);
        shunt_gpu_leave(&scope);
        return status;
    }
    if (launch->op == SHUNT_OP_MOVE)
        launch->type = type_of_move(launch);
    if (!shunt_kernel_find(launch->type, launch->op, &type)) {
        shunt_gpu_leave(&scope);
        return SHUNT_ERR_INVALID;
    }
    struct kernel *kernel = &loaded.kernels[shape][type][launch->op];
    launch->seen = 0;
    status = shape == PLAN ? start_plan(device, launch, kernel) : start_ll(device, launch, kernel);
    launch->launches++;
    shunt_gpu_leave(&scope);
    return status;
}

static bool block_skipped(const struct shunt_launch *launch, uint32_t block)
{
    return launch->skip[block / 64] >> block % 64 & 1;
}

/* One more block has answered: note what. */
static void block_ended(struct shunt_device *device, struct shunt_launch *launch, uint32_t block, unsigned code)
{
    if (code == SHUNT_DONE_AGAIN) {
        __atomic_store_n(&device->done[block], 0, __ATOMIC_RELAXED); /* its next launch answers with the same ticket */
        return;
    }
    launch->skip[block / 64] |= 1ull << block % 64;
    launch->aborted |= code == SHUNT_DONE_ABORTED;
}

unsigned shunt_launch_done(struct shunt_device *device, struct shunt_launch *launch)
{
    uint32_t left = 0;

    for (; launch->seen < launch->grid; launch->seen++) {
        if (block_skipped(launch, launch->seen))
            continue;
        /* Acquire: what the application does next comes after what the block wrote. */
        uint64_t word = __atomic_load_n(&device->done[launch->seen], __ATOMIC_ACQUIRE);
        if (launch->seen % DONE_LINE == 0)
            __builtin_prefetch(&device->done[(launch->seen + 2 * DONE_LINE) % SHUNT_GRID]);
        if (word >> 2 != launch->ticket)
            return 0;
        block_ended(device, launch, launch->seen, word & 3);
    }
    if (launch->aborted)
        return SHUNT_DONE_ABORTED;
    for (uint32_t b = 0; b < launch->grid; b++)
        left += !block_skipped(launch, b);
    return left != 0 ? SHUNT_DONE_AGAIN : SHUNT_DONE_OK;
}

void shunt_launch_abort(struct shunt_device *device, bool abort)
{
    __atomic_store_n(device->abort, abort, __ATOMIC_RELEASE);
}

enum shunt_status shunt_launch_check(struct shunt_device *device)
{
    struct shunt_gpu_scope scope;
    enum shunt_status status = shunt_gpu_enter(device->gpu, &scope);

    if (status != SHUNT_OK)
        return status;
    CUresult result = shunt_driver.cuStreamQuery(device->gpu->stream);
    shunt_gpu_leave(&scope);
    return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY ? SHUNT_OK :
                                                                      shunt_cuda_check(result, SHUNT_LOG_WARN, "kernel");
}
