/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks of one node do in an operation over several: ordinary operations on the GPUs, which all of them run in the same order.
 * What cannot run there (all of the node find that out alike) goes through host memory, from process to process over UCX.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/combine.h"
#include "coll/hier_inner.h"

enum { PHASE_GATHER = 4, PHASE_SPREAD = 5 };

static char *at_element(const void *base, const struct hier_op *op, uint64_t element)
{
    return (char *)base + element * op->size;
}

/* ---- on the GPUs ---- */

static struct shunt_task gather_task(const struct hier_op *op, const struct hier_lane *lane)
{
    const struct shunt_task *all = op->task;
    struct shunt_task task = { .coll = SHUNT_COLL_REDUCE, .count = lane->count, .type = all->type, .op = all->op,
                               .root = lane->root, .send_mem = all->send_mem, .recv_mem = all->recv_mem };

    task.send = at_element(all->send, op, lane->at);
    task.recv = at_element(all->recv, op, lane->at);
    if (lane->split) {
        task.coll = SHUNT_COLL_REDUCE_SCATTER_BLOCK;
        task.count = lane->own_count;
        task.recv = at_element(all->recv, op, lane->own_at);
        task.root = 0;
    } else if (lane->own_count == 0) { /* it has no receive buffer then */
        task.recv = (void *)task.send;
        task.recv_mem = task.send_mem;
    } else {
        task.in_place = all->in_place;
    }
    return task;
}

static struct shunt_task spread_task(const struct hier_op *op, const struct hier_lane *lane)
{
    const struct shunt_task *all = op->task;
    struct shunt_task task = { .coll = SHUNT_COLL_BCAST, .count = lane->count * op->size, .type = SHUNT_TYPE_U8,
                               .op = SHUNT_OP_MOVE, .root = lane->root, .send_mem = all->recv_mem,
                               .recv_mem = all->recv_mem };

    task.recv = at_element(all->recv, op, lane->at);
    task.send = task.recv;
    if (lane->split) {
        task.coll = SHUNT_COLL_ALLGATHER;
        task.count = lane->own_count * op->size;
        task.send = at_element(all->recv, op, lane->own_at);
        task.in_place = true;
        task.root = 0;
    }
    return task;
}

/* SHUNT_PASS: on no rank of the node. */
static enum shunt_status run_on_gpus(struct hier_op *op, const struct shunt_task *task)
{
    struct shunt_outcome outcome;

    return shunt_coll_run(op->hier->arena, op->hier->inner, task, &op->progress, &outcome);
}

/* ---- through host memory ---- */

/* What goes from this rank to each of its node, and comes from it. */
struct mail {
    struct shunt_net_part out[SHUNT_BOARD_RANKS], in[SHUNT_BOARD_RANKS];
    char *bounce; /* what is sent */
    char *from[SHUNT_BOARD_RANKS];
    uint64_t out_bytes, in_bytes[SHUNT_BOARD_RANKS];
};

static void send_to(struct hier_op *op, const struct hier_lane *lane, struct mail *mail, unsigned phase, int place,
                    const char *data, uint64_t bytes)
{
    const struct shunt_team *team = &op->hier->team;

    if (bytes > 0 && place != op->hier->place)
        shunt_net_send(&mail->out[place], team->world[shunt_team_rank(team, op->hier->node, place)],
                       hier_tag(op, lane, phase), data, bytes);
}

static bool expect_from(struct hier_op *op, const struct hier_lane *lane, struct mail *mail, unsigned phase, int place,
                        uint64_t bytes)
{
    const struct shunt_team *team = &op->hier->team;

    if (bytes == 0 || place == op->hier->place)
        return true;
    mail->from[place] = shunt_bounce_get(bytes);
    if (mail->from[place] == NULL)
        return false;
    mail->in_bytes[place] = bytes;
    shunt_net_receive(&mail->in[place], team->world[shunt_team_rank(team, op->hier->node, place)], hier_tag(op, lane, phase),
                      mail->from[place], bytes);
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

/* Of mail that has come; else UCX may still look at it. */
static void drop_mail(struct hier_op *op, struct mail *mail)
{
    for (int i = 0; i < op->hier->places; i++)
        if (mail->from[i] != NULL)
            shunt_bounce_put(mail->from[i], mail->in_bytes[i]);
    if (mail->bounce != NULL)
        shunt_bounce_put(mail->bounce, mail->out_bytes);
    free(mail);
}

/* The sum of this rank's part over the node's ranks, in their order. */
static void add_mail(struct hier_op *op, struct hier_lane *lane, const struct mail *mail, const char *own)
{
    const void *from[SHUNT_BOARD_RANKS];

    for (int i = 0; i < op->hier->places; i++)
        from[i] = i == op->hier->place ? own : mail->from[i];
    shunt_combine(op->task->type, op->task->op, lane->own_count, from, op->hier->places, lane->data);
}

static bool gather_by_host(struct hier_op *op, struct hier_lane *lane)
{
    struct mail *mail = calloc(1, sizeof *mail);
    uint64_t at, count;
    bool done = mail != NULL;

    if (!done)
        return false;
    mail->out_bytes = lane->count * op->size;
    mail->bounce = shunt_bounce_get(mail->out_bytes);
    done = mail->bounce != NULL &&
           shunt_stage_out(mail->bounce, at_element(op->task->send, op, lane->at), mail->out_bytes) == SHUNT_OK;
    for (int i = 0; done && i < op->hier->places; i++) {
        hier_part_of(op, lane, i, &at, &count);
        send_to(op, lane, mail, PHASE_GATHER, i, mail->bounce + (at - lane->at) * op->size, count * op->size);
        done = expect_from(op, lane, mail, PHASE_GATHER, i, lane->own_count * op->size);
    }
    if (!done || !await_mail(op, mail))
        return false;
    if (lane->own_count > 0)
        add_mail(op, lane, mail, mail->bounce + (lane->own_at - lane->at) * op->size);
    lane->by_host = true;
    drop_mail(op, mail);
    return true;
}

static bool spread_by_host(struct hier_op *op, struct hier_lane *lane)
{
    struct mail *mail = calloc(1, sizeof *mail);
    uint64_t at, count;
    bool done = mail != NULL;

    for (int i = 0; done && i < op->hier->places; i++) {
        send_to(op, lane, mail, PHASE_SPREAD, i, lane->data, lane->own_count * op->size);
        hier_part_of(op, lane, i, &at, &count);
        done = expect_from(op, lane, mail, PHASE_SPREAD, i, count * op->size);
    }
    if (!done || !await_mail(op, mail))
        return false;
    for (int i = 0; done && i < op->hier->places; i++) {
        hier_part_of(op, lane, i, &at, &count);
        if (mail->from[i] != NULL)
            done = shunt_stage_in(at_element(op->task->recv, op, at), mail->from[i], count * op->size) == SHUNT_OK;
    }
    drop_mail(op, mail);
    return done;
}

/* ---- either ---- */

bool hier_gather(struct hier_op *op, struct hier_lane *lane)
{
    const struct shunt_task task = gather_task(op, lane);
    enum shunt_status status = run_on_gpus(op, &task);

    return status == SHUNT_OK || (status == SHUNT_PASS && gather_by_host(op, lane));
}

bool hier_spread(struct hier_op *op, struct hier_lane *lane)
{
    const struct shunt_task task = spread_task(op, lane);
    enum shunt_status status = run_on_gpus(op, &task);

    return status == SHUNT_OK || (status == SHUNT_PASS && spread_by_host(op, lane));
}
