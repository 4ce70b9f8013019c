/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The board of a communicator: arrival, veto, decision, ticket, reuse. The rules are those of doc/design.md, section 5.
 *
 * Each operation s has the entry s mod 256 of the board's ring. All that changes in an entry is in one word,
 * {lap, arrived, left, state, by, reason}, and every change is one compare-and-swap on it:
 *
 *     FREE -> UNDECIDED   the first member that arrives, for lap s / 256
 *     UNDECIDED           further members arrive
 *     UNDECIDED -> RUN    by the member that arrived last (`by`): its post has the verdict
 *     UNDECIDED -> STAGE  by any member that has arrived, for `reason`
 *     RUN                 `reason`: some member asks that it be staged after all; NONE again when one leaves
 *     RUN -> STAGE        by whoever finds that all have yielded
 *     RUN, STAGE          members leave
 *     RUN, STAGE -> FREE  by the last to leave, who gives the posts back. Lap and reason stay for latecomers.
 *
 * Where there are more than 16 members they arrive by a tree of such words, see tree.c.
 *
 * Next to it there is one counter for each member, `passed`: how many operations it has passed, whether it arrived in
 * them or not. A member that has passed s and has not arrived in it runs it on the host.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/board_inner.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"

enum {
    TIMEOUT_SECONDS = 30,
    LOOK_NS = 10 * 1000 * 1000, /* between looks whether members still live */
    LOOK_POLLS = 16,            /* between looks at the clock, which take longer than the rest of a poll */
    SPINS = 20000,              /* turns of a wait loop, about 1 ms: then a yield costs nothing, and others may need it */
};

static uint32_t all_members(const struct shunt_board *board)
{
    return (1u << board->n) - 1;
}

/* ---- open, close ---- */

static struct shunt_board *new_board(struct shunt_arena *arena, int n, const int *slots, int me)
{
    /* the line in it wants its alignment */
    struct shunt_board *board = aligned_alloc(_Alignof(struct shunt_board), sizeof *board);
    int *copy = malloc((size_t)n * sizeof *copy);
    if (!board || !copy) {
        free(board);
        free(copy);
        return NULL;
    }
    memset(board, 0, sizeof *board);
    memcpy(copy, slots, (size_t)n * sizeof *copy);
    board->arena = arena;
    board->n = n;
    board->me = me;
    board->slots = copy;
    board->passed = &board->own;
    atomic_init(&board->uses, 1);
    return board;
}

static void free_board(struct shunt_board *board)
{
    free(board->slots);
    free(board);
}

static enum shunt_status open_board(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, int me,
                                    unsigned entries, struct shunt_board **board_p)
{
    int kept = errno;
    enum shunt_status status = SHUNT_OK;
    struct shunt_board *board = new_board(arena, n, slots, me);
    bool shared = n <= SHUNT_TREE_RANKS; /* rule 9: larger ones only count */
    if (board && shared) {
        board->entries = entries;
        status = shunt_pool_open(arena, key, n, slots, entries, &board->shared);
        if (status == SHUNT_OK)
            board->passed = &board->shared->passed[me];
        else
            free_board(board);
    } else if (!board) {
        status = SHUNT_ERR_MEMORY;
        if (shared)
            shunt_pool_refuse(arena, key, n);
    }
    if (status == SHUNT_OK)
        *board_p = board;
    errno = kept;
    return status;
}

enum shunt_status shunt_board_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, int me,
                                   struct shunt_board **board_p)
{
    return open_board(arena, key, n, slots, me, SHARED_ENTRIES, board_p);
}

enum shunt_status shunt_board_open_narrow(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, int me,
                                          struct shunt_board **board_p)
{
    return open_board(arena, key, n, slots, me, n <= SHUNT_BOARD_RANKS ? SHARED_NARROW : SHARED_ENTRIES, board_p);
}

