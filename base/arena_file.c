/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of the arena: made under a name of its own, complete, and then linked to the common name, which only the
 * first can do. So a file under the common name is always usable and nobody waits for the process that makes it.
 */
#include "base/arena_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"

#define FOLDER "/dev/shm"
enum {
    UNFINISHED_SECONDS = 60, /* older and still without a creator's name: whoever made it was killed at once */
    PIECE = 1 << 20,
};

static enum shunt_status no_memory(const char *what, int error)
{
    shunt_warn_once(SHUNT_REASON_NO_ARENA, FOLDER ": %s: %s", what, strerror(error));
    return error == ENOSPC || error == ENOMEM || error == EFBIG || error == EDQUOT ? SHUNT_ERR_MEMORY
                                                                                  : SHUNT_ERR_SYSTEM;
}

/*
 * Reserve the space now: a page of a full /dev/shm that is touched without is a SIGBUS. Not posix_fallocate: where
 * the kernel cannot, that writes into the file, over what others have written meanwhile. In pieces, since a signal
 * (a profiler's timer) undoes a call. 0, or an errno.
 */
static int reserve(int fd, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t piece = bytes - at < PIECE ? bytes - at : PIECE;
        if (fallocate(fd, 0, (off_t)at, (off_t)piece) == 0)
            at += piece;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

/* ---- making one ---- */

/* Lay out `header` for its bytes and procs. False if that is too small to be of use. */
static bool plan_layout(struct shared_arena *header)
{
    uint64_t lines = header->bytes / SHARED_LINE, at = 0;
    if (lines > UINT32_MAX)
        lines = UINT32_MAX;
    uint64_t posts = header->bytes / 8 / sizeof(struct shared_post);
    header->posts = posts < SHARED_POSTS_MOST ? (uint32_t)posts : SHARED_POSTS_MOST;
    uint64_t rows = header->bytes / 16 / sizeof(struct shared_row);
    header->rows = rows < UINT16_MAX ? (uint32_t)rows : UINT16_MAX; /* a post names its row by 16 bits */
#define PLACE(field, size) (header->field = (uint32_t)at, at += ((uint64_t)(size) + SHARED_LINE - 1) / SHARED_LINE)
    at = sizeof *header / SHARED_LINE;
    PLACE(procs_at, header->procs * sizeof(struct shared_proc));
    PLACE(cards_at, header->procs * SHUNT_CARD_BYTES);
    PLACE(stats_at, header->procs * SHUNT_STATS_BYTES);
    PLACE(parcels_at, header->procs * sizeof(struct shunt_parcels));
    PLACE(buckets_at, SHARED_BUCKETS * sizeof(uint32_t));
    PLACE(refused_at, SHARED_REFUSED * sizeof(struct shared_refused));
    PLACE(posts_at, header->posts * sizeof(struct shared_post));
    PLACE(rows_at, header->rows * sizeof(struct shared_row));
#undef PLACE
    const uint64_t ring = sizeof(struct shared_ring) / SHARED_LINE;
    if (at + 2 * ring > lines)
        return false;
    uint64_t half = (lines - at) / 2 / ring * ring; /* rings end at the end */
    header->rings_most = (uint32_t)(half / ring);
    header->lines_most = (uint32_t)(lines - half - at);
    atomic_init(&header->boards.fresh, (uint32_t)at);
    atomic_init(&header->boards.end, (uint32_t)(lines - half));
    atomic_init(&header->rings.fresh, (uint32_t)(lines - half));
    atomic_init(&header->rings.end, (uint32_t)lines);
    return true;
}

static bool init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes))
        return false;
    /* robust: a holder that is killed must not block the node */
    bool good = !pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) &&
                !pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) &&
                !pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return good;
}

