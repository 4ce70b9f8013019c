/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that one GPU's process has and another's opens: ranges of several pieces, blocks that are
 * freed under a peer's mapping, pointers into memory of others. The importer works on another GPU
 * than the exporter.
 */
#include "conformance.h"

#include <string.h>
#include <unistd.h>

enum { BYTES = 64 << 20 };

static const CUmemAllocationProp on_first = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static unsigned long long ask_id(CUdeviceptr p)
{
    unsigned long long id = 0;
    CU(cuPointerGetAttribute)(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
    return id;
}

static uint64_t ask_number(CUpointer_attribute attribute, CUdeviceptr p)
{
    uint64_t value = 0;
    void *place = &value;
    CUresult result = CU(cuPointerGetAttributes)(1, &attribute, &place, p);
    if (result)
        say(result, "attribute %d", (int)attribute);
    return value;
}

static CUmemGenericAllocationHandle create(size_t bytes)
{
    CUmemGenericAllocationHandle handle = 0;
    need(CU(cuMemCreate)(&handle, bytes, &on_first, 0), "cuMemCreate");
    return handle;
}

static void map(CUdeviceptr p, size_t bytes, CUmemGenericAllocationHandle handle, int device)
{
    CUmemAccessDesc access = {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    need(CU(cuMemMap)(p, bytes, 0, handle, 0), "cuMemMap");
    need(CU(cuMemSetAccess)(p, bytes, &access, 1), "cuMemSetAccess");
}

/* Three pieces reserved, two mapped. */
void ask_pieces(void)
{
    size_t grain = 0, size = 0;
    CUdeviceptr p, start = 0;
    CUmemGenericAllocationHandle first, second, third, again = 0;
    need(CU(cuMemGetAllocationGranularity)(&grain, &on_first, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
         "granularity");
    first = create(grain);
    second = create(grain);
    third = create(2 * grain);
    need(CU(cuMemAddressReserve)(&p, 3 * grain, 0, 0, 0), "cuMemAddressReserve");
    map(p, grain, first, 0);
    map(p + grain, grain, second, 0);
    CUdeviceptr inside = p + grain + 100;
    tell("second piece: range start is the reservation", "%d",
         ask_number(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside) == p);
    tell("second piece: range size in pieces", "%d",
         (int)(ask_number(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside) / grain));
    tell("second piece: mapping base is the piece", "%d",
         ask_number(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, inside) == p + grain);
    tell("second piece: mapping size in pieces", "%d",
         (int)(ask_number(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, inside) / grain));
    say(CU(cuMemGetAddressRange_v2)(&start, &size, inside), "second piece: cuMemGetAddressRange");
    tell("second piece: it has an id of its own", "%d",
         ask_id(p) != ask_id(inside) && ask_id(inside));
    unsigned long long one = ask_id(p), two = ask_id(inside);
    need(CU(cuMemUnmap)(p, grain), "cuMemUnmap");
    need(CU(cuMemRelease)(first), "cuMemRelease");
    first = create(grain);
    map(p, grain, first, 0);
    tell("first piece mapped anew: its id is new", "%d", ask_id(p) != one);
    tell("first piece mapped anew: the other's is not", "%d", ask_id(inside) == two);
    say(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)inside),
        "cuMemRetainAllocationHandle inside a piece");
    tell("the handle of that piece", "%d", again == second);
    CU(cuMemRelease)(again);
    say(CU(cuMemMap)(p + 2 * grain, grain, grain, third, 0), "cuMemMap at an offset of the memory");
    say(CU(cuMemMap)(p + 2 * grain, grain, 0, third, 0), "cuMemMap of a part of the memory");
    CU(cuMemUnmap)(p, 3 * grain);
    CU(cuMemAddressFree)(p, 3 * grain);
    CU(cuMemRelease)(first);
    CU(cuMemRelease)(second);
    CU(cuMemRelease)(third);
    need(CU(cuMemAllocAsync)(&p, BYTES, NULL), "cuMemAllocAsync");
    tell("pool: handle types", "%d", (int)ask_number(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p));
    say(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)p),
        "pool: cuMemRetainAllocationHandle");
    CU(cuMemFreeAsync)(p, NULL);
    need(CU(cuMemAlloc_v2)(&p, BYTES), "cuMemAlloc");
    say(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)p),
        "cuMemAlloc: cuMemRetainAllocationHandle");
    CU(cuMemFree_v2)(p);
}

/* ---- two processes ---- */

static size_t free_bytes(void)
{
    size_t available = 0, total;
    CU(cuMemGetInfo_v2)(&available, &total);
    return available;
}

/* Most of BYTES, so that what the driver takes for itself does not matter */
static bool about_less(size_t now, size_t before)
{
    return now + BYTES / 2 < before;
}

static uint32_t read_word(CUdeviceptr p)
{
    uint32_t value = 0;
    CUresult result = CU(cuMemcpyDtoH_v2)(&value, p, 4);
    if (result)
        say(result, "reading");
    return value;
}

/* `old`: an address that was freed, or 0 */
static CUdeviceptr offer_block(int other, uint32_t mark, CUdeviceptr old)
{
    CUipcMemHandle handle;
    CUdeviceptr p;
    need(CU(cuMemAlloc_v2)(&p, BYTES), "cuMemAlloc");
    if (old)
        tell("the next allocation has the same address", "%d", p == old);
    CU(cuMemsetD32_v2)(p, mark, BYTES / 4);
    need(CU(cuCtxSynchronize)(), "cuCtxSynchronize");
    need(CU(cuIpcGetMemHandle)(&handle, p), "cuIpcGetMemHandle");
    send_all(other, &handle, sizeof handle);
    return p;
}

