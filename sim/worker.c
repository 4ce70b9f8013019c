/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread of a stream in the executor: takes one command after the other and does it.
 */
#include <cuda.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/config.h"
#include "sim/executor.h"

#define SLOW_US 2000000

struct worker {
    struct sim_shared *shared;
    struct sim_queue *queue;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Until there is a command; its place in the ring */
static const struct sim_cmd *next_command(struct sim_queue *q)
{
    uint64_t head = atomic_load(&q->head), tail;
    while ((tail = atomic_load(&q->tail)) == head) {
        atomic_store(&q->sleeping, 1);
        if (atomic_load(&q->tail) == tail)
            sim_sleep(sim_low_half(&q->tail), (uint32_t)tail, 1000);
        atomic_store(&q->sleeping, 0);
    }
    return (const struct sim_cmd *)(q->ring + head % SIM_RING_BYTES);
}

/*
 * The command at the head is done: its room is free, and whoever waits for this point hears of it.
 */
static void complete(struct sim_queue *q, uint32_t bytes, bool counts)
{
    atomic_fetch_add(&q->head, bytes);
    if (counts)
        atomic_fetch_add(&q->completed, 1);
    if (atomic_load(&q->waiters))
        sim_wake(sim_low_half(&q->completed));
}

static void wait_for_queue(struct sim_shared *shared, struct sim_queue *q, uint64_t value)
{
    uint64_t done;
    atomic_fetch_add(&q->waiters, 1);
    while ((done = atomic_load(&q->completed)) < value) {
        int error = atomic_load(&shared->error);
        if (error)
            sim_executor_die(error);
        sim_sleep(sim_low_half(&q->completed), (uint32_t)done, 1000);
    }
    atomic_fetch_sub(&q->waiters, 1);
}

static uint64_t load_word(uint64_t address, uint32_t width)
{
    if (width == 8)
        return atomic_load((_Atomic uint64_t *)(uintptr_t)address);
    return atomic_load((_Atomic uint32_t *)(uintptr_t)address);
}

static bool word_holds(const struct sim_cmd *c)
{
    uint64_t seen = load_word(c->word.address, c->word.width), value = c->word.value;
    switch (c->word.flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic, as the driver compares */
        return c->word.width == 8 ? (int64_t)(seen - value) >= 0
                                  : (int32_t)((uint32_t)seen - (uint32_t)value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return seen == value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (seen & value) != 0;
    default:
        return ~(seen | value) != 0;
    }
}

/* Somebody else writes the word, perhaps much later: poll, more and more slowly */
static void wait_for_word(const struct sim_cmd *c)
{
    for (unsigned tries = 0; !word_holds(c); tries++) {
        if (tries < 200)
            sched_yield();
        else
            usleep(tries < 1000 ? 20 : 200);
    }
}

static void write_word(const struct sim_cmd *c)
{
    if (c->word.width == 8)
        atomic_store((_Atomic uint64_t *)(uintptr_t)c->word.address, c->word.value);
    else
        atomic_store((_Atomic uint32_t *)(uintptr_t)c->word.address, (uint32_t)c->word.value);
}

static void set_memory(const struct sim_cmd *c)
{
    unsigned char *to = (unsigned char *)(uintptr_t)c->set.to;
    if (c->set.width == 1)
        memset(to, (int)c->set.value, c->set.count);
    else if (c->set.width == 2)
        for (uint64_t i = 0; i < c->set.count; i++)
            ((uint16_t *)to)[i] = (uint16_t)c->set.value;
    else
        for (uint64_t i = 0; i < c->set.count; i++)
            ((uint32_t *)to)[i] = c->set.value;
}

/* Ask the application's host thread to run it, and wait: the stream goes on after the function. */
static void call_host(struct worker *w, const struct sim_cmd *c)
{
    struct sim_queue *q = w->queue;
    q->host_function = c->host.function;
    q->host_data = c->host.data;
    atomic_store(&q->host, SIM_HOST_ASKED);
    atomic_fetch_add(&w->shared->host_bell, 1);
    sim_wake(&w->shared->host_bell);
    while (atomic_load(&q->host) == SIM_HOST_ASKED)
        sim_sleep(&q->host, SIM_HOST_ASKED, 1000);
}

static void launch(const struct sim_cmd *c)
{
    const struct sim_kernel *kernel = (const struct sim_kernel *)(uintptr_t)c->launch.kernel;
    void *args[SIM_MAX_ARGS]; /* the command stays in the ring until it is done, so they may point
                                 into it */
    uint32_t offset = 0;
    for (int i = 0; kernel->arg_sizes[i]; i++) {
        args[i] = (unsigned char *)c->args + offset;
        offset += (kernel->arg_sizes[i] + 15) & ~15u;
    }
    kernel->run(args, c->launch.grid, c->launch.block, c->launch.shared);
}

/* Addresses below the size of the shared memory are offsets in it. */
static void *place(struct worker *w, uint64_t address)
{
    return address < sizeof *w->shared ? (char *)w->shared + address : (void *)(uintptr_t)address;
}

static void copy(struct worker *w, const struct sim_cmd *c)
{
    if (sim_has_fault(SIM_FAULT_SLOW) && sim_foreign_owner(c->copy.to))
        usleep(SLOW_US);
    memmove(place(w, c->copy.to), place(w, c->copy.from), c->copy.bytes);
}

static void execute(struct worker *w, const struct sim_cmd *c)
{
    switch ((enum sim_op)c->op) {
    case SIM_OP_SKIP:
    case SIM_OP_NOTHING:
    case SIM_OP_EXIT:
        break;
    case SIM_OP_RECORD:
        atomic_store(&w->shared->event_time[c->event], now_ns());
        break;
    case SIM_OP_WAIT:
        wait_for_queue(w->shared, &w->shared->queue[c->wait.stream], c->wait.value);
        break;
    case SIM_OP_COPY:
        copy(w, c);
        break;
    case SIM_OP_SET:
        set_memory(c);
        break;
    case SIM_OP_WRITE_WORD:
        write_word(c);
        break;
    case SIM_OP_WAIT_WORD:
        wait_for_word(c);
        break;
    case SIM_OP_HOST:
        call_host(w, c);
        break;
    case SIM_OP_LAUNCH:
        launch(c);
        break;
    }
}

static void *work(void *argument)
{
    struct worker w = *(struct worker *)argument;
    free(argument);
    for (;;) {
        const struct sim_cmd *c = next_command(w.queue);
        uint32_t op = c->op, bytes = c->bytes;
        execute(&w, c);
        complete(w.queue, bytes, op != SIM_OP_SKIP);
        if (op == SIM_OP_EXIT) {
            atomic_store(&w.queue->state, SIM_SLOT_DONE); /* another stream's from here on */
            return NULL;
        }
    }
}

int sim_worker_start(struct sim_shared *shared, unsigned index)
{
    struct worker *w = malloc(sizeof *w);
    if (!w)
        return ENOMEM;
    *w = (struct worker){shared, &shared->queue[index]};
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, work, w);
    pthread_attr_destroy(&attributes);
    if (error)
        free(w);
    return error;
}
