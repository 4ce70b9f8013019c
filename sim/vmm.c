/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual memory management: physical memory, addresses, and mapping one at the other. Physical
 * memory is a file of the executor. What is exported as a file descriptor is a socket with one
 * message waiting in it, which carries that file: an importer looks at the message without taking
 * it, and an attempt to map the descriptor fails, as on hardware.
 */
#include "sim/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GRANULARITY = 2 << 20, TOKEN_MAGIC = 0x766d6d31 };

struct sim_physical {
    CUcontext ctx;
    unsigned long long ctx_id;
    CUdevice device;
    int gpu;
    int fd; /* of the executor */
    size_t bytes;
    unsigned handle_types;
    bool imported; /* somebody else's memory */
    unsigned uses; /* handles and mappings; guarded by the table's lock */
};

/* What is in the message */
struct token {
    uint32_t magic;
    int32_t gpu;
    uint64_t bytes;
};

unsigned sim_physical_handle_types(const struct sim_physical *physical)
{
    return physical->handle_types;
}

struct sim_request sim_physical_request(const struct sim_block *b)
{
    /* Nothing is mapped before access is given: flags tell */
    return (struct sim_request){.verb = SIM_MAP,
                                .address = b->map_address,
                                .bytes = b->flags ? b->map_bytes : 0,
                                .offset = b->offset,
                                .pid = b->physical->ctx->executor.pid,
                                .fd = b->physical->fd};
}

void sim_physical_drop(struct sim_physical *p)
{
    if (--p->uses)
        return;
    struct sim_request close_file = {.verb = SIM_CLOSE, .fd = p->fd};
    if (sim_same_context(p->ctx, p->ctx_id))
        sim_request(&p->ctx->executor, &close_file, NULL);
    if (!p->imported)
        sim.used[p->device] -= p->bytes;
    free(p);
}

static struct sim_physical *of_handle(CUmemGenericAllocationHandle handle)
{
    return (struct sim_physical *)(uintptr_t)handle;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *property,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult result = sim_ready();
    (void)option;
    if (result)
        return result;
    if (!bytes || !property || property->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        property->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_ok(property->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = GRANULARITY;
    return CUDA_SUCCESS;
}

static CUresult check_properties(const CUmemAllocationProp *p)
{
    size_t unused;
    if (p && p->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return p->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_PERMITTED
                                                                   : CUDA_ERROR_NOT_SUPPORTED;
    return cuMemGetAllocationGranularity(&unused, p, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

/* The context whose executor keeps the file: the current one, else the device's */
static CUresult keeper(CUdevice device, CUcontext *ctx)
{
    CUresult result = sim_current(ctx);
    if (result != CUDA_ERROR_INVALID_CONTEXT)
        return result;
    pthread_mutex_lock(&sim.lock);
    *ctx = sim.primary[device];
    pthread_mutex_unlock(&sim.lock);
    return sim_context_usable(*ctx);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *property, unsigned long long flags)
{
    CUcontext ctx;
    CUresult result = check_properties(property);
    if (!result && (!handle || !bytes || bytes % GRANULARITY || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = keeper(property->location.id, &ctx);
    if (result)
        return result;
    struct sim_physical *p = calloc(1, sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *p = (struct sim_physical){.ctx = ctx,
                               .ctx_id = ctx->id,
                               .device = property->location.id,
                               .gpu = sim_gpu(property->location.id),
                               .bytes = bytes,
                               .handle_types = property->requestedHandleTypes,
                               .uses = 1};
    struct sim_request create = {.verb = SIM_CREATE, .bytes = bytes};
    struct sim_reply reply;
    sim_table_lock();
    result = sim_account(p->device, bytes);
    if (!result && (result = sim_request(&ctx->executor, &create, &reply)))
        sim.used[p->device] -= bytes;
    sim_table_unlock();
    if (result) {
        free(p);
        return result;
    }
    p->fd = reply.fd;
    *handle = (uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    sim_table_lock();
    sim_physical_drop(of_handle(handle));
    sim_table_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t align, CUdeviceptr want,
                             unsigned long long flags)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!address || !bytes || bytes % GRANULARITY || flags || (align & (align - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_table_lock();
    *address = sim_reserve(bytes, align > GRANULARITY ? align : GRANULARITY, want);
    sim_table_unlock();
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!address || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    sim_table_lock();
    struct sim_block *b = sim_block_at(address), *above = sim_block_above(address);
    if (b || (above && above->address < address + bytes))
        result = CUDA_ERROR_INVALID_VALUE; /* something is mapped there */
    else
        sim_unreserve(address, bytes);
    sim_table_unlock();
    return result;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    struct sim_physical *p = of_handle(handle);
    if (!p || !bytes || flags || address % GRANULARITY || bytes % GRANULARITY ||
        bytes > p->bytes || !sim_same_context(p->ctx, p->ctx_id))
        return CUDA_ERROR_INVALID_VALUE;
    if (offset || bytes != p->bytes)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_block *b = calloc(1, sizeof *b);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *b = (struct sim_block){.address = address,
                            .bytes = bytes,
                            .map_address = address,
                            .map_bytes = bytes,
                            .kind = SIM_VMM,
                            .ctx = p->ctx,
                            .device = p->device,
                            .export = -1,
                            .physical = p,
                            .id = atomic_fetch_add(&sim.next_buffer_id, 1) + 1};
    sim_table_lock();
    struct sim_block *above = sim_block_above(address);
    if (sim_block_at(address) || (above && above->address < address + bytes) ||
        !sim_reserved(address, bytes))
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = sim_block_add(b);
    if (!result)
        p->uses++;
    sim_table_unlock();
    if (result)
        free(b);
    return result;
}

/* Mappings are taken away whole; where nothing is mapped there is nothing to do. */
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    CUdeviceptr end = address + bytes;
    sim_table_lock();
    struct sim_block *b = sim_block_at(address);
    if (!bytes || !sim_reserved(address, bytes) || (b && b->address != address))
        result = CUDA_ERROR_INVALID_VALUE;
    while (!result && address < end) {
        b = sim_block_at(address);
        b = b ? b : sim_block_above(address);
        if (!b || b->address >= end)
            break;
        address = b->address + b->bytes;
        if (b->kind != SIM_VMM || address > end)
            result = CUDA_ERROR_INVALID_VALUE;
        else
            sim_block_release(b);
    }
    sim_table_unlock();
    return result;
}

/* With the table locked: give or take access to one mapping */
static CUresult set_access(struct sim_block *b, bool access)
{
    if (access == (b->flags != 0))
        return CUDA_SUCCESS;
    b->flags = access;
    if (!access) {
        sim_unmap_everywhere(b->map_address, b->map_bytes);
        return CUDA_SUCCESS;
    }
    struct sim_request map = sim_block_request(b);
    return sim_map_everywhere(&map);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    CUresult result = sim_ready();
    bool allow = false;
    if (result)
        return result;
    if (!access || !n)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED; /* the CPU cannot be given access */
        if (!sim_device_ok(access[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        allow |= access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    sim_table_lock();
    for (CUdeviceptr end = address + bytes; address < end && !result;) {
        struct sim_block *b = sim_block_at(address);
        if (!b || b->kind != SIM_VMM)
            result = CUDA_ERROR_INVALID_VALUE;
        else if (!(result = set_access(b, allow)))
            address = b->address + b->bytes;
    }
    sim_table_unlock();
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(address);
    if (!b || b->kind != SIM_VMM)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE && b->flags
                     ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                     : 0;
    sim_table_unlock();
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *property,
                                                CUmemGenericAllocationHandle handle)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!property || !handle)
        return CUDA_ERROR_INVALID_VALUE;
    memset(property, 0, sizeof *property);
    property->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property->requestedHandleTypes = (CUmemAllocationHandleType)of_handle(handle)->handle_types;
    property->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    property->location.id = of_handle(handle)->device;
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *p)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    sim_table_lock();
    struct sim_block *b = sim_block_at((uintptr_t)p);
    if (!handle || !b || b->kind != SIM_VMM) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        b->physical->uses++;
        *handle = (uintptr_t)b->physical;
    }
    sim_table_unlock();
    return result;
}

/* ---- file descriptors ---- */

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int))];
};

static bool send_token(int socket, const struct token *token, int file)
{
    union control control = {.align = {.cmsg_len = CMSG_LEN(sizeof(int)),
                                       .cmsg_level = SOL_SOCKET,
                                       .cmsg_type = SCM_RIGHTS}};
    struct iovec data = {(void *)(uintptr_t)token, sizeof *token};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof(int))};
    memcpy(CMSG_DATA(&control.align), &file, sizeof file);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof *token;
}

/* The message stays in the socket; the file that comes with it is a new descriptor */
static bool peek_token(int socket, struct token *token, int *file)
{
    union control control;
    struct iovec data = {token, sizeof *token};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof *token)
        return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS || token->magic != TOKEN_MAGIC)
        return false;
    memcpy(file, CMSG_DATA(header), sizeof *file);
    return true;
}

