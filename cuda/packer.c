/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of pack.cu on each GPU; packer.h. */
#include "cuda/packer.h"

#include <stdlib.h>
#include <string.h>

#include "base/board.h"
#include "base/clock.h"
#include "base/conf.h"
#include "cuda/pack.h"
#include "cuda/pack_args.h"
#include "cuda/told.h"

_Static_assert(SHUNT_PACK_LOOPS == SHUNT_LOOPS, "kernels and patterns have the same number of loops");

/* The fatbin made of pack.cu, embedded by image.S. */
extern const unsigned char shunt_pack_fatbin[];
extern const unsigned long shunt_pack_fatbin_size;

enum { MAX_PIECES = 64 };

#define LOOK_SECONDS 1e-3 /* between two looks whether a kernel has begun */

static struct shunt_packer packers[SHUNT_GPUS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The list of a pattern in the memory of one GPU. */
struct shunt_pack_table {
    struct shunt_pack_table *next; /* on another GPU */
    struct shunt_packer *packer;
    unsigned long long context;
    CUdeviceptr memory;
    size_t offsets, starts; /* where these arrays begin in it */
};

static void make_locks(void)
{
    for (int i = 0; i < SHUNT_GPUS; i++)
        pthread_mutex_init(&packers[i].lock, NULL);
}

/* ---- life ---- */

/* Asking for the occupancy loads a kernel completely, which would otherwise wait for those that run at its first launch. */
static enum shunt_status load_kernel(struct shunt_packer *packer, const char *name, CUfunction *function)
{
    int blocks;
    enum shunt_status status = SHUNT_CUDA(cuModuleGetFunction(function, packer->module, name));

    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, *function, SHUNT_PACK_THREADS, 0));
    return status;
}

static enum shunt_status make_words(struct shunt_packer *packer)
{
    static const uint64_t none[SHUNT_TOLD_WORDS];
    void *pinned;
    enum shunt_status status = SHUNT_CUDA(cuMemAlloc_v2(&packer->told, sizeof none));

    packer->launch = 0;
    packer->recall = (struct shunt_recall){ .key = 0 };
    packer->stuck = false;
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuMemHostAlloc(&pinned, sizeof none, CU_MEMHOSTALLOC_PORTABLE));
    if (status == SHUNT_OK) {
        packer->pinned = pinned;
        status = SHUNT_CUDA(cuMemcpyAsync(packer->told, (CUdeviceptr)none, sizeof none, packer->gpu->copies));
    }
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamSynchronize(packer->gpu->copies));
    return status;
}

static enum shunt_status make_stream(struct shunt_packer *packer)
{
    int low = 0, high = 0;

    SHUNT_CUDA(cuCtxGetStreamPriorityRange(&low, &high));
    return SHUNT_CUDA(cuStreamCreateWithPriority(&packer->stream, CU_STREAM_NON_BLOCKING, high));
}

static enum shunt_status load(struct shunt_packer *packer)
{
    CUdevice device;
    int processors = 1;

    if (shunt_pack_fatbin_size == 0)
        return SHUNT_ERR_CUDA;
    enum shunt_status status = SHUNT_CUDA(cuModuleLoadData(&packer->module, shunt_pack_fatbin));
    if (status == SHUNT_OK)
        status = load_kernel(packer, "shunt_pack", &packer->pack);
    if (status == SHUNT_OK)
        status = load_kernel(packer, "shunt_unpack", &packer->unpack);
    if (status == SHUNT_OK)
        status = make_stream(packer);
    if (status == SHUNT_OK)
        status = make_words(packer);
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuDeviceGet(&device, packer->gpu->ordinal));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    packer->processors = (unsigned)processors;
    return status;
}

/* Is a kernel that was called back still there? */
static bool is_stuck(struct shunt_packer *packer)
{
    if (packer->stuck && shunt_driver.cuStreamQuery(packer->stream) != CUDA_ERROR_NOT_READY)
        packer->stuck = false;
    return packer->stuck;
}

