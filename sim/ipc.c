/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory of one process in another (legacy IPC). A handle says which executor's memory,
 * which part of it, and which entry of the exporter's table counts the processes that have it open.
 */
#include "sim/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0x31637069u

struct handle {
    uint32_t magic;
    int32_t process, executor; /* pids of the exporter and of its executor */
    int32_t gpu;
    uint64_t nonce; /* of the exporter */
    uint64_t offset, bytes, map_bytes;
    uint64_t address; /* the exporter's */
    uint32_t lead; /* from the first page to the first byte */
    uint32_t export;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "the handle is too large");

struct sim_imported {
    struct handle handle;
    unsigned uses;              /* opens less closes */
    struct sim_export *exports; /* the exporter's table */
};

static unsigned made_exports; /* entries that were ever used */

/*
 * With the table locked: a free entry of the own table. Those of freed blocks that nobody has open
 * are free again.
 */
static int new_export(const struct sim_block *b)
{
    static unsigned next;
    static bool taken[SIM_EXPORTS];
    for (unsigned tries = 0; tries < SIM_EXPORTS; tries++, next++) {
        unsigned i = next % SIM_EXPORTS;
        struct sim_export *e = &sim.shared->exports[i];
        if (taken[i] && !(atomic_load(&e->freed) && !atomic_load(&e->uses)))
            continue;
        taken[i] = true;
        made_exports = i < made_exports ? made_exports : i + 1;
        atomic_store(&e->uses, 0);
        e->device = (uint32_t)b->device;
        e->bytes = b->map_bytes;
        atomic_store(&e->freed, 0);
        next++;
        return (int)i;
    }
    return -1;
}

/*
 * Memory that others have open when its owner frees it. Its pages are there until they close it; whether it counts as
 * taken is for the driver to say.
 */
size_t sim_export_kept(CUdevice device)
{
    size_t bytes = 0;
    if (!sim_has_fault(SIM_FAULT_KEPT))
        return 0;
    for (unsigned i = 0; i < made_exports; i++) {
        struct sim_export *e = &sim.shared->exports[i];
        if (atomic_load(&e->freed) && atomic_load(&e->uses) && e->device == (uint32_t)device)
            bytes += e->bytes;
    }
    return bytes;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_has_fault(SIM_FAULT_NOIPC))
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_count(SIM_REGISTRATIONS);
    sim_table_lock();
    struct sim_block *b = sim_block_at(p);
    if (!b || b->kind != SIM_DEVICE)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (b->export < 0 && (b->export = new_export(b)) < 0)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        struct handle h = {MAGIC,
                           getpid(),
                           b->ctx->executor.pid,
                           sim_gpu(b->device),
                           sim.shared->nonce,
                           b->offset,
                           b->bytes,
                           b->map_bytes,
                           b->map_address,
                           (uint32_t)(b->address - b->map_address),
                           (uint32_t)b->export};
        memset(out, 0, sizeof *out);
        memcpy(out, &h, sizeof h);
    }
    sim_table_unlock();
    return result;
}

static int open_descriptor(int pid, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* The exporter's table of exports, if it is still the process that made the handle */
static struct sim_export *map_exports(const struct handle *h)
{
    int fd = open_descriptor(h->executor, SIM_FD_SHARED);
    if (fd < 0)
        return NULL;
    struct sim_shared *head =
        mmap(NULL, offsetof(struct sim_shared, queue), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (head == MAP_FAILED)
        return NULL;
    if (head->nonce == h->nonce && h->export < SIM_EXPORTS &&
        !atomic_load(&head->exports[h->export].freed))
        return head->exports;
    munmap(head, offsetof(struct sim_shared, queue));
    return NULL;
}

static void unmap_exports(struct sim_export *exports)
{
    munmap((char *)exports - offsetof(struct sim_shared, exports),
           offsetof(struct sim_shared, queue));
}

/*
 * One process less has it open; if that was the last and its owner has freed it, the pages go back.
 */
static void leave(const struct sim_imported *i)
{
    struct sim_export *e = &i->exports[i->handle.export];
    if (atomic_fetch_sub(&e->uses, 1) != 1 || !atomic_load(&e->freed))
        return;
    int fd = open_descriptor(i->handle.executor, SIM_FD_DEVICE);
    if (fd < 0)
        return;
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)i->handle.offset,
              (off_t)i->handle.map_bytes);
    close(fd);
}

void sim_import_release(struct sim_block *b)
{
    int saved = errno;
    leave(b->imported);
    unmap_exports(b->imported->exports);
    free(b->imported);
    errno = saved;
}

