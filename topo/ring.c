/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings. The best cycle of up to 16 points comes from dynamic programming over sets (Held and Karp), once for each limit
 * of the narrowest hop, from the widest down, until there is one; of more points, from the widest next hop and then
 * turning pieces around (2-opt) for as long as that helps.
 *
 * Rings that share no NVLink are searched among all cycles of up to 8 GPUs; of more, they are taken one after the other.
 */
#include "topo/graph.h"

#include <stdlib.h>
#include <string.h>

uint32_t shunt_cycle_width(const uint32_t *width, int n, const uint8_t *order, uint64_t *sum)
{
    uint32_t least = n > 1 ? UINT32_MAX : 0;

    *sum = 0;
    for (int i = 0; i < n && n > 1; i++) {
        uint32_t w = width[order[i] * n + order[(i + 1) % n]];
        least = w < least ? w : least;
        *sum += w;
    }
    return least;
}

/* ---- the best cycle, exactly ---- */

/* Of a path from 0 through the points of `set` (bit p - 1: point p) that ends at a point of it. */
struct path {
    uint64_t sum; /* 0: there is none */
    uint8_t before;
};

static void fill_paths(const uint32_t *width, int n, uint32_t least, struct path *paths)
{
    const int m = n - 1;

    memset(paths, 0, ((size_t)m << m) * sizeof *paths);
    for (int p = 0; p < m; p++)
        if (width[p + 1] >= least)
            paths[(size_t)m * ((size_t)1 << p) + p].sum = width[p + 1];
    for (size_t set = 1; set < (size_t)1 << m; set++) {
        for (int last = 0; last < m; last++) {
            const struct path *path = &paths[set * m + last];
            if (path->sum == 0)
                continue;
            for (int next = 0; next < m; next++) {
                uint32_t w = width[(last + 1) * n + next + 1];
                if ((set >> next & 1) || w < least)
                    continue;
                struct path *longer = &paths[(set | (size_t)1 << next) * m + next];
                if (path->sum + w > longer->sum)
                    *longer = (struct path){ path->sum + w, (uint8_t)last };
            }
        }
    }
}

/* The way back to 0 closes the cycle; false: none does. */
static bool close_cycle(const uint32_t *width, int n, uint32_t least, const struct path *paths, uint8_t *order)
{
    const int m = n - 1;
    size_t set = ((size_t)1 << m) - 1;
    uint64_t best = 0;
    int last = -1;

    for (int p = 0; p < m; p++) {
        uint64_t sum = paths[set * m + p].sum;
        if (sum != 0 && width[p + 1] >= least && sum + width[p + 1] > best) {
            best = sum + width[p + 1];
            last = p;
        }
    }
    if (last < 0)
        return false;
    order[0] = 0;
    for (int i = m; i > 0; i--) {
        int before = paths[set * m + last].before;
        order[i] = (uint8_t)(last + 1);
        set &= ~((size_t)1 << last);
        last = before;
    }
    return true;
}

/* The largest width below `below`; 0: none. */
static uint32_t next_width(const uint32_t *width, int n, uint32_t below)
{
    uint32_t best = 0;

    for (int i = 0; i < n * n; i++)
        if (width[i] < below && width[i] > best)
            best = width[i];
    return best;
}

static bool cycle_exact(const uint32_t *width, int n, uint8_t *order)
{
    struct path *paths = malloc(((size_t)(n - 1) << (n - 1)) * sizeof *paths);
    bool found = false;

    for (uint32_t least = next_width(width, n, UINT32_MAX); paths != NULL && least > 0 && !found;
         least = next_width(width, n, least)) {
        fill_paths(width, n, least, paths);
        found = close_cycle(width, n, least, paths, order);
    }
    free(paths);
    return found;
}

/* ---- a good cycle ---- */

static void cycle_nearest(const uint32_t *width, int n, uint8_t *order)
{
    bool taken[SHUNT_TOPO_GPUS] = { true };

    order[0] = 0;
    for (int i = 1; i < n; i++) {
        int best = -1;
        for (int p = 0; p < n; p++)
            if (!taken[p] && (best < 0 || width[order[i - 1] * n + p] > width[order[i - 1] * n + best]))
                best = p;
        taken[best] = true;
        order[i] = (uint8_t)best;
    }
}

