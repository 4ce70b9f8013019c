/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks of a launch, one after the other on the calling OS thread, until all have ended.
 *
 * Settings, read once: SHUNT_SIM_MEAN=1 (blocks start in random order with garbage in shared memory, peer writes are
 * held back, threads are interrupted at random accesses), SHUNT_SIM_SEED=n (repeats the random choices of a process,
 * which are others on each GPU: SHUNT_SIM_GPU=n, set by libcuda), SHUNT_SIM_RESIDENT=n (at most so many blocks of a
 * launch run at the same time), SHUNT_SIM_SLOW=n (how much slower than the real one the kernels' clock is).
 */
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/schedule.h"

#define YIELDS 32          /* idle rounds that only let others run, before it sleeps */
#define SLEEP_NS 50000     /* eight processes on two cores: those that have work get the cores */
#define STUCK_NS 10000000000ull

__thread struct sim_launch *sim_running;

static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static struct {
    bool mean;
    uint64_t seed, gpu;
    unsigned resident; /* 0: all */
    uint64_t slow;
} settings;
static uint64_t launches; /* so far: every launch has its own sequence of random numbers */

static uint64_t read_number(const char *name, uint64_t normal)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return normal;
    uint64_t value = strtoull(text, &end, 0);
    if (!*end)
        return value;
    fprintf(stderr, "shunt-sim: %s=%s refused (allowed: a number); using %llu\n", name, text,
            (unsigned long long)normal);
    return normal;
}

static void read_settings(void)
{
    settings.mean = read_number("SHUNT_SIM_MEAN", 0) != 0;
    settings.seed = read_number("SHUNT_SIM_SEED", sim_clock());
    settings.gpu = read_number("SHUNT_SIM_GPU", 0);
    settings.resident = (unsigned)read_number("SHUNT_SIM_RESIDENT", 0);
    settings.slow = read_number("SHUNT_SIM_SLOW", 32);
    settings.slow += settings.slow == 0;
}

void sim_say_seed(void)
{
    if (settings.mean)
        fprintf(stderr, "shunt-sim: the random choices of this process: SHUNT_SIM_SEED=%llu\n",
                (unsigned long long)settings.seed);
}

uint64_t sim_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sim_kernel_clock(void)
{
    return sim_clock() / settings.slow;
}

/* The thread-local memory of the module that has sim_running, and so the kernels' __shared__ variables. */
static int find_shared(struct dl_phdr_info *info, size_t size, void *context)
{
    struct sim_launch *l = context;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t offset = (uintptr_t)&sim_running - (uintptr_t)info->dlpi_tls_data;
        if (p->p_type == PT_TLS && info->dlpi_tls_data && offset < p->p_memsz) {
            l->shared = info->dlpi_tls_data;
            l->shared_bytes = p->p_memsz;
            return 1;
        }
    }
    return 0;
}

/*
 * __shared__ variables are thread-local ones, whose contents are exchanged when another block has its turn. NULL: what
 * the OS thread had there before the launch, kept in `outside`.
 */
static void bring_shared(struct sim_launch *l, struct sim_block *block, void *outside)
{
    if (l->in_shared == block)
        return;
    memcpy(l->in_shared ? l->in_shared->shared : outside, l->shared, l->shared_bytes);
    memcpy(l->shared, block ? block->shared : outside, l->shared_bytes);
    sim_running = l;
    l->in_shared = block;
}

static void start_blocks(struct sim_launch *l)
{
    unsigned most = settings.resident && settings.resident < l->blocks ? settings.resident : l->blocks;
    while (!sim_gpu_taken() && l->nresident < most && l->started < l->blocks)
        l->resident[l->nresident++] = sim_block_start(l, l->order[l->started++], settings.mean);
}

/* Where a launch waits that has not come further for a long time: for whoever asks why the program hangs. */
static void say_stuck(const struct sim_launch *l)
{
    if (!l->nresident)
        return;
    const struct sim_block *b = l->resident[0];
    fprintf(stderr,
            "shunt-sim: kernel %s has only polled for 10 s; block %u,%u,%u: %u threads poll, %u wait at a barrier%s%s, "
            "%u have ended\n",
            l->name, b->index.x, b->index.y, b->index.z, b->runnable, b->live - b->runnable,
            b->barrier.count ? " in " : "", b->barrier.count ? b->barrier.file : "", l->threads - b->live);
}

/* No block could do anything. */
static void back_off(struct sim_launch *l)
{
    if (l->idle++ < YIELDS) {
        sched_yield();
        return;
    }
    if (l->idle == YIELDS + 1)
        l->idle_since = sim_clock();
    else if (l->idle_since && sim_clock() - l->idle_since > STUCK_NS) {
        say_stuck(l);
        l->idle_since = 0;
    }
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

static void run_blocks(struct sim_launch *l, void *outside)
{
    for (start_blocks(l); l->nresident || l->started < l->blocks; start_blocks(l)) {
        uint64_t before = l->progress;
        for (unsigned i = 0; i < l->nresident; i++) {
            struct sim_block *b = l->resident[i];
            bring_shared(l, b, outside);
            sim_block_resume(l, b);
            l->block = NULL;
            if (b->live)
                continue;
            bring_shared(l, NULL, outside);
            sim_block_end(l, b);
            l->resident[i--] = l->resident[--l->nresident];
        }
        if (l->progress == before)
            back_off(l);
        else
            l->idle = 0;
    }
}

static void choose_order(struct sim_launch *l)
{
    for (unsigned i = 0; i < l->blocks; i++) {
        unsigned j = settings.mean ? sim_random(l) % (i + 1) : i;
        l->order[i] = l->order[j];
        l->order[j] = i;
    }
}

void sim_launch_run(const char *name, void (*body)(const void *args), const void *args, const unsigned grid[3],
                    const unsigned block[3], unsigned dynamic_shared)
{
    pthread_once(&settings_once, read_settings);
    struct sim_launch l = {
        .name = name,
        .body = body,
        .args = args,
        .grid_dim = {grid[0], grid[1], grid[2]},
        .block_dim = {block[0], block[1], block[2]},
        .blocks = grid[0] * grid[1] * grid[2],
        .threads = block[0] * block[1] * block[2],
        .random = (settings.seed * 64 + settings.gpu + 1) * 0x9e3779b97f4a7c15ull ^
                  (__atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) * 0xbf58476d1ce4e5b9ull | 1),
        .until_switch = 1,
    };
    struct sim_launch *outer = sim_running;
    sim_running = &l;
    if (outer)
        sim_fail("launched from inside kernel %s", outer->name);
    if (dynamic_shared)
        sim_fail("dynamic shared memory is not simulated");
    if (!l.blocks || !l.threads || l.threads > 1024)
        sim_fail("a grid of %u blocks of %u threads cannot be launched", l.blocks, l.threads);
    dl_iterate_phdr(find_shared, &l);
    void *outside = malloc(l.shared_bytes);
    l.order = calloc(l.blocks, sizeof *l.order);
    l.resident = calloc(l.blocks, sizeof *l.resident);
    if (!outside || !l.order || !l.resident)
        sim_fail("no memory for its blocks");
    choose_order(&l);
    run_blocks(&l, outside);
    free(l.resident);
    free(l.order);
    free(outside);
    sim_stack_return(&l.stacks);
    sim_running = NULL;
    /* Who learns that the kernel has ended sees what it has written. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
}