struct sim_request sim_import_request(const struct sim_block *b)
{
    return (struct sim_request){.verb = SIM_MAP,
                                .address = b->map_address,
                                .bytes = b->map_bytes,
                                .offset = b->offset,
                                .pid = b->imported->handle.executor,
                                .fd = SIM_FD_DEVICE};
}

struct search {
    const struct handle *handle;
    CUcontext ctx;
    struct sim_block *found;
    bool overlaps; /* what lay there before is still open here */
};

static void match(struct sim_block *b, void *data)
{
    struct search *s = data;
    if (b->kind != SIM_IMPORT || b->ctx != s->ctx)
        return;
    const struct handle *a = s->handle, *open = &b->imported->handle;
    if (!memcmp(open, a, sizeof *a))
        s->found = b;
    else if (open->nonce == a->nonce && open->address < a->address + a->map_bytes &&
             a->address < open->address + open->map_bytes)
        s->overlaps = true;
}

/* With the table locked */
static CUresult import(CUcontext ctx, const struct handle *h, struct sim_export *exports,
                       CUdeviceptr *address)
{
    struct sim_block *b = calloc(1, sizeof *b);
    struct sim_imported *i = calloc(1, sizeof *i);
    CUdeviceptr at =
        b && i ? sim_reserve(h->map_bytes, h->map_bytes >= 2u << 20 ? 2u << 20 : SIM_PAGE, 0) : 0;
    if (!at) {
        free(b);
        free(i);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *i = (struct sim_imported){*h, 1, exports};
    *b = (struct sim_block){.address = at + h->lead,
                            .bytes = h->bytes,
                            .map_address = at,
                            .map_bytes = h->map_bytes,
                            .kind = SIM_IMPORT,
                            .ctx = ctx,
                            .device = sim_has_fault(SIM_FAULT_FAR) ? sim_ordinal_of(h->gpu)
                                                                   : ctx->device,
                            .offset = h->offset,
                            .export = -1,
                            .imported = i,
                            .id = atomic_fetch_add(&sim.next_buffer_id, 1) + 1};
    struct sim_request map = sim_block_request(b);
    CUresult result = sim_map_everywhere(&map);
    if (!result && (result = sim_block_add(b)))
        sim_unmap_everywhere(at, h->map_bytes);
    if (result) {
        sim_unreserve(at, h->map_bytes);
        free(b);
        free(i);
        return result == CUDA_ERROR_NOT_FOUND ? CUDA_ERROR_MAP_FAILED : result;
    }
    atomic_fetch_add(&exports[h->export].uses, 1);
    *address = b->address;
    return CUDA_SUCCESS;
}

static CUresult open_handle(CUcontext ctx, const struct handle *h, CUdeviceptr *address)
{
    struct search search = {h, ctx, NULL, false};
    sim_block_each(match, &search);
    if (search.found) {
        search.found->imported->uses++;
        *address = search.found->address;
        return CUDA_SUCCESS;
    }
    if (search.overlaps && sim_has_fault(SIM_FAULT_KEPT))
        return CUDA_ERROR_ALREADY_MAPPED;
    struct sim_export *exports = map_exports(h);
    if (!exports)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = import(ctx, h, exports, address);
    if (result)
        unmap_exports(exports);
    return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    CUcontext ctx;
    struct handle h;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    memcpy(&h, &handle, sizeof h);
    sim_count(SIM_REGISTRATIONS);
    if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || h.magic != MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.nonce == sim.shared->nonce)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (h.gpu != sim_gpu(ctx->device) && sim_has_fault(SIM_FAULT_NOP2P))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    int saved = errno;
    sim_table_lock();
    result = open_handle(ctx, &h, address);
    sim_table_unlock();
    errno = saved;
    return result;
}

/* Waits for all work of the context, as cuMemFree does. */
CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(address);
    ctx = b && b->address == address && b->kind == SIM_IMPORT ? b->ctx : NULL;
    sim_table_unlock();
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&ctx->submit);
    result = sim_context_wait(ctx);
    if (!result) {
        sim_table_lock();
        b = sim_block_at(address);
        if (b && b->address == address && b->kind == SIM_IMPORT && !--b->imported->uses)
            sim_block_release(b);
        sim_table_unlock();
    }
    pthread_mutex_unlock(&ctx->submit);
    return result;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    (void)handle;
    (void)event;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    (void)event;
    (void)handle;
    return CUDA_ERROR_NOT_SUPPORTED;
}
