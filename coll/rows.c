/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations whose blocks differ; rows.h. */
#include "coll/rows.h"

#include <stddef.h>
#include <string.h>

static void fill_row(const struct shunt_task *task, const struct shunt_spans *spans, int n, struct shunt_row *row)
{
    memset(row, 0, offsetof(struct shunt_row, next));
    for (int q = 0; q < n; q++) {
        row->sent[q] = spans->in[q].bytes;
        row->received[q] = spans->out[q].bytes;
        row->place[q] = spans->out[q].at;
        row->align[q] = (uint8_t)(((uintptr_t)task->send + spans->in[q].at) % 16);
    }
}

bool shunt_rows_take(struct shunt_arena *arena, const struct shunt_task *task, int n, struct shunt_post *post)
{
    for (uint32_t wave = task->waves; wave-- > 0;) {
        struct shunt_row *row = shunt_row_take(arena, post);
        if (row == NULL)
            return false;
        fill_row(task, &task->spans[wave], n, row);
    }
    return true;
}

bool shunt_rows_any(const struct shunt_post *const *posts, int n)
{
    for (int i = 0; i < n; i++) {
        if (posts[i]->row != 0)
            return true;
    }
    return false;
}

uint32_t shunt_rows_waves(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n)
{
    uint32_t waves = 1;

    for (int i = 0; i < n; i++) {
        while (waves < SHUNT_SPAN_WAVES && shunt_row_of(arena, posts[i], waves) != NULL)
            waves++;
    }
    return waves;
}

const struct shunt_row *shunt_rows_of(const struct shunt_arena *arena, const struct shunt_post *post, uint32_t wave)
{
    static const struct shunt_row nothing;
    const struct shunt_row *row = shunt_row_of(arena, post, wave);

    return row != NULL ? row : &nothing;
}

/* Of a post without a row all blocks are alike, and there is one wave. */
static bool all_alike(const struct shunt_post *post, uint32_t wave, uint64_t *bytes)
{
    *bytes = wave == 0 ? post->count * shunt_type_size(post->type) : 0;
    return post->row == 0;
}

static uint64_t sent(const struct shunt_arena *arena, const struct shunt_post *const *posts, int from, int to, uint32_t wave)
{
    uint64_t bytes;

    return all_alike(posts[from], wave, &bytes) ? bytes : shunt_rows_of(arena, posts[from], wave)->sent[to];
}

static uint64_t received(const struct shunt_arena *arena, const struct shunt_post *const *posts, int to, int from, uint32_t wave)
{
    uint64_t bytes;

    return all_alike(posts[to], wave, &bytes) ? bytes : shunt_rows_of(arena, posts[to], wave)->received[from];
}

bool shunt_rows_send(const struct shunt_arena *arena, const struct shunt_post *const *posts, int from, int to)
{
    for (uint32_t wave = 0; wave < SHUNT_SPAN_WAVES; wave++) {
        if (sent(arena, posts, from, to, wave) != 0)
            return true;
        if (shunt_row_of(arena, posts[from], wave) == NULL)
            return false;
    }
    return false;
}

static bool wave_differs(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n, uint32_t wave,
                          struct shunt_row_mismatch *mismatch)
{
    for (int to = 0; to < n; to++) {
        for (int from = 0; from < n; from++) {
            uint64_t goes = sent(arena, posts, from, to, wave), expected = received(arena, posts, to, from, wave);
            if (goes != expected) {
                *mismatch = (struct shunt_row_mismatch){ from, to, goes, expected };
                return true;
            }
        }
    }
    return false;
}

bool shunt_rows_differ(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n,
                       struct shunt_row_mismatch *mismatch)
{
    const uint32_t waves = shunt_rows_waves(arena, posts, n);

    for (uint32_t wave = 0; wave < waves; wave++) {
        if (wave_differs(arena, posts, n, wave, mismatch))
            return true;
    }
    return false;
}

uint64_t shunt_rows_largest(const struct shunt_arena *arena, const struct shunt_post *const *posts, int n)
{
    const uint32_t waves = shunt_rows_waves(arena, posts, n);
    uint64_t largest = 0;

    for (uint32_t wave = 0; wave < waves; wave++) {
        for (int i = 0; i < n * n; i++) {
            uint64_t bytes = sent(arena, posts, i / n, i % n, wave);
            largest = bytes > largest ? bytes : largest;
        }
    }
    return largest;
}
