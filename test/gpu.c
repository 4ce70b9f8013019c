/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory for the test programs: see gpu.h. */
#define _GNU_SOURCE
#include "test/gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/by_driver.h"

/* RT(result and name, arguments), DRV likewise: the functions that are used, declared here since there is no cuda.h. */
#define RUNTIME(RT)                                               \
    RT(cudaSetDevice, (int))                                      \
    RT(cudaGetDevice, (int *))                                    \
    RT(cudaGetDeviceCount, (int *))                               \
    RT(cudaMalloc, (void **, size_t))                             \
    RT(cudaFree, (void *))                                        \
    RT(cudaMallocHost, (void **, size_t))                         \
    RT(cudaFreeHost, (void *))                                    \
    RT(cudaMallocManaged, (void **, size_t, unsigned))            \
    RT(cudaMallocAsync, (void **, size_t, void *))                \
    RT(cudaFreeAsync, (void *, void *))                           \
    RT(cudaMemcpy, (void *, const void *, size_t, int))           \
    RT(cudaIpcGetMemHandle, (struct gpu_handle *, void *))        \
    RT(cudaIpcOpenMemHandle, (void **, struct gpu_handle, unsigned)) \
    RT(cudaIpcCloseMemHandle, (void *))                           \
    RT(cudaDeviceSynchronize, (void))                             \
    RT(cudaDeviceReset, (void))                                   \
    RT(cudaMemGetInfo, (size_t *, size_t *))                      \
    RT(cudaPeekAtLastError, (void))                               \
    RT(cudaGetLastError, (void))

struct location {
    int type, id;
};

struct allocation {
    int type, handles;
    struct location location;
    void *win32;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

struct access {
    struct location location;
    int flags;
};

#define DRIVER(DRV)                                                                          \
    DRV(cuCtxGetCurrent, (void **))                                                          \
    DRV(cuCtxPopCurrent_v2, (void **))                                                       \
    DRV(cuCtxPushCurrent_v2, (void *))                                                       \
    DRV(cuMemGetAllocationGranularity, (size_t *, const struct allocation *, int))           \
    DRV(cuMemCreate, (unsigned long long *, size_t, const struct allocation *, unsigned long long)) \
    DRV(cuMemAddressReserve, (void **, size_t, size_t, void *, unsigned long long))          \
    DRV(cuMemMap, (void *, size_t, size_t, unsigned long long, unsigned long long))          \
    DRV(cuMemSetAccess, (void *, size_t, const struct access *, size_t))                     \
    DRV(cuMemUnmap, (void *, size_t))                                                        \
    DRV(cuMemAddressFree, (void *, size_t))                                                  \
    DRV(cuMemRelease, (unsigned long long))                                                  \
    DRV(cuMemExportToShareableHandle, (void *, unsigned long long, int, unsigned long long)) \
    DRV(cuMemImportFromShareableHandle, (unsigned long long *, void *, int))

#define DECLARE(name, arguments) static int(*name) arguments;
RUNTIME(DECLARE)
DRIVER(DECLARE)

static bool started;
static int device_now, device_count;

static void check(int rc, const char *call)
{
    if (rc == 0)
        return;
    fprintf(stderr, "test: %s failed with %d\n", call, rc);
    exit(3);
}
#define CHECK(call) check(call, #call)

/* In which way the program has CUDA (CHECK_CUDA): its runtime hidden, as one that is linked statically, or the driver alone. */
static bool is_used(const char *way)
{
    const char *wanted = getenv("CHECK_CUDA");

    return wanted && strcmp(wanted, way) == 0;
}

static void *open_one_of(const char *const *names)
{
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | (is_used("hidden") ? RTLD_LOCAL : RTLD_GLOBAL));
        if (library)
            return library;
    }
    fprintf(stderr, "test: %s\n", dlerror());
    exit(3);
}

static void *driver, *runtime;

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "test: CUDA has no %s\n", name);
        exit(3);
    }
    return symbol;
}

void *gpu_function(const char *name)
{
    return find(strncmp(name, "cuda", 4) == 0 ? runtime : driver, name);
}

static void open_cuda(void)
{
    static const char *const runtimes[] = {"libcudart.so.13", "libcudart.so.12", NULL};
    static const char *const drivers[] = {"libcuda.so.1", NULL};
    driver = open_one_of(drivers);
    if (!is_used("driver"))
        runtime = open_one_of(runtimes);
#define FIND_RT(name, arguments) *(void **)&name = runtime ? find(runtime, #name) : by_driver_find(driver, #name);
#define FIND_DRV(name, arguments) *(void **)&name = find(driver, #name);
    RUNTIME(FIND_RT)
    DRIVER(FIND_DRV)
}

