/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks of one node do in an operation over several: ordinary operations on the GPUs, which all of them run in the same order.
 * What cannot run there (all of the node find that out alike) goes through host memory, from process to process over UCX, as the
 * exchange that it is: what goes to each rank, and what comes from it.
 */
#include <stdlib.h>

#include "coll/combine.h"
#include "coll/hier_inner.h"

/* ---- what a task is as an exchange ---- */

static void all_alike(struct shunt_span *spans, int n, uint64_t stride, uint64_t bytes)
{
    for (int q = 0; q < n; q++)
        spans[q] = (struct shunt_span){ (uint64_t)q * stride, bytes };
}

static void describe(const struct shunt_task *task, int n, int me, struct shunt_spans *spans)
{
    const uint64_t bytes = task->count * shunt_type_size(task->type);
    const bool root = me == task->root;

    *spans = (struct shunt_spans){ 0 };
    if (task->spans != NULL) {
        *spans = *task->spans;
        return;
    }
    switch (task->coll) {
    case SHUNT_COLL_REDUCE_SCATTER_BLOCK:
        all_alike(spans->in, n, bytes, bytes);
        all_alike(spans->out, n, 0, bytes);
        break;
    case SHUNT_COLL_ALLGATHER:
        all_alike(spans->in, n, 0, bytes);
        all_alike(spans->out, n, bytes, bytes);
        break;
    case SHUNT_COLL_BCAST:
        if (root)
            all_alike(spans->in, n, 0, bytes);
        spans->in[me].bytes = 0;
        if (!root)
            spans->out[task->root].bytes = bytes;
        break;
    default: /* to the root: Reduce, Gather */
        spans->in[task->root].bytes = bytes;
        if (root)
            all_alike(spans->out, n, task->coll == SHUNT_COLL_GATHER ? bytes : 0, bytes);
    }
}

/* ---- through host memory ---- */

/* What goes from this rank to each of its node, and comes from it, in host memory. */
struct mail {
    struct shunt_net_part out[SHUNT_BOARD_RANKS], in[SHUNT_BOARD_RANKS];
    char *to[SHUNT_BOARD_RANKS], *from[SHUNT_BOARD_RANKS];
    struct shunt_spans spans;
};

static int world_of(const struct hier_op *op, int place)
{
    const struct shunt_team *team = &op->hier->team;

    return team->world[shunt_team_rank(team, op->hier->node, place)];
}

/* False: no memory, or the copy has failed. */
static bool read_out(const struct shunt_task *task, struct mail *mail, int place)
{
    const struct shunt_span *span = &mail->spans.in[place];

    if (span->bytes == 0)
        return true;
    mail->to[place] = shunt_bounce_get(span->bytes);
    return mail->to[place] != NULL &&
           shunt_stage_out(mail->to[place], (const char *)task->send + span->at, span->bytes) == SHUNT_OK;
}

static bool exchange(struct hier_op *op, const struct hier_lane *lane, struct mail *mail, int step, int place)
{
    const struct shunt_net_tag tag = hier_tag(op, lane, HIER_PHASE_NODE + (unsigned)step);
    const uint64_t sent = mail->spans.in[place].bytes, expected = mail->spans.out[place].bytes;

    if (place == op->hier->place)
        return true;
    if (sent > 0)
        shunt_net_send(&mail->out[place], world_of(op, place), tag, mail->to[place], sent);
    if (expected == 0)
        return true;
    mail->from[place] = shunt_bounce_get(expected);
    if (mail->from[place] == NULL)
        return false;
    shunt_net_receive(&mail->in[place], world_of(op, place), tag, mail->from[place], expected);
    return true;
}

/* False: something has failed. */
static bool await_mail(struct hier_op *op, struct mail *mail)
{
    for (int i = 0; i < op->hier->places; i++) {
        struct shunt_net_part *parts[2] = { &mail->out[i], &mail->in[i] };
        for (int k = 0; k < 2; k++) {
            while (shunt_net_state(parts[k]) == SHUNT_NET_UNDER_WAY)
                if (!hier_wait(op))
                    return false;
            if (shunt_net_state(parts[k]) == SHUNT_NET_FAILED)
                return false;
        }
    }
    return true;
}

/* The operands, in their order, to where the result goes. */
static bool add_mail(const struct shunt_task *task, struct mail *mail, int n)
{
    const void *from[SHUNT_BOARD_RANKS];
    const struct shunt_span *result = &mail->spans.out[0];

    if (result->bytes == 0)
        return true;
    for (int i = 0; i < n; i++)
        from[i] = mail->from[i];
    shunt_combine(task->type, task->op, result->bytes / shunt_type_size(task->type), from, n, mail->from[0]);
    return shunt_stage_in((char *)task->recv + result->at, mail->from[0], result->bytes) == SHUNT_OK;
}

static bool store_mail(const struct shunt_task *task, struct mail *mail, int n)
{
    for (int i = 0; i < n; i++) {
        const struct shunt_span *span = &mail->spans.out[i];
        if (span->bytes > 0 && shunt_stage_in((char *)task->recv + span->at, mail->from[i], span->bytes) != SHUNT_OK)
            return false;
    }
    return true;
}

/* Of mail that has come; else UCX may still look at it. */
static void drop_mail(struct hier_op *op, struct mail *mail)
{
    const int me = op->hier->place;

    for (int i = 0; i < op->hier->places; i++) {
        if (mail->from[i] != NULL && i != me)
            shunt_bounce_put(mail->from[i], mail->spans.out[i].bytes);
        if (mail->to[i] != NULL)
            shunt_bounce_put(mail->to[i], mail->spans.in[i].bytes);
    }
    free(mail);
}

/* All that is sent is read first: what comes may take its place. */
static bool run_by_host(struct hier_op *op, const struct hier_lane *lane, const struct shunt_task *task, int step)
{
    const int n = op->hier->places, me = op->hier->place;
    struct mail *mail = calloc(1, sizeof *mail);
    bool done = mail != NULL;

    if (!done)
        return false;
    describe(task, n, me, &mail->spans);
    for (int i = 0; done && i < n; i++)
        done = read_out(task, mail, i);
    mail->from[me] = mail->to[me];
    for (int i = 0; done && i < n; i++)
        done = exchange(op, lane, mail, step, i);
    if (!done || !await_mail(op, mail))
        return false;
    done = shunt_coll_has(task->coll, SHUNT_TRAIT_COMBINES) ? add_mail(task, mail, n) : store_mail(task, mail, n);
    drop_mail(op, mail);
    return done;
}

/* ---- either ---- */

bool hier_node_run(struct hier_op *op, struct hier_lane *lane, const struct shunt_task *task, int step)
{
    struct shunt_outcome outcome;
    enum shunt_status status = shunt_coll_run(op->hier->arena, op->hier->inner, task, &op->progress, &outcome);

    return status == SHUNT_OK || (status == SHUNT_PASS && run_by_host(op, lane, task, step));
}
