/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank does for a chunk of an operation over several nodes: steps, written once and then run in order. Up to the TURN it
 * waits for ranks of its own node alone. What comes behind is done when it is the chunk's time, so that all ranks of a node do
 * the same together in the same order; but what needs none of them goes on whenever this rank looks.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/combine.h"
#include "coll/hier_inner.h"

/* ---- writing ---- */

static void *append(struct hier_lane *lane, struct hier_list *list, size_t size)
{
    if (list->n == list->room) {
        int room = list->room == 0 ? 8 : 2 * list->room;
        void *items = realloc(list->items, (size_t)room * size);
        if (items == NULL) {
            lane->broken = true;
            return NULL;
        }
        list->items = items;
        list->room = room;
    }
    void *item = (char *)list->items + (size_t)list->n++ * size;
    memset(item, 0, size);
    return item;
}

struct hier_step *hier_step(struct hier_lane *lane, enum hier_kind kind)
{
    static struct hier_step nowhere;
    struct hier_step *step = append(lane, &lane->steps, sizeof *step);

    if (step == NULL)
        return &nowhere;
    step->kind = kind;
    return step;
}

struct hier_task *hier_task(struct hier_lane *lane)
{
    static struct hier_task nowhere;
    struct hier_task *task = append(lane, &lane->tasks, sizeof *task);

    hier_step(lane, HIER_NODE)->item = lane->tasks.n - 1;
    return task == NULL ? &nowhere : task;
}

uint64_t hier_room(struct hier_lane *lane, uint64_t bytes)
{
    uint64_t at = lane->host_bytes;

    lane->host_bytes += hier_aligned(bytes);
    return at;
}

static void add_message(struct hier_lane *lane, enum hier_kind kind, int peer, unsigned phase, uint64_t at, uint64_t bytes)
{
    struct hier_step *step = hier_step(lane, kind);

    step->at = at;
    step->bytes = bytes;
    step->peer = peer;
    step->phase = phase;
    step->item = lane->parts.n;
    append(lane, &lane->parts, sizeof(struct shunt_net_part));
}

void hier_send(struct hier_lane *lane, int peer, unsigned phase, uint64_t at, uint64_t bytes)
{
    add_message(lane, HIER_SEND, peer, phase, at, bytes);
}

void hier_receive(struct hier_lane *lane, int peer, unsigned phase, uint64_t at, uint64_t bytes)
{
    add_message(lane, HIER_RECEIVE, peer, phase, at, bytes);
}

static void add_copy(struct hier_lane *lane, enum hier_kind kind, uint64_t at, const void *device, uint64_t bytes)
{
    struct hier_step *step = hier_step(lane, kind);

    step->at = at;
    step->device = (char *)device;
    step->bytes = bytes;
}

void hier_out(struct hier_lane *lane, uint64_t at, const void *device, uint64_t bytes)
{
    add_copy(lane, HIER_OUT, at, device, bytes);
}

void hier_in(struct hier_lane *lane, void *device, uint64_t at, uint64_t bytes)
{
    add_copy(lane, HIER_IN, at, device, bytes);
}

void hier_turn(struct hier_lane *lane)
{
    if (!lane->turned)
        hier_step(lane, HIER_TURN);
    lane->turned = true;
}

void hier_await(struct hier_lane *lane)
{
    hier_turn(lane);
    hier_step(lane, HIER_AWAIT);
}

void hier_add(struct hier_lane *lane, uint64_t at, uint64_t count)
{
    struct hier_step *step = hier_step(lane, HIER_ADD);

    step->at = at;
    step->bytes = count;
    step->item = lane->operands.n;
}

void hier_operand(struct hier_lane *lane, uint64_t at)
{
    struct hier_step *steps = lane->steps.items;
    uint64_t *operand = append(lane, &lane->operands, sizeof *operand);

    if (operand == NULL || lane->broken)
        return;
    *operand = at;
    steps[lane->steps.n - 1].n++;
}

/* ---- running ---- */

static struct hier_step *next_step(const struct hier_lane *lane)
{
    return lane->next < lane->steps.n ? (struct hier_step *)lane->steps.items + lane->next : NULL;
}

static void begin_part(const struct hier_op *op, struct hier_lane *lane, const struct hier_step *step)
{
    struct shunt_net_part *part = (struct shunt_net_part *)lane->parts.items + step->item;
    struct shunt_net_tag tag = hier_tag(op, lane, step->phase);

    if (step->kind == HIER_SEND)
        shunt_net_send(part, step->peer, tag, lane->host + step->at, step->bytes);
    else
        shunt_net_receive(part, step->peer, tag, lane->host + step->at, step->bytes);
    lane->begun = step->item + 1;
}

/* Of all that has been begun; one that has failed fails the operation when it is waited for. */
static enum shunt_net_state state_of(const struct hier_lane *lane)
{
    const struct shunt_net_part *parts = lane->parts.items;
    enum shunt_net_state all = SHUNT_NET_DONE;

