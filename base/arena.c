/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arena: who is in it, fixed once for all, and what ranks show each other. See arena_layout.h for what lies where.
 *
 * Registration gives out slots by one compare-and-swap on `roll`, sealing sets a bit in the same word: whoever came
 * before the bit is in if it got ready, whoever comes after begins another arena, where it will find nobody of the
 * first. All ranks thus agree on the set, which is all that is needed: a communicator with a member outside has no
 * board on any of its members.
 *
 * With SHUNT_NODE a process is in two arenas: that of its node, and until sealing that of the machine, where all ranks
 * meet that the launcher announced. So it is known how many of them the own node has, and nobody is waited for in vain.
 */
#include "base/arena_layout.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"

enum { SEAL_WAIT_MS = 1000 };

static _Atomic bool crowded;

/* ---- locks ---- */

bool shunt_shared_lock(pthread_mutex_t *lock)
{
    int error = pthread_mutex_lock(lock);
    if (error == EOWNERDEAD) {
        /* the holder was killed; all that the locks protect is in order after each single store */
        error = pthread_mutex_consistent(lock);
        if (error)
            pthread_mutex_unlock(lock);
    }
    return error == 0;
}

void shunt_shared_unlock(pthread_mutex_t *lock)
{
    pthread_mutex_unlock(lock);
}

/* ---- joining ---- */

