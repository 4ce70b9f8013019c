/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives over several nodes: opening, agreement, and the order of an operation's chunks; hier.h. */
#include "coll/hier.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena_layout.h"
#include "base/conf.h"
#include "base/log.h"
#include "coll/combine.h"
#include "coll/hier_inner.h"

enum { PIECE_MIN = 128 * 1024, PIECE_MAX = 16 * 1024 * 1024, PARALLEL_BYTES = 256 * 1024 };

/* ---- opening ---- */

static struct shunt_key derive_key(struct shunt_key key, uint64_t salt)
{
    return (struct shunt_key){ { key.word[0] ^ salt * 0x9e3779b97f4a7c15u, key.word[1] + salt } };
}

/* The boards of this node's ranks: one for the agreement, one for what the node does in an operation. */
static enum shunt_status open_boards(struct shunt_hier *h, struct shunt_arena *arena, struct shunt_key key)
{
    const struct shunt_team *team = &h->team;
    int slots[SHUNT_BOARD_RANKS], n = team->size[h->node], place = team->place[team->me];

    for (int i = 0; i < n; i++)
        if ((slots[i] = shunt_arena_slot(arena, team->world[shunt_team_rank(team, h->node, i)])) < 0)
            return SHUNT_PASS;
    enum shunt_status status = shunt_board_open(arena, derive_key(key, 1), n, slots, place, &h->board);
    if (status != SHUNT_OK) {
        h->board = NULL;
        return status;
    }
    status = shunt_board_open(arena, derive_key(key, 2), n, slots, place, &h->inner);
    if (status != SHUNT_OK)
        h->inner = NULL;
    return status;
}

/* Whom this rank deals with: its node, and its counterpart on each other node. */
static enum shunt_status find_peers(struct shunt_hier *h)
{
    const struct shunt_team *team = &h->team;
    int place = team->place[team->me];

    h->peers = malloc((size_t)team->nodes * sizeof *h->peers);
    h->friends = malloc((size_t)team->n * sizeof *h->friends);
    if (h->peers == NULL || h->friends == NULL)
        return SHUNT_ERR_MEMORY;
    for (int i = 0; i < team->size[h->node]; i++)
        h->friends[h->nfriends++] = shunt_team_rank(team, h->node, i);
    for (int node = 0; node < team->nodes && place < team->least; node++) {
        int rank = shunt_team_rank(team, node, place);
        h->peers[node] = team->world[rank];
        if (node != h->node)
            h->friends[h->nfriends++] = rank;
    }
    return SHUNT_OK;
}

enum shunt_status shunt_hier_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *world, int me,
                                  struct shunt_hier **hier_p)
{
    struct shunt_hier *h = calloc(1, sizeof *h);

    if (h == NULL)
        return SHUNT_ERR_MEMORY;
    h->arena = arena;
    h->key = key;
    enum shunt_status status = shunt_team_make(n, me, world, &h->team);
    if (status == SHUNT_OK && h->team.nodes > SHUNT_ACROSS_NODES)
        status = SHUNT_PASS;
    if (status == SHUNT_OK) {
        h->node = h->team.node[me];
        h->places = h->team.size[h->node];
        h->place = h->team.place[me];
        status = open_boards(h, arena, key);
    }
    if (status == SHUNT_OK)
        status = find_peers(h);
    if (status == SHUNT_OK)
        status = shunt_consent_open(&h->team, key, h->board, &h->consent);
    if (status == SHUNT_OK)
        *hier_p = h;
    else
        shunt_hier_close(h);
    return status;
}

void shunt_hier_close(struct shunt_hier *hier)
{
    if (hier->consent != NULL)
        shunt_consent_close(hier->consent);
    shunt_board_close(hier->inner);
    shunt_board_close(hier->board);
    shunt_team_drop(&hier->team);
    free(hier->peers);
    free(hier->friends);
    free(hier);
}

struct shunt_board *shunt_hier_board(const struct shunt_hier *hier)
{
    return hier->board;
}

/* ---- an operation ---- */

static bool fail(struct hier_op *op)
{
    if (!op->failed)
        shunt_consent_fail(op->hier->consent);
    op->failed = true;
    return false;
}

void hier_look(struct hier_op *op)
{
    for (int i = 0; i < HIER_LANES; i++)
        shunt_across_advance(&op->lane[i].across);
}

bool hier_wait(struct hier_op *op)
{
    if (shunt_consent_failed(op->hier->consent))
        return fail(op);
    bool busy = shunt_net_progress();
    hier_look(op);
    if (!busy)
        shunt_wait_a_little(&op->waiter);
    return true;
}

