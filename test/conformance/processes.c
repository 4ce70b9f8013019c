/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of one process in another, and fork children.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4 << 20 };

/* What the exporter hands over at first; the descriptor of the mapping comes with it */
struct offer {
    CUipcMemHandle first, second, freed, interior;
    CUdeviceptr address;
    size_t mapping;
};

void send_all(int other, const void *data, size_t bytes)
{
    if (write(other, data, bytes) != (ssize_t)bytes)
        need(CUDA_ERROR_UNKNOWN, "the other process");
}

void receive_all(int other, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(other, (char *)data + done, bytes - done);
        if (n <= 0)
            _exit(1); /* the other process has ended */
        done += (size_t)n;
    }
}

void meet(int other)
{
    char byte = 0;
    send_all(other, &byte, 1);
    receive_all(other, &byte, 1);
}

void send_descriptor(int other, int descriptor)
{
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(other, &message, 0) != 1)
        need(CUDA_ERROR_UNKNOWN, "sendmsg");
}

int receive_descriptor(int other)
{
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int descriptor = -1;
    if (recvmsg(other, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static uint32_t read_device(CUdeviceptr p)
{
    uint32_t value = 0;
    CUresult result = CU(cuMemcpyDtoH_v2)(&value, p, 4);
    if (result)
        say(result, "reading");
    return value;
}

/* A mapping whose memory the other process gets as a descriptor */
static CUdeviceptr make_mapping(int *descriptor, size_t *bytes)
{
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes =
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    need(CU(cuMemGetAllocationGranularity)(bytes, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
         "granularity");
    need(CU(cuMemCreate)(&handle, *bytes, &property, 0), "cuMemCreate");
    need(CU(cuMemAddressReserve)(&p, *bytes, 0, 0, 0), "cuMemAddressReserve");
    need(CU(cuMemMap)(p, *bytes, 0, handle, 0), "cuMemMap");
    need(CU(cuMemSetAccess)(p, *bytes, &access, 1), "cuMemSetAccess");
    need(CU(cuMemExportToShareableHandle)(descriptor, handle,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
         "export");
    need(CU(cuMemRelease)(handle), "cuMemRelease");
    return p;
}

void ask_exporter(int other)
{
    struct offer offer = {.mapping = 0};
    CUdeviceptr first, second, freed, opened, again, mapping;
    int descriptor;
    need(CU(cuMemAlloc_v2)(&first, BYTES), "cuMemAlloc");
    need(CU(cuMemAlloc_v2)(&second, BYTES), "cuMemAlloc");
    need(CU(cuMemAlloc_v2)(&freed, BYTES), "cuMemAlloc");
    CU(cuMemsetD32_v2)(first, 11, 1);
    CU(cuMemsetD32_v2)(first + 4096, 12, 1);
    CU(cuMemsetD32_v2)(second, 21, 1);
    mapping = make_mapping(&descriptor, &offer.mapping);
    CU(cuMemsetD32_v2)(mapping, 31, 1);
    need(CU(cuCtxSynchronize)(), "cuCtxSynchronize");
    need(CU(cuIpcGetMemHandle)(&offer.first, first), "cuIpcGetMemHandle");
    need(CU(cuIpcGetMemHandle)(&offer.interior, first + 4096), "cuIpcGetMemHandle");
    need(CU(cuIpcGetMemHandle)(&offer.second, second), "cuIpcGetMemHandle");
    need(CU(cuIpcGetMemHandle)(&offer.freed, freed), "cuIpcGetMemHandle");
    say(CU(cuIpcOpenMemHandle_v2)(&opened, offer.first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "cuIpcOpenMemHandle in the process that exports");
    say(CU(cuMemFree_v2)(freed), "cuMemFree of exported memory that nobody has open");
    offer.address = first;
    send_all(other, &offer, sizeof offer);
    send_descriptor(other, descriptor);
    close(descriptor);
    meet(other); /* it has everything open and has written */
    tell("the exporter sees what the importer wrote", "%u %u", read_device(first + 8),
         read_device(mapping + 8));
    meet(other);
    say(CU(cuMemFree_v2)(second), "cuMemFree of memory that another process has open");
    need(CU(cuMemAlloc_v2)(&again, BYTES), "cuMemAlloc");
    CU(cuMemsetD32_v2)(again, 99, BYTES / 4);
    CU(cuCtxSynchronize)();
    meet(other); /* it looks at what it still has open */
    meet(other);
    CU(cuMemUnmap)(mapping, offer.mapping);
    CU(cuMemFree_v2)(first);
    CU(cuMemFree_v2)(again);
}

static CUresult call_open(void *data)
{
    CUdeviceptr p;
    return CU(cuIpcOpenMemHandle_v2)(&p, *(CUipcMemHandle *)data,
                                     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static CUresult call_close(void *data)
{
    return CU(cuIpcCloseMemHandle)(*(CUdeviceptr *)data);
}

static void ask_opened(const struct offer *offer, CUdeviceptr p)
{
    CUipcMemHandle handle;
    CUdeviceptr start = 0;
    size_t bytes = 0;
    unsigned type = 0;
    bool capable = true;
    say(CU(cuMemGetAddressRange_v2)(&start, &bytes, p + 100), "opened: cuMemGetAddressRange");
    tell("opened: its start, its size", "%d, %d", start == p, bytes == BYTES);
    say(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p),
        "opened: memory type");
    tell("opened: memory type", "%u", type);
    CU(cuPointerGetAttribute)(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p);
    tell("opened: legacy IPC", "%d", capable);
    say(CU(cuIpcGetMemHandle)(&handle, p), "opened: cuIpcGetMemHandle");
    say(CU(cuMemFree_v2)(p), "opened: cuMemFree");
    say(CU(cuIpcCloseMemHandle)(p + 4096), "opened: cuIpcCloseMemHandle of a pointer into it");
    (void)offer;
}

static void ask_imported_mapping(int descriptor, size_t bytes)
{
    CUmemAccessDesc access = {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    say(CU(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)descriptor,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle");
    close(descriptor);
    need(CU(cuMemAddressReserve)(&p, bytes, 0, 0, 0), "cuMemAddressReserve");
    say(CU(cuMemMap)(p, bytes, 0, handle, 0), "cuMemMap of it");
    say(CU(cuMemSetAccess)(p, bytes, &access, 1), "cuMemSetAccess of it");
    tell("the importer sees what the exporter wrote", "%u", read_device(p));
    CU(cuMemsetD32_v2)(p + 8, 32, 1);
    CU(cuCtxSynchronize)();
}

void ask_importer(int other)
{
    struct offer offer;
    CUcontext ctx;
    CUdeviceptr p, same, second, none, inside;
    CUipcMemHandle rubbish;
    CUstream stream;
    receive_all(other, &offer, sizeof offer);
    int descriptor = receive_descriptor(other);
    need(CU(cuInit)(0), "cuInit");
    need(CU(cuDevicePrimaryCtxRetain)(&ctx, 0), "cuDevicePrimaryCtxRetain");
    need(CU(cuCtxSetCurrent)(ctx), "cuCtxSetCurrent");
    need(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    memset(&rubbish, 0x5a, sizeof rubbish);
    say(CU(cuIpcOpenMemHandle_v2)(&none, offer.first, 0), "cuIpcOpenMemHandle without flags");
    say(CU(cuIpcOpenMemHandle_v2)(&none, rubbish, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "cuIpcOpenMemHandle of rubbish");
    say(CU(cuIpcOpenMemHandle_v2)(&none, offer.freed, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "cuIpcOpenMemHandle of memory that was freed");
    say(CU(cuIpcOpenMemHandle_v2)(&p, offer.first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "cuIpcOpenMemHandle");
    say(CU(cuIpcOpenMemHandle_v2)(&same, offer.first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "cuIpcOpenMemHandle again");
    tell("the same pointer", "%d", p == same);
    say(CU(cuIpcOpenMemHandle_v2)(&inside, offer.interior, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "cuIpcOpenMemHandle of a pointer into it");
    tell("the same pointer", "%d", p == inside);
    say(CU(cuIpcCloseMemHandle)(inside), "cuIpcCloseMemHandle");
    tell("the importer sees what the exporter wrote", "%u %u", read_device(p),
         read_device(p + 4096));
    ask_opened(&offer, p);
    CU(cuMemsetD32_v2)(p + 8, 13, 1);
    time_call("cuIpcOpenMemHandle", stream, call_open, &offer.second);
    need(CU(cuIpcOpenMemHandle_v2)(&second, offer.second, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
         "cuIpcOpenMemHandle");
    ask_imported_mapping(descriptor, offer.mapping);
    meet(other);
    meet(other); /* the exporter looks, then frees the second */
    meet(other);
    tell("memory that its owner has freed still reads", "%u", read_device(second));
    say(CU(cuIpcCloseMemHandle)(p), "cuIpcCloseMemHandle, once");
    tell("still open", "%u", read_device(p));
    time_call("cuIpcCloseMemHandle", stream, call_close, &p);
    say(CU(cuIpcCloseMemHandle)(p), "cuIpcCloseMemHandle once too often");
    say(CU(cuIpcOpenMemHandle_v2)(&second, offer.second, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        "cuIpcOpenMemHandle of what is open here and freed there");
    meet(other);
}

void ask_fork_child(void)
{
    int status = 0;
    pid_t child = fork();
    if (!child) {
        CUdeviceptr p;
        CUcontext ctx;
        unsigned type;
        say(CU(cuCtxGetCurrent)(&ctx), "fork child: cuCtxGetCurrent");
        say(CU(cuMemAlloc_v2)(&p, 16), "fork child: cuMemAlloc");
        say(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&p),
            "fork child: cuPointerGetAttribute");
        say(CU(cuInit)(0), "fork child: cuInit");
        _exit(0);
    }
    waitpid(child, &status, 0);
    tell("fork child: ended with", "%d", status);
    say(CU(cuCtxSynchronize)(), "fork parent: cuCtxSynchronize");
}
