/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrival by a tree, for boards of 17 to 64 members: groups of eight, and a root. Where all change and poll one word, each
 * change takes the line from all others, and 32 members need more than 3 us for an operation.
 *
 * Each group of an entry has a word as that of a flat board (board.c), and so has the root, whose members are the groups:
 *
 *     group FREE -> UNDECIDED    its first member arrives, and then enters the root: the group's bit in the root's `arrived`
 *     group `by`: 0 -> 1         ... has entered. From now on the root alone says what becomes of the operation
 *     group UNDECIDED -> STAGE   while `by` is 0: a veto, or the root was not to be entered. Once `by` is 1: a member leaves
 *                                a staged operation, so that nobody arrives any more
 *     root, the group's bit << 8 the group is complete: set by whoever made it both complete and entered
 *     root UNDECIDED -> RUN      by whoever set the last of these bits
 *     root UNDECIDED -> STAGE    by any member of a group that has entered
 *     root `left`                groups whose members have all left; the last of them gives back all posts and frees the
 *                                groups, then the root. A group that has not entered is freed by its own last member
 *
 * Who waits looks at the counters of its own group's missing members, and of the first member of each group that is not
 * complete. That is enough: such a member is late, and all wait; or it is on the host, and whoever looks sees it; or it
 * has arrived, and then it looks after its group itself.
 */
#include "base/board_inner.h"

enum { GROUP = SHARED_GROUP };

static int group_of(int member)
{
    return member / GROUP;
}

static uint32_t members_of(const struct shunt_board *board, int group)
{
    int n = board->n - group * GROUP;
    return (1u << (n < GROUP ? n : GROUP)) - 1;
}

static uint32_t all_groups(const struct shunt_board *board)
{
    return (1u << (group_of(board->n - 1) + 1)) - 1;
}

static _Atomic uint64_t *group_word(struct shared_tree *tree, int group)
{
    return &tree->group[group].word;
}

/* ---- arriving ---- */

/* The group's first member: its bit in the root. NONE, or why not. */
static enum shunt_reason enter_root(struct shared_tree *tree, int group, uint32_t lap)
{
    uint64_t bits = load_word(&tree->root);
    struct word to;
    do {
        struct word word = unpack_word(bits);
        enum shunt_reason trouble = entry_trouble(word, lap);
        if (trouble != SHUNT_REASON_NONE)
            return trouble;
        to = (struct word){.lap = lap, .state = UNDECIDED, .arrived = 1u << group};
        if (word.state == UNDECIDED)
            to.arrived |= word.arrived;
    } while (!swap_word(&tree->root, &bits, to));
    return SHUNT_REASON_NONE;
}

/* The group has entered: say so in its word, which answers what it is then. */
static struct word mark_entered(struct shared_tree *tree, int group)
{
    uint64_t bits = load_word(group_word(tree, group));
    struct word to;
    do {
        to = unpack_word(bits);
        /* A veto before the group had entered. First the root: who sees the mark asks the root alone. */
        if (to.state == STAGE)
            stage_word(&tree->root, to.reason);
        to.by = 1;
    } while (!swap_word(group_word(tree, group), &bits, to));
    return to;
}

/* Set the group's second bit. True: it was the last, so the caller decides. */
static bool complete_group(struct shunt_board *board, struct shared_tree *tree, int group)
{
    uint64_t bits = load_word(&tree->root);
    struct word to;
    do {
        to = unpack_word(bits);
        if (to.state != UNDECIDED)
            return false;
        to.arrived |= 1u << (8 + group);
    } while (!swap_word(&tree->root, &bits, to));
    return to.arrived >> 8 == all_groups(board);
}

