/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Boards, their rings and posts: where they come from in the arena, and when they are free again.
 *
 * Boards and rings change hands under the table lock. Any process may be killed at any instruction, also with the lock
 * held; the next holder then goes on with what it finds. So every list is in order after each single store, and the
 * stores are atomic with release order, which keeps them in the order written here. The worst that a killed process
 * leaves is a block that is in no list.
 *
 * Members open a board at different times: one may have closed it before another opens it (communicators freed at
 * once). It is therefore freed when all n members have closed, not when nobody happens to use it: a new board made
 * for the late one would wait for operations that the others have long done.
 */
#include "base/arena_layout.h"

#include <string.h>

/* ---- blocks ---- */

static uint32_t lines_of(int n)
{
    return 1 + (uint32_t)n;
}

/* A zeroed block of `lines`, from those freed of size class `n` or fresh; 0: none. The freed begin with a link. */
static uint32_t take_block(struct shared_arena *shared, struct shared_pool *pool, int n, uint32_t lines)
{
    uint32_t at = atomic_load_explicit(&pool->freed[n], memory_order_relaxed);
    if (at) {
        _Atomic uint32_t *link = shared_at(shared, at);
        atomic_store_explicit(&pool->freed[n], atomic_load_explicit(link, memory_order_relaxed), memory_order_release);
        memset(shared_at(shared, at), 0, (size_t)lines * SHARED_LINE);
        return at;
    }
    at = atomic_load_explicit(&pool->fresh, memory_order_relaxed);
    if (lines > atomic_load_explicit(&pool->end, memory_order_relaxed) - at)
        return 0;
    atomic_store_explicit(&pool->fresh, at + lines, memory_order_release); /* fresh lines are zero */
    return at;
}

static void give_block(struct shared_arena *shared, struct shared_pool *pool, int n, uint32_t at)
{
    _Atomic uint32_t *link = shared_at(shared, at);
    atomic_store_explicit(link, atomic_load_explicit(&pool->freed[n], memory_order_relaxed), memory_order_release);
    atomic_store_explicit(&pool->freed[n], at, memory_order_release);
}

/* ---- the table ---- */

static _Atomic uint32_t *bucket_of(const struct shared_arena *shared, struct shunt_key key)
{
    _Atomic uint32_t *buckets = shared_at(shared, shared->buckets_at);
    return &buckets[key.word[0] % SHARED_BUCKETS]; /* the key is a hash already */
}

