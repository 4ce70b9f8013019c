/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection: one rank decides for all, from what all have posted and what is known of their links. */
#include "coll/select.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "coll/rows.h"
#include "coll/run.h"
#include "cuda/machine.h"
#include "topo/find.h"

const char *shunt_posts_differ(const struct shunt_post *x, const struct shunt_post *y, unsigned long long *a,
                               unsigned long long *b)
{
    const bool rows = x->row != 0 || y->row != 0; /* which say more of counts */
    const struct {
        const char *name;
        unsigned long long a, b;
    } fields[] = {
        { "collective", x->coll, y->coll },
        { "form", x->flags & (SHUNT_POST_ASKS | SHUNT_POST_PARTS), y->flags & (SHUNT_POST_ASKS | SHUNT_POST_PARTS) },
        { "count", rows ? 0 : x->count, rows ? 0 : y->count },
        { "element type", x->type, y->type },
        { "operation", x->op, y->op },
        { "root", (unsigned)x->root, (unsigned)y->root },
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].a != fields[i].b) {
            *a = fields[i].a;
            *b = fields[i].b;
            return fields[i].name;
        }
    }
    return NULL;
}

/* Does rank `from` send anything to another one? */
static bool sends(const struct shunt_select *select, const struct shunt_post *const *posts, int from, int to, bool rows)
{
    if (rows)
        return from != to && shunt_rows_send(select->arena, posts, from, to);
    return shunt_coll_sends(posts[0]->coll, from, to, posts[0]->root);
}

/* Has everybody opened the receive buffers of those to whom he sends? */
static bool all_opened(const struct shunt_select *select, const struct shunt_post *const *posts, int n)
{
    bool rows = shunt_rows_any(posts, n);

    for (int owner = 0; owner < n; owner++) {
        for (int user = 0; user < n; user++) {
            if (sends(select, posts, user, owner, rows) &&
                !shunt_peer_opened(select->arena, select->slots[user], select->slots[owner], posts[owner]->recv.reg))
                return false;
        }
    }
    return true;
}

/* Has the root opened what the others send? */
static bool all_readable(const struct shunt_select *select, const struct shunt_post *const *posts, int n)
{
    const int root = posts[0]->root;

    for (int q = 0; q < n; q++) {
        if (q != root && !shunt_peer_opened(select->arena, select->slots[root], select->slots[q], posts[q]->send.reg))
            return false;
    }
    return true;
}

/* Do all links keep lines whole? */
static bool all_whole_lines(const struct shunt_select *select, int n)
{
    for (int owner = 0; owner < n; owner++) {
        for (int user = 0; user < n; user++) {
            if (user != owner &&
                !shunt_peer_whole_lines(select->arena, select->slots[user], select->slots[owner]))
                return false;
        }
    }
    return true;
}

/*
 * Are all buffers ready, and is none to be overwritten that a peer still has to read? That is so in place, where what comes
 * takes the place of what goes.
 */
static bool all_ready(const struct shunt_post *const *posts, int n)
{
    for (int i = 0; i < n; i++) {
        if (!(posts[i]->flags & SHUNT_POST_READY) ||
            (shunt_collectives[posts[i]->coll].in_place == SHUNT_IN_PLACE_ITS_ROWS &&
             (posts[i]->flags & SHUNT_POST_IN_PLACE)))
            return false;
    }
    return true;
}

/* The routes of these processes, as their cards tell what is between them; kept for the next times. */
#define KEPT 8
static const struct shunt_routes *find_routes(struct shunt_arena *arena, const int *slots, int n)
{
    /* Only the decider comes here, who holds the node's launch lock. */
    static struct shunt_topo machine;
    static struct {
        struct shunt_machine_key key;
        struct shunt_routes routes;
    } kept[KEPT];
    static unsigned next, latest;
    const struct shunt_topo_limits limits = { .p2p_level = SHUNT_LINK_SYS }; /* what is refused is marked so */
    struct shunt_machine_key now;

    shunt_machine_key(arena, slots, n, &now);
    for (unsigned k = 0; k < KEPT; k++) {
        const unsigned i = (latest + k) % KEPT; /* mostly it is that of the last time */
        if (memcmp(&kept[i].key, &now, sizeof now) == 0) {
            latest = i;
            return &kept[i].routes;
        }
    }
    latest = next++ % KEPT;
    shunt_machine_of(arena, &now, &machine);
    shunt_routes_make(&machine, &limits, &kept[latest].routes);
    kept[latest].key = now;
    return &kept[latest].routes;
}

