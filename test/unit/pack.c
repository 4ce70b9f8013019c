/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packing and unpacking by the kernels, on the CPU, against the host's loops: random patterns at any alignment, whole
 * messages and parts, in every way they may take through pinned pieces and buffers. The driver is the test's.
 */
#include "cuda/pack.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "base/conf.h"
#include "cuda/context.h"
#include "cuda/gpu.h"
#include "cuda/packer.h"
#include "sim/kernel.h"
#include "test/unit/pack_driver.h"

enum { ARENA = 1 << 20, PAGE = 4096 };

static struct shunt_conf conf;
struct shunt_driver shunt_driver;
const unsigned char shunt_pack_fatbin[1];
const unsigned long shunt_pack_fatbin_size = 1;

/* ---- a GPU that is memory of this process ---- */

static struct shunt_gpu gpu = { .ordinal = 0, .id = 1 };
static char *arena;
static bool by_pages; /* what is mapped there is known page by page, as if mapped by hand */
static uint64_t absent; /* pages that are not mapped, one bit each */
static char *on_host;   /* memory in the arena that is the host's, a page; or NULL */
static bool is_foreign, no_memory;
static unsigned copies, allocations;
static CUdeviceptr last, earlier; /* what was allocated */

struct shunt_gpu *shunt_gpu_of(const void *p, bool *foreign)
{
    *foreign = is_foreign;
    return (const char *)p >= arena && (const char *)p < arena + ARENA ? &gpu : NULL;
}

enum shunt_status shunt_gpu_enter(struct shunt_gpu *entered, struct shunt_gpu_scope *scope)
{
    (void)entered;
    (void)scope;
    return SHUNT_OK;
}

void shunt_gpu_leave(struct shunt_gpu_scope *scope)
{
    (void)scope;
}

bool shunt_gpu_after_legacy(struct shunt_gpu *entered, CUstream stream)
{
    (void)entered;
    (void)stream;
    return true;
}

bool shunt_gpu_legacy_passed(struct shunt_gpu *entered)
{
    (void)entered;
    return true;
}

enum shunt_status shunt_cuda_check(CUresult result, int level, const char *call)
{
    (void)level;
    (void)call;
    return result == CUDA_SUCCESS ? SHUNT_OK : SHUNT_ERR_CUDA;
}

static bool is_absent(size_t page)
{
    return page < 64 && (absent >> page & 1);
}