/* The communicator may be freed while operations on it are under way: the last use ends the board. */
static void drop_use(struct shunt_board *board)
{
    if (atomic_fetch_sub_explicit(&board->uses, 1, memory_order_acq_rel) != 1)
        return;
    if (board->shared)
        shunt_pool_close(board->arena, board->shared);
    free_board(board);
}

void shunt_board_close(struct shunt_board *board)
{
    if (board)
        drop_use(board);
}

int shunt_board_size(const struct shunt_board *board)
{
    return board->n;
}

int shunt_board_rank(const struct shunt_board *board)
{
    return board->me;
}

int shunt_board_slot(const struct shunt_board *board, int rank)
{
    return board->slots[rank];
}

/* ---- counting ---- */

/*
 * Rule 1. Reads nothing and never waits, so that host-only jobs pay nothing. Release, also for rule 3: whoever sees
 * the count sees the arrival that came before it, so a member that has arrived is never taken for a host rank.
 */
void shunt_board_pass(struct shunt_board *board)
{
    if (board)
        atomic_store_explicit(&board->passed->value, ++board->sequence, memory_order_release);
}

void shunt_board_retract(struct shunt_board *board)
{
    if (board) /* release, as above; the next arrival comes before the next count again */
        atomic_store_explicit(&board->passed->value, --board->sequence, memory_order_release);
}

uint64_t shunt_board_steps(const struct shunt_board *board)
{
    /* acquire: what this rank said before it passed, its other threads see */
    return atomic_load_explicit(&board->passed->value, memory_order_acquire);
}

bool shunt_board_ahead(const struct shunt_board *board, int rank)
{
    /* acquire: what that member published before it passed is seen */
    return board->shared &&
           member_passed(board, rank, board->sequence);
}

bool shunt_board_bereft(const struct shunt_board *board)
{
    for (int i = 0; i < board->n; i++)
        if (!shunt_arena_alive(board->arena, board->slots[i]))
            return true;
    return false;
}

/* ---- arriving ---- */

enum shunt_reason shunt_board_trouble(const struct shunt_board *board)
{
    if (!board->shared)
        return SHUNT_REASON_TOO_MANY_RANKS;
    /* relaxed: seen late, they end the operation while it waits, see look_around */
    if (atomic_load_explicit(&board->arena->shared->broken, memory_order_relaxed))
        return SHUNT_REASON_NO_ARENA;
    if (atomic_load_explicit(&board->shared->poisoned, memory_order_relaxed))
        return SHUNT_REASON_BOARD_FULL;
    return SHUNT_REASON_NONE;
}

/*
 * Rule 2: arrive, all fallible work done, the post in place. NONE: arrived, *last: as the last of all. Else
 * nothing has happened; every doubt ends here, since a rank that only passes never harms.
 */
static enum shunt_reason enter_entry(struct shunt_board *board, struct shared_entry *entry, uint16_t post,
                                     bool *last)
{
    uint32_t lap = lap_of(board->sequence, board->entries), bit = 1u << board->me;
    /* acquire: a free entry was left by all, our place in it is no longer read */
    uint64_t bits = load_word(&entry->word);
    struct word to;
    do {
        struct word word = unpack_word(bits);
        enum shunt_reason trouble = entry_trouble(word, lap);
        if (trouble != SHUNT_REASON_NONE)
            return trouble;
        to = (struct word){.lap = lap, .state = UNDECIDED, .arrived = bit};
        if (word.state == UNDECIDED)
            to.arrived |= word.arrived;
        /* Only now: in another lap the place may hold a post that is still being read. Nobody else writes it, and
           nobody reads it before our bit is set. */
        entry->post[board->me] = post;
    } while (!swap_word(&entry->word, &bits, to));
    *last = to.arrived == all_members(board);
    return SHUNT_REASON_NONE;
}

/* ---- deciding ---- */

