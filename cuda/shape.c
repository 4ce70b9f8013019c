/* SPDX-License-Identifier: BSD-3-Clause */
/* How a pattern is made: pieces are appended and merged, loops are kept or found; pattern.h. */
#include <stdlib.h>
#include <string.h>

#include "cuda/pattern.h"

void shunt_shape_free(struct shunt_shape *shape)
{
    free(shape->pieces);
    free(shape->sets);
    *shape = (struct shunt_shape)SHUNT_SHAPE_EMPTY;
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
static enum shunt_status find_set(struct shunt_shape *shape, const struct shunt_loops *loops, uint32_t *number)
{
    if (shape->n_sets == shape->sets_room) {
        size_t room = shape->sets_room ? 2 * shape->sets_room : 4;
        struct shunt_loops *sets = realloc(shape->sets, room * sizeof *sets);
        if (!sets)
            return SHUNT_ERR_MEMORY;
        shape->sets = sets;
        shape->sets_room = room;
    }
    if (shape->n_sets == 0)
        shape->sets[shape->n_sets++] = (struct shunt_loops){ .levels = 0 };
    *number = 0;
    if (loops->levels == 0)
        return SHUNT_OK;
    *number = (uint32_t)shape->n_sets - 1;
    if (loops_equal(&shape->sets[*number], loops))
        return SHUNT_OK;
    *number = (uint32_t)shape->n_sets;
    shape->sets[shape->n_sets++] = *loops;
    return SHUNT_OK;
}

/* Unless it continues the piece before it. */
static enum shunt_status add_piece(struct shunt_shape *shape, int64_t offset, uint64_t length,
                                   const struct shunt_loops *loops)
{
    struct shunt_strip *last = shape->n ? &shape->pieces[shape->n - 1] : NULL;
    uint32_t number;

    if (length == 0)
        return SHUNT_OK;
    if (last && loops->levels == 0 && last->loops == 0 && last->offset + (int64_t)last->length == offset) {
        last->length += length;
        return SHUNT_OK;
    }
    if (shape->n >= SHUNT_PIECES)
        return SHUNT_ERR_LIMIT;
    if (shape->n == shape->room) {
        size_t room = shape->room ? 2 * shape->room : 4;
        struct shunt_strip *pieces = realloc(shape->pieces, room * sizeof *pieces);
        if (!pieces)
            return SHUNT_ERR_MEMORY;
        shape->pieces = pieces;
        shape->room = room;
    }
    enum shunt_status status = find_set(shape, loops, &number);
    if (status == SHUNT_OK)
        shape->pieces[shape->n++] = (struct shunt_strip){ offset, length, number };
    return status;
}

enum shunt_status shunt_shape_block(struct shunt_shape *shape, int64_t offset, uint64_t length)
{
    static const struct shunt_loops none = { .levels = 0 };

    return add_piece(shape, offset, length, &none);
}

/* The pieces of a shape's list, moved. */
static enum shunt_status add_list(struct shunt_shape *shape, const struct shunt_shape *part, int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    for (size_t i = 0; i < part->n && status == SHUNT_OK; i++) {
        const struct shunt_strip *piece = &part->pieces[i];
        status = add_piece(shape, offset + piece->offset, piece->length, &part->sets[piece->loops]);
    }
    return status;
}

/* With its outer loops from `level` down. */
static enum shunt_status add_unrolled(struct shunt_shape *shape, const struct shunt_shape *part, uint32_t level,
                                      int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    if (level == 0)
        return add_list(shape, part, offset);
    const struct shunt_loop *loop = &part->outer[level - 1];
    for (uint64_t i = 0; i < loop->count && status == SHUNT_OK; i++)
        status = add_unrolled(shape, part, level - 1, offset + (int64_t)i * loop->stride);
    return status;
}

static enum shunt_status unroll(struct shunt_shape *shape)
{
    struct shunt_shape flat = SHUNT_SHAPE_EMPTY;

    if (shape->outer_levels == 0)
        return SHUNT_OK;
    enum shunt_status status = add_unrolled(&flat, shape, shape->outer_levels, 0);
    if (status == SHUNT_OK)
        status = shunt_shape_fold(&flat);
    if (status != SHUNT_OK) {
        shunt_shape_free(&flat);
        return status;
    }
    shunt_shape_free(shape);
    *shape = flat;
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
static enum shunt_status repeat_piece(struct shunt_shape *shape, uint64_t count, int64_t stride, bool *done)
{
    struct shunt_strip *piece = &shape->pieces[0];
    struct shunt_loops loops = shape->sets[piece->loops];

    *done = true;
    if (loops.levels == 0 && stride == (int64_t)piece->length) {
        piece->length *= count;
        return SHUNT_OK;
    }
    *done = add_loop(loops.loops, &loops.levels, count, stride);
    return *done ? find_set(shape, &loops, &piece->loops) : SHUNT_OK;
}

enum shunt_status shunt_shape_repeat(struct shunt_shape *shape, uint64_t count, int64_t stride)
{
    enum shunt_status status = SHUNT_OK;
    bool done = false;

    if (count == 0)
        shunt_shape_free(shape);
    if (count <= 1 || shape->n == 0)
        return SHUNT_OK;
    if (shape->n == 1 && shape->outer_levels == 0)
        status = repeat_piece(shape, count, stride, &done);
    if (status != SHUNT_OK || done || add_loop(shape->outer, &shape->outer_levels, count, stride))
        return status;
    status = unroll(shape);
    return status == SHUNT_OK ? shunt_shape_repeat(shape, count, stride) : status;
}

static enum shunt_status copy_shape(struct shunt_shape *copy, const struct shunt_shape *shape, int64_t offset)
{
    enum shunt_status status = add_list(copy, shape, offset);

    copy->outer_levels = shape->outer_levels;
    memcpy(copy->outer, shape->outer, sizeof copy->outer);
    return status;
}

enum shunt_status shunt_shape_add(struct shunt_shape *shape, const struct shunt_shape *part, int64_t offset,
                                  uint64_t count, int64_t stride)
{
    struct shunt_shape repeated = SHUNT_SHAPE_EMPTY;
    enum shunt_status status;

    if (count == 0 || part->n == 0)
        return SHUNT_OK;
    bool dense = part->n == 1 && part->outer_levels == 0 && part->pieces[0].loops == 0;
    if (dense && (count == 1 || stride == (int64_t)part->pieces[0].length) && shape->outer_levels == 0)
        return shunt_shape_block(shape, offset + part->pieces[0].offset, count * part->pieces[0].length);
    status = copy_shape(&repeated, part, offset);
    if (status == SHUNT_OK)
        status = shunt_shape_repeat(&repeated, count, stride);
    if (status == SHUNT_OK && shape->n == 0) {
        shunt_shape_free(shape);
        *shape = repeated;
        return SHUNT_OK;
    }
    if (status == SHUNT_OK)
        status = unroll(shape);
    if (status == SHUNT_OK)
        status = add_unrolled(shape, &repeated, repeated.outer_levels, 0);
    shunt_shape_free(&repeated);
    return status;
}

/* ---- loops among the pieces ---- */

/* How many pieces from number i on are alike and equally far apart. */
static size_t find_run(const struct shunt_shape *shape, size_t i)
{
    const struct shunt_strip *first = &shape->pieces[i];
    size_t n = 1;

    if (shape->sets[first->loops].levels == SHUNT_LOOPS)
        return 1;
    for (; i + n < shape->n; n++) {
        const struct shunt_strip *next = &first[n];
        if (next->length != first->length || !loops_equal(&shape->sets[next->loops], &shape->sets[first->loops]) ||
            next->offset - next[-1].offset != first[1].offset - first->offset)
            break;
    }
    return n;
}

/* One pass. */
static enum shunt_status fold_runs(const struct shunt_shape *shape, struct shunt_shape *folded)
{
    enum shunt_status status = SHUNT_OK;

    for (size_t i = 0, n; i < shape->n && status == SHUNT_OK; i += n) {
        const struct shunt_strip *piece = &shape->pieces[i];
        struct shunt_loops loops = shape->sets[piece->loops];
        n = find_run(shape, i);
        if (n > 1 && !add_loop(loops.loops, &loops.levels, n, piece[1].offset - piece->offset))
            n = 1;
        status = add_piece(folded, piece->offset, piece->length, &loops);
    }
    return status;
}

/* Nests take more memory and time than blocks do: they must be few, or much fewer. */
static bool is_better(const struct shunt_shape *folded, const struct shunt_shape *shape)
{
    return folded->n < shape->n && (folded->n <= 8 || folded->n <= shape->n / 4);
}

enum shunt_status shunt_shape_fold(struct shunt_shape *shape)
{
    while (shape->n > 1) {
        struct shunt_shape folded = SHUNT_SHAPE_EMPTY;
        enum shunt_status status = fold_runs(shape, &folded);

        if (status != SHUNT_OK || !is_better(&folded, shape)) {
            shunt_shape_free(&folded);
            return status;
        }
        folded.outer_levels = shape->outer_levels;
        memcpy(folded.outer, shape->outer, sizeof folded.outer);
        shunt_shape_free(shape);
        *shape = folded;
    }
    return SHUNT_OK;
}