/* In the order in which packer.c asks. */
static CUresult ask(unsigned n, CUpointer_attribute *attributes, void **values, CUdeviceptr p)
{
    size_t page = ((char *)p - arena) / PAGE;
    bool inside = (char *)p >= arena && (char *)p < arena + ARENA && !is_absent(page);
    bool host = on_host && (char *)p >= on_host && (char *)p < on_host + PAGE;

    assert_int_equal(n, 8);
    assert_int_equal(attributes[5], CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
    *(unsigned *)values[0] = !inside ? 0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    *(int *)values[1] = inside ? 0 : -2;
    *(CUcontext *)values[2] = NULL;
    *(CUdeviceptr *)values[3] = (CUdeviceptr)arena;
    *(size_t *)values[4] = ARENA;
    *(CUdeviceptr *)values[5] = by_pages ? (CUdeviceptr)(arena + page * PAGE) : 0;
    *(size_t *)values[6] = by_pages ? PAGE : 0;
    return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *address, size_t bytes)
{
    if (no_memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocations++;
    earlier = last;
    *address = last = (CUdeviceptr)malloc(bytes);
    return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr address)
{
    allocations--;
    free((void *)address);
    return CUDA_SUCCESS;
}

static CUresult allocate_async(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    (void)stream;
    return allocate(address, bytes);
}

static CUresult release_async(CUdeviceptr address, CUstream stream)
{
    (void)stream;
    return release(address);
}

static void *words; /* the packer's: no other pinned memory is so small */

static CUresult allocate_host(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (bytes <= 512)
        words = *p;
    return CUDA_SUCCESS;
}

static CUresult release_host(void *p)
{
    free(p);
    return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    copies++;
    memcpy((void *)to, (void *)from, bytes);
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    conf = (struct shunt_conf){ .stage_chunk = 4096, .stage_size = 16384 };
    shunt_driver = (struct shunt_driver){
        .cuPointerGetAttributes = ask,
        .cuMemAlloc_v2 = allocate,
        .cuMemFree_v2 = release,
        .cuMemAllocAsync = allocate_async,
        .cuMemFreeAsync = release_async,
        .cuMemHostAlloc = allocate_host,
        .cuMemFreeHost = release_host,
        .cuMemcpyAsync = copy,
        .cuModuleGetFunction = find_function,
        .cuModuleLoadData = load_module,
        .cuModuleUnload = unload,
        .cuLaunchKernel = run_kernel,
        .cuOccupancyMaxActiveBlocksPerMultiprocessor = occupy,
        .cuDeviceGet = find_device,
        .cuDeviceGetAttribute = find_attribute,
        .cuEventCreate = create_event,
        .cuEventRecord = record_event,
        .cuEventSynchronize = accept_event,
        .cuEventQuery = accept_event,
        .cuEventDestroy_v2 = accept_event,
        .cuCtxGetStreamPriorityRange = find_priorities,
        .cuStreamCreateWithPriority = create_stream,
        .cuStreamDestroy_v2 = accept_stream,
        .cuStreamSynchronize = accept_stream,
        .cuStreamQuery = accept_stream,
    };
    by_pages = is_foreign = no_memory = false;
    absent = 0;
    on_host = NULL;
    shunt_packer_load(&gpu);
    return 0;
}

/* Nothing may be left on the GPU. */
static int teardown(void **state)
{
    (void)state;
    shunt_packer_close(&gpu);
    shunt_stage_close();
    shunt_stage_forget();
    assert_int_equal(allocations, 0);
    return 0;
}

/* ---- patterns ---- */

static uint64_t seed = 1;

static int dice(int sides)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((seed >> 33) % (unsigned)sides);
}

/* Not overlapping: blocks, loops and lists of growing offsets, all multiples of `unit`. */
static void make_shape(struct shunt_outline *shape, int depth, int unit, int64_t *extent)
{
    struct shunt_outline part = SHUNT_OUTLINE_EMPTY;
    int64_t inner = unit * (1 + dice(4)), at = 0;
    int n = 1 + dice(dice(4) ? 4 : 40);

    if (depth == 0) {
        shunt_outline_block(shape, unit * dice(2), (uint64_t)inner);
        *extent = inner + unit * (1 + dice(3));
        return;
    }
    make_shape(&part, depth - 1, unit, &inner);
    if (dice(3)) {
        shunt_outline_add(shape, &part, unit * dice(3), (uint64_t)n, inner + unit * dice(3));
        at = (inner + 2 * unit) * (n + 2);
    } else {
        for (int i = 0; i < n; i++) {
            int times = dice(3);
            shunt_outline_add(shape, &part, at, (uint64_t)times, inner);
            at += inner * times + unit * dice(5);
        }
    }
    shunt_outline_fold(shape);
    shunt_outline_free(&part);
    *extent = at + unit;
}

static struct shunt_pattern *make_pattern(void)
{
    static const int units[] = { 1, 2, 4, 8, 16, 12 };

    for (;;) {
        struct shunt_outline shape = SHUNT_OUTLINE_EMPTY;
        struct shunt_pattern *pattern = NULL;
        int64_t extent;

        make_shape(&shape, dice(4), units[dice(6)], &extent);
        assert_int_equal(shunt_pattern_make(&shape, extent, &pattern), SHUNT_OK);
        shunt_outline_free(&shape);
        if (pattern->bytes > 0 && extent < ARENA / 8)
            return pattern;
        shunt_pattern_release(pattern);
    }
}

/* ---- one message both ways ---- */

static char before[ARENA], wanted[ARENA], image[ARENA], packed[ARENA], data[ARENA];

static void fill_random(char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(int)) {
        int word = dice(1 << 30);
        memcpy(at + i, &word, sizeof word);
    }
}

/* From the arena to host memory, packed or as an image. */
static void check_out(const struct shunt_pattern *pattern, size_t at, int64_t count, uint64_t bytes)
{
    memset(packed, 0x55, sizeof packed);
    shunt_pattern_gather(pattern, arena + at, 0, bytes, packed);
    char *bounce = shunt_bounce_get(bytes + 1);
    memset(bounce, 0x55, bytes + 1);
    assert_int_equal(shunt_pack_out(pattern, arena + at, count, bytes, bounce), SHUNT_OK);
    assert_memory_equal(bounce, packed, bytes + 1);
    shunt_bounce_put(bounce, bytes + 1);
    memset(image, 0x33, sizeof image);
    memset(wanted, 0x33, sizeof wanted);
    shunt_pattern_scatter(pattern, wanted + at, 0, bytes, packed);
    assert_int_equal(shunt_pack_fill(pattern, arena + at, count, bytes, image + at), SHUNT_OK);
    assert_memory_equal(image, wanted, ARENA);
}