/* What the posts come to: NONE to run, with *verdict filled; else why not. */
static enum shunt_reason judge(struct shunt_board *board, const uint16_t *post, shunt_decide decide, void *context,
                               struct shunt_verdict *verdict)
{
    const struct shunt_post *posts[SHUNT_TREE_RANKS];
    bool neutral = true;
    for (int i = 0; i < board->n; i++) {
        posts[i] = &post_at(board, post, i)->post;
        neutral &= (posts[i]->flags & SHUNT_POST_NEUTRAL) != 0;
    }
    if (neutral)
        return SHUNT_REASON_NEUTRAL; /* rule 5: all neutral is nothing for the GPUs */
    enum shunt_reason trouble = shunt_board_trouble(board);
    if (trouble != SHUNT_REASON_NONE)
        return trouble;
    memset(verdict, 0, sizeof *verdict);
    if (decide(posts, board->n, context, verdict))
        return SHUNT_REASON_NONE;
    return verdict->reason != SHUNT_REASON_NONE ? verdict->reason : SHUNT_REASON_PEER_VETO;
}

/*
 * Rule 5: the arrival that completed the set decides for all.
 *
 * The launch lock covers the ticket *and* the change to RUN: whoever sees the operation of ticket t as RUN and then
 * looks at its other operations finds all its smaller tickets as RUN too. Without, two ranks could launch two
 * operations in opposite orders, and their kernels would wait for each other (rule 6).
 *
 * *decider, where it is wanted, gets this member before the word changes; else the word has it.
 */
static void decide_round(struct shunt_board *board, _Atomic uint64_t *at, const uint16_t *post, uint32_t *decider,
                         shunt_decide decide, void *context)
{
    struct shared_arena *shared = board->arena->shared;
    struct shared_post *mine = post_at(board, post, board->me);
    if (!shunt_shared_lock(&shared->launch_lock)) {
        stage_word(at, SHUNT_REASON_PEER_VETO);
        return;
    }
    /* acquire: the posts of all who arrived */
    uint64_t bits = load_word(at);
    struct word to = unpack_word(bits);
    if (to.state == UNDECIDED) {
        enum shunt_reason reason = judge(board, post, decide, context, &mine->verdict);
        to.state = reason == SHUNT_REASON_NONE ? RUN : STAGE;
        to.reason = reason;
        if (decider)
            *decider = (uint32_t)board->me;
        else
            to.by = (uint32_t)board->me;
        /* Taken before the change: a holder killed between the two leaves a gap, never a ticket for the next one to
           take again. A veto that comes first leaves a gap too. */
        if (to.state == RUN) {
            const uint32_t waves = mine->verdict.waves > 0 ? mine->verdict.waves : 1; /* one for each */
            shared->tickets += waves;
            mine->verdict.ticket = shared->tickets - waves + 1;
        }
        /* fails only after a veto: nobody can arrive any more, and nobody leaves before the decision */
        swap_word(at, &bits, to);
    }
    shunt_shared_unlock(&shared->launch_lock);
}

/* Fill a post and arrive with it; NONE: arrived, *last: as the last of all. Else the row is still the caller's. */
static enum shunt_reason try_arrive(struct shunt_board *board, const struct shunt_post *post, void **entry_p,
                                    bool *last)
{
    enum shunt_reason trouble = shunt_board_trouble(board);
    if (trouble != SHUNT_REASON_NONE)
        return trouble;
    /* Rule 8: as long as nobody on the node has used device memory, a rank with nothing to do is a host rank, and
       jobs that never do pay nothing. */
    if (!(post->flags & SHUNT_POST_NEUTRAL))
        shunt_arena_set_device_used(board->arena);
    else if (!shunt_arena_device_used(board->arena))
        return SHUNT_REASON_NEUTRAL;
    struct shared_ring *ring = shunt_pool_ring(board->arena, board->shared);
    int index = ring ? shunt_post_take(board->arena) : -1;
    if (index < 0)
        return SHUNT_REASON_BOARD_FULL;
    struct shared_post *mine = shared_post(board->arena->shared, (uint32_t)index);
    mine->post = *post;
    atomic_store_explicit(&mine->yielded, 0, memory_order_relaxed);
    if (is_tree(board)) {
        *entry_p = &ring->tree[board->sequence % SHARED_TREES];
        trouble = shunt_tree_enter(board, *entry_p, (uint16_t)index, last);
    } else {
        *entry_p = &ring->entry[board->sequence % board->entries];
        trouble = enter_entry(board, *entry_p, (uint16_t)index, last);
    }
    if (trouble != SHUNT_REASON_NONE) {
        mine->post.row = 0;
        shunt_post_give(board->arena, (uint32_t)index);
    }
    return trouble;
}