struct shunt_packer *shunt_packer_lock(struct shunt_gpu *gpu)
{
    struct shunt_packer *packer = &packers[gpu->ordinal];

    pthread_once(&once, make_locks);
    pthread_mutex_lock(&packer->lock);
    if (packer->context != gpu->id) { /* what was made in another context has gone with it */
        packer->gpu = gpu;
        packer->context = gpu->id;
        packer->module = NULL;
        packer->stream = NULL;
        packer->told = packer->buffer = 0;
        packer->pinned = NULL;
        packer->failed = load(packer) != SHUNT_OK;
    }
    if (!packer->failed && !is_stuck(packer))
        return packer;
    pthread_mutex_unlock(&packer->lock);
    return NULL;
}

void shunt_packer_unlock(struct shunt_packer *packer)
{
    pthread_mutex_unlock(&packer->lock);
}

void shunt_packer_load(struct shunt_gpu *gpu)
{
    struct shunt_packer *packer = shunt_packer_lock(gpu);

    if (packer)
        shunt_packer_unlock(packer);
}

void shunt_packer_close(struct shunt_gpu *gpu)
{
    struct shunt_packer *packer = &packers[gpu->ordinal];

    pthread_once(&once, make_locks);
    pthread_mutex_lock(&packer->lock);
    if (packer->context == gpu->id) {
        if (!is_stuck(packer)) { /* to free would wait for the kernel, and that for the application */
            if (packer->buffer)
                shunt_driver.cuMemFree_v2(packer->buffer);
            if (packer->told)
                shunt_driver.cuMemFree_v2(packer->told);
            if (packer->pinned)
                shunt_driver.cuMemFreeHost(packer->pinned);
            if (packer->module)
                shunt_driver.cuModuleUnload(packer->module);
        }
        if (packer->stream)
            shunt_driver.cuStreamDestroy_v2(packer->stream);
        packer->context = 0;
    }
    pthread_mutex_unlock(&packer->lock);
}

size_t shunt_packer_buffer(struct shunt_packer *packer, size_t chunk, uint64_t bytes)
{
    size_t most = shunt_conf->stage_size > chunk ? shunt_conf->stage_size : chunk;
    if (most > MAX_PIECES * chunk) /* as many as there are pinned ones at most */
        most = MAX_PIECES * chunk;
    size_t wanted = bytes < most ? (size_t)bytes : most;

    if (packer->buffer_bytes < wanted || !packer->buffer) {
        CUdeviceptr buffer = 0;
        if (SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemAlloc_v2(&buffer, most)) != SHUNT_OK)
            return 0;
        packer->buffer = buffer;
        packer->buffer_bytes = most;
    }
    return packer->buffer_bytes / chunk * chunk;
}

/* ---- may a kernel go there? ---- */

struct range {
    uint64_t start, end;
};

struct reach {
    const struct shunt_gpu *gpu;
    uint64_t base;
    struct range known; /* the last that was found */
};

/* The memory around an address, if kernels of this GPU may access it. */
static bool find_range(const struct shunt_gpu *gpu, uint64_t address, struct range *range)
{
    CUpointer_attribute wanted[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                     CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                     CU_POINTER_ATTRIBUTE_RANGE_SIZE,       CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                                     CU_POINTER_ATTRIBUTE_MAPPING_SIZE,     CU_POINTER_ATTRIBUTE_IS_MANAGED };
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    CUcontext context = NULL;
    uint64_t start = 0, size = 0, mapped = 0, mapped_size = 0;
    void *values[] = { &type, &ordinal, &context, &start, &size, &mapped, &mapped_size, &managed };

    if (SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuPointerGetAttributes(8, wanted, values, address)) != SHUNT_OK)
        return false;
    /* Of memory mapped by hand the range is what was reserved, of which the mapping is a part. */
    if (mapped_size > 0) {
        start = mapped;
        size = mapped_size;
    }
    *range = (struct range){ start, start + size };
    bool own = type == CU_MEMORYTYPE_DEVICE && ordinal == gpu->ordinal && (!context || context == gpu->context);
    return (own || managed) && address - start < size;
}