void ask_owner(int other)
{
    size_t before, grain = 0;
    int descriptor;
    CUdeviceptr p, q, mapping;
    before = free_bytes();
    p = offer_block(other, 11, 0);
    meet(other); /* it is open there */
    need(CU(cuMemFree_v2)(p), "cuMemFree");
    tell("freed while a peer has it open: still taken", "%d", about_less(free_bytes(), before));
    q = offer_block(other, 22, p);
    meet(other); /* it tries to open it beside the old one, then closes that and opens it */
    meet(other); /* it has closed all */
    need(CU(cuMemFree_v2)(q), "cuMemFree");
    tell("freed and closed by the peer: still taken", "%d", about_less(free_bytes(), before));
    need(CU(cuMemGetAllocationGranularity)(&grain, &on_first, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
         "granularity");
    CUmemGenericAllocationHandle handle = create(BYTES);
    need(CU(cuMemAddressReserve)(&mapping, BYTES, 0, 0, 0), "cuMemAddressReserve");
    map(mapping, BYTES, handle, 0);
    need(CU(cuMemExportToShareableHandle)(&descriptor, handle,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
         "export");
    send_descriptor(other, descriptor);
    close(descriptor);
    meet(other); /* mapped there */
    CU(cuMemUnmap)(mapping, BYTES);
    CU(cuMemRelease)(handle);
    CU(cuMemAddressFree)(mapping, BYTES);
    meet(other); /* unmapped there */
    tell("a mapping that nobody has any more: still taken", "%d", about_less(free_bytes(), before));
}

static CUdeviceptr open_block(const CUipcMemHandle *handle, const char *what)
{
    CUdeviceptr p = 0;
    CUresult result = CU(cuIpcOpenMemHandle_v2)(&p, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    say(result, "%s", what);
    return result ? 0 : p;
}

static void ask_foreign(const char *kind, CUdeviceptr p, int device, CUcontext ctx)
{
    CUmemGenericAllocationHandle handle = 0;
    CUipcMemHandle legacy;
    int ordinal = (int)ask_number(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p), descriptor = -1;
    char question[80];
    const char *names[] = {"device ordinal", "context"};
    for (int i = 0; i < 2; i++) {
        strcpy(question, kind);
        strcat(strcat(question, ": "), names[i]);
        if (i == 0)
            tell(question, "%s",
                 ordinal == device ? "the importer's"
                 : ordinal == 0    ? "the owner's"
                                   : "another");
        else
            tell(question, "%s",
                 ask_number(CU_POINTER_ATTRIBUTE_CONTEXT, p) == (uintptr_t)ctx
                     ? "the importer's"
                     : "another, or none");
    }
    say(CU(cuIpcGetMemHandle)(&legacy, p), "%s: cuIpcGetMemHandle", kind);
    CUresult result = CU(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)p);
    say(result, "%s: cuMemRetainAllocationHandle", kind);
    if (result)
        return;
    say(CU(cuMemExportToShareableHandle)(&descriptor, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "%s: cuMemExportToShareableHandle", kind);
    close(descriptor);
    CU(cuMemRelease)(handle);
}

void ask_peer(int other)
{
    CUipcMemHandle first, second;
    CUmemGenericAllocationHandle handle;
    CUcontext ctx;
    CUdeviceptr p, beside, mapping;
    int devices = 0;
    need(CU(cuInit)(0), "cuInit");
    need(CU(cuDeviceGetCount)(&devices), "cuDeviceGetCount");
    int device = devices > 1;
    need(CU(cuDevicePrimaryCtxRetain)(&ctx, device), "cuDevicePrimaryCtxRetain");
    need(CU(cuCtxSetCurrent)(ctx), "cuCtxSetCurrent");
    receive_all(other, &first, sizeof first);
    p = open_block(&first, "open");
    ask_foreign("opened", p, device, ctx);
    meet(other);
    receive_all(other, &second, sizeof second);
    beside =
        open_block(&second, "open what lies at the address of a freed block that is still open");
    tell("beside it: the same pointer, what it reads", "%d, %u", beside == p,
         beside ? read_word(beside) : 0);
    if (beside)
        CU(cuIpcCloseMemHandle)(beside);
    say(CU(cuIpcCloseMemHandle)(p), "close the old one");
    p = open_block(&second, "open the new one alone");
    tell("what it reads", "%u", p ? read_word(p) : 0);
    meet(other);
    CU(cuIpcCloseMemHandle)(p);
    meet(other);
    int descriptor = receive_descriptor(other);
    need(CU(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)descriptor,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
         "import");
    close(descriptor);
    need(CU(cuMemAddressReserve)(&mapping, BYTES, 0, 0, 0), "cuMemAddressReserve");
    map(mapping, BYTES, handle, device);
    need(CU(cuMemRelease)(handle), "cuMemRelease");
    ask_foreign("imported", mapping, device, ctx);
    meet(other);
    CU(cuMemUnmap)(mapping, BYTES);
    CU(cuMemAddressFree)(mapping, BYTES);
    meet(other);
}
