/* SPDX-License-Identifier: BSD-3-Clause */
/* The sum over nodes; across.h. */
#include "coll/across.h"

#include <stdlib.h>

#include "coll/combine.h"

enum { WHOLE_BYTES = 32 * 1024 }; /* received by each, up to which one hop beats two */
enum part { TO_ADD, GOT_TO_ADD, TO_SPREAD, GOT_SUM };

static struct shunt_net_part *part_of(const struct shunt_across *a, enum part which, int node)
{
    return &a->parts[4 * node + which];
}

static uint64_t slice_at(const struct shunt_across *a, int node)
{
    return a->count * (uint64_t)node / (uint64_t)a->n;
}

static uint64_t slice_count(const struct shunt_across *a, int node)
{
    return slice_at(a, node + 1) - slice_at(a, node);
}

static struct shunt_net_tag tag_of(const struct shunt_across *a, unsigned phase)
{
    struct shunt_net_tag tag = a->tag;

    tag.word[3] |= phase;
    return tag;
}

/* Room for what the others send; kept for the next one of this size. */
static bool make_room(struct shunt_across *a, size_t bytes)
{
    if (a->parts == NULL)
        a->parts = calloc((size_t)a->n * 4, sizeof *a->parts);
    if (a->parts != NULL && a->in_bytes < bytes) {
        free(a->in);
        a->in = malloc(bytes);
        a->in_bytes = a->in != NULL ? bytes : 0;
    }
    return a->parts != NULL && (bytes == 0 || a->in != NULL);
}

bool shunt_across_begin(struct shunt_across *a, char *data, uint64_t count, struct shunt_net_tag tag)
{
    const uint64_t size = shunt_type_size(a->type);

    a->data = data;
    a->count = count;
    a->tag = tag;
    a->whole = count * size * (uint64_t)(a->n - 1) <= WHOLE_BYTES || count < (uint64_t)a->n;
    const uint64_t each = a->whole ? count : slice_count(a, a->me);
    if (!make_room(a, (size_t)(each * size * (uint64_t)a->n)))
        return false;
    for (int j = 0; j < a->n; j++) {
        if (j == a->me)
            continue;
        uint64_t at = a->whole ? 0 : slice_at(a, j), some = a->whole ? count : slice_count(a, j);
        shunt_net_receive(part_of(a, GOT_TO_ADD, j), a->peers[j], tag_of(a, 1), a->in + (uint64_t)j * each * size,
                          each * size);
        shunt_net_send(part_of(a, TO_ADD, j), a->peers[j], tag_of(a, 1), data + at * size, some * size);
        part_of(a, GOT_SUM, j)->state = SHUNT_NET_IDLE;
        part_of(a, TO_SPREAD, j)->state = SHUNT_NET_IDLE;
    }
    a->state = SHUNT_ACROSS_GATHERS;
    return true;
}

/* Are all of these done? *failed: one has failed. */
static bool all_done(const struct shunt_across *a, enum part which, bool *failed)
{
    bool done = true;

    for (int j = 0; j < a->n; j++) {
        if (j == a->me)
            continue;
        enum shunt_net_state state = shunt_net_state(part_of(a, which, j));
        done &= state == SHUNT_NET_DONE;
        *failed |= state == SHUNT_NET_FAILED;
    }
    return done;
}

static void add(struct shunt_across *a)
{
    const void *from[SHUNT_ACROSS_NODES];
    const uint64_t size = shunt_type_size(a->type), each = a->whole ? a->count : slice_count(a, a->me);
    char *own = a->data + (a->whole ? 0 : slice_at(a, a->me) * size);

    for (int j = 0; j < a->n; j++)
        from[j] = j == a->me ? own : a->in + (uint64_t)j * each * size;
    shunt_combine(a->type, a->op, each, from, a->n, own);
}

static void spread(struct shunt_across *a)
{
    const uint64_t size = shunt_type_size(a->type);

    for (int j = 0; j < a->n; j++)
        if (j != a->me)
            shunt_net_send(part_of(a, TO_SPREAD, j), a->peers[j], tag_of(a, 2), a->data + slice_at(a, a->me) * size,
                           slice_count(a, a->me) * size);
}

/* A sum takes the place of what has been sent to its maker, once that has gone. */
static void expect_sums(struct shunt_across *a)
{
    const uint64_t size = shunt_type_size(a->type);

    for (int j = 0; j < a->n; j++)
        if (j != a->me && shunt_net_state(part_of(a, GOT_SUM, j)) == SHUNT_NET_IDLE &&
            shunt_net_state(part_of(a, TO_ADD, j)) == SHUNT_NET_DONE)
            shunt_net_receive(part_of(a, GOT_SUM, j), a->peers[j], tag_of(a, 2), a->data + slice_at(a, j) * size,
                              slice_count(a, j) * size);
}

enum shunt_across_state shunt_across_advance(struct shunt_across *a)
{
    bool failed = false;

    if (a->state != SHUNT_ACROSS_GATHERS && a->state != SHUNT_ACROSS_SPREADS)
        return a->state;
    bool sent = all_done(a, TO_ADD, &failed), come = all_done(a, GOT_TO_ADD, &failed);
    if (!failed && !a->whole)
        expect_sums(a);
    if (!failed && a->state == SHUNT_ACROSS_GATHERS && come && (sent || !a->whole)) {
        add(a);
        a->state = a->whole ? SHUNT_ACROSS_DONE : SHUNT_ACROSS_SPREADS;
        if (!a->whole)
            spread(a);
    }
    if (!failed && a->state == SHUNT_ACROSS_SPREADS) {
        bool out = all_done(a, TO_SPREAD, &failed), in = all_done(a, GOT_SUM, &failed);
        if (out && in && sent && !failed)
            a->state = SHUNT_ACROSS_DONE;
    }
    if (failed)
        a->state = SHUNT_ACROSS_FAILED;
    return a->state;
}

void shunt_across_drop(struct shunt_across *a)
{
    bool busy = false;

    for (int i = 0; a->parts != NULL && i < 4 * a->n; i++) {
        if (a->parts[i].state == SHUNT_NET_UNDER_WAY)
            shunt_net_cancel(&a->parts[i]);
        busy |= a->parts[i].state == SHUNT_NET_UNDER_WAY || (a->parts[i].state == SHUNT_NET_FAILED && a->parts[i].request);
    }
    if (!busy) {
        free(a->in);
        free(a->parts);
    }
    a->in = NULL;
    a->parts = NULL;
}
