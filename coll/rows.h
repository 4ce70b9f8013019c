/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations whose blocks differ. What a rank knows of them, its own row of counts and places, lies beside its post; the
 * decider reads the rows of all.
 */
#ifndef SHUNT_COLL_ROWS_H
#define SHUNT_COLL_ROWS_H

#include "base/board.h"
#include "coll/task.h"

/* The rows of a task with spans, for a post that is about to arrive. False: there are not so many. */
bool shunt_rows_take(struct shunt_arena *arena, const struct shunt_task *task, int n, struct shunt_post *post);

/* The row of somebody's post for a wave; one in which there is nothing, if it has none for it. */
const struct shunt_row *shunt_rows_of(const struct shunt_arena *arena, const struct shunt_post *post, uint32_t wave);

/* Has any of these posts a row? (Reduce_scatter has one only if its counts differ.) */
bool shunt_rows_any(const struct shunt_post *const *posts, int n);

/* Two ranks of which one sends not as much as the other expects, and both values. */
struct shunt_row_mismatch {
    int from, to;
    unsigned long long sent, expected; /* bytes */
};
bool shunt_rows_differ(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n,
                       struct shunt_row_mismatch *mismatch);

/* Bytes of the largest block of all, and waves of the operation: the most that any rank has. */
uint64_t shunt_rows_largest(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n);
uint32_t shunt_rows_waves(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n);

/* Does rank `from` send anything to another one? */
bool shunt_rows_send(const struct shunt_arena *arena, const struct shunt_post *const *posts, int from, int to);

#endif