static enum shunt_status check_range(struct reach *reach, uint64_t start, uint64_t end)
{
    while (start < end) {
        if (start < reach->known.start || start >= reach->known.end) {
            if (!find_range(reach->gpu, start, &reach->known))
                return SHUNT_PASS;
        }
        start = reach->known.end;
    }
    return SHUNT_OK;
}

static enum shunt_status check_block(void *context, int64_t offset, uint64_t packed, uint64_t bytes)
{
    struct reach *reach = context;
    uint64_t start = reach->base + (uint64_t)offset;

    (void)packed;
    return check_range(reach, start, start + bytes);
}

/* Mostly all elements lie in one allocation; else each block is looked at. */
bool shunt_packer_reaches(const struct shunt_gpu *gpu, const struct shunt_pattern *pattern, const char *base,
                          int64_t count, uint64_t bytes)
{
    struct reach reach = { .gpu = gpu, .base = (uint64_t)(uintptr_t)base };
    int64_t last = (count - 1) * pattern->extent;
    uint64_t low = reach.base + (uint64_t)(pattern->low + (last < 0 ? last : 0));
    uint64_t high = reach.base + (uint64_t)(pattern->high + (last > 0 ? last : 0));

    if (find_range(gpu, low, &reach.known) && high <= reach.known.end)
        return true;
    reach.known = (struct range){ 0, 0 };
    return shunt_pattern_walk(pattern, 0, bytes, check_block, &reach) == SHUNT_OK;
}

/* ---- arguments ---- */

static struct shunt_kdiv divisor(uint64_t by)
{
    struct shunt_kdiv d = { .by = by, .shift = 31 };
    unsigned s = 0;

    if (by >= UINT64_C(1) << 31)
        return d;
    while (UINT64_C(1) << s < by)
        s++;
    d.magic = (uint32_t)(((UINT64_C(1) << (31 + s)) + by - 1) / by);
    d.shift = 31 + s;
    return d;
}

static void convert_loops(const struct shunt_loop *loops, uint32_t levels, struct shunt_kloop *to)
{
    for (uint32_t i = 0; i < levels; i++)
        to[i] = (struct shunt_kloop){ divisor(loops[i].count), loops[i].stride };
}

static void convert_nests(const struct shunt_pattern *pattern, struct shunt_knest *to)
{
    for (size_t i = 0; i < pattern->n; i++) {
        const struct shunt_nest *nest = &pattern->nests[i];
        to[i] = (struct shunt_knest){ .start = nest->start / pattern->granule,
                                      .offset = nest->offset,
                                      .length = divisor(nest->length / pattern->granule),
                                      .levels = nest->levels };
        convert_loops(nest->loops, nest->levels, to[i].loops);
    }
}

/* ---- tables ---- */

static bool travels_along(const struct shunt_pattern *pattern)
{
    return pattern->nests && pattern->n <= SHUNT_PACK_NESTS;
}

static struct shunt_pack_table *find_table(const struct shunt_packer *packer, const struct shunt_pattern *pattern)
{
    struct shunt_pack_table *table = atomic_load_explicit(&pattern->table, memory_order_acquire);

    while (table && (table->packer != packer || table->context != packer->context))
        table = table->next;
    return table;
}

/* What the table will be, in host memory to be freed. */
static void *make_table(const struct shunt_pattern *pattern, struct shunt_pack_table *table, size_t *bytes)
{
    size_t offsets = pattern->n * sizeof *pattern->offsets;

    *bytes = pattern->nests ? pattern->n * sizeof(struct shunt_knest) : offsets;
    table->starts = offsets;
    if (!pattern->nests && pattern->starts)
        *bytes += pattern->n * sizeof *pattern->starts;
    char *memory = malloc(*bytes);
    if (!memory)
        return NULL;
    if (pattern->nests) {
        convert_nests(pattern, (struct shunt_knest *)memory);
        return memory;
    }
    memcpy(memory, pattern->offsets, offsets);
    for (size_t i = 0; pattern->starts && i < pattern->n; i++)
        ((uint64_t *)(memory + offsets))[i] = pattern->starts[i] / pattern->granule;
    return memory;
}

