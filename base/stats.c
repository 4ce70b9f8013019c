/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of what ran where, see stats.h.
 *
 * Most programs call MPI from one thread, so the first thread that counts owns `mine` and adds to it by plain loads and
 * stores; it is known by its thread pointer, which costs one register move. Other threads add to `others` by locked
 * additions. (A later thread that gets the address of an ended owner inherits its role, which is harmless: there is
 * still one owner at a time.) Both, and what was counted before there was an arena, are summed up at the end.
 */
#include "base/stats.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/board.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/parcel.h"

struct counters {
    struct {
        uint64_t calls, bytes;
    } path[SHUNT_STATS_COLLS][SHUNT_NPATHS];
    uint64_t reason[SHUNT_STATS_COLLS][SHUNT_NREASONS];
    uint64_t lingered[SHUNT_STATS_COLLS], hosted[SHUNT_STATS_COLLS];
    struct {
        uint64_t calls, bytes;
    } staged[SHUNT_STATS_STAGED];
};

/* What a process shows in the arena. Only its own process writes it, but for `printed` of slot 0. */
struct page {
    uint32_t attached; /* will finish */
    uint32_t finished;
    uint32_t printed; /* slot 0: who sets it prints for the node */
    uint64_t links, links_ns, slowest_ns; /* proven to peers, in how much time; the slowest copy for that */
    _Alignas(64) struct counters counters;
};
static_assert(sizeof(struct page) <= SHUNT_STATS_BYTES, "the arena has no room for so many counters");

static struct counters early;           /* of the owner while there is no arena */
static struct counters others;          /* of threads that are not the owner; lingered, hosted, staged: of all */
static struct counters *mine = &early;  /* of the owner: `early` or in the arena */
static uintptr_t owner;                 /* thread pointer of the owner; 0: nobody has counted yet */

static struct {
    const char *const *colls, *const *algos;
    int ncolls, nalgos;
} names;

void shunt_stats_names(const char *const *colls, int ncolls, const char *const *algos, int nalgos)
{
    names.colls = colls;
    names.ncolls = ncolls;
    names.algos = algos;
    names.nalgos = nalgos;
}

/* ---- counting ---- */

/* Only the owner writes; atomic so that others may read at any time. */
static void add_plain(uint64_t *counter, uint64_t value)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + value, __ATOMIC_RELAXED);
}

/* A call of those that are always staged. */
static void count_staged(unsigned coll, unsigned path, uint64_t bytes)
{
    if (coll >= SHUNT_STATS_STAGED || path != SHUNT_PATH_STAGED)
        return;
    __atomic_fetch_add(&others.staged[coll].calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&others.staged[coll].bytes, bytes, __ATOMIC_RELAXED);
}

__attribute__((noinline)) static void count_locked(unsigned coll, unsigned path, enum shunt_reason reason,
                                                   uint64_t bytes)
{
    __atomic_fetch_add(&others.path[coll][path].calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&others.path[coll][path].bytes, bytes, __ATOMIC_RELAXED);
    if (reason != SHUNT_REASON_NONE)
        __atomic_fetch_add(&others.reason[coll][reason], 1, __ATOMIC_RELAXED);
}

void shunt_stats_count(unsigned coll, unsigned path, enum shunt_reason reason, uint64_t bytes)
{
    if (coll >= SHUNT_STATS_COLLS || path >= SHUNT_NPATHS || (unsigned)reason >= SHUNT_NREASONS) {
        if (coll >= SHUNT_STATS_COLLS)
            count_staged(coll - SHUNT_STATS_COLLS, path, bytes);
        return;
    }
    uintptr_t self = (uintptr_t)__builtin_thread_pointer();
    uintptr_t found = __atomic_load_n(&owner, __ATOMIC_RELAXED);
    if (found != self) {
        if (found || !__atomic_compare_exchange_n(&owner, &found, self, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            count_locked(coll, path, reason, bytes);
            return;
        }
    }
    struct counters *counters = __atomic_load_n(&mine, __ATOMIC_RELAXED);
    add_plain(&counters->path[coll][path].calls, 1);
    add_plain(&counters->path[coll][path].bytes, bytes);
    if (reason != SHUNT_REASON_NONE)
        add_plain(&counters->reason[coll][reason], 1);
}

void shunt_stats_lingered(unsigned coll)
{
    if (coll < SHUNT_STATS_COLLS)
        __atomic_fetch_add(&others.lingered[coll], 1, __ATOMIC_RELAXED);
}

void shunt_stats_hosted(unsigned coll)
{
    if (coll < SHUNT_STATS_COLLS)
        __atomic_fetch_add(&others.hosted[coll], 1, __ATOMIC_RELAXED);
}

void shunt_stats_attach(struct shunt_arena *arena)
{
    struct page *page = arena ? shunt_arena_stats(arena, shunt_arena_self(arena)) : NULL;
    if (page)
        __atomic_store_n(&page->attached, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&mine, page ? &page->counters : &early, __ATOMIC_RELAXED);
}

void shunt_stats_met(struct shunt_arena *arena, bool proven, double seconds, double slowest)
{
    struct page *page = shunt_arena_stats(arena, shunt_arena_self(arena));

    if (page == NULL)
        return;
    add_plain(&page->links, proven);
    add_plain(&page->links_ns, (uint64_t)(seconds * 1e9));
    __atomic_store_n(&page->slowest_ns, (uint64_t)(slowest * 1e9), __ATOMIC_RELAXED);
}

/* ---- printing ---- */

/* Both are arrays of the same number of counters and nothing else. */
static void add_counters(struct counters *sum, const struct counters *part)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)part;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        add_plain(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED));
}

