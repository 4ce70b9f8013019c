/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations whose blocks differ. What a rank knows of them, its own row of counts and places, lies beside its post; the
 * decider reads the rows of all.
 */
#ifndef SHUNT_COLL_ROWS_H
#define SHUNT_COLL_ROWS_H

#include "base/board.h"
#include "coll/task.h"

/* The row of a task with spans, in the units of the board. */
void shunt_row_fill(const struct shunt_task *task, int n, struct shunt_row *row);

/* Has any of these posts a row? (Reduce_scatter has one only if its counts differ.) */
bool shunt_rows_any(const struct shunt_post *const *posts, int n);

/* Two ranks of which one sends not as much as the other expects, and both values. */
struct shunt_row_mismatch {
    int from, to;
    unsigned long long sent, expected; /* bytes */
};
bool shunt_rows_differ(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n,
                       struct shunt_row_mismatch *mismatch);

/* Bytes of the largest block of all. */
uint64_t shunt_rows_largest(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n);

/* Bytes that rank `from` sends to another one, of posts that match. */
uint64_t shunt_rows_sent(const struct shunt_arena *arena, const struct shunt_post *const *posts, int from, int to);

#endif
