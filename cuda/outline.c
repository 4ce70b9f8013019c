/* SPDX-License-Identifier: BSD-3-Clause */
/* How a pattern is made: pieces are appended and merged, loops are kept or found; pattern.h. */
#include <stdlib.h>
#include <string.h>

#include "cuda/pattern.h"

void shunt_outline_free(struct shunt_outline *outline)
{
    free(outline->pieces);
    free(outline->sets);
    *outline = (struct shunt_outline)SHUNT_OUTLINE_EMPTY;
}

static bool loops_equal(const struct shunt_loops *a, const struct shunt_loops *b)
{
    if (a->levels != b->levels)
        return false;
    for (uint32_t i = 0; i < a->levels; i++)
        if (a->loops[i].count != b->loops[i].count || a->loops[i].stride != b->loops[i].stride)
            return false;
    return true;
}

/* The number of these loops; pieces that follow each other mostly have the same. */
static enum shunt_status find_set(struct shunt_outline *outline, const struct shunt_loops *loops, uint32_t *number)
{
    if (outline->n_sets == outline->sets_room) {
        size_t room = outline->sets_room ? 2 * outline->sets_room : 4;
        struct shunt_loops *sets = realloc(outline->sets, room * sizeof *sets);
        if (!sets)
            return SHUNT_ERR_MEMORY;
        outline->sets = sets;
        outline->sets_room = room;
    }
    if (outline->n_sets == 0)
        outline->sets[outline->n_sets++] = (struct shunt_loops){ .levels = 0 };
    *number = 0;
    if (loops->levels == 0)
        return SHUNT_OK;
    *number = (uint32_t)outline->n_sets - 1;
    if (loops_equal(&outline->sets[*number], loops))
        return SHUNT_OK;
    *number = (uint32_t)outline->n_sets;
    outline->sets[outline->n_sets++] = *loops;
    return SHUNT_OK;
}

/* Unless it continues the piece before it. */
static enum shunt_status add_piece(struct shunt_outline *outline, int64_t offset, uint64_t length,
                                   const struct shunt_loops *loops)
{
    struct shunt_strip *last = outline->n ? &outline->pieces[outline->n - 1] : NULL;
    uint32_t number;

    if (length == 0)
        return SHUNT_OK;
    if (last && loops->levels == 0 && last->loops == 0 && last->offset + (int64_t)last->length == offset) {
        last->length += length;
        return SHUNT_OK;
    }
    if (outline->n >= SHUNT_PIECES)
        return SHUNT_ERR_LIMIT;
    if (outline->n == outline->room) {
        size_t room = outline->room ? 2 * outline->room : 4;
        struct shunt_strip *pieces = realloc(outline->pieces, room * sizeof *pieces);
        if (!pieces)
            return SHUNT_ERR_MEMORY;
        outline->pieces = pieces;
        outline->room = room;
    }
    enum shunt_status status = find_set(outline, loops, &number);
    if (status == SHUNT_OK)
        outline->pieces[outline->n++] = (struct shunt_strip){ offset, length, number };
    return status;
}

enum shunt_status shunt_outline_block(struct shunt_outline *outline, int64_t offset, uint64_t length)
{
    static const struct shunt_loops none = { .levels = 0 };

    return add_piece(outline, offset, length, &none);
}

/* The pieces of a outline's list, moved. */
static enum shunt_status add_list(struct shunt_outline *outline, const struct shunt_outline *part, int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    for (size_t i = 0; i < part->n && status == SHUNT_OK; i++) {
        const struct shunt_strip *piece = &part->pieces[i];
        status = add_piece(outline, offset + piece->offset, piece->length, &part->sets[piece->loops]);
    }
    return status;
}

/* With its outer loops from `level` down. */
static enum shunt_status add_unrolled(struct shunt_outline *outline, const struct shunt_outline *part, uint32_t level,
                                      int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    if (level == 0)
        return add_list(outline, part, offset);
    const struct shunt_loop *loop = &part->outer[level - 1];
    for (uint64_t i = 0; i < loop->count && status == SHUNT_OK; i++)
        status = add_unrolled(outline, part, level - 1, offset + (int64_t)i * loop->stride);
    return status;
}

static enum shunt_status unroll(struct shunt_outline *outline)
{
    struct shunt_outline flat = SHUNT_OUTLINE_EMPTY;

    if (outline->outer_levels == 0)
        return SHUNT_OK;
    enum shunt_status status = add_unrolled(&flat, outline, outline->outer_levels, 0);
    if (status == SHUNT_OK)
        status = shunt_outline_fold(&flat);
    if (status != SHUNT_OK) {
        shunt_outline_free(&flat);
        return status;
    }
    shunt_outline_free(outline);
    *outline = flat;
    return SHUNT_OK;
}

/* One more loop around these, merged with the outermost if it goes on as that does. False: there is no room for it. */
static bool add_loop(struct shunt_loop *loops, uint32_t *levels, uint64_t count, int64_t stride)
{
    struct shunt_loop *last = *levels ? &loops[*levels - 1] : NULL;

    if (last && (int64_t)last->count * last->stride == stride) {
        last->count *= count;
        return true;
    }
    if (*levels == SHUNT_LOOPS)
        return false;
    loops[(*levels)++] = (struct shunt_loop){ count, stride };
    return true;
}