/* Allocated and freed in stream order: freeing must not wait for kernels that wait for peers. */
static enum shunt_status send_table(const struct shunt_packer *packer, struct shunt_pack_table *table, void *memory,
                                    size_t bytes)
{
    CUstream stream = packer->gpu->copies;
    enum shunt_status status = SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemAllocAsync(&table->memory, bytes, stream));

    if (status != SHUNT_OK)
        return status;
    status = SHUNT_CUDA(cuMemcpyAsync(table->memory, (CUdeviceptr)memory, bytes, stream));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamSynchronize(stream)); /* the memory goes */
    if (status != SHUNT_OK)
        shunt_driver.cuMemFreeAsync(table->memory, stream);
    return status;
}

enum shunt_status shunt_packer_prepare(struct shunt_packer *packer, const struct shunt_pattern *pattern)
{
    size_t bytes;

    if (travels_along(pattern) || find_table(packer, pattern))
        return SHUNT_OK;
    struct shunt_pack_table *table = calloc(1, sizeof *table);
    void *memory = table ? make_table(pattern, table, &bytes) : NULL;
    enum shunt_status status = memory ? send_table(packer, table, memory, bytes) : SHUNT_ERR_MEMORY;
    free(memory);
    if (status != SHUNT_OK) {
        free(table);
        return status;
    }
    table->packer = packer;
    table->context = packer->context;
    /* Packers of other GPUs do the same. The pattern is const to all but its tables. */
    struct shunt_pack_table *_Atomic *list = &((struct shunt_pattern *)pattern)->table;
    table->next = atomic_load_explicit(list, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(list, &table->next, table, memory_order_release, memory_order_relaxed))
        ;
    return SHUNT_OK;
}

static void free_table(struct shunt_pack_table *table)
{
    struct shunt_packer *packer = table->packer;
    struct shunt_gpu_scope scope;

    pthread_mutex_lock(&packer->lock);
    if (table->context == packer->context && shunt_gpu_enter(packer->gpu, &scope) == SHUNT_OK) {
        SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemFreeAsync(table->memory, packer->gpu->copies));
        shunt_gpu_leave(&scope);
    }
    pthread_mutex_unlock(&packer->lock);
    free(table);
}

void shunt_pack_forget(struct shunt_pattern *pattern)
{
    struct shunt_pack_table *table = atomic_load_explicit(&pattern->table, memory_order_acquire);

    while (table) {
        struct shunt_pack_table *next = table->next;
        free_table(table);
        table = next;
    }
}

/* ---- launching ---- */

static unsigned log2_of(uint32_t power)
{
    return (unsigned)__builtin_ctz(power);
}

/* The list, and how it is repeated. */
static void fill_list(const struct shunt_packer *packer, const struct shunt_pattern *pattern, struct shunt_pack_args *args)
{
    const struct shunt_pack_table *table = find_table(packer, pattern);

    args->n = pattern->n;
    args->list = divisor(pattern->list_bytes / pattern->granule);
    args->outer_levels = pattern->outer_levels;
    convert_loops(pattern->outer, pattern->outer_levels, args->outer);
    args->kind = pattern->nests ? SHUNT_PACK_NESTED : pattern->starts ? SHUNT_PACK_BLOCKS : SHUNT_PACK_UNIFORM;
    if (args->kind == SHUNT_PACK_UNIFORM)
        args->length = divisor(pattern->length / pattern->granule);
    if (!table) {
        convert_nests(pattern, args->nests);
    } else if (pattern->nests) {
        args->table = (const struct shunt_knest *)table->memory;
    } else {
        args->offsets = (const int64_t *)table->memory;
        args->starts = (const uint64_t *)(table->memory + table->starts);
    }
}