void gpu_start(int device)
{
    if (started)
        return;
    open_cuda();
    CHECK(cudaGetDeviceCount(&device_count));
    if (device_count < 1)
        check(100, "cudaGetDeviceCount");
    device_now = device % device_count;
    CHECK(cudaSetDevice(device_now));
    CHECK(cudaFree(NULL)); /* makes the primary context */
    if (is_used("driver") && gpu_mapped("libcudart"))
        check(1, "doing without CUDA's runtime");
    started = true;
}

void gpu_start_thread(void)
{
    if (started)
        CHECK(cudaSetDevice(device_now));
}

bool gpu_started(void)
{
    return started;
}

int gpu_count(void)
{
    return device_count;
}

bool gpu_kind_known(char kind)
{
    return kind && strchr(GPU_KINDS, kind);
}

bool gpu_kind_on_host(char kind)
{
    return kind == 'H' || kind == 'P';
}

/* What cuMemCreate is asked for; handles: 1 for file descriptors. */
static struct allocation physical(int handles)
{
    return (struct allocation){.type = 1, .handles = handles, .location = {1, device_now}};
}

/* Piece i of the reserved range, with the memory of that handle. */
static void map_piece(struct gpu_block *block, int i, unsigned long long memory)
{
    struct access access = {{1, device_now}, 3};
    char *at = (char *)block->root + (size_t)i * block->piece;

    CHECK(cuMemMap(at, block->piece, 0, memory, 0));
    CHECK(cuMemSetAccess(at, block->piece, &access, 1));
    block->vmm[i] = memory;
}

static void unmap_piece(struct gpu_block *block, int i)
{
    CHECK(cuMemUnmap((char *)block->root + (size_t)i * block->piece, block->piece));
}

/* A range of at most `most` pieces of the same size. */
static void alloc_vmm(struct gpu_block *block, size_t bytes, int handles, size_t most)
{
    struct allocation what = physical(handles);
    size_t grain = 0, pieces;

    CHECK(cuMemGetAllocationGranularity(&grain, &what, 0));
    block->piece = (bytes + grain * most - 1) / (grain * most) * grain;
    pieces = (bytes + block->piece - 1) / block->piece;
    block->root_bytes = pieces * block->piece;
    CHECK(cuMemAddressReserve(&block->root, block->root_bytes, 0, NULL, 0));
    for (size_t i = 0; i < pieces; i++) {
        unsigned long long memory;
        CHECK(cuMemCreate(&memory, block->piece, &what, 0));
        map_piece(block, (int)i, memory);
    }
}

void gpu_make_hole(struct gpu_block *block, int piece)
{
    unmap_piece(block, piece);
    CHECK(cuMemRelease(block->vmm[piece]));
    block->vmm[piece] = 0;
}

static void free_vmm(struct gpu_block *block)
{
    for (size_t i = 0; i * block->piece < block->root_bytes; i++)
        if (block->vmm[i])
            gpu_make_hole(block, (int)i);
    CHECK(cuMemAddressFree(block->root, block->root_bytes));
}

static void alloc_elsewhere(struct gpu_block *block, size_t bytes)
{
    CHECK(cudaSetDevice((device_now + 1) % device_count));
    CHECK(cudaMalloc(&block->root, bytes));
    CHECK(cudaSetDevice(device_now));
}

/* Kind R: what is used begins so much before the end of the first piece. */
#define BEFORE_SEAM 1024

static size_t alloc_pieces(struct gpu_block *block, size_t bytes)
{
    /* One piece more than the bytes take, for what is skipped of the first. */
    alloc_vmm(block, bytes + bytes / (GPU_PIECES - 1) + (2u << 20), 1, GPU_PIECES);
    return block->piece - BEFORE_SEAM;
}

/* Kind S: past a 2 MiB page, aligned like cudaMalloc itself. */
#define DEEP ((2u << 20) + 482 * 256)

void gpu_alloc(struct gpu_block *block, char kind, size_t bytes)
{
    size_t skip = kind == 'S' ? DEEP : 0;

    *block = (struct gpu_block){.kind = kind, .bytes = bytes};
    switch (kind) {
    case 'H':
        if (posix_memalign(&block->root, 4096, bytes ? bytes : 1))
            check(2, "posix_memalign");
        break;
    case 'P': CHECK(cudaMallocHost(&block->root, bytes)); break;
    case 'M': CHECK(cudaMallocManaged(&block->root, bytes, 1)); break;
    case 'A':
        CHECK(cudaMallocAsync(&block->root, bytes, NULL));
        CHECK(cudaDeviceSynchronize());
        break;
    case 'V': alloc_vmm(block, bytes, 0, 1); break;
    case 'E': alloc_vmm(block, bytes, 1, 1); break;
    case 'R': skip = alloc_pieces(block, bytes); break;
    case 'X': alloc_elsewhere(block, bytes); break;
    default: CHECK(cudaMalloc(&block->root, bytes + 2 * skip)); break;
    }
    block->base = (char *)block->root + skip;
}