static void turn(uint8_t *order, int from, int to)
{
    for (; from < to; from++, to--) {
        uint8_t keep = order[from];
        order[from] = order[to];
        order[to] = keep;
    }
}

static bool cycle_good(const uint32_t *width, int n, uint8_t *order)
{
    uint64_t sum, new_sum;
    bool better = true;

    cycle_nearest(width, n, order);
    uint32_t least = shunt_cycle_width(width, n, order, &sum);
    while (better) {
        better = false;
        for (int i = 1; i < n - 1; i++) {
            for (int j = i + 1; j < n; j++) {
                turn(order, i, j);
                uint32_t new_least = shunt_cycle_width(width, n, order, &new_sum);
                if (new_least > least || (new_least == least && new_sum > sum)) {
                    least = new_least;
                    sum = new_sum;
                    better = true;
                } else {
                    turn(order, i, j);
                }
            }
        }
    }
    return least > 0;
}

bool shunt_cycle_best(const uint32_t *width, int n, uint8_t *order)
{
    if (n <= 2) {
        order[0] = 0;
        order[n == 2] = (uint8_t)(n == 2);
        return n < 2 || width[1] > 0;
    }
    return n <= SHUNT_TOPO_EXACT ? cycle_exact(width, n, order) : cycle_good(width, n, order);
}

/* ---- rings that share no NVLink ---- */

#define SEARCHED 8            /* GPUs; 2520 cycles at most */
#define CYCLES   2520
#define PATIENCE (1 << 18)    /* looks at a cycle */

struct search {
    int n, n_cycles, looks;
    uint8_t cycles[CYCLES][SEARCHED];
    int left[SEARCHED][SEARCHED]; /* lanes that no ring has yet */
    int chosen[SHUNT_TOPO_RINGS], best[SHUNT_TOPO_RINGS], n_best;
};

/* All cycles once: from 0 on, and of the two directions the one whose second point is smaller than its last. */
static void list_cycles(struct search *s, uint8_t *order, int length, unsigned taken)
{
    if (length == s->n) {
        if (order[1] < order[length - 1] && s->left[order[length - 1]][0] > 0 && s->n_cycles < CYCLES)
            memcpy(s->cycles[s->n_cycles++], order, (size_t)length);
        return;
    }
    for (int p = 1; p < s->n; p++) {
        if ((taken >> p & 1) || s->left[order[length - 1]][p] == 0)
            continue;
        order[length] = (uint8_t)p;
        list_cycles(s, order, length + 1, taken | 1u << p);
    }
}

/* Each ring takes two lanes of each GPU. */
static int most_rings(const struct search *s)
{
    int most = SHUNT_TOPO_RINGS;

    for (int i = 0; i < s->n; i++) {
        int lanes = 0;
        for (int j = 0; j < s->n; j++)
            lanes += i != j ? s->left[i][j] : 0;
        most = lanes / 2 < most ? lanes / 2 : most;
    }
    return most;
}

/* Take the lanes of a cycle (+1: give them back). False: one is not there, and nothing is taken. */
static bool take(struct search *s, const uint8_t *order, int change)
{
    for (int i = 0; change < 0 && i < s->n; i++)
        if (s->left[order[i]][order[(i + 1) % s->n]] == 0)
            return false;
    for (int i = 0; i < s->n; i++) {
        int a = order[i], b = order[(i + 1) % s->n];
        s->left[a][b] += change;
        s->left[b][a] = s->left[a][b];
    }
    return true;
}

/* Rings are chosen in the order of the list, each as often as there are lanes. */
static void choose(struct search *s, int from, int n)
{
    if (n > s->n_best) {
        memcpy(s->best, s->chosen, sizeof s->best);
        s->n_best = n;
    }
    for (int c = from; c < s->n_cycles && n + most_rings(s) > s->n_best && s->looks < PATIENCE; c++) {
        s->looks++;
        if (!take(s, s->cycles[c], -1))
            continue;
        s->chosen[n] = c;
        choose(s, c, n + 1);
        take(s, s->cycles[c], 1);
    }
}