static void check_in(const struct shunt_pattern *pattern, size_t at, int64_t count, uint64_t bytes)
{
    memcpy(wanted, arena, ARENA);
    shunt_pattern_scatter(pattern, wanted + at, 0, bytes, data);
    char *bounce = shunt_bounce_get(bytes + 1);
    memcpy(bounce, data, bytes);
    assert_int_equal(shunt_pack_in(pattern, arena + at, count, bytes, bounce), SHUNT_OK);
    assert_memory_equal(arena, wanted, ARENA);
    shunt_bounce_put(bounce, bytes + 1);
    memcpy(arena, before, ARENA);
    memset(image, 0x33, sizeof image);
    shunt_pattern_scatter(pattern, image + at, 0, bytes, data);
    assert_int_equal(shunt_pack_return(pattern, arena + at, count, bytes, image + at), SHUNT_OK);
    assert_memory_equal(arena, wanted, ARENA);
    memcpy(arena, before, ARENA);
}

/* Answers how many messages were not dense. */
static int run_random(int n)
{
    int sparse = 0;

    fill_random(before, ARENA);
    fill_random(data, ARENA);
    memcpy(arena, before, ARENA);
    for (int i = 0; i < n; i++) {
        struct shunt_pattern *pattern = make_pattern();
        int64_t most = (ARENA - PAGE) / (pattern->extent > pattern->high ? pattern->extent : pattern->high);
        int64_t count = 1 + dice((int)(most < 5 ? most : 5));
        uint64_t bytes = (uint64_t)count * pattern->bytes;
        size_t at = (size_t)(dice(3) ? 16 * dice(9) : dice(PAGE));

        bytes = dice(3) ? bytes : 1 + (uint64_t)dice((int)bytes);
        check_out(pattern, at, count, bytes);
        check_in(pattern, at, count, bytes);
        sparse += !shunt_pattern_is_dense(pattern, count);
        shunt_pattern_release(pattern);
    }
    return sparse;
}

static void test_random(void **state)
{
    (void)state;
    launches = copies = 0;
    int sparse = run_random(150);
    assert_true(sparse > 50 && launches >= 4 * (unsigned)sparse);
}

/* Pinned pieces of which none is left, and none at all. */
static void test_pageable(void **state)
{
    (void)state;
    conf.stage_size = 0;
    run_random(40);
}

/* No room for the buffer, nor for lists, which then go block by block. */
static void test_no_device_memory(void **state)
{
    (void)state;
    no_memory = true;
    run_random(40);
}

static void test_foreign(void **state)
{
    (void)state;
    is_foreign = true;
    launches = 0;
    run_random(40);
    assert_int_equal(launches, 0);
}

static void test_wide(void **state)
{
    (void)state;
    struct shunt_outline shape = SHUNT_OUTLINE_EMPTY;
    struct shunt_pattern *pattern = NULL;
    uint64_t large = (UINT64_C(3) << 30) * 8;

    /* Three terabytes of doubles, all at the same few places; the end of them is moved. */
    shunt_outline_block(&shape, 0, 8);
    shunt_outline_repeat(&shape, 10, 24);
    shunt_outline_repeat(&shape, large, 0);
    assert_int_equal(shunt_pattern_make(&shape, 1000, &pattern), SHUNT_OK);
    shunt_outline_free(&shape);
    fill_random(arena, 4096);
    memset(packed, 0, 4096);
    memset(data, 0, 4096);
    uint64_t first = pattern->bytes - 37 * 8;
    shunt_pattern_gather(pattern, arena, first, 37 * 8, packed);
    struct shunt_packer *packer = shunt_packer_lock(&gpu);
    assert_non_null(packer);
    assert_int_equal(shunt_packer_launch(packer, pattern, arena, first, 37 * 8, (CUdeviceptr)data, true), SHUNT_OK);
    shunt_packer_unlock(packer);
    assert_memory_equal(packed, data, 37 * 8);
    shunt_pattern_release(pattern);
}

/* ---- launches ---- */

static struct shunt_pattern *make_rows(uint64_t n, uint64_t length, int64_t stride)
{
    struct shunt_outline shape = SHUNT_OUTLINE_EMPTY;
    struct shunt_pattern *pattern = NULL;

    shunt_outline_block(&shape, 0, length);
    shunt_outline_repeat(&shape, n, stride);
    assert_int_equal(shunt_pattern_make(&shape, (int64_t)n * stride, &pattern), SHUNT_OK);
    shunt_outline_free(&shape);
    return pattern;
}

