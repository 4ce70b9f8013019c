/* SPDX-License-Identifier: BSD-3-Clause */
/* Where moved data lies; spill.h. */
#include "pt2pt/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "cuda/gpu.h"
#include "cuda/mailbox.h"

#define WINDOW_BITS 40 /* of each parcel in the file: no message is longer */

enum { NONE = -1, NEVER = -2 };

static struct {
    pthread_mutex_t lock;
    int file;                             /* own */
    bool offered[SHUNT_ARENA_PROCS], refused[SHUNT_ARENA_PROCS];
    int box;                              /* own mailbox */
    struct shunt_mailbox_address address; /* of it */
    int files[SHUNT_ARENA_PROCS];         /* of others, + 1; 0: not come yet */
} spill = { .lock = PTHREAD_MUTEX_INITIALIZER, .file = NONE, .box = NONE };

_Static_assert(sizeof(struct shunt_mailbox_address) == sizeof((struct shunt_parcels *)0)->mailbox, "an address fits");

/* ---- the sender ---- */

/* With a limit on files a write beyond it would be a signal. */
static int make_file(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY)
        return NEVER;
    int file = memfd_create("shunt", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)SHUNT_PARCELS << WINDOW_BITS) == 0)
        return file;
    shunt_info("message", "no memory to move messages to: %s", strerror(errno));
    if (file >= 0)
        close(file);
    return NEVER;
}

/* With the lock held. */
static bool post_file(struct shunt_arena *arena, int slot)
{
    struct shunt_letter letter = { .slot = shunt_arena_self(arena) };
    struct shunt_mailbox_address to;

    memcpy(&to, shunt_arena_parcels(arena, slot)->mailbox, sizeof to);
    enum shunt_status status = shunt_mailbox_send(&to, &letter, spill.file);
    spill.refused[slot] = status == SHUNT_PASS;
    return status == SHUNT_OK;
}

bool shunt_spill_offer(struct shunt_arena *arena, int slot)
{
    if (__atomic_load_n(&spill.offered[slot], __ATOMIC_ACQUIRE))
        return true;
    pthread_mutex_lock(&spill.lock);
    if (spill.file == NONE)
        spill.file = make_file();
    if (spill.file >= 0 && !spill.offered[slot] && !spill.refused[slot])
        __atomic_store_n(&spill.offered[slot], post_file(arena, slot), __ATOMIC_RELEASE);
    bool offered = spill.offered[slot];
    pthread_mutex_unlock(&spill.lock);
    return offered;
}

enum shunt_status shunt_spill_store(uint32_t index, const void *device, uint64_t bytes)
{
    off_t at = (off_t)index << WINDOW_BITS;

    /* Pages that are not there when they are touched would be a signal. */
    if (bytes >> WINDOW_BITS != 0 || fallocate(spill.file, 0, at, (off_t)bytes) != 0)
        return SHUNT_ERR_MEMORY;
    void *window = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, spill.file, at);
    if (window == MAP_FAILED) {
        shunt_spill_drop(index, bytes);
        return SHUNT_ERR_MEMORY;
    }
    enum shunt_status status = shunt_stage_out(window, device, bytes);
    munmap(window, bytes);
    return status;
}

void shunt_spill_drop(uint32_t index, uint64_t bytes)
{
    fallocate(spill.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)index << WINDOW_BITS, (off_t)bytes);
}

/* ---- the receiver ---- */

bool shunt_spill_open(struct shunt_parcels *mine)
{
    pthread_mutex_lock(&spill.lock);
    if (spill.box == NONE && shunt_mailbox_open(&spill.box, &spill.address) != SHUNT_OK)
        spill.box = NEVER;
    memcpy(mine->mailbox, &spill.address, sizeof spill.address);
    bool open = spill.box >= 0;
    pthread_mutex_unlock(&spill.lock);
    return open;
}

void shunt_spill_collect(struct shunt_arena *arena)
{
    struct shunt_letter letter;
    int file;

    pthread_mutex_lock(&spill.lock);
    while (spill.box >= 0 && shunt_mailbox_next(spill.box, &spill.address, &letter, &file)) {
        if (letter.slot >= 0 && letter.slot < shunt_arena_local_size(arena) && spill.files[letter.slot] == 0)
            spill.files[letter.slot] = file + 1;
        else
            close(file);
    }
    pthread_mutex_unlock(&spill.lock);
}

enum shunt_status shunt_spill_map(struct shunt_arena *arena, int slot, uint32_t index, uint64_t bytes, void **window)
{
    shunt_spill_collect(arena);
    if (spill.files[slot] == 0)
        return SHUNT_ERR_SYSTEM;
    *window = mmap(NULL, bytes, PROT_READ, MAP_SHARED, spill.files[slot] - 1, (off_t)index << WINDOW_BITS);
    return *window == MAP_FAILED ? SHUNT_ERR_MEMORY : SHUNT_OK;
}

void shunt_spill_close(void)
{
    pthread_mutex_lock(&spill.lock);
    if (spill.file >= 0)
        close(spill.file);
    if (spill.box >= 0)
        close(spill.box);
    spill.file = spill.box = NEVER;
    for (int slot = 0; slot < SHUNT_ARENA_PROCS; slot++) {
        if (spill.files[slot] != 0)
            close(spill.files[slot] - 1);
        spill.files[slot] = 0;
        spill.offered[slot] = false;
    }
    pthread_mutex_unlock(&spill.lock);
}