static const char *path_name(unsigned path, char number[16])
{
    static const char *const words[SHUNT_PATH_GPU] = {
        [SHUNT_PATH_HOST] = "host", [SHUNT_PATH_STAGED] = "staged", [SHUNT_PATH_LOCAL] = "local"};
    if (path < SHUNT_PATH_GPU)
        return words[path];
    unsigned algo = path - SHUNT_PATH_GPU;
    if ((int)algo < names.nalgos)
        return names.algos[algo];
    snprintf(number, 16, "algorithm%u", algo);
    return number;
}

static const char *coll_name(unsigned coll, char number[16])
{
    if ((int)coll < names.ncolls)
        return names.colls[coll];
    snprintf(number, 16, "collective%u", coll);
    return number;
}

/* The lines of one collective; answers how many. */
static int print_coll(bool node, unsigned coll, const struct counters *sum)
{
    char coll_number[16], path_number[16];
    const char *name = coll_name(coll, coll_number);
    int lines = 0;
    for (unsigned path = 0; path < SHUNT_NPATHS; path++) {
        uint64_t calls = sum->path[coll][path].calls;
        if (!calls)
            continue;
        shunt_log_report(node, "  %-9s %-11s %12llu calls %16llu bytes", name, path_name(path, path_number),
                         (unsigned long long)calls, (unsigned long long)sum->path[coll][path].bytes);
        lines++;
    }
    for (unsigned reason = 0; reason < SHUNT_NREASONS; reason++) {
        if (!sum->reason[coll][reason])
            continue;
        shunt_log_report(node, "  %s: %llu staged: %s", name, (unsigned long long)sum->reason[coll][reason],
                         shunt_reason_text(reason));
        lines++;
    }
    if (sum->lingered[coll] != 0) {
        shunt_log_report(node, "  %s: %llu without a launch", name, (unsigned long long)sum->lingered[coll]);
        lines++;
    }
    if (sum->hosted[coll] != 0) {
        shunt_log_report(node, "  %s: %llu by host memory between GPUs (SHM)", name, (unsigned long long)sum->hosted[coll]);
        lines++;
    }
    return lines;
}

/* The lines of a call that is always staged, `coll` counted from the first such. */
static int print_staged(bool node, unsigned coll, const struct counters *sum)
{
    char number[16];
    const char *name = coll_name(SHUNT_STATS_COLLS + coll, number);

    if (!sum->staged[coll].calls)
        return 0;
    shunt_log_report(node, "  %-9s %-11s %12llu calls %16llu bytes", name, "staged",
                     (unsigned long long)sum->staged[coll].calls, (unsigned long long)sum->staged[coll].bytes);
    shunt_log_report(node, "  %s: %llu staged: %s", name, (unsigned long long)sum->staged[coll].calls,
                     shunt_reason_text(SHUNT_REASON_NO_ALGORITHM));
    return 2;
}

static void print_table(bool node, int processes, const struct counters *sum)
{
    shunt_log_report(node, "statistics of %d process%s:", processes, processes == 1 ? "" : "es");
    int lines = 0;
    for (unsigned coll = 0; coll < SHUNT_STATS_COLLS; coll++)
        lines += print_coll(node, coll, sum);
    for (unsigned coll = 0; coll < SHUNT_STATS_STAGED; coll++)
        lines += print_staged(node, coll, sum);
    if (!lines)
        shunt_log_report(node, "  no collective was called");
}

/*
 * Is nobody left to finish who is attached and lives, and has nobody else printed? Everybody first sets `finished`
 * and then looks at the others', both sequentially consistent, so of the last two at least one sees both.
 */
