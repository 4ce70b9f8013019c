/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that call different things; mismatch.h. */
#include "coll/mismatch.h"

#include <string.h>

#include "base/log.h"
#include "coll/rows.h"
#include "coll/select.h"

/* The word for a value of this field, or NULL: then the number says it. */
static const char *value_word(const char *field, unsigned long long value)
{
    if (strcmp(field, "collective") == 0)
        return shunt_coll_name((unsigned)value);
    if (strcmp(field, "form") == 0)
        return value & SHUNT_POST_PARTS ? "one for the host" : value != 0 ? "persistent" : "another";
    if (strcmp(field, "element type") == 0)
        return shunt_type_name((enum shunt_type)value);
    return strcmp(field, "operation") == 0 ? shunt_op_name((enum shunt_op)value) : NULL;
}

static void say_difference(unsigned coll, const char *field, unsigned long long a, unsigned long long b, int rank)
{
    if (value_word(field, a) != NULL)
        shunt_log_always("%s: the ranks do not match: %s is %s on rank 0 and %s on rank %d", shunt_coll_name(coll),
                         field, value_word(field, a), value_word(field, b), rank);
    else
        shunt_log_always("%s: the ranks do not match: %s is %llu on rank 0 and %llu on rank %d",
                         shunt_coll_name(coll), field, a, b, rank);
}

/* Of posts that differ in nothing else: the receiver says it. */
static void say_rows(const struct shunt_arena *arena, const struct shunt_round *round, int me)
{
    const struct shunt_post *posts[SHUNT_BOARD_RANKS];
    struct shunt_row_mismatch mismatch;
    int n = shunt_board_size(round->board);

    for (int q = 0; q < n; q++) {
        posts[q] = n <= SHUNT_BOARD_RANKS ? shunt_round_post(round, q) : NULL;
        if (posts[q] == NULL)
            return;
    }
    if (shunt_rows_any(posts, n) && shunt_rows_differ(arena, posts, n, &mismatch) && mismatch.to == me)
        shunt_log_always("%s: the ranks do not match: rank %d sends %llu bytes to rank %d, which expects %llu",
                         shunt_coll_name(posts[0]->coll), mismatch.from, mismatch.sent, me, mismatch.expected);
}

void shunt_mismatch_say(const struct shunt_arena *arena, const struct shunt_round *round)
{
    int me = shunt_board_rank(round->board);
    unsigned long long a, b;

    for (int q = 1; q < shunt_board_size(round->board); q++) {
        const struct shunt_post *first = shunt_round_post(round, 0), *post = shunt_round_post(round, q);
        const char *field = first && post ? shunt_posts_differ(first, post, &a, &b) : NULL;
        if (field != NULL) {
            if (q == me)
                say_difference(first->coll, field, a, b, q);
            return;
        }
    }
    say_rows(arena, round, me);
}