void gpu_free(struct gpu_block *block)
{
    if (!block->root)
        return;
    switch (block->kind) {
    case 'H': free(block->root); break;
    case 'P': CHECK(cudaFreeHost(block->root)); break;
    case 'A':
        CHECK(cudaFreeAsync(block->root, NULL));
        CHECK(cudaDeviceSynchronize());
        break;
    case 'V':
    case 'E':
    case 'R': free_vmm(block); break;
    default: CHECK(cudaFree(block->root)); break;
    }
    *block = (struct gpu_block){0};
}

void gpu_swap(struct gpu_block *block, unsigned long long *old)
{
    struct allocation what = physical(1);
    unsigned long long memory;

    *old = block->vmm[0];
    CHECK(cuMemCreate(&memory, block->piece, &what, 0));
    unmap_piece(block, 0);
    map_piece(block, 0, memory);
}

void gpu_swap_back(struct gpu_block *block, unsigned long long old)
{
    unmap_piece(block, 0);
    CHECK(cuMemRelease(block->vmm[0]));
    map_piece(block, 0, old);
}

void gpu_export(const struct gpu_block *block, struct gpu_handle *handle)
{
    CHECK(cudaIpcGetMemHandle(handle, block->root));
}

void *gpu_open(const struct gpu_handle *handle)
{
    void *p = NULL;

    CHECK(cudaIpcOpenMemHandle(&p, *handle, 1));
    return p;
}

void gpu_close(void *opened)
{
    CHECK(cudaIpcCloseMemHandle(opened));
}

int gpu_descriptor(const struct gpu_block *block)
{
    int descriptor = -1;

    CHECK(cuMemExportToShareableHandle(&descriptor, block->vmm[0], 1, 0));
    return descriptor;
}

void gpu_import(struct gpu_block *block, int descriptor, size_t bytes)
{
    unsigned long long memory;

    *block = (struct gpu_block){.kind = 'E', .bytes = bytes, .piece = bytes, .root_bytes = bytes};
    CHECK(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)descriptor, 1));
    CHECK(cuMemAddressReserve(&block->root, bytes, 0, NULL, 0));
    map_piece(block, 0, memory);
    block->base = block->root;
}

void gpu_copy(void *to, const void *from, size_t bytes)
{
    if (!started)
        memcpy(to, from, bytes);
    else if (bytes)
        CHECK(cudaMemcpy(to, from, bytes, 4));
}

void gpu_synchronize(void)
{
    if (started)
        CHECK(cudaDeviceSynchronize());
}

void gpu_reset(void)
{
    CHECK(cudaDeviceReset());
}

size_t gpu_free_bytes(void)
{
    size_t available, total;

    CHECK(cudaMemGetInfo(&available, &total));
    return available;
}

static int stack_depth(void)
{
    void *stack[64], *context;
    int depth = 0;

    while (depth < 64) {
        CHECK(cuCtxGetCurrent(&context));
        if (!context || cuCtxPopCurrent_v2(&context) != 0)
            break;
        stack[depth++] = context;
    }
    for (int i = depth - 1; i >= 0; i--)
        CHECK(cuCtxPushCurrent_v2(stack[i]));
    return depth;
}

void gpu_look(struct gpu_state *state, bool bare)
{
    *state = (struct gpu_state){.device = -1};
    if (!started)
        return;
    CHECK(cuCtxGetCurrent(&state->context));
    state->depth = stack_depth();
    if (bare)
        return;
    state->error = cudaPeekAtLastError();
    CHECK(cudaGetDevice(&state->device));
}

bool gpu_state_same(const struct gpu_state *a, const struct gpu_state *b)
{
    return a->device == b->device && a->context == b->context && a->error == b->error && a->depth == b->depth;
}

void gpu_provoke_error(void)
{
    if (started)
        cudaSetDevice(device_count + 1000);
}

void gpu_forget_error(void)
{
    if (started)
        cudaGetLastError();
}

bool gpu_mapped(const char *part)
{
    char line[4352];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps && fgets(line, sizeof line, maps))
        found = found || strstr(line, part);
    if (maps)
        fclose(maps);
    return found;
}

int gpu_local_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_RANK"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value)
            return atoi(value);
    }
    return 0;
}