static void find_farthest(const struct shunt_topo *machine, char word[16])
{
    struct shunt_link farthest = { SHUNT_LINK_LOC, 0 };

    for (int i = 0; i < machine->n; i++) {
        for (int j = 0; j < i; j++) {
            if (machine->refused[i][j] || machine->refused[j][i]) {
                strcpy(word, "SHM");
                return;
            }
            farthest = machine->links[i][j].kind > farthest.kind ? machine->links[i][j] : farthest;
        }
    }
    shunt_link_print(farthest, word);
}

bool shunt_select_topology(struct shunt_arena *arena, const int *slots, int n, struct shunt_topology *topology)
{
    const struct shunt_topo *node = shunt_topo_machine();
    struct shunt_topo *machine = n >= 2 && n <= SHUNT_BOARD_RANKS ? malloc(sizeof *machine) : NULL;
    struct shunt_machine_key key;
    enum shunt_reason reason;
    bool met = machine != NULL;

    for (int i = 0; i < n && met; i++)
        met = slots[i] >= 0 && shunt_device_get() != NULL && shunt_peer_open(arena, slots[i], &reason) == SHUNT_PEER_OPEN;
    if (met) {
        shunt_machine_key(arena, slots, n, &key);
        shunt_machine_of(arena, &key, machine);
        topology->machine = node != NULL && node->n > 0 ? shunt_routes_hash(node) : 0;
        topology->group = shunt_routes_hash(machine);
        find_farthest(machine, topology->farthest);
    }
    free(machine);
    return met;
}

/* The shape that these posts get, whose ranks match. */
static void find_shape(const struct shunt_select *select, const struct shunt_post *const *posts,
                       struct shunt_demand *demand, struct shunt_verdict *verdict)
{
    if (demand->tune != NULL && demand->wanted == SHUNT_ALGO_AUTO)
        shunt_shape_tune(demand, find_routes(select->arena, select->slots, demand->n)->hash);
    if (shunt_shape_asks_lines(demand) && all_whole_lines(select, demand->n))
        demand->can |= SHUNT_PLAN_LINES;
    if (shunt_shape_asks_routes(demand))
        demand->routes = find_routes(select->arena, select->slots, demand->n);
    if (shunt_shape_reads(demand) && all_readable(select, posts, demand->n))
        demand->can |= SHUNT_PLAN_READS;
    if (!demand->hosted && shunt_shape_copies(demand->coll, demand->bytes, demand->wanted) && all_ready(posts, demand->n) &&
        all_opened(select, posts, demand->n))
        demand->can |= SHUNT_PLAN_ZERO_COPY;
    shunt_select_shape(demand, select->layout, verdict);
    if (!shunt_shape_asks_zero_copy(demand, verdict) || !all_opened(select, posts, demand->n))
        return;
    shunt_shape_zero_copy(demand, select->layout, verdict);
}

/* What the rows of all come to. False: the verdict has the reason. */
static bool read_rows(const struct shunt_select *select, const struct shunt_post *const *posts, struct shunt_demand *demand,
                      struct shunt_verdict *verdict)
{
    struct shunt_row_mismatch mismatch;

