/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of every kind, what the driver says about pointers to it, and copies.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void ask_memory(void)
{
    CUdeviceptr p = 0, q = 0, start = 0;
    size_t bytes = 0, unused, total;
    unsigned long long first = 0, second = 0;
    void *host = NULL;
    unsigned flags = 99;
    say(CU(cuMemAlloc_v2)(&p, 0), "cuMemAlloc of 0 bytes");
    say(CU(cuMemAlloc_v2)(NULL, 16), "cuMemAlloc without a place for the answer");
    say(CU(cuMemAlloc_v2)(&p, (size_t)1 << 46), "cuMemAlloc of 64 TiB");
    say(CU(cuMemAlloc_v2)(&p, 1000), "cuMemAlloc of 1000 bytes");
    tell("aligned to 256", "%d", p % 256 == 0);
    say(CU(cuMemGetAddressRange_v2)(&start, &bytes, p + 500),
        "cuMemGetAddressRange of a pointer into it");
    tell("its start, its size", "%d, %zu", start == p, bytes);
    say(CU(cuMemGetAddressRange_v2)(&start, &bytes, p + 999),
        "cuMemGetAddressRange of its last byte");
    say(CU(cuMemGetAddressRange_v2)(&start, &bytes, (uintptr_t)&p),
        "cuMemGetAddressRange of host memory");
    say(CU(cuMemFree_v2)(p + 256), "cuMemFree of a pointer into it");
    CU(cuPointerGetAttribute)(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
    say(CU(cuMemFree_v2)(p), "cuMemFree");
    say(CU(cuMemFree_v2)(p), "cuMemFree again");
    say(CU(cuMemFree_v2)(0), "cuMemFree(0)");
    say(CU(cuMemFree_v2)((uintptr_t)&p), "cuMemFree of host memory");
    need(CU(cuMemAlloc_v2)(&q, 1000), "cuMemAlloc");
    CU(cuPointerGetAttribute)(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, q);
    tell("another allocation has a later id", "%d", second > first);
    CU(cuMemFree_v2)(q);
    say(CU(cuMemGetInfo_v2)(&unused, &total), "cuMemGetInfo");
    tell("less is free than there is", "%d", unused <= total && total > 0);
    say(CU(cuMemHostAlloc)(&host, 0, 0), "cuMemHostAlloc of 0 bytes");
    say(CU(cuMemHostAlloc)(&host, 16, 64), "cuMemHostAlloc with unknown flags");
    say(CU(cuMemAllocHost_v2)(&host, 10000), "cuMemAllocHost");
    say(CU(cuMemHostGetFlags)(&flags, host), "cuMemHostGetFlags");
    tell("flags", "%u", flags);
    say(CU(cuMemHostGetDevicePointer_v2)(&p, host, 0), "cuMemHostGetDevicePointer");
    tell("same address", "%d", p == (uintptr_t)host);
    say(CU(cuMemGetAddressRange_v2)(&start, &bytes, p + 1),
        "cuMemGetAddressRange of pinned memory");
    say(CU(cuMemFree_v2)(p), "cuMemFree of pinned memory");
    say(CU(cuMemFreeHost)(host), "cuMemFreeHost");
    say(CU(cuMemFreeHost)(&p), "cuMemFreeHost of other memory");
    say(CU(cuMemAllocManaged)(&p, 10000, 0), "cuMemAllocManaged without flags");
    say(CU(cuMemAllocManaged)(&p, 10000, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    memset((void *)(uintptr_t)p, 1, 10000);
    say(CU(cuMemFree_v2)(p), "cuMemFree of managed memory");
}

/* ---- pointers ---- */

static void ask_one(const char *kind, const char *name, CUpointer_attribute attribute,
                    CUdeviceptr p, int size, uint64_t expected, const char *meaning)
{
    uint64_t alone = 0, together = 0x5555555555555555u;
    char question[100];
    CUresult result = CU(cuPointerGetAttribute)(&alone, attribute, p);
    void *place = &together;
    CUresult plural = CU(cuPointerGetAttributes)(1, &attribute, &place, p);
    uint64_t mask = size == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * size) - 1;
    alone &= mask;
    together &= mask;
    snprintf(question, sizeof question, "%s: %s", kind, name);
    const char *name_one, *name_many;
    CU(cuGetErrorName)(result, &name_one);
    CU(cuGetErrorName)(plural, &name_many);
    if (meaning)
        tell(question, "%s, %s; %s: %d", name_one, name_many, meaning, together == expected);
    else
        tell(question, "%s, %s; %lld %lld", name_one, name_many,
             result ? -1ll : (long long)(int)alone, (long long)(int)together);
}

static void ask_pointer(const char *kind, CUdeviceptr p, CUcontext ctx)
{
    ask_one(kind, "memory type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p, 4, 0, NULL);
    ask_one(kind, "device ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p, 4, 0, NULL);
    ask_one(kind, "is managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, p, 1, 0, NULL);
    ask_one(kind, "context", CU_POINTER_ATTRIBUTE_CONTEXT, p, 8, (uintptr_t)ctx, "the current one");
    ask_one(kind, "context", CU_POINTER_ATTRIBUTE_CONTEXT, p, 8, 0, "none");
    ask_one(kind, "device pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p, 8, p, "the same");
    ask_one(kind, "host pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER, p, 8, p, "the same");
    ask_one(kind, "host pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER, p, 8, 0, "none");
    ask_one(kind, "buffer id", CU_POINTER_ATTRIBUTE_BUFFER_ID, p, 8, 0, "none");
    ask_one(kind, "sync memops", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p, 1, 0, NULL);
    ask_one(kind, "legacy IPC", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p, 1, 0, NULL);
    ask_one(kind, "range start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p, 8, p - 16, "16 below");
    ask_one(kind, "range size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, p, 8, 0, NULL);
    ask_one(kind, "mapped", CU_POINTER_ATTRIBUTE_MAPPED, p, 1, 0, NULL);
    ask_one(kind, "handle types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p, 8, 0, NULL);
    ask_one(kind, "access flags", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p, 4, 0, NULL);
    ask_one(kind, "pool", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p, 8, 0, "none");
}

static void ask_ipc(const char *kind, CUdeviceptr p)
{
    CUipcMemHandle handle;
    say(CU(cuIpcGetMemHandle)(&handle, p), "%s: cuIpcGetMemHandle", kind);
}

/* One mapping of physical memory that may be exported */
static CUdeviceptr map_one(CUmemGenericAllocationHandle *handle, size_t *bytes)
{
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes =
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address;
    need(CU(cuMemGetAllocationGranularity)(bytes, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
         "granularity");
    need(CU(cuMemCreate)(handle, *bytes, &property, 0), "cuMemCreate");
    need(CU(cuMemAddressReserve)(&address, *bytes, 0, 0, 0), "cuMemAddressReserve");
    need(CU(cuMemMap)(address, *bytes, 0, *handle, 0), "cuMemMap");
    need(CU(cuMemSetAccess)(address, *bytes, &access, 1), "cuMemSetAccess");
    return address;
}

void ask_pointers(CUcontext ctx)
{
    CUdeviceptr p;
    CUmemGenericAllocationHandle handle;
    size_t bytes;
    void *host;
    char *pageable = aligned_alloc(4096, 8192);
    static char in_data[100];
    memset(pageable, 0, 8192);
    ask_pointer("stack", (uintptr_t)&p, ctx);
    ask_pointer("null", 0, ctx);
    ask_ipc("data", (uintptr_t)in_data);
    need(CU(cuMemAlloc_v2)(&p, 10000), "cuMemAlloc");
    ask_pointer("device", p + 16, ctx);
    ask_pointer("freed", (CU(cuMemFree_v2)(p), p + 16), ctx);
    need(CU(cuMemAlloc_v2)(&p, 10000), "cuMemAlloc");
    ask_ipc("device", p);
    ask_ipc("device, inside", p + 100);
    CU(cuMemFree_v2)(p);
    need(CU(cuMemHostAlloc)(&host, 10000, 0), "cuMemHostAlloc");
    ask_pointer("pinned", (uintptr_t)host + 16, ctx);
    ask_ipc("pinned", (uintptr_t)host);
    CU(cuMemFreeHost)(host);
    say(CU(cuMemHostRegister_v2)(pageable, 8192, 0), "cuMemHostRegister");
    say(CU(cuMemHostRegister_v2)(pageable, 4096, 0), "cuMemHostRegister again");
    ask_pointer("registered", (uintptr_t)pageable + 16, ctx);
    say(CU(cuMemHostUnregister)(pageable), "cuMemHostUnregister");
    say(CU(cuMemHostUnregister)(pageable), "cuMemHostUnregister again");
    free(pageable);
    need(CU(cuMemAllocManaged)(&p, 10000, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    ask_pointer("managed", p + 16, ctx);
    ask_ipc("managed", p);
    CU(cuMemFree_v2)(p);
    need(CU(cuMemAllocAsync)(&p, 10000, NULL), "cuMemAllocAsync");
    ask_pointer("pool", p + 16, ctx);
    ask_ipc("pool", p);
    CU(cuMemFreeAsync)(p, NULL);
    p = map_one(&handle, &bytes);
    ask_pointer("mapped", p + 16, ctx);
    ask_ipc("mapped", p);
    CU(cuMemUnmap)(p, bytes);
    CU(cuMemRelease)(handle);
    ask_pointer("unmapped", p + 16, ctx);
    CU(cuMemAddressFree)(p, bytes);
}

/* ---- copies ---- */

void ask_copies(void)
{
    enum { BYTES = 3000000 };
    CUdeviceptr p, q;
    char *pinned, *a = malloc(BYTES), *b = malloc(BYTES);
    CUcontext ctx;
    CU(cuCtxGetCurrent)(&ctx);
    for (int i = 0; i < BYTES; i++)
        a[i] = (char)(i * 7 + i / 1000);
    need(CU(cuMemAlloc_v2)(&p, BYTES), "cuMemAlloc");
    need(CU(cuMemAlloc_v2)(&q, BYTES), "cuMemAlloc");
    need(CU(cuMemHostAlloc)((void **)&pinned, BYTES, 0), "cuMemHostAlloc");
    say(CU(cuMemcpyHtoD_v2)(p, a, BYTES), "cuMemcpyHtoD");
    say(CU(cuMemcpyDtoD_v2)(q, p, BYTES), "cuMemcpyDtoD");
    say(CU(cuMemcpyDtoH_v2)(b, q, BYTES), "cuMemcpyDtoH");
    tell("what came back is what was sent", "%d", !memcmp(a, b, BYTES));
    say(CU(cuMemcpy)((uintptr_t)pinned, p, BYTES), "cuMemcpy, device to pinned");
    tell("the same", "%d", !memcmp(a, pinned, BYTES));
    say(CU(cuMemcpyPeer)(q, ctx, p, ctx, BYTES), "cuMemcpyPeer inside a context");
    say(CU(cuMemsetD8_v2)(p, 3, 100), "cuMemsetD8");
    say(CU(cuMemsetD16_v2)(p + 1, 3, 100), "cuMemsetD16 at an odd address");
    say(CU(cuMemsetD32_v2)(p + 2, 3, 100), "cuMemsetD32 at an address that is not a multiple of 4");
    say(CU(cuMemsetD32_v2)(p, 0x01020304, 25), "cuMemsetD32");
    CU(cuMemcpyDtoH_v2)(b, p, 104);
    tell("the bytes", "%d %d %d", b[0], b[99], b[100] == a[100]);
    say(CU(cuMemcpyHtoD_v2)(p, a, 0), "cuMemcpyHtoD of nothing");
    say(CU(cuMemcpyHtoD_v2)((uintptr_t)b, a, 16), "cuMemcpyHtoD to host memory");
    say(CU(cuMemcpyDtoH_v2)(b, (uintptr_t)a, 16), "cuMemcpyDtoH from host memory");
    say(CU(cuMemcpyDtoD_v2)((uintptr_t)b, (uintptr_t)a, 16), "cuMemcpyDtoD of host memory");
    say(CU(cuMemcpyDtoD_v2)((uintptr_t)pinned, p, 16), "cuMemcpyDtoD to pinned memory");
    say(CU(cuMemcpy)((uintptr_t)b, (uintptr_t)a, 16), "cuMemcpy, host to host");
    say(CU(cuMemsetD8_v2)((uintptr_t)b, 0, 16), "cuMemsetD8 of host memory");
    say(CU(cuMemsetD8_v2)((uintptr_t)pinned, 0, 16), "cuMemsetD8 of pinned memory");
    say(CU(cuMemcpyHtoD_v2)(0, a, 16), "cuMemcpyHtoD to null");
    free(a);
    free(b);
    CU(cuMemFree_v2)(p);
    CU(cuMemFree_v2)(q);
    CU(cuMemFreeHost)(pinned);
}

/* ---- mapping by hand ---- */

static void ask_descriptor(CUmemGenericAllocationHandle handle, size_t bytes)
{
    int descriptor = -1;
    CUmemGenericAllocationHandle imported;
    say(CU(cuMemExportToShareableHandle)(&descriptor, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle");
    void *mapping = mmap(NULL, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    tell("mmap of the descriptor", "%s", mapping == MAP_FAILED ? "refused" : "works");
    say(CU(cuMemImportFromShareableHandle)(&imported, (void *)(intptr_t)descriptor,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle in the same process");
    say(CU(cuMemRelease)(imported), "cuMemRelease of the imported");
    close(descriptor);
}

void ask_mapping(CUcontext ctx)
{
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, plain;
    unsigned long long first = 0, second = 0;
    size_t bytes = 0, size = 0;
    CUdeviceptr p, start = 0;
    int value = -1, descriptor;
    (void)ctx;
    p = map_one(&handle, &bytes);
    tell("granularity", "%zu", bytes);
    say(CU(cuMemCreate)(&plain, 1000, &property, 0), "cuMemCreate of 1000 bytes");
    say(CU(cuMemCreate)(&plain, bytes, &property, 0), "cuMemCreate without handle types");
    say(CU(cuMemExportToShareableHandle)(&descriptor, plain,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "export of that");
    ask_descriptor(handle, bytes);
    say(CU(cuMemMap)(p, bytes, 0, plain, 0), "cuMemMap where something is mapped");
    say(CU(cuMemsetD32_v2)(p, 5, 1), "cuMemsetD32");
    CU(cuMemcpyDtoH_v2)(&value, p, 4);
    tell("value", "%d", value);
    say(CU(cuMemGetAddressRange_v2)(&start, &size, p + 5), "cuMemGetAddressRange");
    tell("its start, its size", "%d, %d", start == p, size == bytes);
    say(CU(cuMemFree_v2)(p), "cuMemFree of a mapping");
    access.location.type = CU_MEM_LOCATION_TYPE_HOST;
    say(CU(cuMemSetAccess)(p, bytes, &access, 1), "cuMemSetAccess for the host");
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuPointerGetAttribute)(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
    say(CU(cuMemUnmap)(p, bytes), "cuMemUnmap");
    say(CU(cuMemUnmap)(p, bytes), "cuMemUnmap again");
    say(CU(cuMemMap)(p, bytes, 0, handle, 0), "cuMemMap of the same");
    say(CU(cuMemSetAccess)(p, bytes, &access, 1), "cuMemSetAccess");
    CU(cuPointerGetAttribute)(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
    tell("it has a new id", "%d", second != first && second);
    CU(cuMemcpyDtoH_v2)(&value, p, 4);
    tell("value", "%d", value);
    say(CU(cuMemRelease)(handle), "cuMemRelease while mapped");
    value = -1;
    say(CU(cuMemcpyDtoH_v2)(&value, p, 4), "cuMemcpyDtoH after it");
    tell("value", "%d", value);
    say(CU(cuMemAddressFree)(p, bytes), "cuMemAddressFree while mapped");
    say(CU(cuMemUnmap)(p, bytes), "cuMemUnmap");
    say(CU(cuMemAddressFree)(p, bytes), "cuMemAddressFree");
    say(CU(cuMemAddressReserve)(&p, 1000, 0, 0, 0), "cuMemAddressReserve of 1000 bytes");
    CU(cuMemRelease)(plain);
}

void ask_pools(void)
{
    CUmemoryPool pool, current, made;
    CUmemPoolProps property = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUdeviceptr p, q;
    unsigned long long first = 0, second = 0;
    CUstream stream;
    need(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    say(CU(cuDeviceGetDefaultMemPool)(&pool, 0), "cuDeviceGetDefaultMemPool");
    say(CU(cuDeviceGetMemPool)(&current, 0), "cuDeviceGetMemPool");
    tell("the same", "%d", pool == current);
    say(CU(cuMemAllocAsync)(&p, 0, stream), "cuMemAllocAsync of 0 bytes");
    say(CU(cuMemAllocAsync)(&p, 1 << 20, stream), "cuMemAllocAsync");
    CU(cuPointerGetAttribute)(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
    say(CU(cuMemFreeAsync)(p, stream), "cuMemFreeAsync");
    say(CU(cuMemAllocAsync)(&q, 1 << 20, stream), "cuMemAllocAsync again");
    CU(cuPointerGetAttribute)(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, q);
    tell("the same address, the same id", "%d, %d", p == q, first == second);
    say(CU(cuMemFree_v2)(q), "cuMemFree of pool memory");
    say(CU(cuMemPoolCreate)(&made, &property), "cuMemPoolCreate");
    say(CU(cuMemPoolDestroy)(made), "cuMemPoolDestroy");
    say(CU(cuMemPoolDestroy)(pool), "cuMemPoolDestroy of the default pool");
    CU(cuStreamDestroy_v2)(stream);
}