/* Into the group's word. NONE: arrived; *first: as the first of the group. */
static enum shunt_reason enter_group(struct shunt_board *board, struct shared_tree *tree, uint16_t post, uint32_t lap,
                                     struct word *now, bool *first)
{
    _Atomic uint64_t *at = group_word(tree, group_of(board->me));
    uint64_t bits = load_word(at);
    struct word to;
    do {
        struct word word = unpack_word(bits);
        enum shunt_reason trouble = entry_trouble(word, lap);
        if (trouble != SHUNT_REASON_NONE)
            return trouble;
        *first = word.state == FREE;
        to = *first ? (struct word){.lap = lap, .state = UNDECIDED} : word;
        to.arrived |= 1u << board->me % GROUP;
        tree->post[board->me] = post; /* as in board.c: only now, and nobody else writes it */
    } while (!swap_word(at, &bits, to));
    *now = to;
    return SHUNT_REASON_NONE;
}

enum shunt_reason shunt_tree_enter(struct shunt_board *board, struct shared_tree *tree, uint16_t post, bool *last)
{
    const int group = group_of(board->me);
    const uint32_t lap = lap_of(board->sequence, SHARED_TREES);
    struct word now;
    bool first;
    enum shunt_reason trouble = enter_group(board, tree, post, lap, &now, &first);
    if (trouble != SHUNT_REASON_NONE)
        return trouble;
    if (first) {
        trouble = enter_root(tree, group, lap);
        if (trouble != SHUNT_REASON_NONE) {
            stage_word(group_word(tree, group), trouble); /* arrived all the same; the next look says STAGE */
            return SHUNT_REASON_NONE;
        }
        now = mark_entered(tree, group);
    }
    /* All three at once: true of the word after just one of its changes. */
    *last = now.state == UNDECIDED && now.by && now.arrived == members_of(board, group) &&
            complete_group(board, tree, group);
    return SHUNT_REASON_NONE;
}

/* ---- waiting ---- */

/* The word that says what becomes of the operation, for the caller's group. */
static struct word ruling_word(struct shared_tree *tree, int group)
{
    struct word word = unpack_word(load_word(group_word(tree, group)));
    return word.by ? unpack_word(load_word(&tree->root)) : word;
}

/*
 * Has this member arrived, or may it still? It has passed, so it comes no more, and this look, which is later, finds its
 * bit if it ever set it. (A group that has left already is one whose members have seen the operation staged.)
 */
static bool has_arrived(struct shared_tree *tree, int member, uint32_t lap)
{
    struct word word = unpack_word(load_word(group_word(tree, group_of(member))));
    return word.state != FREE && word.lap == lap && (word.arrived >> member % GROUP & 1);
}

/* A member that is on the host, or -1; *missing: one that has not come. */
static int find_host(const struct shunt_round *round, struct shared_tree *tree, struct word mine, int *missing)
{
    const struct shunt_board *board = round->board;
    const int group = group_of(board->me);
    const uint32_t lap = lap_of(round->sequence, SHARED_TREES);
    *missing = -1;
    for (uint32_t mask = members_of(board, group) & ~mine.arrived; mask; mask &= mask - 1) {
        int i = group * GROUP + __builtin_ctz(mask);
        *missing = i;
        if (member_passed(board, i, round->sequence) && !has_arrived(tree, i, lap))
            return i;
    }
    if (!mine.by)
        return -1;
    uint32_t complete = unpack_word(load_word(&tree->root)).arrived >> 8;
    for (uint32_t mask = all_groups(board) & ~complete & ~(1u << group); mask; mask &= mask - 1) {
        int i = __builtin_ctz(mask) * GROUP;
        *missing = i;
        if (member_passed(board, i, round->sequence) && !has_arrived(tree, i, lap))
            return i;
    }
    return -1;
}

static enum shunt_reason look_around(const struct shunt_round *round, struct shared_tree *tree)
{
    struct word mine = unpack_word(load_word(group_word(tree, group_of(round->board->me))));
    int missing;
    if (find_host(round, tree, mine, &missing) >= 0)
        return SHUNT_REASON_PEER_ON_HOST;
    enum shunt_reason trouble = shunt_board_trouble(round->board);
    return trouble != SHUNT_REASON_NONE ? trouble : shunt_board_time(round, missing);
}

