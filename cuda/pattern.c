/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns: made from shapes, walked and moved on the host; pattern.h. */
#include "cuda/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/pack.h"

/* ---- life ---- */

struct shunt_pattern *shunt_pattern_keep(struct shunt_pattern *pattern)
{
    if (pattern)
        atomic_fetch_add_explicit(&pattern->references, 1, memory_order_relaxed);
    return pattern;
}

void shunt_pattern_release(struct shunt_pattern *pattern)
{
    /* Acquire and release: what the others did with it comes before it is freed. */
    if (!pattern || atomic_fetch_sub_explicit(&pattern->references, 1, memory_order_acq_rel) != 1)
        return;
    shunt_pack_forget(pattern);
    free(pattern->nests);
    free(pattern->offsets);
    free(pattern->starts);
    free(pattern);
}

static uint64_t loops_count(const struct shunt_loop *loops, uint32_t levels)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < levels; i++)
        n *= loops[i].count;
    return n;
}

static void make_nests(const struct shunt_outline *shape, struct shunt_pattern *pattern)
{
    uint64_t start = 0;

    for (size_t i = 0; i < shape->n; i++) {
        const struct shunt_strip *piece = &shape->pieces[i];
        const struct shunt_loops *set = &shape->sets[piece->loops];
        struct shunt_nest *nest = &pattern->nests[i];

        *nest = (struct shunt_nest){ start, piece->offset, piece->length, set->levels, { { 0, 0 } } };
        memcpy(nest->loops, set->loops, sizeof nest->loops);
        start += piece->length * loops_count(set->loops, set->levels);
    }
    pattern->list_bytes = start;
}

static void make_blocks(const struct shunt_outline *shape, struct shunt_pattern *pattern)
{
    uint64_t start = 0;

    for (size_t i = 0; i < shape->n; i++) {
        pattern->offsets[i] = shape->pieces[i].offset;
        if (pattern->starts)
            pattern->starts[i] = start;
        start += shape->pieces[i].length;
    }
    if (pattern->starts)
        pattern->starts[shape->n] = start;
    pattern->list_bytes = start;
}

/* More pieces than this without loops are blocks. */
enum { FEW = 8 };

static enum shunt_status make_list(const struct shunt_outline *shape, struct shunt_pattern *pattern)
{
    bool plain = shape->n > FEW, uniform = true;

    pattern->n = shape->n;
    for (size_t i = 0; i < shape->n; i++) {
        plain = plain && shape->pieces[i].loops == 0;
        uniform = uniform && shape->pieces[i].length == shape->pieces[0].length;
    }
    if (!plain) {
        pattern->nests = malloc(shape->n * sizeof *pattern->nests);
        if (!pattern->nests)
            return SHUNT_ERR_MEMORY;
        make_nests(shape, pattern);
        return SHUNT_OK;
    }
    pattern->offsets = malloc(shape->n * sizeof *pattern->offsets);
    pattern->starts = uniform ? NULL : malloc((shape->n + 1) * sizeof *pattern->starts);
    pattern->length = uniform ? shape->pieces[0].length : 0;
    if (!pattern->offsets || (!uniform && !pattern->starts))
        return SHUNT_ERR_MEMORY;
    make_blocks(shape, pattern);
    return SHUNT_OK;
}

/* How far loops reach below and above their first block. */
static void add_reach(const struct shunt_loop *loops, uint32_t levels, int64_t *low, int64_t *high)
{
    for (uint32_t i = 0; i < levels; i++) {
        int64_t reach = (int64_t)(loops[i].count - 1) * loops[i].stride;
        *(reach < 0 ? low : high) += reach;
    }
}

static void find_bounds(const struct shunt_outline *shape, struct shunt_pattern *pattern)
{
    uint64_t bits = 16;

    for (size_t i = 0; i < shape->n; i++) {
        const struct shunt_strip *piece = &shape->pieces[i];
        const struct shunt_loops *set = &shape->sets[piece->loops];
        int64_t low = piece->offset, high = piece->offset + (int64_t)piece->length;

        add_reach(set->loops, set->levels, &low, &high);
        add_reach(shape->outer, shape->outer_levels, &low, &high);
        pattern->low = i == 0 || low < pattern->low ? low : pattern->low;
        pattern->high = i == 0 || high > pattern->high ? high : pattern->high;
        bits |= (uint64_t)piece->offset | piece->length;
        for (uint32_t k = 0; k < set->levels; k++)
            bits |= (uint64_t)set->loops[k].stride;
    }
    for (uint32_t k = 0; k < shape->outer_levels; k++)
        bits |= (uint64_t)shape->outer[k].stride;
    pattern->granule = (uint32_t)(bits & -bits);
}

