/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library does with an Allreduce of all GPUs, size by size, as it would decide itself, and why. */
#include <string.h>

#include "base/conf.h"
#include "coll/select.h"
#include "tools/topo_view.h"

/* What is between GPUs: the worst way of all pairs, whether each is direct NVLink, and both kinds of ways. */
struct ways {
    enum shunt_via worst;
    bool lines, peer, shm;
};

static struct ways find_ways(const struct topo_view *view)
{
    struct ways ways = { .worst = SHUNT_VIA_SELF, .lines = true };
    const char *why;

    for (int i = 0; i < view->machine.n; i++) {
        for (int j = 0; j < i; j++) {
            enum shunt_via via = shunt_topo_via(&view->machine, &view->limits, i, j, &why);
            ways.worst = via > ways.worst ? via : ways.worst;
            ways.peer |= via == SHUNT_VIA_PEER;
            ways.shm |= via == SHUNT_VIA_SHM;
            ways.lines &= via == SHUNT_VIA_PEER && view->machine.links[i][j].kind == SHUNT_LINK_NVL;
        }
    }
    return ways;
}

static const char *via_words(const struct ways *ways, const struct shunt_verdict *verdict, const struct shunt_routes *routes)
{
    bool ring = shunt_algos[verdict->algo].number == SHUNT_NAME_ring;

    if (ways->worst > SHUNT_VIA_SHM)
        return "host MPI";
    if (ring && ways->shm && !routes->hosted)
        return "P2P along the ring";
    return ways->shm ? ways->peer ? "P2P and SHM" : "SHM" : ways->lines ? "NVLink P2P" : "P2P";
}

static const char *proto_words(uint32_t flags)
{
    if (flags & SHUNT_PLAN_ENGINES)
        return "copies";
    return flags & SHUNT_PLAN_LINES ? "LL128" : flags & SHUNT_PLAN_LL ? "LL" : "simple";
}

static const char *reason_of(const struct shunt_demand *demand, const struct shunt_verdict *verdict, bool asked)
{
    if (asked)
        return "SHUNT_ALLREDUCE says so";
    switch (shunt_algos[verdict->algo].number) {
    case SHUNT_NAME_oneshot:
        return verdict->flags & SHUNT_PLAN_LL ? "one hop, flags in the data: least delay" :
                                                "one hop, and no more bytes than slices would be";
    case SHUNT_NAME_ring:
        return "by the model, rings cross narrow links more seldom than slices to all do";
    default:
        return demand->routes != NULL && demand->n > 2 ? "each adds a slice: by the model no slower than rings" :
                                                         "each adds a slice: least bytes on links that are alike";
    }
}

/* As select.c does it, with receive buffers that all have opened. */
static void decide(struct shunt_demand *demand, const struct shunt_layout *layout, const struct shunt_routes *routes,
                   struct shunt_verdict *verdict)
{
    if (shunt_shape_asks_routes(demand))
        demand->routes = routes;
    shunt_select_shape(demand, layout, verdict);
    if (shunt_shape_asks_zero_copy(demand, verdict))
        shunt_shape_zero_copy(demand, layout, verdict);
}

static void choose(const struct topo_view *view, const struct ways *ways, const struct shunt_routes *routes,
                   struct topo_choice *choice)
{
    const struct shunt_layout layout = shunt_layout_make(view->machine.n);
    struct shunt_verdict verdict = { 0 };
    struct shunt_demand demand = {
        .coll = SHUNT_COLL_ALLREDUCE, .n = view->machine.n, .bytes = choice->bytes, .max_blocks = SHUNT_GRID,
        .wanted = shunt_wishes_algo(NULL, SHUNT_COLL_ALLREDUCE, choice->bytes), .hosted = ways->shm,
        .proto = shunt_conf->proto, .ordered = shunt_conf->reproducible,
        .can = ways->lines ? SHUNT_PLAN_LINES : 0,
    };
    const bool asked = demand.wanted != SHUNT_ALGO_AUTO && shunt_shape_allows(&demand, demand.wanted);

    choice->name = SHUNT_NAME_staged;
    choice->proto = "-";
    choice->via = "host MPI";
    if (view->machine.n > SHUNT_BOARD_RANKS)
        choice->why = "kernels serve 16 ranks at most";
    else if (ways->worst > SHUNT_VIA_SHM)
        choice->why = "some do not reach each other";
    else if (demand.wanted == SHUNT_ALGO_STAGED)
        choice->why = "SHUNT_ALLREDUCE says so";
    else {
        if (!asked)
            demand.wanted = SHUNT_ALGO_AUTO;
        decide(&demand, &layout, routes, &verdict);
        choice->name = (enum shunt_algo_name)shunt_algos[verdict.algo].number;
        choice->proto = proto_words(verdict.flags);
        choice->via = via_words(ways, &verdict, routes);
        choice->why = reason_of(&demand, &verdict, asked);
    }
    choice->us = shunt_topo_estimate(&view->machine, &view->limits, view->rings, view->n_rings, choice->name, choice->bytes);
}

void topo_choose(struct topo_view *view)
{
    static struct shunt_routes routes;
    const struct ways ways = find_ways(view);

    view->n_choices = 0;
    if (view->machine.n < 2)
        return;
    if (view->machine.n <= SHUNT_BOARD_RANKS)
        shunt_routes_make(&view->machine, &view->limits, &routes);
    view->hash = routes.hash;
    for (uint64_t bytes = 8; bytes <= 1u << 30; bytes *= bytes < 4096 ? 8 : 4) {
        struct topo_choice *choice = &view->choices[view->n_choices++];
        choice->bytes = bytes;
        choose(view, &ways, &routes, choice);
    }
}