static void decide_entry(struct shunt_board *board, void *entry, shunt_decide decide, void *context)
{
    struct shared_entry *flat = entry;
    struct shared_tree *tree = entry;
    if (is_tree(board)) {
        decide_round(board, &tree->root, tree->post, &tree->decider, decide, context);
    } else {
        decide_round(board, &flat->word, flat->post, NULL, decide, context);
        shunt_board_rouse(board, flat->post);
    }
}

enum shunt_status shunt_board_arrive(struct shunt_board *board, const struct shunt_post *post, shunt_decide decide,
                                     void *context, struct shunt_round *round, enum shunt_reason *reason)
{
    void *entry;
    bool last = false;
    uint64_t sequence = board->sequence;
    enum shunt_reason trouble = try_arrive(board, post, &entry, &last);
    /* Rule 3: the arrival comes before the count, see shunt_board_pass. And whoever does not arrive passes. */
    shunt_board_pass(board);
    if (trouble != SHUNT_REASON_NONE) {
        shunt_row_give(board->arena, post);
        *reason = trouble;
        return SHUNT_PASS;
    }
    atomic_fetch_add_explicit(&board->uses, 1, memory_order_relaxed);
    *round = (struct shunt_round){.board = board, .sequence = sequence, .entry = entry};
    if (last)
        decide_entry(board, entry, decide, context);
    else
        round->since = (double)shunt_nanoseconds() * 1e-9;
    return SHUNT_OK;
}

/* ---- waiting ---- */

/* The first of the members in `mask` that has passed the operation; -1: none. */
static int find_passed(const struct shunt_board *board, uint32_t mask, uint64_t sequence)
{
    for (; mask; mask &= mask - 1) {
        int i = __builtin_ctz(mask);
        if (member_passed(board, i, sequence))
            return i;
    }
    return -1;
}

/* The first member that has ended or left, looked for now and then in a long wait; -1: none. */
static int find_gone(const struct shunt_round *round, uint64_t now)
{
    struct shunt_board *board = round->board;
    /* relaxed, and two threads may both look: it only spares work */
    if ((double)now < round->since * 1e9 + LOOK_NS ||
        now < atomic_load_explicit(&board->look_at, memory_order_relaxed))
        return -1;
    atomic_store_explicit(&board->look_at, now + LOOK_NS, memory_order_relaxed);
    for (int i = 0; i < board->n; i++)
        if (i != board->me && shunt_arena_gone(board->arena, board->slots[i]))
            return i;
    return -1;
}

/*
 * What only time tells of an undecided operation: a member that has ended, or one that has not come for 30 seconds.
 * Time alone never should end a wait, since a late rank loses nothing by being waited for while a veto changes path
 * and bits; the 30 seconds are the net under calls that we did not see, and only while somebody is missing: once all
 * are there, the last to arrive is deciding.
 */