/* Fill the new file's header. The creator comes first, so that a file left by a killed one can be told. */
static enum shunt_status init_header(int fd, const struct shared_arena *plan)
{
    struct shared_arena *header = mmap(NULL, sizeof *header, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED)
        return no_memory("mmap", errno);
    header->creator = plan->creator;
    memcpy(header->nonce, plan->nonce, sizeof header->nonce);
    header->bytes = plan->bytes;
    header->procs = plan->procs;
    bool good = plan_layout(header) && init_lock(&header->table_lock) && init_lock(&header->launch_lock);
    header->magic = SHARED_MAGIC;
    munmap(header, sizeof *header);
    return good ? SHUNT_OK : no_memory("pthread_mutex_init", ENOMEM);
}

/* Too large for a limit on files would be a SIGXFSZ. */
static bool over_limit(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes;
}

static enum shunt_status plan_new(int local_size, struct shared_arena *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->bytes = shunt_conf->arena_size;
    plan->procs = local_size > 0 && local_size < SHUNT_ARENA_PROCS ? (uint32_t)local_size : SHUNT_ARENA_PROCS;
    plan->creator = shunt_process_self();
    if (getrandom(plan->nonce, sizeof plan->nonce, GRND_NONBLOCK) != sizeof plan->nonce) {
        plan->nonce[0] = shunt_nanoseconds(); /* very early in the life of a machine */
        plan->nonce[1] = (uint64_t)plan->creator.pid;
    }
    if (!plan_layout(plan)) {
        shunt_warn_once(SHUNT_REASON_NO_ARENA, "SHUNT_ARENA_SIZE=%zu is too small for %u processes",
                        shunt_conf->arena_size, plan->procs);
        return SHUNT_ERR_MEMORY;
    }
    return over_limit(plan->bytes) ? no_memory("limit on the size of files (RLIMIT_FSIZE)", EFBIG) : SHUNT_OK;
}

/* Make a file and link it to `path`. SHUNT_AGAIN: another was first. */
static enum shunt_status create_file(const char *path, int local_size)
{
    struct shared_arena plan;
    enum shunt_status status = plan_new(local_size, &plan);
    if (status != SHUNT_OK)
        return status;
    char own[128];
    snprintf(own, sizeof own, "%s.%016llx", path, (unsigned long long)plan.nonce[0]);
    int fd = open(own, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return no_memory("open", errno);
    int error = ftruncate(fd, (off_t)plan.bytes) ? errno : reserve(fd, sizeof plan);
    status = error ? no_memory("no space for the arena", error) : init_header(fd, &plan);
    if (status == SHUNT_OK && link(own, path))
        status = errno == EEXIST ? SHUNT_AGAIN : no_memory("link", errno);
    unlink(own);
    close(fd);
    return status;
}

/* ---- those of dead jobs ---- */

/*
 * Is everybody who ever had the arena in this file proven to have ended? Read, not mapped: the
 * space may not be reserved. A slot without a process was given out to one that was killed before it wrote its name
 * (or that writes it just now: then that one ends up alone, and everything of its ranks stages).
 */
static bool is_stale(int fd, const struct stat *info)
{
    struct shared_arena header;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return time(NULL) - info->st_mtime > UNFINISHED_SECONDS;
    if (!header.creator.pid)
        return time(NULL) - info->st_mtime > UNFINISHED_SECONDS;
    if (!shunt_process_ended(&header.creator))
        return false;
    uint32_t count = header.magic == SHARED_MAGIC ? atomic_load(&header.roll) & ~SHARED_SEALED : 0;
    for (uint32_t slot = 0; slot < count && slot < header.procs; slot++) {
        struct shared_proc proc;
        off_t at = (off_t)header.procs_at * SHARED_LINE + (off_t)(slot * sizeof proc);
        if (pread(fd, &proc, sizeof proc, at) != (ssize_t)sizeof proc)
            return false;
        if (proc.process.pid && !shunt_process_ended(&proc.process))
            return false;
    }
    return true;
}

/* An own regular file that nobody else may write. */
static int open_own(const char *path, struct stat *info)
{
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, info) == 0 && S_ISREG(info->st_mode) && info->st_uid == geteuid() && !(info->st_mode & 077))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

