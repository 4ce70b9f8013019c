/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lies in the arena, and this process's view of it. Only for base/arena*.c, base/pool.c, base/board.c
 * and base/tree.c.
 *
 *     header | processes | cards | statistics | parcels | buckets | refused | posts | rows | boards | rings
 *
 * Everything is counted in lines of 128 bytes (two cache lines, which processors fetch in pairs), positions from the
 * start of the arena. A new file is all zero, and zero is the valid first state of everything but the header, so each
 * process can begin as soon as the header is there and nobody waits for anybody's initialisation.
 *
 * Capacities, of an arena of S bytes for P processes (the launcher's local size, or SHUNT_ARENA_PROCS if it does not
 * tell): posts take S/8, so there are S/1024 of them; rows S/16, so S/8192; the processes take 23.5 KiB each; of what then
 * remains one half is for boards (a board of n members takes 128 + 128 n bytes) and the other for rings (16 KiB each, given
 * to a board at its first arrival; those of persistent operations have narrow ones, 256 bytes from the boards' half). The default of 8 MiB with 8 processes: 8192 posts, 1024 rows, some 2800 boards of 8
 * members, 200 rings.
 *
 * What a killed process may leave half done is harmless by the order of its stores: see base/pool.c.
 */
#ifndef SHUNT_BASE_ARENA_LAYOUT_H
#define SHUNT_BASE_ARENA_LAYOUT_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/board.h"
#include "base/identity.h"
#include "base/parcel.h"

enum {
    SHARED_LINE = 128,
    SHARED_BUCKETS = 1024,    /* of the table of boards */
    SHARED_REFUSED = 256,     /* keys that are remembered as refused */
    SHARED_ENTRIES = 256,     /* operations of a board that can be under way */
    SHARED_NARROW = 4,        /* the same of a narrow one */
    SHARED_TREES = 16,        /* of a board of more than SHUNT_BOARD_RANKS members */
    SHARED_GROUP = 8,         /* members that arrive in one word of such a board */
    SHARED_POSTS_MOST = 65536 /* an entry names its posts by 16 bits */
};

/* A counter alone on its line: written by one rank, read by those that wait. */
struct shared_line {
    _Alignas(SHARED_LINE) _Atomic uint64_t value;
};

/* ---- processes ---- */

/* Once READY or OUT a slot never changes: the sealed set is the READY ones. */
enum shared_state {
    SHARED_EMPTY,
    SHARED_JOINING, /* being written, or its world rank is not known yet */
    SHARED_READY,
    SHARED_OUT, /* was not ready when the set was sealed */
};

struct shared_proc {
    _Alignas(SHARED_LINE) _Atomic uint32_t state; /* enum shared_state */
    _Atomic uint32_t left;                        /* left in order: its end will be no failure */
    _Atomic int32_t world_rank;
    _Atomic int32_t channel; /* 1 + its number among those that used device memory; 0: did not */
    _Atomic uint32_t doze;   /* see doze.c */
    uint32_t net;            /* its settings ask for the network between nodes */
    uint64_t node;           /* of its identity: only those of one node are in each other's set */
    struct shunt_process process;
    _Alignas(SHARED_LINE) uint64_t cpus[16]; /* that it may run on, a bit each */
};

/* ---- boards ---- */

/* What one rank brings to one operation, and, if it is the one to decide, what it decides. */
struct shared_post {
    _Alignas(SHARED_LINE) _Atomic uint32_t busy;
    _Atomic uint32_t yielded;     /* this member agrees that the operation is staged after all */
    struct shunt_verdict verdict; /* written before the entry's word names this member as the decider */
    struct shunt_post post;       /* written before the entry's word says that this member has arrived */
};

/* Belongs to the post that names it, and is given back with it. */
struct shared_row {
    _Alignas(SHARED_LINE) struct shunt_row row;
    _Atomic uint32_t busy;
};

/* An operation under way: see board.c for the word. */
struct shared_entry {
    _Alignas(64) _Atomic uint64_t word;
    uint16_t post[SHUNT_BOARD_RANKS]; /* of each member that has arrived; written by that member alone */
};

/* An operation of a board of more members: see tree.c. Each word has a cache line. */
struct shared_tree {
    _Alignas(SHARED_LINE) _Atomic uint64_t root;
    uint32_t decider; /* the member whose post has the verdict; written before the root's word says RUN */
    struct {
        _Alignas(64) _Atomic uint64_t word;
    } group[SHUNT_TREE_RANKS / SHARED_GROUP];
    uint16_t post[SHUNT_TREE_RANKS]; /* as in shared_entry */
};

struct shared_ring {
    union {
        struct shared_entry entry[SHARED_ENTRIES];
        struct shared_tree tree[SHARED_TREES];
    };
};

/* Followed by a line for each member. All but `ring` and `poisoned` change under the table lock only. */
struct shared_board {
    _Alignas(SHARED_LINE) _Atomic uint32_t next; /* of the same bucket: a line, or 0 */
    _Atomic uint32_t ring;                       /* a line, or 0: nobody has arrived yet */
    _Atomic uint32_t poisoned;                   /* a member could not open: every operation stages */
    uint32_t n;
    uint32_t entries; /* of its ring; SHARED_NARROW: which is then a block of the boards' lines */
    uint32_t closed; /* members that have closed: the last of all n frees, however late some open */
    struct shunt_key key;
    uint8_t slot[SHUNT_TREE_RANKS];
    struct shared_line passed[]; /* operations that each member has passed */
};

/* A key whose board could not be had by its first member, until all members have asked. */
struct shared_refused {
    struct shunt_key key;
    uint32_t n; /* 0: free */
    uint32_t asked;
};

/* Memory for blocks of a few fixed sizes: fresh lines and, for each size, a list of blocks given back. */
struct shared_pool {
    _Atomic uint32_t fresh, end; /* lines never used yet */
    _Atomic uint32_t freed[SHUNT_TREE_RANKS + 1]; /* by number of members (rings: 0): a line, or 0 */
};

/* ---- the whole ---- */

#define SHARED_MAGIC  0x34616e6572417374u /* changes with the layout */
#define SHARED_SEALED 0x80000000u

struct shared_arena {
    _Alignas(SHARED_LINE) uint64_t magic;
    uint64_t nonce[2]; /* random: tells this arena from every other of the same name */
    uint64_t bytes;
    struct shunt_process creator;
    uint32_t procs, posts, rows, rings_most, lines_most; /* how many there can be; lines: of boards */
    uint32_t procs_at, cards_at, stats_at, parcels_at, buckets_at, refused_at, posts_at, rows_at; /* lines */
    struct shared_pool boards, rings; /* table lock */
    pthread_mutex_t table_lock;       /* robust; boards, rings, refused keys */
    _Atomic uint32_t full;            /* no board is created any more: table lock */
    _Alignas(SHARED_LINE) _Atomic uint32_t roll; /* slots given out, and SHARED_SEALED */
    _Atomic uint32_t device_used;
    _Atomic uint32_t channels;
    _Atomic uint32_t broken; /* the launcher told some rank wrongly: nobody can say who is who, all operations stage */
    _Alignas(SHARED_LINE) pthread_mutex_t launch_lock; /* robust; the decisions, one after the other */
    uint64_t tickets;                                  /* taken so far; launch lock */
};

static_assert(sizeof(struct shared_line) == SHARED_LINE, "a counter has a line");
static_assert(sizeof(struct shared_post) == SHARED_LINE, "a post is a line");
static_assert(sizeof(struct shared_row) == 512, "a row is four lines");
static_assert(sizeof(struct shared_entry) == 64, "an entry is one cache line");
static_assert(sizeof(struct shared_ring) % SHARED_LINE == 0, "rings are whole lines");
static_assert(sizeof(struct shared_ring) == SHARED_ENTRIES * sizeof(struct shared_entry), "a ring of trees is no larger");
static_assert(SHARED_NARROW * sizeof(struct shared_entry) == 2 * SHARED_LINE, "a narrow ring is as long as a board of one member");
static_assert(SHUNT_TREE_RANKS / SHARED_GROUP <= 8, "a root's word has two bits for each group");
static_assert(sizeof(struct shared_board) == SHARED_LINE, "a board is a line and one for each member");
static_assert(SHUNT_CARD_BYTES % SHARED_LINE == 0 && SHUNT_STATS_BYTES % SHARED_LINE == 0, "pages are whole lines");
static_assert(SHUNT_ARENA_PROCS <= 256, "a board names slots by 8 bits");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics in shared memory must be lock-free");

/* This process's view. Threads may use it together, once sealed. */
struct shunt_arena {
    struct shared_arena *shared;
    size_t bytes;
    char path[64];
    dev_t device; /* of the file: it is unlinked only if it is still this one */
    ino_t inode;
    pid_t owner; /* a fork child has this view too, but is not the member */
    int self, local_size;
    bool net, apart; /* once sealed: some rank of the machine asks for the network; some are on another node than others */
    uint64_t node;
    struct shunt_arena *machine; /* with SHUNT_NODE, until sealed: where all ranks of the machine meet; owned */
    int world_size;    /* 0: not told yet */
    int16_t *slot_of;  /* by world rank, world_size long, once sealed */
    pthread_mutex_t lock; /* of this process's threads: watch and channel */
    struct {
        int fd; /* pidfd + 1; 0: none yet */
        dev_t device;
        ino_t inode;
        bool ended; /* proven */
    } watch[SHUNT_ARENA_PROCS];
    _Atomic uint32_t post_hint, row_hint; /* where the next free ones may be */
};

static inline void *shared_at(const struct shared_arena *shared, uint32_t line)
{
    return (char *)shared + (size_t)line * SHARED_LINE;
}

static inline struct shared_proc *shared_proc(const struct shared_arena *shared, int slot)
{
    return (struct shared_proc *)shared_at(shared, shared->procs_at) + slot;
}

static inline struct shared_post *shared_post(const struct shared_arena *shared, uint32_t index)
{
    return (struct shared_post *)shared_at(shared, shared->posts_at) + index;
}

static inline struct shared_row *shared_row(const struct shared_arena *shared, uint32_t index)
{
    return (struct shared_row *)shared_at(shared, shared->rows_at) + index;
}

/* ---- base/arena.c ---- */

/* A robust lock of the arena. False if it cannot be had any more: then do without what it protects. */
bool shunt_shared_lock(pthread_mutex_t *lock);
void shunt_shared_unlock(pthread_mutex_t *lock);

/* Has the process of `slot` left, in order or not, so that nothing more is to be expected of it? */
bool shunt_arena_gone(struct shunt_arena *arena, int slot);

/* More ranks than processors? Known once sealed. */
bool shunt_arena_crowded(void);

/* ---- base/arena_file.c ---- */

/* Open or create the file arena->path and map it. A full or limited /dev/shm: SHUNT_ERR_MEMORY, said once. */
enum shunt_status shunt_arena_map(struct shunt_arena *arena);
void shunt_arena_unmap(struct shunt_arena *arena);

/* Unlink the file if the path still leads to this arena. */
void shunt_arena_unlink(const struct shunt_arena *arena);

/* ---- base/pool.c ---- */

/* The board of `key`, found or created; SHUNT_ERR_LIMIT: none, and none for any other member either. */
enum shunt_status shunt_pool_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, unsigned entries,
                                  struct shared_board **board_p);
/* This member cannot use the board of `key`: then nobody shall. Counts as its open and close. */
void shunt_pool_refuse(struct shunt_arena *arena, struct shunt_key key, int n);
void shunt_pool_close(struct shunt_arena *arena, struct shared_board *board);

/* The board's ring; NULL if there is none left. */
struct shared_ring *shunt_pool_ring(struct shunt_arena *arena, struct shared_board *board);

/* A free post, or -1. Given back by whoever leaves an operation last. */
int shunt_post_take(struct shunt_arena *arena);
void shunt_post_give(struct shunt_arena *arena, uint32_t index); /* and its row */
void shunt_row_give(struct shunt_arena *arena, const struct shunt_post *post);

/* What is in use, for tests and shunt-info. */
struct shunt_pool_use {
    uint32_t boards, rings, posts;
    uint32_t lines_most, rings_most, posts_most; /* how many there can be; lines: of boards */
};
void shunt_pool_count(struct shunt_arena *arena, struct shunt_pool_use *use);

#endif
