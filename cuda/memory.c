/* SPDX-License-Identifier: BSD-3-Clause */
/* What memory is this? Stack and heap by their bounds, everything else by one query of the driver. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "cuda/gpu.h"

struct stack {
    uintptr_t low, high;
};

static void find_stack(struct stack *stack)
{
    pthread_attr_t attributes;
    void *base = NULL;
    size_t size = 0;
    int keep = errno;

    stack->high = 1; /* once, also when it fails */
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &base, &size) == 0) {
            stack->low = (uintptr_t)base;
            stack->high = stack->low + size;
        }
        pthread_attr_destroy(&attributes);
    }
    errno = keep;
}

/* The calling thread's stack, looked up once per thread. */
static const struct stack *own_stack(void)
{
    static __thread struct stack stack;
    struct stack *own = &stack; /* the address costs a call */

    if (own->high == 0)
        find_stack(own);
    return own;
}

/*
 * What somebody who called us has on its stack lies above our own frame. Below may be anything: of a stack without a limit
 * (ulimit -s unlimited) the C library says that it begins where the last mapping ended when it was asked, and the next
 * mappings, of a GPU's memory too, come there. A frame that is not on the thread's stack is a coroutine's.
 */
static bool on_stack(const struct stack *stack, uintptr_t p)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    return stack->low <= frame && frame <= p && p < stack->high;
}

/* Where the brk heap begins: field 47 of /proc/self/stat, counted from 3 behind the command's closing parenthesis. */
static uintptr_t read_heap_start(void)
{
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "re");

    if (file == NULL)
        return UINTPTR_MAX;
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[got] = 0;
    char *at = strrchr(line, ')');
    for (int field = 2; field < 47 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    uintptr_t start = at != NULL ? strtoull(at, NULL, 10) : 0;
    return start != 0 ? start : UINTPTR_MAX;
}

/*
 * The end is asked for only when the heap seems to have grown: UCX replaces sbrk by something that takes 170 ns. That the
 * heap may have shrunk does no harm: where it was, nothing but the heap comes.
 */
static bool on_heap(uintptr_t p)
{
    static uintptr_t start, end; /* written more than once by racing threads, with values that are all true */
    const uintptr_t largest = (uintptr_t)1 << 40;

    if (__atomic_load_n(&start, __ATOMIC_RELAXED) == 0) {
        int keep = errno;
        __atomic_store_n(&start, read_heap_start(), __ATOMIC_RELAXED);
        errno = keep;
    }
    uintptr_t offset = p - __atomic_load_n(&start, __ATOMIC_RELAXED);
    if (p < offset || offset >= largest) /* below the start, or among the mappings */
        return false;
    if (p >= __atomic_load_n(&end, __ATOMIC_RELAXED))
        __atomic_store_n(&end, (uintptr_t)sbrk(0), __ATOMIC_RELAXED);
    return p < __atomic_load_n(&end, __ATOMIC_RELAXED);
}

bool shunt_gpu_surely_host(const void *p, const void *q)
{
    const struct stack *stack = own_stack();

    return (on_stack(stack, (uintptr_t)p) || on_heap((uintptr_t)p)) &&
           (on_stack(stack, (uintptr_t)q) || on_heap((uintptr_t)q));
}

bool shunt_gpu_host_may_touch(const struct shunt_mem *mem)
{
    const CUdevice_attribute concurrent = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    int count = 0, allowed = mem->kind != SHUNT_MEM_DEVICE;

    if (mem->kind != SHUNT_MEM_MANAGED)
        return allowed;
    if (shunt_driver.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < count && allowed; i++) {
        CUdevice device;
        if (shunt_driver.cuDeviceGet(&device, i) != CUDA_SUCCESS ||
            shunt_driver.cuDeviceGetAttribute(&allowed, concurrent, device) != CUDA_SUCCESS)
            allowed = 0;
    }
    return allowed;
}

void shunt_gpu_classify(const void *p, struct shunt_mem *mem)
{
    CUpointer_attribute wanted[4] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_IS_MANAGED };
    unsigned type = 0, managed = 0;
    unsigned long long id = 0;
    int ordinal = -1;
    void *values[4] = { &type, &ordinal, &id, &managed };

    *mem = (struct shunt_mem){ .kind = SHUNT_MEM_HOST, .device = -1 };
    if (!shunt_gpu_in_use() || on_stack(own_stack(), (uintptr_t)p) || on_heap((uintptr_t)p))
        return;
    if (shunt_driver.cuPointerGetAttributes(4, wanted, values, (CUdeviceptr)p) != CUDA_SUCCESS)
        return;
    if (managed)
        mem->kind = SHUNT_MEM_MANAGED;
    else if (type == CU_MEMORYTYPE_DEVICE)
        mem->kind = SHUNT_MEM_DEVICE;
    else
        return;
    mem->device = ordinal;
    mem->id = id;
}