    for (int i = 0; i < lane->begun; i++) {
        enum shunt_net_state state = shunt_net_state(&parts[i]);
        if (state == SHUNT_NET_FAILED)
            return state;
        if (state == SHUNT_NET_UNDER_WAY)
            all = state;
    }
    return all;
}

static void combine(const struct hier_op *op, struct hier_lane *lane, const struct hier_step *step)
{
    const uint64_t *operands = lane->operands.items;
    const void *from[HIER_NODES];

    for (int i = 0; i < step->n; i++)
        from[i] = lane->host + operands[step->item + i];
    if (step->n > 1)
        shunt_combine(op->task->type, op->task->op, step->bytes, from, step->n, lane->host + step->at);
    else if (from[0] != lane->host + step->at)
        memcpy(lane->host + step->at, from[0], step->bytes * op->size);
}

/* What any look may do. */
static bool is_quiet(const struct hier_step *step)
{
    return step->kind >= HIER_SEND;
}

/* False: it is not its time yet. */
static bool run_quietly(struct hier_op *op, struct hier_lane *lane, const struct hier_step *step)
{
    switch (step->kind) {
    case HIER_SEND:
    case HIER_RECEIVE: begin_part(op, lane, step); return true;
    case HIER_ADD: combine(op, lane, step); return true;
    case HIER_AWAIT: return state_of(lane) == SHUNT_NET_DONE;
    default: return true;
    }
}

/* The others: in their order, and together with ranks of the node. */
static bool run_loudly(struct hier_op *op, struct hier_lane *lane, const struct hier_step *step)
{
    const struct hier_task *tasks = lane->tasks.items;
    char *host = lane->host + step->at;

    switch (step->kind) {
    case HIER_NODE: return hier_node_run(op, lane, &tasks[step->item].task, step->item);
    case HIER_OUT: return shunt_stage_out(host, step->device, step->bytes) == SHUNT_OK;
    case HIER_IN: return shunt_stage_in(step->device, host, step->bytes) == SHUNT_OK;
    default: return shunt_gpu_copy(step->device, step->from, step->bytes) == SHUNT_OK;
    }
}

/* Up to this kind of step, or to the end. While one waits, looks may go on to later ones. */
static bool run_until(struct hier_op *op, struct hier_lane *lane, enum hier_kind kind)
{
    for (struct hier_step *step; (step = next_step(lane)) != NULL && step->kind != kind;) {
        bool quiet = is_quiet(step), done = quiet ? run_quietly(op, lane, step) : run_loudly(op, lane, step);
        if (done)
            lane->next++;
        else if (!quiet || state_of(lane) == SHUNT_NET_FAILED || !hier_wait(op))
            return false;
    }
    return true;
}

/*
 * A task of blocks points into its list, which has its place now. Host memory: this lane's part of the operation's, if that is
 * enough.
 */
static bool settle(struct hier_op *op, struct hier_lane *lane)
{
    const uint64_t part = op->spare.host_bytes / HIER_LANES / HIER_ALIGN * HIER_ALIGN;
    struct hier_task *tasks = lane->tasks.items;

    for (int i = 0; i < lane->tasks.n; i++)
        if (tasks[i].task.spans != NULL)
            tasks[i].task.spans = &tasks[i].spans;
    lane->own = lane->host_bytes > part;
    lane->host = lane->own ? shunt_bounce_get(lane->host_bytes) : op->spare.host + (lane - op->lane) * part;
    return lane->host != NULL;
}

bool hier_lane_begin(struct hier_op *op, struct hier_lane *lane)
{
    if (lane->broken || !settle(op, lane) || !run_until(op, lane, HIER_TURN))
        return false;
    hier_lane_look(op, lane);
    return true;
}

void hier_lane_look(struct hier_op *op, struct hier_lane *lane)
{
    for (struct hier_step *step; (step = next_step(lane)) != NULL && is_quiet(step) && run_quietly(op, lane, step);)
        lane->next++;
}

bool hier_lane_finish(struct hier_op *op, struct hier_lane *lane)
{
    if (!run_until(op, lane, HIER_KINDS))
        return false;
    if (lane->own)
        shunt_bounce_put(lane->host, lane->host_bytes);
    lane->own = false;
    return true;
}

void hier_lane_clear(struct hier_lane *lane)
{
    lane->steps.n = lane->tasks.n = lane->parts.n = lane->operands.n = 0;
    lane->turned = lane->broken = false;
    lane->next = lane->begun = 0;
    lane->host_bytes = 0;
}

void hier_lane_drop(struct hier_lane *lane)
{
    free(lane->steps.items);
    free(lane->tasks.items);
    free(lane->parts.items);
    free(lane->operands.items);
}