enum shunt_reason shunt_board_time(const struct shunt_round *round, int missing)
{
    struct shunt_board *board = round->board;
    uint32_t polls = atomic_load_explicit(&board->polls, memory_order_relaxed);
    atomic_store_explicit(&board->polls, polls + 1, memory_order_relaxed);
    if (polls % LOOK_POLLS)
        return SHUNT_REASON_NONE;
    uint64_t now = shunt_nanoseconds();
    int gone = find_gone(round, now);
    if (gone >= 0) {
        /* whether it left in order or died, the call's end depends on that: see shunt_board_bereft */
        shunt_warn_once(SHUNT_REASON_PEER_VETO, "rank %d of %d has ended", gone, board->n);
        return SHUNT_REASON_PEER_VETO;
    }
    if (missing >= 0 && !shunt_conf->reproducible && (double)now * 1e-9 - round->since > TIMEOUT_SECONDS) {
        shunt_warn_once(SHUNT_REASON_TIMEOUT, "operation %llu waits for rank %d of %d",
                        (unsigned long long)round->sequence, missing, board->n);
        return SHUNT_REASON_TIMEOUT;
    }
    return SHUNT_REASON_NONE;
}

/* Rule 4: why an undecided operation, seen as `word`, should be staged: a member is on the host. NONE: wait on. */
static enum shunt_reason look_around(const struct shunt_round *round, struct word word)
{
    struct shunt_board *board = round->board;
    uint32_t missing = all_members(board) & ~word.arrived;
    if (find_passed(board, missing, round->sequence) >= 0)
        return SHUNT_REASON_PEER_ON_HOST;
    enum shunt_reason trouble = shunt_board_trouble(board);
    return trouble != SHUNT_REASON_NONE ? trouble : shunt_board_time(round, missing ? __builtin_ctz(missing) : -1);
}

enum shunt_round_state shunt_round_poll(struct shunt_round *round)
{
    if (is_tree(round->board))
        return shunt_tree_poll(round);
    struct shared_entry *entry = round->entry;
    /* acquire: the verdict and all posts, once it is decided */
    uint64_t bits = load_word(&entry->word);
    struct word word = unpack_word(bits);
    while (word.state == UNDECIDED) {
        enum shunt_reason reason = look_around(round, word);
        if (reason == SHUNT_REASON_NONE)
            return SHUNT_ROUND_UNDECIDED;
        /*
         * Rule 3: from the very word that was read before the counters. If a member we took for missing has arrived
         * since, the word has changed, the swap fails, and we look again with what it is now.
         */
        struct word to = word;
        to.state = STAGE;
        to.reason = reason;
        if (swap_word(&entry->word, &bits, to))
            return SHUNT_ROUND_STAGE;
        word = unpack_word(bits);
    }
    return word.state == RUN ? SHUNT_ROUND_RUN : SHUNT_ROUND_STAGE;
}

void shunt_round_veto(struct shunt_round *round, enum shunt_reason reason)
{
    struct shared_entry *entry = round->entry;
    if (reason == SHUNT_REASON_NONE) /* a staged operation has one: it is how a latecomer tells it from an entry never used */
        reason = SHUNT_REASON_PEER_VETO;
    if (is_tree(round->board))
        shunt_tree_veto(round, reason);
    else
        stage_word(&entry->word, reason);
}

/* ---- deciding otherwise ---- */

void shunt_round_recall(struct shunt_round *round, enum shunt_reason reason)
{
    struct shared_entry *entry = round->entry;
    uint64_t bits = load_word(&entry->word);
    struct word to;
    do {
        to = unpack_word(bits);
        if (is_tree(round->board) || to.state != RUN || to.left != 0 || to.reason != SHUNT_REASON_NONE)
            return;
        to.reason = reason;
    } while (!swap_word(&entry->word, &bits, to));
}

bool shunt_round_recalled(const struct shunt_round *round)
{
    struct shared_entry *entry = round->entry;
    struct word word = unpack_word(load_word(&entry->word));
    return !is_tree(round->board) && word.state == RUN && word.reason != SHUNT_REASON_NONE;
}

void shunt_round_refuse(struct shunt_round *round)
{
    struct shared_entry *entry = round->entry;
    uint64_t bits = load_word(&entry->word);
    struct word to;
    do {
        to = unpack_word(bits);
        if (is_tree(round->board) || to.state != RUN || to.reason == SHUNT_REASON_NONE)
            return;
        to.reason = SHUNT_REASON_NONE;
    } while (!swap_word(&entry->word, &bits, to));
}