enum shunt_status shunt_pattern_make(const struct shunt_outline *shape, int64_t extent, struct shunt_pattern **pattern_p)
{
    struct shunt_pattern *pattern = calloc(1, sizeof *pattern);

    if (!pattern)
        return SHUNT_ERR_MEMORY;
    atomic_store_explicit(&pattern->references, 1, memory_order_relaxed);
    pattern->extent = extent;
    pattern->outer_levels = shape->outer_levels;
    memcpy(pattern->outer, shape->outer, sizeof pattern->outer);
    find_bounds(shape, pattern);
    if (shape->n > 0 && make_list(shape, pattern) != SHUNT_OK) {
        shunt_pattern_release(pattern);
        return SHUNT_ERR_MEMORY;
    }
    pattern->bytes = pattern->list_bytes * loops_count(pattern->outer, pattern->outer_levels);
    *pattern_p = pattern;
    return SHUNT_OK;
}

bool shunt_pattern_is_dense(const struct shunt_pattern *pattern, int64_t count)
{
    return pattern->n == 1 && pattern->outer_levels == 0 && pattern->nests[0].levels == 0 &&
           (count <= 1 || pattern->extent == (int64_t)pattern->bytes);
}

/* ---- walking ---- */

/* Equal blocks, equally far apart, which lie one behind the other in packed memory. */
typedef enum shunt_status visit_row(void *context, int64_t offset, uint64_t length, uint64_t count, int64_t stride,
                                    uint64_t packed);

struct walk {
    const struct shunt_pattern *pattern;
    uint64_t skip;   /* packed bytes to pass before the first that is wanted, from where the walk is */
    uint64_t left;   /* packed bytes that are wanted */
    uint64_t packed; /* and how many came before */
    visit_row *visit;
    void *context;
};

static enum shunt_status walk_row(struct walk *walk, int64_t offset, uint64_t length, uint64_t count, int64_t stride)
{
    uint64_t bytes = length * count;
    enum shunt_status status = walk->visit(walk->context, offset, length, count, stride, walk->packed);

    walk->packed += bytes;
    walk->left -= bytes;
    return status;
}

/* `count` blocks, of which the first and the last may be wanted in part. */
static enum shunt_status walk_blocks(struct walk *walk, int64_t offset, uint64_t length, uint64_t count, int64_t stride)
{
    uint64_t i = walk->skip / length, within = walk->skip % length;
    enum shunt_status status = SHUNT_OK;

    walk->skip = 0;
    if (within > 0 && i < count) {
        uint64_t rest = length - within < walk->left ? length - within : walk->left;
        status = walk_row(walk, offset + (int64_t)i * stride + (int64_t)within, rest, 1, 0);
        i++;
    }
    uint64_t whole = walk->left / length < count - i ? walk->left / length : count - i;
    if (status == SHUNT_OK && whole > 0)
        status = walk_row(walk, offset + (int64_t)i * stride, length, whole, stride);
    i += whole;
    if (status == SHUNT_OK && walk->left > 0 && i < count)
        status = walk_row(walk, offset + (int64_t)i * stride, walk->left, 1, 0);
    return status;
}

static enum shunt_status walk_nest(struct walk *walk, const struct shunt_nest *nest, uint32_t level, int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    if (level == 0)
        return walk_blocks(walk, offset, nest->length, 1, 0);
    const struct shunt_loop *loop = &nest->loops[level - 1];
    if (level == 1)
        return walk_blocks(walk, offset, nest->length, loop->count, loop->stride);
    uint64_t inner = nest->length * loops_count(nest->loops, level - 1), i = walk->skip / inner;
    walk->skip %= inner;
    for (; i < loop->count && walk->left > 0 && status == SHUNT_OK; i++)
        status = walk_nest(walk, nest, level - 1, offset + (int64_t)i * loop->stride);
    return status;
}

static uint64_t list_start(const struct shunt_pattern *pattern, size_t i)
{
    if (pattern->nests)
        return pattern->nests[i].start;
    return pattern->starts ? pattern->starts[i] : i * pattern->length;
}