static bool is_last(struct shunt_arena *arena)
{
    for (int slot = 0; slot < SHUNT_ARENA_PROCS; slot++) {
        struct page *page = shunt_arena_stats(arena, slot);
        if (page && __atomic_load_n(&page->attached, __ATOMIC_SEQ_CST) &&
            !__atomic_load_n(&page->finished, __ATOMIC_SEQ_CST) && shunt_arena_alive(arena, slot))
            return false;
    }
    struct page *first = shunt_arena_stats(arena, 0);
    return first && !__atomic_exchange_n(&first->printed, 1, __ATOMIC_SEQ_CST);
}

/* What it took that GPUs met. */
static void print_links(struct shunt_arena *arena)
{
    uint64_t links = 0, most = 0, slowest = 0;

    for (int slot = 0; slot < SHUNT_ARENA_PROCS; slot++) {
        const struct page *page = shunt_arena_stats(arena, slot);
        if (page == NULL)
            continue;
        const uint64_t ns = __atomic_load_n(&page->links_ns, __ATOMIC_RELAXED);
        const uint64_t its = __atomic_load_n(&page->slowest_ns, __ATOMIC_RELAXED);
        links += __atomic_load_n(&page->links, __ATOMIC_RELAXED);
        most = ns > most ? ns : most;
        slowest = its > slowest ? its : slowest;
    }
    if (links != 0)
        shunt_log_report(true, "  links: %llu proven in %.1f ms of each process at most, the slowest copy took %.1f of %zu ms",
                         (unsigned long long)links, (double)most / 1e6, (double)slowest / 1e6, shunt_conf->probe_ms);
}

/* Messages that went from one GPU's memory to another's (parcel.h). */
static void print_parcels(struct shunt_arena *arena)
{
    uint64_t pulled = 0, moved = 0, bytes = 0, unlaunched = 0, packed = 0, unpacked = 0;
    uint64_t shipped = 0, shipped_bytes = 0;
    for (int slot = 0; slot < shunt_arena_local_size(arena); slot++) {
        const struct shunt_parcels *parcels = shunt_arena_parcels(arena, slot);
        pulled += atomic_load_explicit(&parcels->pulled, memory_order_relaxed);
        moved += atomic_load_explicit(&parcels->moved, memory_order_relaxed);
        bytes += atomic_load_explicit(&parcels->bytes, memory_order_relaxed);
        unlaunched += atomic_load_explicit(&parcels->unlaunched, memory_order_relaxed);
        packed += atomic_load_explicit(&parcels->packed, memory_order_relaxed);
        unpacked += atomic_load_explicit(&parcels->unpacked, memory_order_relaxed);
        shipped += atomic_load_explicit(&parcels->shipped, memory_order_relaxed);
        shipped_bytes += atomic_load_explicit(&parcels->shipped_bytes, memory_order_relaxed);
    }
    if (pulled + moved)
        shunt_log_report(true, "  messages: %llu fetched from the sender's buffer, %llu moved to host memory, %llu bytes",
                         (unsigned long long)pulled, (unsigned long long)moved, (unsigned long long)bytes);
    if (packed + unpacked)
        shunt_log_report(true, "  messages: %llu packed for their receivers, %llu unpacked by them",
                         (unsigned long long)packed, (unsigned long long)unpacked);
    if (unlaunched)
        shunt_log_report(true, "  messages: %llu fetched without a launch", (unsigned long long)unlaunched);
    if (shipped)
        shunt_log_report(true, "  messages: %llu to other nodes over UCX, %llu bytes", (unsigned long long)shipped,
                         (unsigned long long)shipped_bytes);
}

static void print_node(struct shunt_arena *arena)
{
    struct counters sum = {0};
    int processes = 0;
    for (int slot = 0; slot < SHUNT_ARENA_PROCS; slot++) {
        struct page *page = shunt_arena_stats(arena, slot);
        if (!page || !__atomic_load_n(&page->attached, __ATOMIC_RELAXED))
            continue;
        add_counters(&sum, &page->counters);
        processes++;
    }
    print_table(true, processes, &sum);
    print_links(arena);
    print_parcels(arena);
}

void shunt_stats_finish(struct shunt_arena *arena)
{
    struct page *page = arena ? shunt_arena_stats(arena, shunt_arena_self(arena)) : NULL;
    __atomic_store_n(&mine, &early, __ATOMIC_RELAXED);
    struct counters sum = {0};
    add_counters(&sum, &early);
    add_counters(&sum, &others);
    memset(&early, 0, sizeof early);
    memset(&others, 0, sizeof others);
    if (!page) {
        if (shunt_conf->stats)
            print_table(false, 1, &sum);
        return;
    }
    add_counters(&page->counters, &sum);
    __atomic_store_n(&page->finished, 1, __ATOMIC_SEQ_CST);
    if (shunt_conf->stats && is_last(arena))
        print_node(arena);
}