/* What this rank has of a chunk: `count` elements from `at` on. */
static void find_part(const struct hier_op *op, struct hier_lane *lane, uint64_t chunk)
{
    const struct shunt_hier *h = op->hier;
    const uint64_t at = chunk * op->chunk;

    lane->chunk = chunk;
    lane->at = at;
    lane->count = op->count - at < op->chunk ? op->count - at : op->chunk;
    lane->split = h->places > 1 && h->team.least == h->team.most && lane->count % (uint64_t)h->places == 0 &&
                  lane->count * op->size >= HIER_SPLIT_BYTES;
    lane->root = (int)(chunk % (uint64_t)h->team.least);
    hier_part_of(op, lane, h->place, &lane->own_at, &lane->own_count);
}

void hier_part_of(const struct hier_op *op, const struct hier_lane *lane, int place, uint64_t *at, uint64_t *count)
{
    *at = lane->at;
    *count = 0;
    if (lane->split) {
        *count = lane->count / (uint64_t)op->hier->places;
        *at += (uint64_t)place * *count;
    } else if (lane->root == place) {
        *count = lane->count;
    }
}

/* Bring it to host memory, and begin to add it up over the nodes. */
static bool begin_across(struct hier_op *op, struct hier_lane *lane, const char *from)
{
    struct shunt_net_tag tag = hier_tag(op, lane, 0);

    if (!lane->by_host && shunt_stage_out(lane->data, from, lane->own_count * op->size) != SHUNT_OK)
        return fail(op);
    return shunt_across_begin(&lane->across, lane->data, lane->own_count, tag) || fail(op);
}

static bool start_chunk(struct hier_op *op, uint64_t chunk)
{
    struct hier_lane *lane = &op->lane[chunk % HIER_LANES];
    const struct shunt_hier *h = op->hier;

    find_part(op, lane, chunk);
    lane->by_host = false;
    if (lane->own_count > 0 && (lane->data = shunt_bounce_get(lane->own_count * op->size)) == NULL)
        return fail(op);
    if (h->places > 1 && !hier_gather(op, lane))
        return fail(op);
    if (lane->own_count == 0)
        return true;
    const char *base = h->places > 1 ? op->task->recv : op->task->send;
    return begin_across(op, lane, base + lane->own_at * op->size);
}

static bool finish_chunk(struct hier_op *op, uint64_t chunk)
{
    struct hier_lane *lane = &op->lane[chunk % HIER_LANES];
    char *recv = op->task->recv;

    if (lane->own_count > 0) {
        enum shunt_across_state state;
        while ((state = shunt_across_advance(&lane->across)) < SHUNT_ACROSS_DONE)
            if (!hier_wait(op))
                return false;
        if (state == SHUNT_ACROSS_FAILED ||
            shunt_stage_in(recv + lane->own_at * op->size, lane->data, lane->own_count * op->size) != SHUNT_OK)
            return fail(op);
    }
    if (op->hier->places > 1 && !hier_spread(op, lane))
        return fail(op);
    if (lane->data != NULL)
        shunt_bounce_put(lane->data, lane->own_count * op->size);
    lane->data = NULL;
    return true;
}

/* While the sums of some chunks are on their way, the next ones begin. */
static bool run_chunks(struct hier_op *op)
{
    const uint64_t chunks = (op->count + op->chunk - 1) / op->chunk, ahead = HIER_LANES - 1;

    for (uint64_t c = 0; c < chunks + ahead; c++) {
        if (c < chunks && !start_chunk(op, c))
            return false;
        if (c >= ahead && !finish_chunk(op, c - ahead))
            return false;
    }
    return true;
}

static void poke(void *context)
{
    struct hier_op *op = context;

    shunt_net_progress();
    hier_look(op);
    if (op->outer != NULL)
        op->outer->poke(op->outer->context);
}