/* The last of the list that starts at or before a packed byte. */
static size_t find_start(const struct shunt_pattern *pattern, uint64_t packed)
{
    size_t low = 0, high = pattern->n;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (list_start(pattern, middle) <= packed)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static enum shunt_status walk_list(struct walk *walk, int64_t offset)
{
    const struct shunt_pattern *pattern = walk->pattern;
    enum shunt_status status = SHUNT_OK;
    size_t i = walk->skip > 0 ? find_start(pattern, walk->skip) : 0;

    walk->skip -= list_start(pattern, i);
    for (; i < pattern->n && walk->left > 0 && status == SHUNT_OK; i++) {
        if (pattern->nests)
            status = walk_nest(walk, &pattern->nests[i], pattern->nests[i].levels, offset + pattern->nests[i].offset);
        else
            status = walk_blocks(walk, offset + pattern->offsets[i],
                                 pattern->starts ? pattern->starts[i + 1] - pattern->starts[i] : pattern->length, 1, 0);
    }
    return status;
}

static enum shunt_status walk_outer(struct walk *walk, uint32_t level, int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    if (level == 0)
        return walk_list(walk, offset);
    const struct shunt_loop *loop = &walk->pattern->outer[level - 1];
    uint64_t inner = walk->pattern->list_bytes * loops_count(walk->pattern->outer, level - 1), i = walk->skip / inner;
    walk->skip %= inner;
    for (; i < loop->count && walk->left > 0 && status == SHUNT_OK; i++)
        status = walk_outer(walk, level - 1, offset + (int64_t)i * loop->stride);
    return status;
}

static enum shunt_status walk_rows(const struct shunt_pattern *pattern, uint64_t first, uint64_t bytes, visit_row *visit,
                                   void *context)
{
    struct walk walk = { pattern, 0, bytes, 0, visit, context };
    enum shunt_status status = SHUNT_OK;

    if (pattern->bytes == 0)
        return SHUNT_OK;
    walk.skip = first % pattern->bytes;
    for (uint64_t i = first / pattern->bytes; walk.left > 0 && status == SHUNT_OK; i++)
        status = walk_outer(&walk, pattern->outer_levels, (int64_t)i * pattern->extent);
    return status;
}

struct single {
    shunt_pattern_visit *visit;
    void *context;
};

static enum shunt_status visit_each(void *context, int64_t offset, uint64_t length, uint64_t count, int64_t stride,
                                    uint64_t packed)
{
    const struct single *single = context;
    enum shunt_status status = SHUNT_OK;

    for (uint64_t i = 0; i < count && status == SHUNT_OK; i++)
        status = single->visit(single->context, offset + (int64_t)i * stride, packed + i * length, length);
    return status;
}

enum shunt_status shunt_pattern_walk(const struct shunt_pattern *pattern, uint64_t first, uint64_t bytes,
                                     shunt_pattern_visit *visit, void *context)
{
    struct single single = { visit, context };

    return walk_rows(pattern, first, bytes, visit_each, &single);
}

/* ---- moving ---- */

struct ends {
    char *base, *packed;
};

/* `to_stride` and `from_stride` apart; compilers make one load and one store of a copy of known length. */
static void move_blocks(char *to, int64_t to_stride, const char *from, int64_t from_stride, uint64_t length, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++, to += to_stride, from += from_stride) {
        switch (length) {
        case 4: memcpy(to, from, 4); break;
        case 8: memcpy(to, from, 8); break;
        case 16: memcpy(to, from, 16); break;
        default: memcpy(to, from, length); break;
        }
    }
}

static enum shunt_status gather_row(void *context, int64_t offset, uint64_t length, uint64_t count, int64_t stride,
                                    uint64_t packed)
{
    const struct ends *ends = context;

    move_blocks(ends->packed + packed, (int64_t)length, ends->base + offset, stride, length, count);
    return SHUNT_OK;
}

static enum shunt_status scatter_row(void *context, int64_t offset, uint64_t length, uint64_t count, int64_t stride,
                                     uint64_t packed)
{
    const struct ends *ends = context;

    move_blocks(ends->base + offset, stride, ends->packed + packed, (int64_t)length, length, count);
    return SHUNT_OK;
}

void shunt_pattern_gather(const struct shunt_pattern *pattern, const char *base, uint64_t first, uint64_t bytes, char *packed)
{
    struct ends ends = { (char *)base, packed };

    walk_rows(pattern, first, bytes, gather_row, &ends);
}

void shunt_pattern_scatter(const struct shunt_pattern *pattern, char *base, uint64_t first, uint64_t bytes, const char *packed)
{
    struct ends ends = { base, (char *)packed };

    walk_rows(pattern, first, bytes, scatter_row, &ends);
}
