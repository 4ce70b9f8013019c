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
 *     RUN, STAGE          members leave
 *     RUN, STAGE -> FREE  by the last to leave, who gives the posts back. Lap and reason stay for latecomers.
 *
 * Next to it there is one counter for each member, `passed`: how many operations it has passed, whether it arrived in
 * them or not. A member that has passed s and has not arrived in it runs it on the host.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena_layout.h"
#include "base/conf.h"
#include "base/log.h"

enum {
    TIMEOUT_SECONDS = 30,
    LOOK_NS = 10 * 1000 * 1000, /* between looks whether members still live */
    LOOK_POLLS = 16,            /* between looks at the clock, which take longer than the rest of a poll */
    SPINS = 20000,              /* turns of a wait loop, about 1 ms: then a yield costs nothing, and others may need it */
};

/* This process's view of a board. */
struct shunt_board {
    struct shared_line *passed; /* of this member: in the arena, or `own` */
    uint64_t sequence;          /* operations passed: the next one's number. Only the member's own calls change it */
    struct shunt_arena *arena;
    struct shared_board *shared; /* NULL: only counts */
    int n, me;
    _Atomic uint32_t uses;     /* 1 while open, and 1 for each round */
    _Atomic uint64_t look_at;  /* ns: when to look next whether members live */
    _Atomic uint32_t polls;    /* that found nothing. Two threads may lose a count, which is no matter */
    int *slots;
    struct shared_line own; /* more than SHUNT_BOARD_RANKS members: nobody else reads it */
};

/* ---- the word ---- */

enum state { FREE, UNDECIDED, STAGE, RUN };

struct word {
    uint32_t lap;     /* sequence / 256, modulo 2^29. Compared for equality only */
    uint32_t arrived; /* a bit for each member */
    uint32_t left;    /* how many of them */
    enum state state;
    uint32_t by;      /* RUN: the member whose post has the verdict */
    enum shunt_reason reason; /* STAGE, and FREE after STAGE */
};

static_assert(SHUNT_BOARD_RANKS <= 16 && SHUNT_NREASONS <= 256, "the word's fields");

static inline uint64_t pack_word(struct word word)
{
    return (uint64_t)word.arrived | (uint64_t)word.left << 16 | (uint64_t)word.state << 21 | (uint64_t)word.by << 23 |
           (uint64_t)word.reason << 27 | (uint64_t)word.lap << 35;
}

static inline struct word unpack_word(uint64_t bits)
{
    return (struct word){
        .arrived = bits & 0xffff,
        .left = bits >> 16 & 31,
        .state = bits >> 21 & 3,
        .by = bits >> 23 & 15,
        .reason = bits >> 27 & 255,
        .lap = (uint32_t)(bits >> 35),
    };
}

static uint32_t lap_of(uint64_t sequence)
{
    return (uint32_t)(sequence / SHARED_ENTRIES) & 0x1fffffff;
}

static uint32_t all_members(const struct shunt_board *board)
{
    return (1u << board->n) - 1;
}

/*
 * Change the word from *bits to `to`. False: another was faster, *bits is the word now.
 * Release: what this process wrote before (its post, its verdict, the end of its reading) is seen by whoever reads
 * the new word. Acquire: it sees what all before it have released, since each change continues the same chain.
 */
static bool swap_word(struct shared_entry *entry, uint64_t *bits, struct word to)
{
    return atomic_compare_exchange_strong_explicit(&entry->word, bits, pack_word(to), memory_order_acq_rel,
                                                   memory_order_acquire);
}

