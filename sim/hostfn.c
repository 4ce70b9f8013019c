/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the application in stream order, and what is made of them: asynchronous copies of
 * registered memory, which the executor does not see.
 */
#include "sim/driver.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Runs what executors ask for. It exists from the first such function on and makes no CUDA call. */
static void *run_host_functions(void *unused)
{
    (void)unused;
    for (;;) {
        uint32_t rung = atomic_load(&sim.shared->host_bell);
        for (unsigned i = 0; i < SIM_STREAMS; i++) {
            struct sim_queue *q = &sim.shared->queue[i];
            if (atomic_load(&q->host) != SIM_HOST_ASKED)
                continue;
            ((CUhostFn)(uintptr_t)q->host_function)((void *)(uintptr_t)q->host_data);
            atomic_store(&q->host, SIM_HOST_NONE);
            sim_wake(&q->host);
        }
        sim_sleep(&sim.shared->host_bell, rung, 1000);
    }
    return NULL;
}

static CUresult start_host_thread(void)
{
    static bool started;
    sigset_t all, old;
    pthread_t thread;
    sigfillset(&all);
    pthread_mutex_lock(&sim.lock);
    if (!started) {
        pthread_sigmask(SIG_BLOCK, &all, &old);
        started = !pthread_create(&thread, NULL, run_host_functions, NULL);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        if (started)
            pthread_detach(thread);
    }
    pthread_mutex_unlock(&sim.lock);
    return started ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult call(struct CUstream_st *s, CUhostFn function, void *data)
{
    struct sim_cmd command = {
        .op = SIM_OP_HOST, .bytes = sizeof command, .host = {(uintptr_t)function, (uintptr_t)data}};
    return sim_submit(s, &command, NULL, NULL);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (!result && !function)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = start_host_thread();
    return result ? result : call(s, function, data);
}

/* ---- registered memory ---- */

/*
 * What the host has to do for one piece of a copy: all pieces of a copy go through one piece of
 * shared memory
 */
struct piece {
    char *host;
    unsigned bounce;
    size_t bytes;
    bool last;
};

static void fill_bounce(void *data)
{
    struct piece *p = data;
    memcpy(sim.shared->bounce[p->bounce], p->host, p->bytes);
    free(p);
}

static void empty_bounce(void *data)
{
    struct piece *p = data;
    memcpy(p->host, sim.shared->bounce[p->bounce], p->bytes);
    if (p->last)
        sim_bounce_put(p->bounce, NULL, 0);
    free(p);
}

/* The host's part and the executor's part of one piece, in the order of the direction */
static CUresult put_piece(struct CUstream_st *s, CUdeviceptr device, struct piece *p, bool to_host)
{
    CUdeviceptr bounce = sim_bounce_address(p->bounce);
    struct sim_cmd copy = {.op = SIM_OP_COPY, .bytes = sizeof copy};
    uint64_t value = 0;
    unsigned index = p->bounce;
    bool last = p->last;
    copy.copy.to = to_host ? bounce : device;
    copy.copy.from = to_host ? device : bounce;
    copy.copy.bytes = p->bytes;
    CUresult result = to_host ? sim_submit(s, &copy, NULL, NULL) : CUDA_SUCCESS;
    if (!result)
        result = call(s, to_host ? empty_bounce : fill_bounce, p);
    if (!result && !to_host)
        result = sim_submit(s, &copy, NULL, &value);
    if (!result && !to_host && last)
        sim_bounce_put(index, s, value);
    return result;
}

CUresult sim_copy_registered(struct CUstream_st *s, CUdeviceptr device, char *host, size_t bytes,
                             bool to_host)
{
    unsigned bounce;
    CUresult result = start_host_thread();
    if (!result)
        result = sim_bounce_take(&bounce);
    for (size_t done = 0, n; done < bytes && !result; done += n) {
        struct piece *p = malloc(sizeof *p);
        if (!p)
            return CUDA_ERROR_OUT_OF_MEMORY;
        n = bytes - done < SIM_BOUNCE_BYTES ? bytes - done : SIM_BOUNCE_BYTES;
        *p = (struct piece){host + done, bounce, n, done + n == bytes};
        result = put_piece(s, device + done, p, to_host);
    }
    return result;
}