/* A loop around a list of one piece becomes one of the piece. */
static enum shunt_status repeat_piece(struct shunt_outline *outline, uint64_t count, int64_t stride, bool *done)
{
    struct shunt_strip *piece = &outline->pieces[0];
    struct shunt_loops loops = outline->sets[piece->loops];

    *done = true;
    if (loops.levels == 0 && stride == (int64_t)piece->length) {
        piece->length *= count;
        return SHUNT_OK;
    }
    *done = add_loop(loops.loops, &loops.levels, count, stride);
    return *done ? find_set(outline, &loops, &piece->loops) : SHUNT_OK;
}

enum shunt_status shunt_outline_repeat(struct shunt_outline *outline, uint64_t count, int64_t stride)
{
    enum shunt_status status = SHUNT_OK;
    bool done = false;

    if (count == 0)
        shunt_outline_free(outline);
    if (count <= 1 || outline->n == 0)
        return SHUNT_OK;
    if (outline->n == 1 && outline->outer_levels == 0)
        status = repeat_piece(outline, count, stride, &done);
    if (status != SHUNT_OK || done || add_loop(outline->outer, &outline->outer_levels, count, stride))
        return status;
    status = unroll(outline);
    return status == SHUNT_OK ? shunt_outline_repeat(outline, count, stride) : status;
}

static enum shunt_status copy_outline(struct shunt_outline *copy, const struct shunt_outline *outline, int64_t offset)
{
    enum shunt_status status = add_list(copy, outline, offset);

    copy->outer_levels = outline->outer_levels;
    memcpy(copy->outer, outline->outer, sizeof copy->outer);
    return status;
}

enum shunt_status shunt_outline_add(struct shunt_outline *outline, const struct shunt_outline *part, int64_t offset,
                                  uint64_t count, int64_t stride)
{
    struct shunt_outline repeated = SHUNT_OUTLINE_EMPTY;
    enum shunt_status status;

    if (count == 0 || part->n == 0)
        return SHUNT_OK;
    bool dense = part->n == 1 && part->outer_levels == 0 && part->pieces[0].loops == 0;
    if (dense && (count == 1 || stride == (int64_t)part->pieces[0].length) && outline->outer_levels == 0)
        return shunt_outline_block(outline, offset + part->pieces[0].offset, count * part->pieces[0].length);
    status = copy_outline(&repeated, part, offset);
    if (status == SHUNT_OK)
        status = shunt_outline_repeat(&repeated, count, stride);
    if (status == SHUNT_OK && outline->n == 0) {
        shunt_outline_free(outline);
        *outline = repeated;
        return SHUNT_OK;
    }
    if (status == SHUNT_OK)
        status = unroll(outline);
    if (status == SHUNT_OK)
        status = add_unrolled(outline, &repeated, repeated.outer_levels, 0);
    shunt_outline_free(&repeated);
    return status;
}

/* ---- loops among the pieces ---- */

/* How many pieces from number i on are alike and equally far apart. */
static size_t find_run(const struct shunt_outline *outline, size_t i)
{
    const struct shunt_strip *first = &outline->pieces[i];
    size_t n = 1;

    if (outline->sets[first->loops].levels == SHUNT_LOOPS)
        return 1;
    for (; i + n < outline->n; n++) {
        const struct shunt_strip *next = &first[n];
        if (next->length != first->length || !loops_equal(&outline->sets[next->loops], &outline->sets[first->loops]) ||
            next->offset - next[-1].offset != first[1].offset - first->offset)
            break;
    }
    return n;
}

/* One pass. */
static enum shunt_status fold_runs(const struct shunt_outline *outline, struct shunt_outline *folded)
{
    enum shunt_status status = SHUNT_OK;

    for (size_t i = 0, n; i < outline->n && status == SHUNT_OK; i += n) {
        const struct shunt_strip *piece = &outline->pieces[i];
        struct shunt_loops loops = outline->sets[piece->loops];
        n = find_run(outline, i);
        if (n > 1 && !add_loop(loops.loops, &loops.levels, n, piece[1].offset - piece->offset))
            n = 1;
        status = add_piece(folded, piece->offset, piece->length, &loops);
    }
    return status;
}

/* Nests take more memory and time than blocks do: they must be few, or much fewer. */
static bool is_better(const struct shunt_outline *folded, const struct shunt_outline *outline)
{
    return folded->n < outline->n && (folded->n <= 8 || folded->n <= outline->n / 4);
}

enum shunt_status shunt_outline_fold(struct shunt_outline *outline)
{
    while (outline->n > 1) {
        struct shunt_outline folded = SHUNT_OUTLINE_EMPTY;
        enum shunt_status status = fold_runs(outline, &folded);

        if (status != SHUNT_OK || !is_better(&folded, outline)) {
            shunt_outline_free(&folded);
            return status;
        }
        folded.outer_levels = outline->outer_levels;
        memcpy(folded.outer, outline->outer, sizeof folded.outer);
        shunt_outline_free(outline);
        *outline = folded;
    }
    return SHUNT_OK;
}
