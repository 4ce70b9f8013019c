/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU of which there is only memory, which faults when the CPU touches it: cuda/gpu.h for one test program. */
#ifndef SHUNT_TEST_UNIT_FAKE_GPU_H
#define SHUNT_TEST_UNIT_FAKE_GPU_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/gpu.h"
#include "cuda/pack.h"

enum { GPU_BYTES = 1 << 20, GUARD = 0xa5 };

static char *device, *shadow; /* the same memory: as the program sees it, and as the GPU does */
static char *managed;
static bool in_use, no_bounce;
static bool plain_known; /* can stack and heap be told without a query? */
static int queries, copies, bounces;

static bool is_in(const void *p, const char *start)
{
    return (const char *)p >= start && (const char *)p < start + GPU_BYTES;
}

/* What the GPU has at an address of the program's. */
static void *seen(const void *p)
{
    return is_in(p, device) ? shadow + ((const char *)p - device) : (void *)p;
}

bool shunt_gpu_in_use(void)
{
    return in_use;
}

void shunt_gpu_classify(const void *p, struct shunt_mem *mem)
{
    assert_true((uintptr_t)p > 4096 && p != (void *)-1);
    queries++;
    *mem = (struct shunt_mem){ .kind = is_in(p, device)    ? SHUNT_MEM_DEVICE
                                       : is_in(p, managed) ? SHUNT_MEM_MANAGED
                                                           : SHUNT_MEM_HOST };
}

bool shunt_gpu_surely_host(const void *p, const void *q)
{
    return plain_known && !is_in(p, device) && !is_in(q, device) && !is_in(p, managed) && !is_in(q, managed);
}

void *shunt_bounce_get(size_t bytes)
{
    if (no_bounce)
        return NULL;
    bounces++;
    errno = ENOMEM; /* as a malloc may leave it */
    return malloc(bytes);
}

void shunt_bounce_put(void *host, size_t bytes)
{
    (void)bytes;
    bounces--;
    free(host);
}

enum shunt_status shunt_stage_out(void *host, const void *from, size_t bytes)
{
    assert_true(is_in(from, device) || is_in(from, managed));
    memcpy(host, seen(from), bytes);
    copies++;
    return SHUNT_OK;
}

enum shunt_status shunt_stage_in(void *to, const void *host, size_t bytes)
{
    assert_true(is_in(to, device) || is_in(to, managed));
    memcpy(seen(to), host, bytes);
    copies++;
    return SHUNT_OK;
}

enum shunt_status shunt_gpu_copy(void *to, const void *from, size_t bytes)
{
    memmove(seen(to), seen(from), bytes);
    return SHUNT_OK;
}

/* ---- derived types: on the shadow, which lies as the device does ---- */

enum shunt_status shunt_pack_out(const struct shunt_pattern *pattern, const void *base, int64_t count, uint64_t bytes,
                                 char *packed)
{
    (void)count;
    shunt_pattern_gather(pattern, seen(base), 0, bytes, packed);
    copies++;
    return SHUNT_OK;
}

enum shunt_status shunt_pack_in(const struct shunt_pattern *pattern, void *base, int64_t count, uint64_t bytes,
                                const char *packed)
{
    (void)count;
    shunt_pattern_scatter(pattern, seen(base), 0, bytes, packed);
    copies++;
    return SHUNT_OK;
}

static enum shunt_status repack(const struct shunt_pattern *pattern, const char *from, char *to, uint64_t bytes)
{
    char *packed = malloc(bytes);

    assert_non_null(packed);
    shunt_pattern_gather(pattern, from, 0, bytes, packed);
    shunt_pattern_scatter(pattern, to, 0, bytes, packed);
    free(packed);
    copies++;
    return SHUNT_OK;
}

enum shunt_status shunt_pack_fill(const struct shunt_pattern *pattern, const void *base, int64_t count, uint64_t bytes,
                                  char *image)
{
    (void)count;
    return repack(pattern, seen(base), image, bytes);
}

enum shunt_status shunt_pack_return(const struct shunt_pattern *pattern, void *base, int64_t count, uint64_t bytes,
                                    const char *image)
{
    (void)count;
    return repack(pattern, image, seen(base), bytes);
}

void shunt_pack_forget(struct shunt_pattern *pattern)
{
    (void)pattern;
}

static void map_gpu(void)
{
    int fd = memfd_create("gpu", 0);

    assert_int_equal(ftruncate(fd, GPU_BYTES), 0);
    device = mmap(NULL, GPU_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    shadow = mmap(NULL, GPU_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    managed = mmap(NULL, GPU_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(device != MAP_FAILED && shadow != MAP_FAILED && managed != MAP_FAILED);
    close(fd);
}

#endif
