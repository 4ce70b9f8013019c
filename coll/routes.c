/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes of a group of ranks, from the machine as topo/ knows it; see routes.h. */
#include "coll/routes.h"

#include <string.h>

/* Rings that use the same hops are one, which has more lanes. */
static bool is_new(const struct shunt_routes *routes, const uint8_t *order, int n)
{
    for (uint32_t way = 0; way < routes->ways; way++) {
        bool same = true, turned = true;
        for (int k = 1; k < n; k++) {
            same &= routes->order[way][k] == order[k];
            turned &= routes->order[way][k] == order[n - k];
        }
        if (same || turned)
            return false;
    }
    return true;
}

static void take_rings(const struct shunt_topo *machine, const struct shunt_topo_limits *limits,
                       const struct shunt_ring *rings, int n_rings, struct shunt_routes *routes)
{
    const int n = machine->n;
    const char *why;

    for (int r = 0; r < n_rings && routes->ways < SHUNT_PLAN_WAYS; r++) {
        if (!is_new(routes, rings[r].order, n))
            continue;
        memcpy(routes->order[routes->ways++], rings[r].order, (size_t)n);
        for (int k = 0; k < n; k++)
            routes->hosted |= shunt_topo_via(machine, limits, rings[r].order[k], rings[r].order[(k + 1) % n], &why) >
                              SHUNT_VIA_PEER;
    }
}

/* The smallest power of two from which on rings are always better. */
static uint64_t ring_from(const struct shunt_topo *machine, const struct shunt_topo_limits *limits,
                          const struct shunt_ring *rings, int n_rings, bool half)
{
    uint64_t from = UINT64_MAX;

    for (uint64_t bytes = 1ull << 34; bytes > 0; bytes >>= 1) {
        double ring, other;
        if (half) {
            ring = shunt_topo_estimate_half(machine, limits, rings, n_rings, SHUNT_NAME_ring, bytes);
            other = shunt_topo_estimate_half(machine, limits, rings, n_rings, SHUNT_NAME_oneshot, bytes);
        } else {
            ring = shunt_topo_estimate(machine, limits, rings, n_rings, SHUNT_NAME_ring, bytes);
            other = shunt_topo_estimate(machine, limits, rings, n_rings, SHUNT_NAME_twoshot, bytes);
        }
        if (ring >= other)
            break;
        from = bytes;
    }
    return from;
}

/* FNV-1a */
static void mix(uint64_t *hash, const void *data, size_t size)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < size; i++)
        *hash = (*hash ^ byte[i]) * 0x100000001b3u;
}

static uint64_t hash_of(const struct shunt_topo *machine, const struct shunt_topo_limits *limits)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const char *why;

    for (int i = 0; i < machine->n; i++) {
        mix(&hash, machine->gpus[i].name, strlen(machine->gpus[i].name));
        for (int j = 0; j < i; j++) {
            uint8_t link[3] = { machine->links[i][j].kind, machine->links[i][j].lanes,
                                (uint8_t)shunt_topo_via(machine, limits, i, j, &why) };
            mix(&hash, link, sizeof link);
        }
    }
    return hash;
}

uint64_t shunt_routes_hash(const struct shunt_topo *machine)
{
    const struct shunt_topo_limits limits = { .p2p_level = SHUNT_LINK_SYS };

    return hash_of(machine, &limits);
}

void shunt_routes_make(const struct shunt_topo *machine, const struct shunt_topo_limits *limits,
                       struct shunt_routes *routes)
{
    struct shunt_ring rings[SHUNT_TOPO_RINGS];
    int n_rings = shunt_topo_rings(machine, limits, rings);

    *routes = (struct shunt_routes){ .hash = hash_of(machine, limits), .ring_from = { UINT64_MAX, UINT64_MAX } };
    take_rings(machine, limits, rings, n_rings, routes);
    if (machine->n <= 2 || n_rings == 0)
        return;
    for (int half = 0; half < 2; half++)
        routes->ring_from[half] = ring_from(machine, limits, rings, n_rings, half);
}

void shunt_routes_put(const struct shunt_routes *routes, int n, struct shunt_verdict *verdict)
{
    const uint32_t room = 128 / (4 * (uint32_t)n), ways = routes->ways < room ? routes->ways : room;

    verdict->ways = (uint8_t)ways;
    verdict->order[0] = verdict->order[1] = 0;
    for (uint32_t i = 0; i < ways * (uint32_t)n; i++)
        verdict->order[i / 16] |= (uint64_t)routes->order[i / (uint32_t)n][i % (uint32_t)n] << 4 * (i % 16);
}

uint8_t shunt_routes_rank(const struct shunt_verdict *verdict, uint32_t n, uint32_t way, uint32_t k)
{
    uint32_t i = way * n + k;

    return verdict->order[i / 16] >> 4 * (i % 16) & 15;
}