static struct shared_post *post_of(const struct shunt_board *board, const struct shared_entry *entry, int member)
{
    return shared_post(board->arena->shared, entry->post[member]);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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

enum shunt_status shunt_board_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, int me,
                                   struct shunt_board **board_p)
{
    int kept = errno;
    enum shunt_status status = SHUNT_OK;
    struct shunt_board *board = new_board(arena, n, slots, me);
    bool shared = n <= SHUNT_BOARD_RANKS; /* rule 9: larger ones only count */
    if (board && shared) {
        status = shunt_pool_open(arena, key, n, slots, &board->shared);
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

bool shunt_board_ahead(const struct shunt_board *board, int rank)
{
    /* acquire: what that member published before it passed is seen */
    return board->shared &&
           atomic_load_explicit(&board->shared->passed[rank].value, memory_order_acquire) > board->sequence;
}

bool shunt_board_bereft(const struct shunt_board *board)
{
    for (int i = 0; i < board->n; i++)
        if (!shunt_arena_alive(board->arena, board->slots[i]))
            return true;
    return false;
}

/* ---- arriving ---- */

/* Why no operation of this board can run on the GPUs, whatever the ranks bring; NONE. */
static enum shunt_reason board_trouble(const struct shunt_board *board)
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
 * Rule 2: may this member arrive in the entry as it is? NONE, or why not. A free entry can be taken whatever lap it
 * was used for last: if the others are ahead, this member finds them as host ranks at its first look. An entry of the
 * same lap that was staged and left by all has the reason still.
 */
static enum shunt_reason entry_trouble(struct word word, uint32_t lap)
{
    if (word.state == FREE)
        return word.lap == lap ? word.reason : SHUNT_REASON_NONE;
    if (word.lap != lap)
        return SHUNT_REASON_BOARD_FULL; /* 256 operations ago somebody has not left yet, or we are that far behind */
    return word.state == UNDECIDED ? SHUNT_REASON_NONE : word.reason;
}

/*
 * Rule 2: arrive, all fallible work done, the post in place. NONE: arrived, *arrived_p says who has by now. Else
 * nothing has happened; every doubt ends here, since a rank that only passes never harms.
 */
static enum shunt_reason enter_entry(struct shunt_board *board, struct shared_entry *entry, uint16_t post,
                                     uint32_t *arrived_p)
{
    uint32_t lap = lap_of(board->sequence), bit = 1u << board->me;
    /* acquire: a free entry was left by all, our place in it is no longer read */
    uint64_t bits = atomic_load_explicit(&entry->word, memory_order_acquire);
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
    } while (!swap_word(entry, &bits, to));
    *arrived_p = to.arrived;
    return SHUNT_REASON_NONE;
}

/* ---- deciding ---- */

/* UNDECIDED -> STAGE. Without effect where it is decided. */
static void stage(struct shared_entry *entry, uint64_t bits, enum shunt_reason reason)
{
    struct word to;
    do {
        to = unpack_word(bits);
        if (to.state != UNDECIDED)
            return;
        to.state = STAGE;
        to.reason = reason;
    } while (!swap_word(entry, &bits, to));
}

/* What the posts come to: NONE to run, with *verdict filled; else why not. */
static enum shunt_reason judge(struct shunt_board *board, struct shared_entry *entry, shunt_decide decide,
                               void *context, struct shunt_verdict *verdict)
{
    const struct shunt_post *posts[SHUNT_BOARD_RANKS];
    bool neutral = true;
    for (int i = 0; i < board->n; i++) {
        posts[i] = &post_of(board, entry, i)->post;
        neutral &= (posts[i]->flags & SHUNT_POST_NEUTRAL) != 0;
    }
    if (neutral)
        return SHUNT_REASON_NEUTRAL; /* rule 5: all neutral is nothing for the GPUs */
    enum shunt_reason trouble = board_trouble(board);
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
 */
static void decide_round(struct shunt_board *board, struct shared_entry *entry, shunt_decide decide, void *context)
{
    struct shared_arena *shared = board->arena->shared;
    struct shared_post *mine = post_of(board, entry, board->me);
    if (!shunt_shared_lock(&shared->launch_lock)) {
        stage(entry, atomic_load_explicit(&entry->word, memory_order_acquire), SHUNT_REASON_PEER_VETO);
        return;
    }
    /* acquire: the posts of all who arrived */
    uint64_t bits = atomic_load_explicit(&entry->word, memory_order_acquire);
    struct word to = unpack_word(bits);
    if (to.state == UNDECIDED) {
        enum shunt_reason reason = judge(board, entry, decide, context, &mine->verdict);
        to.state = reason == SHUNT_REASON_NONE ? RUN : STAGE;
        to.reason = reason;
        to.by = (uint32_t)board->me;
        /* Taken before the change: a holder killed between the two leaves a gap, never a ticket for the next one to
           take again. A veto that comes first leaves a gap too. */
        if (to.state == RUN)
            mine->verdict.ticket = ++shared->tickets;
        /* fails only after a veto: nobody can arrive any more, and nobody leaves before the decision */
        swap_word(entry, &bits, to);
    }
    shunt_shared_unlock(&shared->launch_lock);
}

/* Fill a post and arrive with it; NONE: arrived. */
static enum shunt_reason try_arrive(struct shunt_board *board, const struct shunt_post *post,
                                    struct shared_entry **entry_p, uint32_t *arrived_p)
{
    enum shunt_reason trouble = board_trouble(board);
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
    shared_post(board->arena->shared, (uint32_t)index)->post = *post;
    *entry_p = &ring->entry[board->sequence % SHARED_ENTRIES];
    trouble = enter_entry(board, *entry_p, (uint16_t)index, arrived_p);
    if (trouble != SHUNT_REASON_NONE)
        shunt_post_give(board->arena, (uint32_t)index);
    return trouble;
}

enum shunt_status shunt_board_arrive(struct shunt_board *board, const struct shunt_post *post, shunt_decide decide,
                                     void *context, struct shunt_round *round, enum shunt_reason *reason)
{
    struct shared_entry *entry;
    uint32_t arrived;
    uint64_t sequence = board->sequence;
    enum shunt_reason trouble = try_arrive(board, post, &entry, &arrived);
    /* Rule 3: the arrival comes before the count, see shunt_board_pass. And whoever does not arrive passes. */
    shunt_board_pass(board);
    if (trouble != SHUNT_REASON_NONE) {
        *reason = trouble;
        return SHUNT_PASS;
    }
    atomic_fetch_add_explicit(&board->uses, 1, memory_order_relaxed);
    *round = (struct shunt_round){.board = board, .sequence = sequence, .entry = entry};
    if (arrived == all_members(board))
        decide_round(board, entry, decide, context);
    else
        round->since = (double)now_ns() * 1e-9;
    return SHUNT_OK;
}

/* ---- waiting ---- */

/* The first of the members in `mask` that has passed the operation; -1: none. */
static int find_passed(const struct shunt_board *board, uint32_t mask, uint64_t sequence)
{
    for (; mask; mask &= mask - 1) {
        int i = __builtin_ctz(mask);
        /* acquire: its arrival, had there been one, is seen by what looks at the word from now on */
        if (atomic_load_explicit(&board->shared->passed[i].value, memory_order_acquire) > sequence)
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
static enum shunt_reason look_at_time(const struct shunt_round *round, uint32_t missing)
{
    struct shunt_board *board = round->board;
    uint64_t now = now_ns();
    int gone = find_gone(round, now);
    if (gone >= 0) {
        /* whether it left in order or died, the call's end depends on that: see shunt_board_bereft */
        shunt_warn_once(SHUNT_REASON_PEER_VETO, "rank %d of %d has ended", gone, board->n);
        return SHUNT_REASON_PEER_VETO;
    }
    if (missing && !shunt_conf->reproducible && (double)now * 1e-9 - round->since > TIMEOUT_SECONDS) {
        shunt_warn_once(SHUNT_REASON_TIMEOUT, "operation %llu waits for rank %d of %d",
                        (unsigned long long)round->sequence, __builtin_ctz(missing), board->n);
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
    enum shunt_reason trouble = board_trouble(board);
    if (trouble != SHUNT_REASON_NONE)
        return trouble;
    uint32_t polls = atomic_load_explicit(&board->polls, memory_order_relaxed);
    atomic_store_explicit(&board->polls, polls + 1, memory_order_relaxed);
    return polls % LOOK_POLLS ? SHUNT_REASON_NONE : look_at_time(round, missing);
}

enum shunt_round_state shunt_round_poll(struct shunt_round *round)
{
    struct shared_entry *entry = round->entry;
    /* acquire: the verdict and all posts, once it is decided */
    uint64_t bits = atomic_load_explicit(&entry->word, memory_order_acquire);
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
        if (swap_word(entry, &bits, to))
            return SHUNT_ROUND_STAGE;
        word = unpack_word(bits);
    }
    return word.state == RUN ? SHUNT_ROUND_RUN : SHUNT_ROUND_STAGE;
}

void shunt_round_veto(struct shunt_round *round, enum shunt_reason reason)
{
    struct shared_entry *entry = round->entry;
    /* a staged operation always has a reason: it is how a latecomer tells it from an entry never used */
    stage(entry, atomic_load_explicit(&entry->word, memory_order_acquire),
          reason != SHUNT_REASON_NONE ? reason : SHUNT_REASON_PEER_VETO);
}

const struct shunt_verdict *shunt_round_verdict(const struct shunt_round *round)
{
    struct shared_entry *entry = round->entry;
    struct word word = unpack_word(atomic_load_explicit(&entry->word, memory_order_acquire));
    if (word.state == RUN)
        return &post_of(round->board, entry, (int)word.by)->verdict;
    struct shunt_verdict *verdict = &post_of(round->board, entry, round->board->me)->verdict; /* only ours reads it */
    verdict->reason = word.reason;
    return verdict;
}

const struct shunt_post *shunt_round_post(const struct shunt_round *round, int i)
{
    return &post_of(round->board, round->entry, i)->post;
}

/* ---- leaving ---- */

/*
 * Rule 7: the entry is free again when it is decided and all who arrived have left. Nobody arrives once it is
 * decided, so the number of those who must leave is fixed, and the last of them is alone with the entry.
 */
void shunt_round_leave(struct shunt_round *round)
{
    struct shunt_board *board = round->board;
    struct shared_entry *entry = round->entry;
    uint64_t bits = atomic_load_explicit(&entry->word, memory_order_acquire);
    struct word word;
    do {
        word = unpack_word(bits);
        if (word.state == UNDECIDED) { /* whoever gives up has vetoed */
            word.state = STAGE;
            word.reason = SHUNT_REASON_PEER_VETO;
        }
        word.left++;
    } while (!swap_word(entry, &bits, word));
    if (word.left == (uint32_t)__builtin_popcount(word.arrived)) {
        for (uint32_t mask = word.arrived; mask; mask &= mask - 1)
            shunt_post_give(board->arena, entry->post[__builtin_ctz(mask)]);
        struct word unused = {.lap = word.lap, .state = FREE, .reason = word.reason};
        /* release: our reading of the posts' numbers comes before anybody writes new ones */
        atomic_store_explicit(&entry->word, pack_word(unused), memory_order_release);
    }
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
 * Rule 9: with more ranks than processors the one we wait for most likely has none, and gets ours at once. Polling
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