static enum shunt_status run_op(struct shunt_hier *h, const struct shunt_task *task, const struct shunt_progress *outer,
                                const struct shunt_brief *brief, uint64_t sequence)
{
    struct hier_op *op = calloc(1, sizeof *op);
    const uint64_t size = shunt_type_size(task->type), total = task->count * size;
    const bool parallel = total >= PARALLEL_BYTES && !shunt_arena_crowded();

    if (op == NULL) {
        shunt_consent_fail(h->consent);
        return SHUNT_ERR_MEMORY;
    }
    *op = (struct hier_op){ .hier = h, .task = task, .outer = outer, .count = task->count, .size = size, .sequence = sequence };
    op->progress = (struct shunt_progress){ poke, op };
    op->waiter = (struct shunt_waiter){ .arena = h->arena, .board = h->inner, .progress = outer };
    op->chunk = brief->piece / size * (uint64_t)(h->team.least == h->team.most ? h->places : 1);
    for (int i = 0; i < HIER_LANES; i++) {
        struct shunt_across *across = &op->lane[i].across;
        *across = (struct shunt_across){ .n = h->team.nodes, .me = h->node, .peers = h->peers, .type = task->type, .op = task->op };
    }
    shunt_net_attend(parallel);
    bool done = run_chunks(op);
    shunt_net_leave(parallel);
    if (!done)
        shunt_board_pass(h->inner); /* who waits for us there goes on, and finds that it has failed */
    for (int i = 0; i < HIER_LANES; i++)
        shunt_across_drop(&op->lane[i].across);
    if (done) /* else UCX may still look at parts of it, and at the data of its lanes */
        free(op);
    return done ? SHUNT_OK : SHUNT_ERR_DEAD;
}

/* Why this rank does not even ask. */
static enum shunt_reason find_obstacle(const struct shunt_hier *h, const struct shunt_task *task)
{
    if (task->coll != SHUNT_COLL_ALLREDUCE || !shunt_combine_can(task->type, task->op))
        return SHUNT_REASON_SEVERAL_NODES;
    if (task->neutral || task->count == 0)
        return SHUNT_REASON_NEUTRAL;
    if (task->send_mem.kind == SHUNT_MEM_HOST || task->recv_mem.kind == SHUNT_MEM_HOST)
        return SHUNT_REASON_MIXED_BUFFERS;
    if (((uintptr_t)task->send | (uintptr_t)task->recv) % shunt_type_align(task->type) != 0)
        return SHUNT_REASON_ALIGNMENT;
    if (shunt_conf->reproducible && h->team.most > 1)
        return SHUNT_REASON_NODE_ORDER;
    return SHUNT_REASON_NONE;
}

static uint32_t choose_piece(const struct shunt_hier *h, uint64_t bytes)
{
    uint64_t most = shunt_conf->stage_chunk < PIECE_MIN ? PIECE_MIN : shunt_conf->stage_chunk;
    uint64_t piece = bytes / HIER_LANES / (uint64_t)h->team.least;

    most = most > PIECE_MAX ? PIECE_MAX : most;
    piece = piece < PIECE_MIN ? PIECE_MIN : piece > most ? most : piece;
    return (uint32_t)(piece & ~(uint64_t)4095);
}

/* Once: does this rank hear those that it deals with? False: one of them has ended, now or before. */
static bool meet(struct shunt_hier *h, struct shunt_waiter *w)
{
    if (shunt_consent_failed(h->consent))
        return false;
    if (h->met || h->deaf)
        return true;
    enum shunt_status status = shunt_consent_meet(h->consent, h->friends, h->nfriends, w);
    h->met = status == SHUNT_OK;
    h->deaf = status == SHUNT_PASS;
    return status != SHUNT_ERR_DEAD;
}

enum shunt_status shunt_hier_run(struct shunt_hier *hier, const struct shunt_task *task, const struct shunt_progress *progress,
                                 struct shunt_outcome *outcome)
{
    struct shunt_waiter w = { .arena = hier->arena, .board = hier->board, .progress = progress };
    struct shunt_brief brief = { task->coll, task->type, task->op, task->root, task->count,
                                 choose_piece(hier, task->count * shunt_type_size(task->type)), 0 };
    const struct shunt_post post = {
        .coll = task->coll, .count = task->count, .type = task->type, .op = task->op, .root = task->root
    };
    uint64_t sequence;

    *outcome = (struct shunt_outcome){ .algo = SHUNT_NAME_hier, .reason = find_obstacle(hier, task) };
    /* Without a step: others of the node would take this rank for one on the host, and not yet know better. */
    if (outcome->reason == SHUNT_REASON_NONE && !meet(hier, &w))
        return SHUNT_ERR_DEAD;
    if (outcome->reason == SHUNT_REASON_NONE && hier->deaf)
        outcome->reason = SHUNT_REASON_NO_NETWORK;
    if (outcome->reason != SHUNT_REASON_NONE) {
        shunt_board_pass(hier->board);
        return SHUNT_PASS;
    }
    shunt_net_attend(false);
    enum shunt_status status = shunt_consent_reach(hier->consent, &w, &post, &brief, &sequence, &outcome->reason);
    if (status == SHUNT_OK)
        status = run_op(hier, task, progress, &brief, sequence);
    shunt_net_leave(false);
    if (status != SHUNT_OK && status != SHUNT_PASS)
        shunt_warn("net", "a rank of the communicator is lost, or could not go on");
    return status;
}