static bool same_key(struct shunt_key a, struct shunt_key b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* The board of `key`, and where the link to it is; NULL: none. */
static struct shared_board *find_board(const struct shared_arena *shared, struct shunt_key key,
                                       _Atomic uint32_t **link_p)
{
    _Atomic uint32_t *link = bucket_of(shared, key);
    for (uint32_t at; (at = atomic_load_explicit(link, memory_order_relaxed));) {
        struct shared_board *board = shared_at(shared, at);
        if (same_key(board->key, key)) {
            *link_p = link;
            return board;
        }
        link = &board->next;
    }
    return NULL;
}

static struct shared_board *create_board(struct shared_arena *shared, struct shunt_key key, int n, const int *slots,
                                         unsigned entries)
{
    /* A narrow ring at once: so what has a board can run, too. */
    const bool narrow = entries == SHARED_NARROW;
    uint32_t ring = narrow ? take_block(shared, &shared->boards, 1, lines_of(1)) : 0;
    uint32_t at = narrow && !ring ? 0 : take_block(shared, &shared->boards, n, lines_of(n));
    if (!at && ring)
        give_block(shared, &shared->boards, 1, ring);
    if (!at)
        return NULL;
    struct shared_board *board = shared_at(shared, at);
    board->key = key;
    board->n = (uint32_t)n;
    board->entries = entries;
    atomic_store_explicit(&board->ring, ring, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        board->slot[i] = (uint8_t)slots[i];
    _Atomic uint32_t *bucket = bucket_of(shared, key);
    atomic_store_explicit(&board->next, atomic_load_explicit(bucket, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(bucket, at, memory_order_release);
    return board;
}

/* Does the caller mean the same communicator as the member that created the board? */
static bool same_members(const struct shared_board *board, int n, const int *slots)
{
    if (board->n != (uint32_t)n)
        return false;
    for (int i = 0; i < n; i++)
        if (board->slot[i] != slots[i])
            return false;
    return true;
}

/* ---- keys without a board ---- */

static struct shared_refused *find_refused(const struct shared_arena *shared, struct shunt_key key)
{
    struct shared_refused *refused = shared_at(shared, shared->refused_at);
    for (int i = 0; i < SHARED_REFUSED; i++)
        if (refused[i].n && same_key(refused[i].key, key))
            return &refused[i];
    return NULL;
}

/*
 * Remember that the first member to ask for `key` got nothing: the others must get nothing either, even if there is
 * room again by then, or they would wait for a rank that has no board. Where no more can be remembered, nobody in
 * this arena gets a new board from now on, which is the same answer for all.
 */
static void add_refused(struct shared_arena *shared, struct shunt_key key, int n)
{
    if (n == 1)
        return; /* nobody else will ask */
    struct shared_refused *refused = shared_at(shared, shared->refused_at);
    for (int i = 0; i < SHARED_REFUSED; i++)
        if (!refused[i].n) {
            refused[i].key = key;
            refused[i].asked = 1;
            atomic_thread_fence(memory_order_release); /* n last: it makes the record valid */
            refused[i].n = (uint32_t)n;
            return;
        }
    atomic_store_explicit(&shared->full, 1, memory_order_relaxed);
}

/* The answer to one who asks for a key without a board; forgotten when all members have asked. */
static bool is_refused(struct shared_arena *shared, struct shunt_key key)
{
    struct shared_refused *refused = find_refused(shared, key);
    if (refused && ++refused->asked >= refused->n)
        refused->n = 0;
    return refused || atomic_load_explicit(&shared->full, memory_order_relaxed);
}

/* ---- opening and closing, with the table lock held ---- */

static void close_one(struct shared_arena *shared, struct shared_board *board)
{
    if (++board->closed < board->n)
        return;
    _Atomic uint32_t *link;
    if (!find_board(shared, board->key, &link))
        return;
    uint32_t at = atomic_load_explicit(link, memory_order_relaxed);
    atomic_store_explicit(link, atomic_load_explicit(&board->next, memory_order_relaxed), memory_order_release);
    uint32_t ring = atomic_load_explicit(&board->ring, memory_order_relaxed);
    if (ring && board->entries == SHARED_NARROW)
        give_block(shared, &shared->boards, 1, ring);
    else if (ring)
        give_block(shared, &shared->rings, 0, ring);
    give_block(shared, &shared->boards, (int)board->n, at);
}

static void poison(struct shared_arena *shared, struct shared_board *board)
{
    /* release is not needed: a member that sees it late finds out that this one neither arrives nor passes */
    atomic_store_explicit(&board->poisoned, 1, memory_order_relaxed);
    close_one(shared, board);
}

static struct shared_board *open_locked(struct shared_arena *shared, struct shunt_key key, int n, const int *slots,
                                        unsigned entries)
{
    _Atomic uint32_t *link;
    struct shared_board *board = find_board(shared, key, &link);
    if (board) {
        if (same_members(board, n, slots))
            return board;
        /* two communicators of one key: neither may use it. Not counted as a close, the members of one still open */
        atomic_store_explicit(&board->poisoned, 1, memory_order_relaxed);
        return NULL;
    }
    if (is_refused(shared, key))
        return NULL;
    board = create_board(shared, key, n, slots, entries);
    if (!board)
        add_refused(shared, key, n);
    return board;
}

enum shunt_status shunt_pool_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, unsigned entries,
                                  struct shared_board **board_p)
{
    struct shared_arena *shared = arena->shared;
    if (!shunt_shared_lock(&shared->table_lock))
        return SHUNT_ERR_SYSTEM;
    struct shared_board *board = open_locked(shared, key, n, slots, entries);
    shunt_shared_unlock(&shared->table_lock);
    *board_p = board;
    return board ? SHUNT_OK : SHUNT_ERR_LIMIT;
}

void shunt_pool_refuse(struct shunt_arena *arena, struct shunt_key key, int n)
{
    struct shared_arena *shared = arena->shared;
    if (!shunt_shared_lock(&shared->table_lock))
        return;
    _Atomic uint32_t *link;
    struct shared_board *board = find_board(shared, key, &link);
    if (board)
        poison(shared, board);
    else if (!is_refused(shared, key))
        add_refused(shared, key, n);
    shunt_shared_unlock(&shared->table_lock);
}

void shunt_pool_close(struct shunt_arena *arena, struct shared_board *board)
{
    struct shared_arena *shared = arena->shared;
    if (!shunt_shared_lock(&shared->table_lock))
        return;
    close_one(shared, board);
    shunt_shared_unlock(&shared->table_lock);
}

/* ---- rings ---- */

struct shared_ring *shunt_pool_ring(struct shunt_arena *arena, struct shared_board *board)
{
    struct shared_arena *shared = arena->shared;
    /* acquire: the entries were zeroed before the ring was shown */
    uint32_t at = atomic_load_explicit(&board->ring, memory_order_acquire);
    if (!at) {
        if (!shunt_shared_lock(&shared->table_lock))
            return NULL;
        at = atomic_load_explicit(&board->ring, memory_order_relaxed);
        if (!at) {
            at = take_block(shared, &shared->rings, 0, sizeof(struct shared_ring) / SHARED_LINE);
            atomic_store_explicit(&board->ring, at, memory_order_release);
        }
        shunt_shared_unlock(&shared->table_lock);
    }
    return at ? shared_at(shared, at) : NULL;
}

/* ---- posts ---- */

int shunt_post_take(struct shunt_arena *arena)
{
    uint32_t posts = arena->shared->posts;
    uint32_t at = atomic_load_explicit(&arena->post_hint, memory_order_relaxed);
    for (uint32_t i = 0; i < posts; i++, at++) {
        if (at >= posts)
            at = 0;
        struct shared_post *post = shared_post(arena->shared, at);
        uint32_t busy = 0;
        /* acquire: those who read the post's last contents are done with it, see shunt_post_give */
        if (!atomic_load_explicit(&post->busy, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&post->busy, &busy, 1, memory_order_acquire,
                                                    memory_order_relaxed)) {
            atomic_store_explicit(&arena->post_hint, at, memory_order_relaxed);
            return (int)at;
        }
    }
    return -1;
}

void shunt_post_give(struct shunt_arena *arena, uint32_t index)
{
    shunt_row_give(arena, &shared_post(arena->shared, index)->post);
    /* release: all reads of it come before its next use */
    atomic_store_explicit(&shared_post(arena->shared, index)->busy, 0, memory_order_release);
}

/* ---- rows ---- */

struct shunt_row *shunt_row_take(struct shunt_arena *arena, struct shunt_post *post)
{
    uint32_t rows = arena->shared->rows, at = atomic_load_explicit(&arena->row_hint, memory_order_relaxed);

    for (uint32_t i = 0; i < rows; i++, at++) {
        if (at >= rows)
            at = 0;
        struct shared_row *row = shared_row(arena->shared, at);
        uint32_t busy = 0;
        /* acquire: those who read its last contents are done with it, see shunt_row_give */
        if (!atomic_load_explicit(&row->busy, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&row->busy, &busy, 1, memory_order_acquire, memory_order_relaxed)) {
            atomic_store_explicit(&arena->row_hint, at + 1, memory_order_relaxed);
            row->row.next = post->row;
            post->row = (uint16_t)(at + 1);
            return &row->row;
        }
    }
    shunt_row_give(arena, post);
    post->row = 0;
    return NULL;
}

const struct shunt_row *shunt_row_of(const struct shunt_arena *arena, const struct shunt_post *post, uint32_t wave)
{
    uint16_t number = post->row;

    for (; number && wave > 0; wave--)
        number = shared_row(arena->shared, number - 1u)->row.next;
    return number ? &shared_row(arena->shared, number - 1u)->row : NULL;
}

void shunt_row_give(struct shunt_arena *arena, const struct shunt_post *post)
{
    for (uint16_t number = post->row, next; number; number = next) {
        struct shared_row *row = shared_row(arena->shared, number - 1u);
        next = row->row.next;
        /* release: all reads of it come before its next use */
        atomic_store_explicit(&row->busy, 0, memory_order_release);
    }
}

/* ---- counting ---- */

static uint32_t count_list(const struct shared_arena *shared, const _Atomic uint32_t *link)
{
    uint32_t n = 0;
    for (uint32_t at; (at = atomic_load_explicit(link, memory_order_relaxed)); n++)
        link = shared_at(shared, at); /* boards and free blocks alike begin with their link */
    return n;
}

void shunt_pool_count(struct shunt_arena *arena, struct shunt_pool_use *use)
{
    struct shared_arena *shared = arena->shared;
    const uint32_t ring = sizeof(struct shared_ring) / SHARED_LINE;
    memset(use, 0, sizeof *use);
    if (!shunt_shared_lock(&shared->table_lock))
        return;
    const _Atomic uint32_t *buckets = shared_at(shared, shared->buckets_at);
    for (int i = 0; i < SHARED_BUCKETS; i++)
        use->boards += count_list(shared, &buckets[i]);
    uint32_t first = shared->rings.end - shared->rings_most * ring;
    use->rings = (shared->rings.fresh - first) / ring - count_list(shared, &shared->rings.freed[0]);
    shunt_shared_unlock(&shared->table_lock);
    for (uint32_t i = 0; i < shared->posts; i++)
        use->posts += atomic_load_explicit(&shared_post(shared, i)->busy, memory_order_relaxed);
    use->posts_most = shared->posts;
    use->rings_most = shared->rings_most;
    use->lines_most = shared->lines_most;
}