/* Give out a slot. -1: sealed; procs or more: none left. */
static int take_slot(struct shared_arena *shared)
{
    uint32_t roll = atomic_load_explicit(&shared->roll, memory_order_relaxed);
    do {
        if (roll & SHARED_SEALED)
            return -1;
        if (roll >= shared->procs)
            return (int)roll;
        /* acquire, release: nothing is published by the number itself; `state` does that */
    } while (!atomic_compare_exchange_weak_explicit(&shared->roll, &roll, roll + 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return (int)roll;
}

static void register_self(struct shunt_arena *arena, int world_rank)
{
    struct shared_proc *self = shared_proc(arena->shared, arena->self);
    self->process = shunt_process_self();
    self->node = arena->node;
    self->net = shunt_conf->net != SHUNT_NET_MPI;
    cpu_set_t cpus;
    static_assert(sizeof cpus == sizeof self->cpus, "as many processors as the C library's set");
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
        memcpy(self->cpus, &cpus, sizeof cpus);
    atomic_store_explicit(&self->world_rank, world_rank, memory_order_relaxed);
    /* release: who sees the state sees the process, its processors and its rank */
    atomic_store_explicit(&self->state, world_rank >= 0 ? SHARED_READY : SHARED_JOINING, memory_order_release);
}

/* Map the arena and register. SHUNT_AGAIN: it was sealed meanwhile. */
static enum shunt_status enter(struct shunt_arena *arena, int world_rank)
{
    enum shunt_status status = shunt_arena_map(arena);
    if (status != SHUNT_OK)
        return status;
    arena->self = take_slot(arena->shared);
    if (arena->self < 0) {
        /* all who belong to it are in: its file goes, so that the late ones find each other */
        shunt_arena_unlink(arena);
        shunt_arena_unmap(arena);
        return SHUNT_AGAIN;
    }
    if (arena->self >= (int)arena->shared->procs) {
        shunt_warn_once(SHUNT_REASON_NO_ARENA, "more processes than the %u that were announced", arena->shared->procs);
        shunt_arena_unmap(arena);
        return SHUNT_ERR_LIMIT;
    }
    register_self(arena, world_rank);
    return SHUNT_OK;
}

static enum shunt_status join_named(const struct shunt_identity *identity, const char *name,
                                    struct shunt_arena **arena_p)
{
    struct shunt_arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        return SHUNT_ERR_MEMORY;
    snprintf(arena->path, sizeof arena->path, "/dev/shm/%s", name);
    arena->local_size = identity->local_size;
    arena->node = identity->node;
    arena->owner = getpid();
    pthread_mutex_init(&arena->lock, NULL);
    enum shunt_status status;
    do {
        status = enter(arena, identity->world_rank);
    } while (status == SHUNT_AGAIN);
    if (status != SHUNT_OK) {
        pthread_mutex_destroy(&arena->lock);
        free(arena);
        return status;
    }
    /* each process looks for free posts from a place of its own */
    atomic_init(&arena->post_hint, (uint32_t)((uint64_t)arena->self * arena->shared->posts / arena->shared->procs));
    shunt_info("arena", "joined %s (%016llx) as %d of %d", arena->path, (unsigned long long)arena->shared->nonce[0],
               arena->self, arena->local_size);
    *arena_p = arena;
    return SHUNT_OK;
}

enum shunt_status shunt_arena_join(struct shunt_arena **arena_p)
{
    *arena_p = NULL;
    struct shunt_identity identity;
    enum shunt_status status = shunt_identity_find(&identity);
    if (status != SHUNT_OK)
        return status;
    int kept = errno;
    /* the own node's first: who is counted among the machine's ranks can be found there */
    status = join_named(&identity, identity.name, arena_p);
    if (status == SHUNT_OK && identity.node) {
        status = join_named(&identity, identity.machine, &(*arena_p)->machine);
        if (status != SHUNT_OK) {
            shunt_arena_leave(*arena_p);
            *arena_p = NULL;
        }
    }
    errno = kept;
    return status;
}

/* ---- sealing ---- */

/* Who is who cannot be told: no operation of this arena runs on the GPUs any more, on any rank. */
static void mark_broken(struct shunt_arena *arena, const char *why, int rank)
{
    if (!atomic_exchange(&arena->shared->broken, 1))
        shunt_warn_once(SHUNT_REASON_NO_ARENA, "%s %d", why, rank);
}

void shunt_arena_set_world(struct shunt_arena *arena, int world_rank, int world_size)
{
    struct shared_proc *self = shared_proc(arena->shared, arena->self);
    arena->world_size = world_size;
    int told = atomic_load_explicit(&self->world_rank, memory_order_relaxed);
    if (told >= 0 && told != world_rank) {
        /* others may have looked us up by the wrong number already */
        mark_broken(arena, "against the launcher's variables, this is not world rank", told);
        return;
    }
    atomic_store_explicit(&self->world_rank, world_rank, memory_order_relaxed);
    uint32_t state = SHARED_JOINING;
    /* release: who sees READY sees the rank. Fails if we are READY, or OUT: the set was sealed without us */
    atomic_compare_exchange_strong_explicit(&self->state, &state, SHARED_READY, memory_order_release,
                                            memory_order_relaxed);
    if (arena->machine)
        shunt_arena_set_world(arena->machine, world_rank, world_size);
}

/* Processes that registered and told their rank. */
static int count_ready(const struct shared_arena *shared, uint32_t count)
{
    int ready = 0;
    for (uint32_t slot = 0; slot < count; slot++)
        ready += atomic_load_explicit(&shared_proc(shared, (int)slot)->state, memory_order_acquire) == SHARED_READY;
    return ready;
}

/* Set the seal as soon as `expected` are ready, or after the longest wait: a rank may run without shunt. */
static void set_seal(struct shunt_arena *arena, int expected)
{
    struct shared_arena *shared = arena->shared;
    if (expected > (int)shared->procs)
        expected = (int)shared->procs;
    double end = shunt_seconds() + SEAL_WAIT_MS * 1e-3;
    long pause = 20000; /* ns */
    for (;;) {
        uint32_t roll = atomic_load_explicit(&shared->roll, memory_order_acquire);
        if (roll & SHARED_SEALED)
            return;
        int ready = count_ready(shared, roll);
        bool late = shunt_seconds() >= end;
        if (ready >= expected || late) {
            if (ready < expected)
                shunt_warn_once(SHUNT_REASON_NOT_REGISTERED, "%d of %d ranks of this node run with shunt", ready,
                                expected);
            /* one wins; a process that takes a slot between our look and the seal makes us look again */
            if (atomic_compare_exchange_strong(&shared->roll, &roll, roll | SHARED_SEALED))
                return;
            continue;
        }
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        pause = pause < 1000000 ? pause * 2 : pause;
    }
}

/*
 * Fix the state of those that were not ready. Everybody does this, so nobody depends on the one who set the seal, and
 * all come to the same set: each slot changes once more, to READY by its owner or to OUT by any of us.
 */
static void shut_out(struct shared_arena *shared, uint32_t count)
{
    for (uint32_t slot = 0; slot < count; slot++) {
        struct shared_proc *proc = shared_proc(shared, (int)slot);
        uint32_t state = atomic_load_explicit(&proc->state, memory_order_acquire);
        while (state != SHARED_READY && state != SHARED_OUT)
            if (atomic_compare_exchange_weak(&proc->state, &state, SHARED_OUT))
                state = SHARED_OUT;
    }
}

/* The slot of each world rank. */
static void list_ranks(struct shunt_arena *arena, uint32_t count)
{
    arena->slot_of = malloc((size_t)arena->world_size * sizeof *arena->slot_of + 1);
    if (!arena->slot_of) {
        mark_broken(arena, "no memory for a table of the ranks, in process", arena->self);
        return;
    }
    memset(arena->slot_of, -1, (size_t)arena->world_size * sizeof *arena->slot_of);
    for (uint32_t slot = 0; slot < count; slot++) {
        struct shared_proc *proc = shared_proc(arena->shared, (int)slot);
        if (atomic_load_explicit(&proc->state, memory_order_acquire) != SHARED_READY || proc->node != arena->node)
            continue;
        int rank = atomic_load_explicit(&proc->world_rank, memory_order_relaxed);
        if (rank >= arena->world_size)
            mark_broken(arena, "by the launcher's variables there is a world rank", rank);
        else if (arena->slot_of[rank] >= 0)
            mark_broken(arena, "by the launcher's variables two processes have world rank", rank);
        else
            arena->slot_of[rank] = (int16_t)slot;
    }
}

/* More ranks on the processors that this rank may use, or shares with others, than there are of these? */
static void find_crowd(const struct shunt_arena *arena, uint32_t count)
{
    const struct shared_proc *self = shared_proc(arena->shared, arena->self);
    uint64_t all[16] = {0};
    int ranks = 0, processors = 0;
    for (uint32_t slot = 0; slot < count; slot++) {
        const struct shared_proc *proc = shared_proc(arena->shared, (int)slot);
        uint64_t common = 0;
        if (atomic_load_explicit(&proc->state, memory_order_acquire) != SHARED_READY)
            continue;
        for (int i = 0; i < 16; i++)
            common |= proc->cpus[i] & self->cpus[i];
        for (int i = 0; common && i < 16; i++)
            all[i] |= proc->cpus[i];
        ranks += common != 0;
    }
    for (int i = 0; i < 16; i++)
        processors += __builtin_popcountll(all[i]);
    atomic_store_explicit(&crowded, ranks > processors, memory_order_relaxed);
}

/* What must be the same on all ranks of the machine, whatever the settings of each. */
static void find_wishes(const struct shunt_arena *all, uint32_t count, struct shunt_arena *arena)
{
    for (uint32_t slot = 0; slot < count; slot++) {
        const struct shared_proc *proc = shared_proc(all->shared, (int)slot);
        if (atomic_load_explicit(&proc->state, memory_order_acquire) != SHARED_READY)
            continue;
        arena->net |= proc->net != 0;
        arena->apart |= proc->node != arena->node;
    }
}

/* Fix the set, which has `expected` members if all come; how many slots were given out. */
static uint32_t close_roll(struct shunt_arena *arena, int expected)
{
    set_seal(arena, expected);
    uint32_t count = atomic_load_explicit(&arena->shared->roll, memory_order_acquire) & ~SHARED_SEALED;
    shut_out(arena->shared, count);
    /* by everybody: the one who sealed may have been killed before it came to this */
    shunt_arena_unlink(arena);
    return count;
}

/* Processes of the job on this node: announced by the launcher, or those of the machine that say that they are on it. */
static int count_expected(struct shunt_arena *arena)
{
    struct shunt_arena *machine = arena->machine;
    int announced = arena->local_size > 0 ? arena->local_size : arena->world_size, found = 0;
    if (!machine)
        return announced;
    uint32_t count = close_roll(machine, announced);
    find_crowd(machine, count);
    find_wishes(machine, count, arena);
    for (uint32_t slot = 0; slot < count; slot++) {
        const struct shared_proc *proc = shared_proc(machine->shared, (int)slot);
        found += proc->node == arena->node &&
                 atomic_load_explicit(&proc->state, memory_order_acquire) == SHARED_READY;
    }
    return found;
}

void shunt_arena_seal(struct shunt_arena *arena)
{
    if (arena->slot_of)
        return;
    int kept = errno;
    uint32_t count = close_roll(arena, count_expected(arena));
    list_ranks(arena, count);
    if (arena->machine) {
        arena->local_size = (int)count;
    } else {
        find_crowd(arena, count);
        find_wishes(arena, count, arena);
    }
    shunt_arena_leave(arena->machine);
    arena->machine = NULL;
    shunt_info("arena", "sealed with %d of %d processes%s", count_ready(arena->shared, count), arena->local_size,
               shunt_arena_crowded() ? ", more than processors" : "");
    errno = kept;
}

bool shunt_arena_crowded(void)
{
    return atomic_load_explicit(&crowded, memory_order_relaxed);
}

/* ---- looking ---- */

int shunt_arena_self(const struct shunt_arena *arena)
{
    return arena->self;
}

int shunt_arena_local_size(const struct shunt_arena *arena)
{
    return arena->local_size;
}

bool shunt_arena_net(const struct shunt_arena *arena, bool *apart)
{
    *apart = arena->apart;
    return arena->net;
}

int shunt_arena_slot(const struct shunt_arena *arena, int world_rank)
{
    if (!arena->slot_of || world_rank < 0 || world_rank >= arena->world_size ||
        atomic_load_explicit(&arena->shared->broken, memory_order_relaxed))
        return -1;
    return arena->slot_of[world_rank];
}

int shunt_arena_set_device_used(struct shunt_arena *arena)
{
    struct shared_proc *self = shared_proc(arena->shared, arena->self);
    int channel = atomic_load_explicit(&self->channel, memory_order_relaxed);
    if (channel)
        return channel - 1;
    pthread_mutex_lock(&arena->lock); /* two threads must not take two */
    channel = atomic_load_explicit(&self->channel, memory_order_relaxed);
    if (!channel) {
        channel = (int)atomic_fetch_add(&arena->shared->channels, 1) + 1;
        atomic_store_explicit(&self->channel, channel, memory_order_relaxed);
        /* relaxed: a neutral rank that sees it late passes as a host rank, which is always right */
        atomic_store_explicit(&arena->shared->device_used, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&arena->lock);
    return channel - 1;
}

bool shunt_arena_device_used(const struct shunt_arena *arena)
{
    return atomic_load_explicit(&arena->shared->device_used, memory_order_relaxed);
}

void shunt_arena_node(const struct shunt_arena *arena, uint64_t number[2])
{
    memcpy(number, arena->shared->nonce, sizeof arena->shared->nonce);
}

void *shunt_arena_card(const struct shunt_arena *arena, int slot)
{
    const uint32_t lines = SHUNT_CARD_BYTES / SHARED_LINE;
    return shared_at(arena->shared, arena->shared->cards_at + (uint32_t)slot * lines);
}

void *shunt_arena_stats(const struct shunt_arena *arena, int slot)
{
    const uint32_t lines = SHUNT_STATS_BYTES / SHARED_LINE;
    uint32_t count = atomic_load_explicit(&arena->shared->roll, memory_order_relaxed) & ~SHARED_SEALED;
    if (slot < 0 || (uint32_t)slot >= count)
        return NULL;
    return shared_at(arena->shared, arena->shared->stats_at + (uint32_t)slot * lines);
}

/* ---- life and death ---- */

/* Is the descriptor still the one that we opened? A program may close all it does not know, and open its own there. */
static bool watch_is_ours(const struct shunt_arena *arena, int slot)
{
    struct stat info;
    return arena->watch[slot].fd && fstat(arena->watch[slot].fd - 1, &info) == 0 &&
           info.st_dev == arena->watch[slot].device && info.st_ino == arena->watch[slot].inode;
}

static void open_watch(struct shunt_arena *arena, int slot, const struct shunt_process *process)
{
    struct stat info;
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    arena->watch[slot].fd = fd + 1; /* -1: none, then /proc has to do */
    if (fd >= 0 && fstat(fd, &info) == 0) {
        arena->watch[slot].device = info.st_dev;
        arena->watch[slot].inode = info.st_ino;
    }
}

/* The pidfd is quick; that it was opened for the right process, and is not another's by now, /proc confirms. */
static bool look_ended(struct shunt_arena *arena, int slot)
{
    const struct shunt_process *process = &shared_proc(arena->shared, slot)->process;
    if (!watch_is_ours(arena, slot)) {
        open_watch(arena, slot, process);
        return shunt_process_ended(process);
    }
    struct pollfd look = {.fd = arena->watch[slot].fd - 1, .events = POLLIN};
    return poll(&look, 1, 0) == 1 && (look.revents & POLLIN) && shunt_process_ended(process);
}

bool shunt_arena_alive(struct shunt_arena *arena, int slot)
{
    struct shared_proc *proc = shared_proc(arena->shared, slot);
    if (slot == arena->self || atomic_load_explicit(&proc->left, memory_order_relaxed) ||
        atomic_load_explicit(&proc->state, memory_order_acquire) == SHARED_EMPTY)
        return true;
    int kept = errno;
    pthread_mutex_lock(&arena->lock);
    if (!arena->watch[slot].ended)
        arena->watch[slot].ended = look_ended(arena, slot);
    bool ended = arena->watch[slot].ended;
    pthread_mutex_unlock(&arena->lock);
    errno = kept;
    /* whoever left in order may have done so between our first look and its end */
    return !ended || atomic_load_explicit(&proc->left, memory_order_relaxed);
}

bool shunt_arena_gone(struct shunt_arena *arena, int slot)
{
    return !shunt_arena_alive(arena, slot) ||
           atomic_load_explicit(&shared_proc(arena->shared, slot)->left, memory_order_relaxed);
}

/* ---- leaving ---- */

/* Never sealed, and all others have left or ended: the last one out removes the file. */
static void unlink_if_last(struct shunt_arena *arena)
{
    uint32_t roll = atomic_load(&arena->shared->roll);
    for (uint32_t slot = 0; slot < (roll & ~SHARED_SEALED); slot++)
        if (!shunt_arena_gone(arena, (int)slot))
            return;
    /* one that registers this moment is not left alone in a nameless arena: it finds it sealed and begins another */
    if ((roll & SHARED_SEALED) || atomic_compare_exchange_strong(&arena->shared->roll, &roll, roll | SHARED_SEALED))
        shunt_arena_unlink(arena);
}

void shunt_arena_leave(struct shunt_arena *arena)
{
    if (!arena)
        return;
    int kept = errno;
    shunt_arena_leave(arena->machine);
    if (arena->owner == getpid()) {
        /* sequentially consistent, as the looks at the others': of the last two to leave one sees both gone */
        atomic_store(&shared_proc(arena->shared, arena->self)->left, 1);
        if (!arena->slot_of)
            unlink_if_last(arena);
    }
    for (int slot = 0; slot < SHUNT_ARENA_PROCS; slot++)
        if (watch_is_ours(arena, slot))
            close(arena->watch[slot].fd - 1);
    shunt_arena_unmap(arena);
    pthread_mutex_destroy(&arena->lock);
    free(arena->slot_of);
    free(arena);
    errno = kept;
}