enum shunt_round_state shunt_round_yield(struct shunt_round *round)
{
    struct shunt_board *board = round->board;
    struct shared_entry *entry = round->entry;
    /* Sequentially consistent, all of them: of two who yield at the same time one sees both. */
    atomic_store(&post_at(board, entry->post, board->me)->yielded, 1);
    bool all = true;
    for (int i = 0; i < board->n && all; i++)
        all = atomic_load(&post_at(board, entry->post, i)->yielded) != 0;
    uint64_t bits = load_word(&entry->word);
    struct word to = unpack_word(bits);
    while (all && to.state == RUN && to.reason != SHUNT_REASON_NONE) {
        to.state = STAGE;
        if (!swap_word(&entry->word, &bits, to))
            to = unpack_word(bits);
    }
    return to.state == RUN ? SHUNT_ROUND_RUN : SHUNT_ROUND_STAGE;
}

const struct shunt_verdict *shunt_round_verdict(const struct shunt_round *round)
{
    if (is_tree(round->board))
        return shunt_tree_verdict(round);
    struct shared_entry *entry = round->entry;
    struct word word = unpack_word(load_word(&entry->word));
    if (word.state == RUN)
        return &post_at(round->board, entry->post, (int)word.by)->verdict;
    struct shunt_verdict *verdict = &post_at(round->board, entry->post, round->board->me)->verdict; /* only ours reads it */
    verdict->reason = word.reason;
    return verdict;
}

const struct shunt_post *shunt_round_post(const struct shunt_round *round, int i)
{
    const struct shared_entry *flat = round->entry;
    const struct shared_tree *tree = round->entry;
    return &post_at(round->board, is_tree(round->board) ? tree->post : flat->post, i)->post;
}

/* ---- leaving ---- */

/*
 * Rule 7: the entry is free again when it is decided and all who arrived have left. Nobody arrives once it is
 * decided, so the number of those who must leave is fixed, and the last of them is alone with the entry.
 */
static void leave_entry(struct shunt_board *board, struct shared_entry *entry)
{
    uint64_t bits = load_word(&entry->word);
    struct word word;
    do {
        word = unpack_word(bits);
        if (word.state == UNDECIDED) { /* whoever gives up has vetoed */
            word.state = STAGE;
            word.reason = SHUNT_REASON_PEER_VETO;
        }
        if (word.state == RUN)
            word.reason = SHUNT_REASON_NONE; /* whoever has ended it refuses to stage it */
        word.left++;
    } while (!swap_word(&entry->word, &bits, word));
    if (word.left != (uint32_t)__builtin_popcount(word.arrived))
        return;
    for (uint32_t mask = word.arrived; mask; mask &= mask - 1)
        shunt_post_give(board->arena, entry->post[__builtin_ctz(mask)]);
    struct word unused = {.lap = word.lap, .state = FREE, .reason = word.reason};
    /* release: our reading of the posts' numbers comes before anybody writes new ones */
    atomic_store_explicit(&entry->word, pack_word(unused), memory_order_release);
}

void shunt_round_leave(struct shunt_round *round)
{
    struct shunt_board *board = round->board;
    if (is_tree(board))
        shunt_tree_leave(round);
    else
        leave_entry(board, round->entry);
    round->board = NULL;
    round->entry = NULL;
    drop_use(board);
}

/* ---- the wait loop ---- */

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/*
 * Rule 10: with more ranks than processors the one we wait for most likely has none, and gets ours at once. Polling
 * first is a hundred times slower: 8 ranks on two processors took 6 microseconds for an operation, and 500 and more
 * with 20 microseconds of polling.
 */
void shunt_board_relax(unsigned *spins)
{
    if (*spins < SPINS && !shunt_arena_crowded()) {
        ++*spins;
        pause_cpu();
    } else {
        sched_yield();
    }
}