enum shunt_round_state shunt_tree_poll(struct shunt_round *round)
{
    struct shared_tree *tree = round->entry;
    const int group = group_of(round->board->me);
    struct word word = ruling_word(tree, group);
    if (word.state == UNDECIDED) {
        enum shunt_reason reason = look_around(round, tree);
        if (reason == SHUNT_REASON_NONE)
            return SHUNT_ROUND_UNDECIDED;
        shunt_tree_veto(round, reason);
        word = ruling_word(tree, group);
    }
    return word.state == RUN ? SHUNT_ROUND_RUN : SHUNT_ROUND_STAGE;
}

void shunt_tree_veto(struct shunt_round *round, enum shunt_reason reason)
{
    struct shared_tree *tree = round->entry;
    _Atomic uint64_t *at = group_word(tree, group_of(round->board->me));
    uint64_t bits = load_word(at);
    struct word to;
    do {
        to = unpack_word(bits);
        if (to.by) {
            stage_word(&tree->root, reason);
            return;
        }
        if (to.state != UNDECIDED)
            return;
        to.state = STAGE;
        to.reason = reason;
    } while (!swap_word(at, &bits, to));
}

const struct shunt_verdict *shunt_tree_verdict(const struct shunt_round *round)
{
    struct shunt_board *board = round->board;
    struct shared_tree *tree = round->entry;
    struct word word = ruling_word(tree, group_of(board->me));
    if (word.state == RUN)
        return &post_at(board, tree->post, (int)tree->decider)->verdict;
    struct shunt_verdict *verdict = &post_at(board, tree->post, board->me)->verdict; /* only ours reads it */
    verdict->reason = word.reason;
    return verdict;
}

/* ---- leaving ---- */

/* Give back the posts of a group that all have left, and free its word; nobody else is in it. */
static void free_group(struct shunt_board *board, struct shared_tree *tree, int group, enum shunt_reason reason)
{
    struct word word = unpack_word(load_word(group_word(tree, group)));
    for (uint32_t mask = word.arrived; mask; mask &= mask - 1)
        shunt_post_give(board->arena, tree->post[group * GROUP + __builtin_ctz(mask)]);
    struct word unused = {.lap = word.lap, .state = FREE, .reason = reason};
    /* release: our reading of the posts' numbers comes before anybody writes new ones */
    atomic_store_explicit(group_word(tree, group), pack_word(unused), memory_order_release);
}

/*
 * All of the group have left. Posts are given back only when all groups have: the last to arrive may still be reading
 * them, though the operation was vetoed meanwhile.
 */
static void leave_root(struct shunt_board *board, struct shared_tree *tree)
{
    uint64_t bits = load_word(&tree->root);
    struct word word;
    do {
        word = unpack_word(bits);
        word.left++;
    } while (!swap_word(&tree->root, &bits, word));
    if (word.left != (uint32_t)__builtin_popcount(word.arrived & 0xff))
        return;
    for (uint32_t mask = word.arrived & 0xff; mask; mask &= mask - 1)
        free_group(board, tree, __builtin_ctz(mask), word.reason);
    struct word unused = {.lap = word.lap, .state = FREE, .reason = word.reason};
    /* release: the groups are free before the root is */
    atomic_store_explicit(&tree->root, pack_word(unused), memory_order_release);
}

void shunt_tree_leave(struct shunt_round *round)
{
    struct shunt_board *board = round->board;
    struct shared_tree *tree = round->entry;
    const int group = group_of(board->me);
    _Atomic uint64_t *at = group_word(tree, group);
    shunt_tree_veto(round, SHUNT_REASON_PEER_VETO); /* whoever gives up has vetoed */
    struct word ruling = ruling_word(tree, group);
    uint64_t bits = load_word(at);
    struct word word;
    do {
        word = unpack_word(bits);
        if (word.state == UNDECIDED && ruling.state == STAGE) { /* nobody arrives any more */
            word.state = STAGE;
            word.reason = ruling.reason;
        }
        word.left++;
    } while (!swap_word(at, &bits, word));
    if (word.left != (uint32_t)__builtin_popcount(word.arrived))
        return;
    if (word.by)
        leave_root(board, tree);
    else
        free_group(board, tree, group, word.reason);
}