static CUresult export_file(const struct sim_physical *p, int *descriptor)
{
    char path[64];
    int pair[2];
    struct token token = {TOKEN_MAGIC, p->gpu, p->bytes};
    snprintf(path, sizeof path, "/proc/%d/fd/%d", p->ctx->executor.pid, p->fd);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
    if (!socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair)) {
        if (send_token(pair[0], &token, file))
            result = CUDA_SUCCESS;
        close(pair[0]);
        if (result)
            close(pair[1]);
    }
    close(file);
    if (!result)
        *descriptor = pair[1];
    return result;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult result = sim_ready();
    struct sim_physical *p = of_handle(handle);
    if (result)
        return result;
    if (!out || !p || flags || p->imported || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(p->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
        !sim_same_context(p->ctx, p->ctx_id))
        return CUDA_ERROR_INVALID_VALUE;
    sim_count(SIM_REGISTRATIONS);
    int saved = errno;
    result = export_file(p, out);
    errno = saved;
    return result;
}

CUdevice sim_ordinal_of(int gpu)
{
    for (int i = 0; i < sim_config()->n_visible; i++)
        if (sim_gpu(i) == gpu)
            return i;
    return 0;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
                                        CUmemAllocationHandleType type)
{
    CUcontext ctx;
    struct token token;
    int file, saved = errno;
    CUresult result = keeper(0, &ctx);
    if (result)
        return result;
    sim_count(SIM_REGISTRATIONS);
    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !peek_token((int)(intptr_t)os_handle, &token, &file)) {
        errno = saved;
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_request adopt = {.verb = SIM_ADOPT, .pid = getpid(), .fd = file};
    struct sim_reply reply;
    struct sim_physical *p = calloc(1, sizeof *p);
    result = p ? sim_request(&ctx->executor, &adopt, &reply) : CUDA_ERROR_OUT_OF_MEMORY;
    close(file);
    errno = saved;
    if (result) {
        free(p);
        return result;
    }
    *p = (struct sim_physical){.ctx = ctx,
                               .ctx_id = ctx->id,
                               .device = sim_ordinal_of(token.gpu),
                               .gpu = token.gpu,
                               .fd = reply.fd,
                               .bytes = token.bytes,
                               .handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                               .imported = true,
                               .uses = 1};
    *handle = (uintptr_t)p;
    return CUDA_SUCCESS;
}