    if (shunt_rows_differ(select->arena, posts, demand->n, &mismatch)) {
        verdict->reason = SHUNT_REASON_MISMATCH;
        return false;
    }
    demand->spans = true;
    demand->bytes = verdict->bytes = shunt_rows_largest(select->arena, posts, demand->n);
    verdict->waves = (uint8_t)shunt_rows_waves(select->arena, posts, demand->n);
    verdict->reason = SHUNT_REASON_NEUTRAL;
    return demand->bytes != 0;
}

/* If all ranks ask for the same, that; else what they can have had in common, which is nothing but the order of ranks. */
static void take_wishes(const struct shunt_select *select, const struct shunt_post *const *posts, struct shunt_demand *demand)
{
    const struct shunt_wishes *wishes = shunt_wishes_of(select->wishes);
    static bool said; /* only the decider comes here, who holds the node's launch lock */

    demand->wanted = shunt_wishes_algo(wishes, demand->coll, demand->bytes);
    demand->proto = wishes->proto;
    demand->ordered = wishes->ordered;
    demand->tune = shunt_tune();
    for (int i = 1; i < demand->n; i++) {
        if (posts[i]->wishes == posts[0]->wishes)
            continue;
        if (!said)
            shunt_log_always("ranks choose algorithms by different settings, hints or tables, those of ranks 0 and %d for "
                             "instance: all of these are ignored", i);
        said = true;
        demand->wanted = SHUNT_ALGO_AUTO;
        demand->proto = SHUNT_PROTO_AUTO;
        demand->ordered = true;
        demand->tune = NULL;
        return;
    }
}

/*
 * In place, what a rank gets takes the place of what it has sent. If some hear nothing of others they may have ended their part
 * when one of those finds no room on its GPU, and then the operation could not be staged any more. (Of two, who gets something
 * hears the other.) Not for nothing: it takes a signal of each to each, and there are no flags in the payload.
 */
static bool must_meet(const struct shunt_select *select, const struct shunt_post *const *posts, int n, bool rows)
{
    bool in_place = false;

    for (int i = 0; i < n; i++)
        in_place |= (posts[i]->flags & SHUNT_POST_IN_PLACE) != 0;
    if (!in_place || n <= 2 || shunt_conf->room_ms == 0 || shunt_conf->reproducible)
        return false;
    if (!rows || !shunt_coll_mutual(posts[0]->coll))
        return shunt_coll_has(posts[0]->coll, SHUNT_TRAIT_PREFIX);
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++)
            if (from != to && !sends(select, posts, from, to, true))
                return true;
    return false;
}

bool shunt_select_decide(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    const struct shunt_select *select = context;
    struct shunt_demand demand = {
        .coll = posts[0]->coll,
        .n = n,
        .bytes = posts[0]->count * shunt_type_size(posts[0]->type),
        .max_blocks = SHUNT_GRID,
    };

    for (int i = 0; i < n; i++) {
        unsigned long long a, b;
        if (shunt_posts_differ(posts[0], posts[i], &a, &b) != NULL) {
            verdict->reason = SHUNT_REASON_MISMATCH;
            return false;
        }
        demand.max_blocks = posts[i]->max_blocks < demand.max_blocks ? posts[i]->max_blocks : demand.max_blocks;
    }
    if (n > SHUNT_BOARD_RANKS) {
        verdict->reason = SHUNT_REASON_TOO_MANY_RANKS;
        return false;
    }
    if (shunt_rows_any(posts, n) && !read_rows(select, posts, &demand, verdict))
        return false;
    take_wishes(select, posts, &demand);
    demand.hosted = shunt_peers_hosted(select->arena, select->slots, n);
    demand.rounds = posts[0]->type == SHUNT_TYPE_F16 || posts[0]->type == SHUNT_TYPE_BF16;
    if (!shunt_shape_allows(&demand, demand.wanted))
        demand.wanted = SHUNT_ALGO_AUTO;
    if (demand.wanted == SHUNT_ALGO_STAGED) {
        verdict->reason = SHUNT_REASON_SETTING;
        return false;
    }
    demand.meets = must_meet(select, posts, n, demand.spans);
    find_shape(select, posts, &demand, verdict);
    return true;
}
