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

enum {
    PIECE_MIN = 128 * 1024,
    PIECE_MAX = 16 * 1024 * 1024,
    PAIR_MIN = 16 * 1024, /* where all other ranks get one at a time */
    PIECES = 4,           /* that a chunk has room for */
    PARALLEL_BYTES = 256 * 1024,
};

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

/* Whom this rank may deal with: on its node all, on others its counterpart, or who looks after it there. */
static enum shunt_status find_friends(struct shunt_hier *h)
{
    const struct shunt_team *team = &h->team;

    h->friends = malloc((size_t)team->n * sizeof *h->friends);
    if (h->friends == NULL)
        return SHUNT_ERR_MEMORY;
    for (int rank = 0; rank < team->n; rank++) {
        const int node = team->node[rank], place = team->place[rank];
        if (node == h->node || place == h->place % team->size[node] || h->place == place % h->places)
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
    if (status == SHUNT_OK && h->team.nodes > HIER_NODES)
        status = SHUNT_PASS;
    if (status == SHUNT_OK) {
        h->node = h->team.node[me];
        h->places = h->team.size[h->node];
        h->place = h->team.place[me];
        status = open_boards(h, arena, key);
    }
    if (status == SHUNT_OK)
        status = find_friends(h);
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
    free(hier->friends);
    free(hier);
}

int shunt_hier_distant(const struct shunt_hier *hier, int rank)
{
    const struct shunt_team *team = &hier->team;

    return rank >= 0 && rank < team->n && team->node[rank] != hier->node ? team->world[rank] : -1;
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

/* See whether chunks have come further. */
static void look(struct hier_op *op)
{
    for (int i = 0; i < HIER_LANES; i++)
        hier_lane_look(op, &op->lane[i]);
}

bool hier_wait(struct hier_op *op)
{
    if (shunt_consent_failed(op->hier->consent))
        return fail(op);
    bool busy = shunt_net_progress();
    look(op);
    if (!busy)
        shunt_wait_a_little(&op->waiter);
    return true;
}

static bool begin_chunk(struct hier_op *op, uint64_t chunk)
{
    struct hier_lane *lane = &op->lane[chunk % HIER_LANES];
    const uint64_t at = chunk * op->chunk;

    hier_lane_clear(lane);
    lane->chunk = chunk;
    lane->at = at;
    lane->count = op->count - at < op->chunk ? op->count - at : op->chunk;
    hier_plans[op->task->coll].write(op, lane);
    return hier_lane_begin(op, lane) || fail(op);
}

/* While some chunks are on their way, the next ones begin. */
static bool run_chunks(struct hier_op *op)
{
    const uint64_t chunks = (op->count + op->chunk - 1) / op->chunk, ahead = HIER_LANES - 1;

    for (uint64_t c = 0; c < chunks + ahead; c++) {
        if (c < chunks && !begin_chunk(op, c))
            return false;
        if (c >= ahead && !hier_lane_finish(op, &op->lane[(c - ahead) % HIER_LANES]))
            return fail(op);
    }
    return true;
}

static void poke(void *context)
{
    struct hier_op *op = context;

    shunt_net_progress();
    look(op);
    if (op->outer != NULL)
        op->outer->poke(op->outer->context);
}

/* Elements of a chunk: each rank of a node takes a piece of a vector, or a piece of each block. */
static uint64_t choose_chunk(const struct shunt_hier *h, const struct hier_plan *plan, uint64_t size, uint32_t piece)
{
    const bool equal = h->team.least == h->team.most;

    return piece / size * (uint64_t)(plan->slices && equal ? h->places : 1);
}

/* Where it has failed UCX may still look at its parts, and at its host memory, so these stay. */
static enum shunt_status end_op(struct hier_op *op, bool done)
{
    if (!done) {
        shunt_board_pass(op->hier->inner); /* who waits for us there goes on, and finds that it has failed */
        shunt_spare_abandon(&op->spare);
        return SHUNT_ERR_DEAD;
    }
    shunt_spare_give(&op->spare);
    for (int i = 0; i < HIER_LANES; i++)
        hier_lane_drop(&op->lane[i]);
    free(op);
    return SHUNT_OK;
}

static enum shunt_status run_op(struct hier_op *op, const struct shunt_brief *brief)
{
    const struct shunt_hier *h = op->hier;
    const bool parallel = op->count * op->size >= PARALLEL_BYTES && !shunt_arena_crowded();

    op->chunk = choose_chunk(h, &hier_plans[op->task->coll], op->size, brief->piece);
    shunt_net_attend(parallel);
    bool done = run_chunks(op);
    shunt_net_leave(parallel);
    return end_op(op, done);
}

/*
 * Is it so small that the host MPI is faster, which need not agree first? The more ranks a node has, the more work is done inside of
 * it. Follows from what is the same on all ranks.
 */
static bool is_small(const struct shunt_hier *h, const struct shunt_task *task)
{
    const uint64_t block = task->count * shunt_type_size(task->type);
    const uint64_t bytes = hier_plans[task->coll].slices ? block : block * (uint64_t)h->team.n;

    return bytes < shunt_conf->net_size / (uint64_t)h->team.least;
}

/* Why this rank does not even ask. */
static enum shunt_reason find_obstacle(const struct shunt_hier *h, const struct shunt_task *task)
{
    const bool combines = shunt_coll_has(task->coll, SHUNT_TRAIT_COMBINES);

    if (hier_plans[task->coll].write == NULL || task->spans != NULL || (combines && !shunt_combine_can(task->type, task->op)))
        return SHUNT_REASON_SEVERAL_NODES;
    if (task->neutral || task->count == 0)
        return SHUNT_REASON_NEUTRAL;
    if (task->send_mem.kind == SHUNT_MEM_HOST || task->recv_mem.kind == SHUNT_MEM_HOST)
        return SHUNT_REASON_MIXED_BUFFERS;
    if (((uintptr_t)task->send | (uintptr_t)task->recv) % shunt_type_align(task->type) != 0)
        return SHUNT_REASON_ALIGNMENT;
    if (combines && shunt_conf->reproducible && h->team.most > 1)
        return SHUNT_REASON_NODE_ORDER;
    return is_small(h, task) ? SHUNT_REASON_NET_SIZE : SHUNT_REASON_NONE;
}

static uint32_t largest_piece(void)
{
    uint64_t most = shunt_conf->stage_chunk;

    return (uint32_t)(most < PIECE_MIN ? PIECE_MIN : most > PIECE_MAX ? PIECE_MAX : most);
}

/* Bytes in which this rank's part goes over the network, or each block: small enough that several are under way. */
static uint32_t choose_piece(const struct shunt_hier *h, const struct shunt_task *task)
{
    const struct hier_plan *plan = &hier_plans[task->coll];
    const uint64_t bytes = task->count * shunt_type_size(task->type), most = largest_piece();
    uint64_t piece = bytes / HIER_LANES / (uint64_t)(plan->slices ? h->team.least : 1);

    piece = piece < PIECE_MIN ? PIECE_MIN : piece > most ? most : piece;
    if (plan->pairs) /* all of them have to be there at a time */
        piece = piece / (uint64_t)h->team.n < PAIR_MIN ? PAIR_MIN : piece / (uint64_t)h->team.n;
    return (uint32_t)(piece & ~(uint64_t)4095);
}

/* Ready to go; NULL: there is no memory. */
static struct hier_op *make_op(struct shunt_hier *h, const struct shunt_task *task, const struct shunt_progress *outer)
{
    const bool device = hier_plans[task->coll].device && h->places > 1;
    const size_t piece = largest_piece();
    struct hier_op *op = calloc(1, sizeof *op);

    if (op == NULL)
        return NULL;
    op->hier = h;
    op->task = task;
    op->outer = outer;
    op->count = task->count;
    op->size = shunt_type_size(task->type);
    op->progress = (struct shunt_progress){ poke, op };
    op->waiter = (struct shunt_waiter){ .arena = h->arena, .board = h->inner, .progress = outer };
    if (shunt_spare_take(task->send, HIER_LANES * PIECES * piece, device ? piece * (size_t)h->places : 0, &op->spare))
        return op;
    free(op);
    return NULL;
}

static void drop_op(struct hier_op *op)
{
    shunt_spare_give(&op->spare);
    free(op);
}

/* Once: does this rank hear those that it deals with? False: one of them has ended, now or before. */
static bool meet(struct shunt_hier *h, struct shunt_waiter *w)
{
    if (h->deaf) /* who is out of reach counts as lost, too */
        return !shunt_consent_told(h->consent);
    if (shunt_consent_failed(h->consent))
        return false;
    if (h->met)
        return true;
    enum shunt_status status = shunt_consent_meet(h->consent, h->friends, h->nfriends, w);
    h->met = status == SHUNT_OK;
    h->deaf = status == SHUNT_PASS;
    return status != SHUNT_ERR_DEAD;
}

/* What can fail without harm. *op: what is to be run. */
static enum shunt_status prepare(struct shunt_hier *h, const struct shunt_task *task, const struct shunt_progress *progress,
                                 struct shunt_waiter *w, struct hier_op **op, enum shunt_reason *reason)
{
    *reason = find_obstacle(h, task);
    /* Without a step: others of the node would take this rank for one on the host, and not yet know better. */
    if (*reason == SHUNT_REASON_NONE && !meet(h, w))
        return SHUNT_ERR_DEAD;
    if (*reason == SHUNT_REASON_NONE && h->deaf)
        *reason = SHUNT_REASON_NO_NETWORK;
    *op = *reason == SHUNT_REASON_NONE ? make_op(h, task, progress) : NULL;
    if (*reason == SHUNT_REASON_NONE && *op == NULL)
        *reason = SHUNT_REASON_NO_DEVICE_MEMORY;
    return *op != NULL ? SHUNT_OK : SHUNT_PASS;
}

enum shunt_status shunt_hier_run(struct shunt_hier *hier, const struct shunt_task *task, const struct shunt_progress *progress,
                                 struct shunt_outcome *outcome)
{
    struct shunt_waiter w = { .arena = hier->arena, .board = hier->board, .progress = progress };
    const struct shunt_post post = {
        .coll = task->coll, .count = task->count, .type = task->type, .op = task->op, .root = task->root
    };
    struct hier_op *op;

    *outcome = (struct shunt_outcome){ .algo = SHUNT_NAME_hier };
    enum shunt_status status = prepare(hier, task, progress, &w, &op, &outcome->reason);
    if (status == SHUNT_PASS)
        shunt_board_pass(hier->board);
    if (status != SHUNT_OK)
        return status;
    struct shunt_brief brief = { task->coll, task->type, task->op, task->root, task->count, choose_piece(hier, task), 0 };
    shunt_net_attend(false);
    status = shunt_consent_reach(hier->consent, &w, &post, &brief, &op->sequence, &outcome->reason);
    if (status == SHUNT_OK)
        status = run_op(op, &brief);
    else
        drop_op(op);
    shunt_net_leave(false);
    if (status != SHUNT_OK && status != SHUNT_PASS)
        shunt_warn("net", "a rank of the communicator is lost, or could not go on");
    return status;
}
