/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses and blocks. Device memory has addresses in this process, so that pointers can be told
 * apart, but they are reserved without access: whatever the CPU does with them faults, as on
 * hardware. Both lists are arrays sorted by address, guarded by one lock for readers and writers.
 *
 * The addresses lie where neither the executor nor a sanitizer has anything, at a place that
 * differs from process to process, so that nobody gets away with using another process's address. A
 * freed address is handed out again first.
 */
#include "sim/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The thread sanitizer leaves programs few addresses, and refuses all mappings elsewhere. */
extern void __tsan_init(void) __attribute__((weak));

#define FIRST_ADDRESS (__tsan_init ? 0x558000000000ull : 0x200000000000ull)
#define LAST_ADDRESS  (__tsan_init ? 0x568000000000ull : 0x500000000000ull)
#define START_BITS    (__tsan_init ? 5 : 10) /* of the process's number, 16 GiB each */

struct range {
    CUdeviceptr address;
    size_t bytes;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct range *ranges;
static size_t n_ranges, range_room;
static struct sim_block **blocks;
static size_t n_blocks, block_room;

void sim_table_lock(void)
{
    pthread_rwlock_wrlock(&lock);
}

void sim_table_read_lock(void)
{
    pthread_rwlock_rdlock(&lock);
}

void sim_table_unlock(void)
{
    pthread_rwlock_unlock(&lock);
}

/* Make room for one more at `index` of an array; false without memory */
static bool open_gap(void **array, size_t *n, size_t *room, size_t size, size_t index)
{
    if (*n == *room) {
        size_t more = *room ? 2 * *room : 64;
        void *grown = realloc(*array, more * size);
        if (!grown)
            return false;
        *array = grown;
        *room = more;
    }
    char *at = (char *)*array + index * size;
    memmove(at + size, at, (*n - index) * size);
    ++*n;
    return true;
}

/* Take the addresses, if nothing is there yet */
static bool take(CUdeviceptr address, size_t bytes)
{
    void *want = (void *)(uintptr_t)address;
    int saved = errno;
    void *got = mmap(want, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    errno = saved;
    if (got == want)
        return true;
    if (got != MAP_FAILED)
        munmap(got, bytes);
    return false;
}

/*
 * The first gap at or above `next`; *index: where its range belongs. A page stays free on either
 * side: what runs over the end of one range does not end up in the next. Only at `next` itself if
 * `exactly`.
 */
static CUdeviceptr find_gap(CUdeviceptr next, size_t bytes, size_t align, bool exactly,
                            size_t *index)
{
    CUdeviceptr first = next;
    for (size_t i = 0; next + bytes + SIM_PAGE <= LAST_ADDRESS && (!exactly || next == first);) {
        CUdeviceptr end = i < n_ranges ? ranges[i].address : LAST_ADDRESS;
        if (next + bytes + SIM_PAGE <= end) {
            *index = i;
            if (take(next, bytes))
                return next;
            next = sim_round(next + (1ull << 30), align); /* somebody else's mapping */
        } else {
            CUdeviceptr after = sim_round(ranges[i].address + ranges[i].bytes + SIM_PAGE, align);
            next = after > next ? after : next;
            i++;
        }
    }
    return 0;
}

CUdeviceptr sim_reserve(size_t bytes, size_t align, CUdeviceptr want)
{
    CUdeviceptr start = FIRST_ADDRESS + ((CUdeviceptr)(getpid() & ((1 << START_BITS) - 1)) << 34), at = 0;
    size_t index;
    if (bytes > LAST_ADDRESS - FIRST_ADDRESS)
        return 0;
    if (want && want % align == 0)
        at = find_gap(want, bytes, align, true, &index);
    if (!at)
        at = find_gap(sim_round(start, align), bytes, align, false, &index);
    if (!at)
        return 0;
    if (!open_gap((void **)&ranges, &n_ranges, &range_room, sizeof *ranges, index)) {
        munmap((void *)(uintptr_t)at, bytes);
        return 0;
    }
    ranges[index] = (struct range){at, bytes};
    return at;
}

void sim_unreserve(CUdeviceptr address, size_t bytes)
{
    for (size_t i = 0; i < n_ranges; i++)
        if (ranges[i].address == address) {
            munmap((void *)(uintptr_t)address, bytes);
            memmove(&ranges[i], &ranges[i + 1], (--n_ranges - i) * sizeof *ranges);
            return;
        }
}

bool sim_reservation_of(CUdeviceptr p, CUdeviceptr *start, size_t *bytes)
{
    for (size_t i = 0; i < n_ranges; i++)
        if (p - ranges[i].address < ranges[i].bytes) {
            *start = ranges[i].address;
            *bytes = ranges[i].bytes;
            return true;
        }
    return false;
}

bool sim_reserved(CUdeviceptr address, size_t bytes)
{
    CUdeviceptr start;
    size_t room;
    return sim_reservation_of(address, &start, &room) && bytes <= start + room - address;
}

/* How many blocks begin at or below `p` */
static size_t below(CUdeviceptr p)
{
    size_t low = 0, high = n_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle]->address <= p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sim_block *sim_block_at(CUdeviceptr p)
{
    size_t i = below(p);
    return i && p - blocks[i - 1]->address < blocks[i - 1]->bytes ? blocks[i - 1] : NULL;
}

struct sim_block *sim_block_above(CUdeviceptr p)
{
    size_t i = below(p);
    return i < n_blocks ? blocks[i] : NULL;
}

CUresult sim_block_add(struct sim_block *block)
{
    size_t i = below(block->address);
    if (!open_gap((void **)&blocks, &n_blocks, &block_room, sizeof *blocks, i))
        return CUDA_ERROR_OUT_OF_MEMORY;
    blocks[i] = block;
    return CUDA_SUCCESS;
}

void sim_block_remove(struct sim_block *block)
{
    size_t i = below(block->address);
    if (i && blocks[i - 1] == block)
        memmove(&blocks[i - 1], &blocks[i], (n_blocks-- - i) * sizeof *blocks);
}

void sim_block_each(void (*visit)(struct sim_block *block, void *data), void *data)
{
    for (size_t i = 0; i < n_blocks; i++) {
        struct sim_block *block = blocks[i];
        visit(block, data);
        if (i < n_blocks && blocks[i] != block)
            i--; /* the visitor has removed it */
    }
}

struct sim_request sim_block_request(const struct sim_block *b)
{
    struct sim_request map = {
        .verb = SIM_MAP, .address = b->map_address, .bytes = b->map_bytes, .offset = b->offset};
    switch (b->kind) {
    case SIM_DEVICE:
    case SIM_POOL:
        map.pid = b->ctx->executor.pid;
        map.fd = SIM_FD_DEVICE;
        break;
    case SIM_HOST:
    case SIM_MANAGED:
        map.fd = SIM_FD_HOST; /* each executor has it under this number */
        break;
    case SIM_VMM:
        return sim_physical_request(b);
    case SIM_IMPORT:
        return sim_import_request(b);
    case SIM_REGISTERED:
        return sim_registered_request(b);
    }
    return map;
}