static int search_rings(struct search *s, struct shunt_ring *rings)
{
    uint8_t order[SEARCHED] = { 0 };

    list_cycles(s, order, 1, 1);
    choose(s, 0, 0);
    for (int r = 0; r < s->n_best; r++)
        memcpy(rings[r].order, s->cycles[s->best[r]], (size_t)s->n);
    return s->n_best;
}

/* One after the other, each over the links with most lanes left. */
static int greedy_rings(uint32_t *left, int n, struct shunt_ring *rings)
{
    int r = 0;

    while (r < SHUNT_TOPO_RINGS && shunt_cycle_best(left, n, rings[r].order)) {
        for (int i = 0; i < n; i++) {
            int a = rings[r].order[i], b = rings[r].order[(i + 1) % n];
            left[a * n + b]--;
            left[b * n + a] = left[a * n + b];
        }
        r++;
    }
    return r;
}

/* Lanes of NVLinks between peers. */
static int lanes_of(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, int i, int j)
{
    const char *why;

    return i != j && topo->links[i][j].kind == SHUNT_LINK_NVL &&
                   shunt_topo_via(topo, limits, i, j, &why) == SHUNT_VIA_PEER ?
               topo->links[i][j].lanes :
               0;
}

static int disjoint_rings(const struct shunt_topo *topo, const struct shunt_topo_limits *limits,
                          struct shunt_ring *rings)
{
    const int n = topo->n;
    struct search *s = calloc(1, sizeof *s);
    uint32_t *left = calloc((size_t)n * n, sizeof *left);
    int found = 0;

    for (int i = 0; s != NULL && left != NULL && i < n; i++) {
        for (int j = 0; j < n; j++) {
            int lanes = lanes_of(topo, limits, i, j);
            left[i * n + j] = (uint32_t)lanes;
            if (n <= SEARCHED)
                s->left[i][j] = lanes;
        }
    }
    if (s != NULL && left != NULL) {
        s->n = n;
        found = n <= SEARCHED ? search_rings(s, rings) : greedy_rings(left, n, rings);
    }
    free(s);
    free(left);
    return found;
}

/* One ring over whatever there is, with all lanes of its hops. */
static int one_ring(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, struct shunt_ring *ring)
{
    const int n = topo->n;
    uint32_t *width = calloc((size_t)n * n, sizeof *width);
    uint64_t sum;
    int lanes = 255;

    for (int i = 0; width != NULL && i < n; i++)
        for (int j = 0; j < n; j++)
            width[i * n + j] = i == j ? 0 : shunt_topo_width(topo, limits, i, j);
    bool found = width != NULL && shunt_cycle_best(width, n, ring->order);
    for (int i = 0; found && i < n && n > 1; i++) {
        int hop = lanes_of(topo, limits, ring->order[i], ring->order[(i + 1) % n]);
        lanes = hop < lanes ? hop : lanes;
    }
    if (found) {
        ring->width = shunt_cycle_width(width, n, ring->order, &sum);
        ring->lanes = (uint8_t)(n > 1 ? lanes : 0);
    }
    free(width);
    return found;
}

int shunt_topo_rings(const struct shunt_topo *topo, const struct shunt_topo_limits *limits,
                     struct shunt_ring rings[SHUNT_TOPO_RINGS])
{
    int found = 0;

    memset(rings, 0, SHUNT_TOPO_RINGS * sizeof *rings);
    if (topo->n < 1)
        return 0;
    if (topo->n > 2 && !topo->switched)
        found = disjoint_rings(topo, limits, rings);
    for (int r = 0; r < found; r++) {
        rings[r].lanes = 1;
        rings[r].both = true;
        rings[r].width = shunt_topo_lane(topo, limits, rings[r].order[0], rings[r].order[1]);
    }
    return found > 0 ? found : one_ring(topo, limits, &rings[0]);
}