static void unlink_if(const char *path, dev_t device, ino_t inode)
{
    struct stat now;
    if (lstat(path, &now) == 0 && now.st_dev == device && now.st_ino == inode)
        unlink(path);
}

/* A job killed while it started leaves its file. The next one that starts, of whatever name, removes it. */
static void sweep(void)
{
    DIR *folder = opendir(FOLDER);
    if (!folder)
        return;
    for (struct dirent *item; (item = readdir(folder));) {
        if (strncmp(item->d_name, SHUNT_IDENTITY_PREFIX, strlen(SHUNT_IDENTITY_PREFIX)))
            continue;
        char path[sizeof FOLDER + sizeof item->d_name];
        snprintf(path, sizeof path, FOLDER "/%s", item->d_name);
        struct stat info;
        int fd = open_own(path, &info);
        if (fd < 0)
            continue;
        if (is_stale(fd, &info))
            unlink_if(path, info.st_dev, info.st_ino);
        close(fd);
    }
    closedir(folder);
}

/* ---- using one ---- */

void shunt_arena_unlink(const struct shunt_arena *arena)
{
    int kept = errno;
    unlink_if(arena->path, arena->device, arena->inode);
    errno = kept;
}

/*
 * Map the arena in `fd`. Everybody sees to it that the whole is reserved: then nobody depends on the one who made the
 * file.
 */
static enum shunt_status map_file(struct shunt_arena *arena, int fd, const struct shared_arena *header, bool reserved)
{
    int error = over_limit(header->bytes) ? EFBIG : reserved ? 0 : reserve(fd, header->bytes);
    if (error)
        return no_memory("no space for the arena", error);
    void *at = mmap(NULL, header->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return no_memory("mmap", errno);
    arena->shared = at;
    arena->bytes = header->bytes;
    return SHUNT_OK;
}

static enum shunt_status use_file(struct shunt_arena *arena, int fd, const struct stat *info)
{
    struct shared_arena header;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header || header.magic != SHARED_MAGIC ||
        header.bytes != (uint64_t)info->st_size) {
        shunt_warn_once(SHUNT_REASON_NO_ARENA, "%s was made by another version of shunt", arena->path);
        return SHUNT_ERR_SYSTEM;
    }
    /* what is reserved stays, so a count of blocks of 512 bytes that was enough once is enough */
    bool reserved = (uint64_t)info->st_blocks * 512 >= header.bytes;
    enum shunt_status status = map_file(arena, fd, &header, reserved);
    if (status != SHUNT_OK && !(atomic_load(&header.roll) & ~SHARED_SEALED))
        shunt_arena_unlink(arena); /* nobody is in it, so nobody would remove it */
    return status;
}

static enum shunt_status try_map(struct shunt_arena *arena)
{
    struct stat info;
    int fd = open_own(arena->path, &info);
    if (fd < 0 && errno != ENOENT)
        return no_memory("open", errno);
    if (fd < 0) {
        sweep();
        enum shunt_status status = create_file(arena->path, arena->local_size);
        return status == SHUNT_OK ? SHUNT_AGAIN : status;
    }
    arena->device = info.st_dev;
    arena->inode = info.st_ino;
    enum shunt_status status = SHUNT_AGAIN;
    if (is_stale(fd, &info))
        shunt_arena_unlink(arena);
    else
        status = use_file(arena, fd, &info);
    close(fd);
    return status;
}

enum shunt_status shunt_arena_map(struct shunt_arena *arena)
{
    /* each turn but the last found a file that went away, or made one: more than a few are not chance */
    enum shunt_status status = SHUNT_AGAIN;
    for (int turn = 0; turn < 16 && status == SHUNT_AGAIN; turn++)
        status = try_map(arena);
    return status == SHUNT_AGAIN ? no_memory("files come and go", EAGAIN) : status;
}

void shunt_arena_unmap(struct shunt_arena *arena)
{
    if (arena->shared)
        munmap(arena->shared, arena->bytes);
    arena->shared = NULL;
}