/* One for a message, whatever number of blocks; one more for each filling of the buffer. */
static void test_launches(void **state)
{
    (void)state;
    struct shunt_pattern *small = make_rows(400, 8, 64), *large = make_rows(5000, 8, 64);

    launches = copies = 0;
    assert_int_equal(shunt_pack_fill(small, arena, 1, small->bytes, image), SHUNT_OK);
    assert_true(launches == 1 && copies == 0);
    assert_int_equal(shunt_pack_return(small, arena, 1, small->bytes, image), SHUNT_OK);
    assert_true(launches == 2 && copies == 0);
    conf.stage_size = 65536; /* 40000 bytes go through the buffer in pieces of 4096 */
    launches = 0;
    assert_int_equal(shunt_pack_return(large, arena, 1, large->bytes, image), SHUNT_OK);
    assert_true(launches == 1 && copies == 10);
    assert_int_equal(shunt_pack_fill(large, arena, 1, large->bytes, image), SHUNT_OK);
    assert_true(launches == 2 && copies == 20);
    shunt_pattern_release(small);
    shunt_pattern_release(large);
}

/* ---- where a kernel may go ---- */

/* Blocks on some pages, of which the others are not there. */
static void test_unmapped_gaps(void **state)
{
    (void)state;
    struct shunt_pattern *pattern = make_rows(4, 1000, 3 * PAGE);

    by_pages = true;
    for (int i = 0; i < 12; i++) {
        absent |= i % 3 ? UINT64_C(1) << i : 0;
        if (i % 3)
            assert_int_equal(mprotect(arena + i * PAGE, PAGE, PROT_NONE), 0);
    }
    launches = copies = 0;
    memset(packed, 0, 4096);
    shunt_pattern_gather(pattern, arena, 0, pattern->bytes, packed);
    assert_int_equal(shunt_pack_out(pattern, arena, 1, pattern->bytes, data), SHUNT_OK);
    assert_memory_equal(data, packed, pattern->bytes);
    assert_int_equal(shunt_pack_in(pattern, arena, 1, pattern->bytes, data), SHUNT_OK);
    assert_true(launches == 2 && copies == 0);
    mprotect(arena, ARENA, PROT_READ | PROT_WRITE);
    shunt_pattern_release(pattern);
}

/* A block that lies on the host: no kernel goes there. */
static void test_host_block(void **state)
{
    (void)state;
    struct shunt_pattern *pattern = make_rows(4, 1000, 3 * PAGE);

    by_pages = true;
    on_host = arena + 6 * PAGE;
    launches = copies = 0;
    assert_int_equal(shunt_pack_out(pattern, arena, 1, pattern->bytes, data), SHUNT_OK);
    shunt_pattern_gather(pattern, arena, 0, pattern->bytes, packed);
    assert_memory_equal(data, packed, pattern->bytes);
    assert_true(launches == 0 && copies == 4);
    shunt_pattern_release(pattern);
}

/* Another context on the same GPU: what was in the old one is not touched. */
static void test_reset(void **state)
{
    (void)state;
    struct shunt_outline shape = SHUNT_OUTLINE_EMPTY;
    struct shunt_pattern *pattern = NULL;

    for (int i = 0; i < 50; i++)
        shunt_outline_block(&shape, 64 * i + 8 * (i * i % 5), 8);
    assert_int_equal(shunt_pattern_make(&shape, 4096, &pattern), SHUNT_OK);
    assert_null(pattern->nests);
    shunt_outline_free(&shape);
    for (int i = 0; i < 3; i++) {
        check_out(pattern, 0, 1, pattern->bytes);
        assert_int_equal(allocations, 2); /* the packer's words, the list */
        gpu.id++;
        allocations = 0;
        free((void *)last);
        free((void *)earlier);
        free(words);
        shunt_packer_load(&gpu);
    }
    check_out(pattern, 0, 1, pattern->bytes);
    assert_int_equal(allocations, 2);
    shunt_pattern_release(pattern);
    assert_int_equal(allocations, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pageable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_device_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wide, setup, teardown),
        cmocka_unit_test_setup_teardown(test_launches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unmapped_gaps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_host_block, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reset, setup, teardown),
    };
    const char *folder = getenv("builddir");
    char path[4096];
    const struct sim_kernel *(*find)(const char *);

    setenv("SHUNT_SIM_MEAN", "1", 0);
    setenv("SHUNT_SIM_SEED", "1", 0);
    snprintf(path, sizeof path, "%s/.libs/libshunt-simkernels.so", folder ? folder : ".");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&find = dlsym(library, "sim_kernel_find");
    kernels[0] = find("shunt_pack");
    kernels[1] = find("shunt_unpack");
    shunt_conf_use(&conf);
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