enum shunt_status shunt_packer_launch(struct shunt_packer *packer, const struct shunt_pattern *pattern, char *base,
                                      uint64_t first, uint64_t bytes, CUdeviceptr packed, bool packing)
{
    struct shunt_pack_args args = { .launch = ++packer->launch,
                                    .told = (uint64_t *)(uintptr_t)packer->told,
                                    .granule = pattern->granule,
                                    .extent = pattern->extent };
    uint64_t element = first / pattern->bytes, within = first % pattern->bytes;
    uint64_t at = (uint64_t)(uintptr_t)base + element * (uint64_t)pattern->extent;
    uint64_t bits = pattern->granule | at | within | bytes | packed;

    if (within + bytes > pattern->bytes)
        bits |= (uint64_t)pattern->extent;
    args.width = (uint32_t)(bits & -bits);
    args.shift = log2_of(pattern->granule) - log2_of(args.width);
    args.base = (char *)(uintptr_t)at;
    args.packed = (char *)(uintptr_t)packed;
    args.first = within / args.width;
    args.words = bytes / args.width;
    args.wide = (args.first + args.words) >> args.shift >= UINT64_C(1) << 31;
    fill_list(packer, pattern, &args);

    uint64_t blocks = (args.words + SHUNT_PACK_THREADS - 1) / SHUNT_PACK_THREADS, most = 8 * packer->processors;
    void *list[] = { &args };
    return SHUNT_CUDA(cuLaunchKernel(packing ? packer->pack : packer->unpack, (unsigned)(blocks < most ? blocks : most), 1,
                                     1, SHUNT_PACK_THREADS, 1, 1, 0, packer->stream, list, NULL));
}

/* ---- waiting ---- */

/* Is there no kernel any more that is going to do what the last launch was to do? */
static bool called_back(struct shunt_packer *packer, double now)
{
    struct shunt_recall_words words = {
        .recalled = packer->told + SHUNT_TOLD_RECALLED * sizeof(uint64_t),
        .begun = packer->told + SHUNT_TOLD_BEGUN * sizeof(uint64_t),
        .n = 1,
        .pinned = packer->pinned,
    };

    switch (shunt_recall_look(&packer->recall, packer->gpu, &words, packer->launch, now)) {
    case SHUNT_RECALL_MIXED: /* a part of it is done; what was not is not known, so all is to be done again */
        SHUNT_CUDA(cuStreamSynchronize(packer->stream));
        return true;
    case SHUNT_RECALL_UNBEGUN: return packer->stuck = true;
    default: return false;
    }
}

/* Time counts from when the kernel is next in order: what the application has put on the legacy stream may take long. */
enum shunt_status shunt_packer_wait(struct shunt_packer *packer, CUevent event)
{
    double looked = shunt_seconds();
    unsigned spins = 0;
    CUresult result;

    while ((result = event ? shunt_driver.cuEventQuery(event) : shunt_driver.cuStreamQuery(packer->stream)) ==
           CUDA_ERROR_NOT_READY) {
        shunt_board_relax(&spins);
        double now = shunt_seconds();
        if (now - looked < LOOK_SECONDS)
            continue;
        looked = now;
        bool begins = shunt_recall_called(&packer->recall, packer->launch) || shunt_gpu_legacy_passed(packer->gpu);
        if (!begins)
            shunt_recall_restart(&packer->recall, now);
        else if (called_back(packer, now))
            return SHUNT_PASS;
    }
    /* It found room after it had been called back, so it may have ended with nothing done; what comes behind it ends soon. */
    if (result == CUDA_SUCCESS && shunt_recall_called(&packer->recall, packer->launch)) {
        SHUNT_CUDA(cuStreamSynchronize(packer->stream));
        return SHUNT_PASS;
    }
    return shunt_cuda_check(result, SHUNT_LOG_WARN, "packing");
}
