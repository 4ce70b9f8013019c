/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations whose blocks differ; rows.h. */
#include "coll/rows.h"

#include <string.h>

void shunt_row_fill(const struct shunt_task *task, int n, struct shunt_row *row)
{
    const struct shunt_spans *spans = task->spans;

    memset(row, 0, sizeof *row);
    for (int q = 0; q < n; q++) {
        row->sent[q] = spans->in[q].bytes;
        row->received[q] = spans->out[q].bytes;
        row->place[q] = spans->out[q].at;
        row->align[q] = (uint8_t)(((uintptr_t)task->send + spans->in[q].at) % 16);
    }
}

bool shunt_rows_any(const struct shunt_post *const *posts, int n)
{
    for (int i = 0; i < n; i++) {
        if (posts[i]->row != 0)
            return true;
    }
    return false;
}

/* Of a post without a row all blocks are alike. */
static uint64_t block_bytes(const struct shunt_post *post)
{
    return post->count * shunt_type_size(post->type);
}

uint64_t shunt_rows_sent(const struct shunt_arena *arena, const struct shunt_post *const *posts, int from, int to)
{
    const struct shunt_row *row = shunt_row_of(arena, posts[from]);

    return row ? row->sent[to] : block_bytes(posts[from]);
}

static uint64_t received(const struct shunt_arena *arena, const struct shunt_post *const *posts, int to, int from)
{
    const struct shunt_row *row = shunt_row_of(arena, posts[to]);

    return row ? row->received[from] : block_bytes(posts[to]);
}

bool shunt_rows_differ(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n,
                       struct shunt_row_mismatch *mismatch)
{
    for (int to = 0; to < n; to++) {
        for (int from = 0; from < n; from++) {
            uint64_t sent = shunt_rows_sent(arena, posts, from, to), expected = received(arena, posts, to, from);
            if (sent != expected) {
                *mismatch = (struct shunt_row_mismatch){ from, to, sent, expected };
                return true;
            }
        }
    }
    return false;
}

uint64_t shunt_rows_largest(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n)
{
    uint64_t largest = 0;

    for (int from = 0; from < n; from++) {
        for (int to = 0; to < n; to++) {
            uint64_t bytes = shunt_rows_sent(arena, posts, from, to);
            largest = bytes > largest ? bytes : largest;
        }
    }
    return largest;
}
