/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated driver inside the application process: its objects, and what its files offer to
 * each other.
 *
 * Locks, in the order in which they may be taken: a context's `submit` (one at a time; held while
 * cuMemFree waits, so that other threads' launches wait too, as on hardware), sim.lock (contexts,
 * streams, events), the table of blocks (table.c), an executor's `lock` (one request at a time).
 */
#ifndef SHUNT_SIM_DRIVER_H
#define SHUNT_SIM_DRIVER_H

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/config.h"
#include "sim/queue.h"
#include "sim/request.h"

/* An entry point that cuda.h does not declare under this name */
#define SIM_API __attribute__((visibility("default")))

enum { SIM_PAGE = 4096 };

static inline size_t sim_round(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- objects ---- */

struct sim_executor {
    int socket;
    pid_t pid;
    pthread_mutex_t lock;
};

struct CUstream_st {
    uint32_t magic;
    CUcontext ctx;
    unsigned index; /* of its queue */
    unsigned flags;
    int priority;
    unsigned long long id;
    uint64_t legacy_seen; /* of the legacy stream: work up to here is waited for already */
    CUgraph capture;      /* what it is being captured to, or NULL */
    struct CUstream_st *next;
};

struct CUevent_st {
    uint32_t magic;
    CUcontext ctx;
    unsigned long long ctx_id;
    unsigned index; /* of its time in the shared memory */
    unsigned flags;
    bool recorded;
    unsigned queue;          /* it has happened when this queue */
    uint64_t value;          /* has completed so much */
    CUgraph capture;         /* recorded in a stream that was being captured */
    struct CUevent_st *next; /* of those that are free */
};

struct CUctx_st {
    CUdevice device;
    bool primary, live;
    unsigned flags, retains, api_version;
    unsigned long long id; /* another one after a reset: what was made before is void */
    struct sim_executor executor;
    pthread_mutex_t submit;
    struct CUstream_st *streams; /* live ones, with the legacy and per-thread ones */
    struct CUstream_st *_Atomic legacy;
    uint64_t memory_end;   /* device memory ever handed out: offsets are not used twice */
    unsigned peers;        /* a bit per device ordinal: cuCtxEnablePeerAccess */
    struct CUctx_st *next; /* all contexts ever made */
};

/*
 * Where the pages of a block come from: the own device memory, the process's host memory, or
 * somebody else's file
 */
enum sim_kind {
    SIM_DEVICE,
    SIM_POOL,
    SIM_VMM,
    SIM_IMPORT, /* another process's, by cuIpcOpenMemHandle */
    SIM_HOST,   /* pinned */
    SIM_MANAGED,
    SIM_REGISTERED, /* memory that the application has registered; shared memory has addresses on the GPU, too */
};

struct sim_block {
    CUdeviceptr address; /* as handed out */
    size_t bytes;        /* as asked for */
    CUdeviceptr map_address;
    size_t map_bytes; /* whole pages */
    enum sim_kind kind;
    CUcontext ctx;
    CUdevice device;
    unsigned long long id;
    unsigned flags;
    bool sync_memops;
    uint64_t offset; /* in the file its pages come from */
    int export;      /* index of its struct sim_export, or -1 */
    CUmemoryPool pool;
    struct sim_imported *imported;
    struct sim_physical *physical;
    int fd; /* registered: of the shared memory that it is, or -1 */
};

/* ---- the process (entry.c) ---- */

enum sim_life { SIM_UNBORN, SIM_ALIVE, SIM_ENDED };

struct sim_process {
    _Atomic int life; /* enum sim_life */
    pthread_mutex_t lock;
    struct sim_shared *shared;
    int shared_fd, host_fd; /* >= 64, close-on-exec */
    struct CUctx_st *contexts;
    struct CUctx_st *primary[SIM_MAX_GPUS];
    size_t used[SIM_MAX_GPUS]; /* bytes of each device, guarded by the block table's lock */
    _Atomic unsigned long long next_id; /* of contexts, streams, captures */
    _Atomic unsigned long long next_buffer_id;
};

extern struct sim_process sim;

/* Is the driver initialised in this process (and not in a fork child)? */
CUresult sim_ready(void);

/* The GPU behind a device ordinal */
int sim_gpu(CUdevice device);
bool sim_device_ok(CUdevice device);

/* The ordinal under which this process sees a GPU; the first one if it does not */
CUdevice sim_ordinal_of(int gpu);

/* The path of a file beside this library; false if it is not there */
bool sim_beside(const char *name, char *path, size_t room);

/* ---- contexts (context.c), executors (spawn.c) ---- */

/* The calling thread's context, if work can be given to it */
CUresult sim_current(CUcontext *ctx);
CUresult sim_context_usable(CUcontext ctx);

/* Is what was made in `ctx` when its id was `id` still there? */
static inline bool sim_same_context(CUcontext ctx, unsigned long long id)
{
    return ctx->live && ctx->id == id;
}

/* What stays wrong once an executor has died */
CUresult sim_error(CUcontext ctx);

CUresult sim_executor_start(struct sim_executor *e, int gpu);
void sim_executor_stop(struct sim_executor *e);
bool sim_executor_gone(struct sim_executor *e);
CUresult sim_request(struct sim_executor *e, const struct sim_request *request,
                     struct sim_reply *reply);

/*
 * Maps (unmaps) in every executor of this process, with the table locked, which contexts come and
 * go under
 */
CUresult sim_map_everywhere(const struct sim_request *map);
void sim_unmap_everywhere(CUdeviceptr address, size_t bytes);
void sim_request_everywhere(const struct sim_request *request);

/* ---- address space and blocks (table.c) ---- */

/*
 * Reserve `bytes` (whole pages) of addresses that nothing may touch; `align` is a power of two. 0
 * if there are none.
 */
CUdeviceptr sim_reserve(size_t bytes, size_t align, CUdeviceptr want);
void sim_unreserve(CUdeviceptr address, size_t bytes);

/* The reservation that `p` is in; are these addresses part of one? */
bool sim_reservation_of(CUdeviceptr p, CUdeviceptr *start, size_t *bytes);
bool sim_reserved(CUdeviceptr address, size_t bytes);

void sim_table_lock(void);
void sim_table_unlock(void);
void sim_table_read_lock(void);

/* With the table locked. The block that `p` lies in, or NULL; the next one above. */
struct sim_block *sim_block_at(CUdeviceptr p);
struct sim_block *sim_block_above(CUdeviceptr p);
CUresult sim_block_add(struct sim_block *block);
void sim_block_remove(struct sim_block *block);

/* Every block, in the order of addresses, with the table locked */
void sim_block_each(void (*visit)(struct sim_block *block, void *data), void *data);

/* The request that maps a block where it belongs */
struct sim_request sim_block_request(const struct sim_block *block);

/* ---- memory (memory.c, host.c, pool.c, ipc.c, vmm.c) ---- */

/*
 * A block of device memory of `ctx`, mapped; the caller sets what is special about its kind under
 * the table lock
 */
CUresult sim_device_alloc(CUcontext ctx, size_t bytes, enum sim_kind kind, CUdeviceptr *address);

/* Take a block out of the table and give its memory back. With the table locked. */
void sim_block_release(struct sim_block *block);

/* May so much be allocated on that device now? With the table locked. */
CUresult sim_account(CUdevice device, size_t bytes);

/* With the table locked: all of a context's blocks and pools end */
void sim_context_drop_memory(CUcontext ctx);
void sim_pools_forget(CUcontext ctx);
CUmemoryPool sim_default_pool(CUdevice device);
void sim_host_give_back(const struct sim_block *block);
void sim_physical_drop(struct sim_physical *physical);
unsigned sim_physical_handle_types(const struct sim_physical *physical);
struct sim_request sim_physical_request(const struct sim_block *block);
struct sim_request sim_import_request(const struct sim_block *block);

/*
 * Of registered memory (shared.c), with the table locked: show it to the executors, if it is shared; its address there, the
 * same where it is not; take it from there again
 */
CUresult sim_registered_map(struct sim_block *block);
struct sim_request sim_registered_request(const struct sim_block *block);
CUdeviceptr sim_registered_address(const struct sim_block *block, CUdeviceptr p);
void sim_registered_release(const struct sim_block *block);
size_t sim_export_kept(CUdevice device);
void sim_import_release(struct sim_block *block);

/* ---- streams (stream.c), work for them (submit.c) ---- */

enum { SIM_STREAM_MAGIC = 0x53747265, SIM_EVENT_MAGIC = 0x4576656e };

CUresult sim_stream_of(CUstream handle, struct CUstream_st **stream);
CUresult sim_stream_new(CUcontext ctx, unsigned flags, int priority, struct CUstream_st **stream);
void sim_streams_forget(CUcontext ctx);

static inline struct sim_queue *sim_queue_of(const struct CUstream_st *s)
{
    return &sim.shared->queue[s->index];
}

/*
 * Put one command (`args` of `arg_bytes` behind it) into a stream, after what the default stream's
 * rules want to be waited for; *value, if wanted, is what the queue will have completed when it is
 * done. Captured instead while the stream captures.
 */
CUresult sim_submit(struct CUstream_st *s, const struct sim_cmd *cmd, const void *args,
                    uint64_t *value);

/* The same with the context's submit lock held; several commands in a row then stay together. */
CUresult sim_submit_locked(struct CUstream_st *s, const struct sim_cmd *cmd, const void *args,
                           uint64_t *value);

/*
 * Until a queue has completed `value`, all work of the stream, all work of the context (with
 * `submit` held or not)
 */
CUresult sim_wait(CUcontext ctx, struct sim_queue *q, uint64_t value);
CUresult sim_stream_wait(struct CUstream_st *s);
CUresult sim_context_wait(CUcontext ctx);

/* NOT_READY while a blocking stream has work */
CUresult sim_blocking_idle(CUcontext ctx);

/* ---- copies of memory that executors do not see (copy.c, hostfn.c) ---- */

/*
 * A piece of shared memory whose last use is over; given back with what has to be done before its
 * next use (value 0: nothing). Executors are told its address as an offset in the shared memory.
 */
CUresult sim_bounce_take(unsigned *index);
void sim_bounce_put(unsigned index, struct CUstream_st *s, uint64_t value);
CUdeviceptr sim_bounce_address(unsigned index);

/* In stream order, by the application's host thread and the executor in turn */
CUresult sim_copy_registered(struct CUstream_st *s, CUdeviceptr device, char *host, size_t bytes,
                             bool to_host);

/* ---- how often this process has launched something; made memory known to the driver, or to others, or opened theirs ---- */

enum sim_counted { SIM_LAUNCHES, SIM_REGISTRATIONS, SIM_COPIES, SIM_COUNTED };
void sim_count(enum sim_counted what);

/* For tests: of "launches" or "registrations" */
__attribute__((visibility("default"))) unsigned long long shunt_sim_count(const char *what);

/* ---- capture (capture.c) and graphs (graph.c) ---- */

/* An error if the calling thread must not do something that could break a capture in progress */
CUresult sim_capture_check(void);

/* The capture that any use of the legacy stream would spoil, or NULL */
CUgraph sim_capture_of_blocking(CUcontext ctx);

/* The error for a call that a capture in progress does not survive */
CUresult sim_capture_break(CUgraph graph);

/* The same if `graph` is still being captured: it may have been destroyed since */
void sim_capture_break_if(CUgraph graph);
CUresult sim_capture_add(struct CUstream_st *s, const struct sim_cmd *cmd, const void *args);
CUresult sim_capture_join(struct CUstream_st *s, CUgraph graph);

#endif
