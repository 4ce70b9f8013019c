/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of starts, hops, and bytes over the width of what they cross. The network is as wide between any two sets of
 * nodes as their NICs. A NIC serves as many GPUs as there are to a NIC; with more NICs than GPUs each GPU has several.
 *
 * What a hop over the network costs is not the wire alone: a thread sees that its GPU is done, hands the data to UCX, and
 * its peer's thread starts what follows. The constants for this are assumptions; those of one node are of two H200.
 */
#include "topo/nodes.h"

#include <math.h>
#include <stddef.h>

#define START_US      6.0 /* a kernel: from the call to the end of a message of no bytes, on all */
#define HOP_US        1.5 /* a flag, and what it was waited for */
#define HOP_FENCED    3.0 /* the same with a fence of the system behind the data */
#define HOP_NET_US    8.0 /* from host to host over the network, with a look at the GPU on both sides */
#define MESSAGE_US    0.7 /* one more message that is sent, received and added at the same time */
#define MERGE_US      2.0 /* the processes of a node add what each has got, in host memory */
#define PIECES_MOST   64  /* in which a message is pipelined */
#define FLAGS         (16.0 / 15)
#define MOST_REACHED  SHUNT_CLUSTER_NODES

static const struct {
    const char *word, *text;
} ways[] = {
#define X(id, word, text) {word, text},
    SHUNT_WIDE_WAYS(X)
#undef X
};

const char *shunt_wide_word(enum shunt_wide way)
{
    return ways[way].word;
}

const char *shunt_wide_text(enum shunt_wide way)
{
    return ways[way].text;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Hops in which the base-k logarithm of n is reached. */
static int hops(int n, int k)
{
    int count = 0;

    for (double reached = 1; reached < n; reached *= k)
        count++;
    return count;
}

/* MB/s of all NICs of a node, and a GPU's part of it. */
static double node_width(const struct shunt_cluster *c)
{
    return c->nics * c->nic;
}

static double rail_width(const struct shunt_cluster *c)
{
    return node_width(c) / c->gpus;
}

/* ---- inside of a node ---- */

/* Each GPU sends all to all: what is short. */
static double node_sum(const struct shunt_cluster *c, double bytes)
{
    return c->gpus == 1 ? START_US : START_US + HOP_US + (c->gpus - 1) * bytes * FLAGS / c->gpu;
}

/* The time for bytes of half an Allreduce, to slices or from slices. */
static double node_half(const struct shunt_cluster *c, double bytes)
{
    return (c->gpus - 1.0) / c->gpus * bytes / c->gpu;
}

/* Slices, `between` for their bytes on the network after `latency`, and back; in pieces, so that all three overlap. */
static double by_slices(const struct shunt_cluster *c, double bytes, double latency, double between)
{
    double half = node_half(c, bytes), longest = larger(2 * half, between), best = INFINITY;

    for (int pieces = 1; pieces <= PIECES_MOST; pieces *= 2) /* the halves share the GPUs' ports */
        best = smaller(best, longest + (2 * half + between - longest) / pieces + (pieces - 1) * MESSAGE_US);
    return (c->gpus > 1 ? 2 * (START_US + HOP_FENCED) : START_US) + latency + best;
}

/* ---- ways ---- */

static double flat_time(const struct shunt_cluster *c, double bytes)
{
    double all = (double)c->nodes * c->gpus, width = smaller(node_width(c), c->gpu);
    double hop = (c->nodes * HOP_NET_US + (all - c->nodes) * HOP_FENCED) / all;

    return START_US + 2 * (all - 1) * (hop + bytes / all / width);
}

static double ring_time(const struct shunt_cluster *c, double bytes)
{
    double steps = 2 * (c->nodes - 1.0);

    return by_slices(c, bytes, steps * HOP_NET_US, steps / c->nodes * bytes / c->gpus / rail_width(c));
}

/* Hops among groups of d1, d2, ... nodes with d1 * d2 * ... = n, in the best such product. */
static double grouped_hops(int n)
{
    double best = HOP_NET_US + (n - 2) * MESSAGE_US;

    if (n < 2)
        return 0;
    for (int d = 2; d * d <= n; d++)
        if (n % d == 0)
            best = smaller(best, HOP_NET_US + (d - 2) * MESSAGE_US + grouped_hops(n / d));
    return best;
}

/* A number of nodes that is no good product: those beyond a power of two give their slices to others, and get the sums. */
static double groups_time(const struct shunt_cluster *c, double bytes)
{
    double slice = bytes / c->gpus / rail_width(c), n = c->nodes, pairs = 1;

    while (2 * pairs <= n)
        pairs *= 2;
    double exact = by_slices(c, bytes, 2 * grouped_hops(c->nodes), 2 * (n - 1) / n * slice);
    double folded = by_slices(c, bytes, 2 * grouped_hops((int)pairs) + 2 * HOP_NET_US, (2 * (pairs - 1) / pairs + 2) * slice);
    return smaller(exact, folded);
}

/* Each node has children in one of two trees, so twice the bytes of a slice leave it and twice come. */
static double tree_time(const struct shunt_cluster *c, double bytes)
{
    double slice = bytes / c->gpus / rail_width(c), best = INFINITY;
    int depth = hops(c->nodes, 2);

    for (int pieces = 1; pieces <= PIECES_MOST; pieces *= 2) {
        double piece = slice / pieces, turn = larger(MESSAGE_US, 2 * piece);
        best = smaller(best, 2 * depth * (HOP_NET_US + piece) + (pieces - 1) * turn + piece);
    }
    return by_slices(c, bytes, best, 0);
}

static double leaders_time(const struct shunt_cluster *c, double bytes)
{
    double spread = c->gpus > 1 ? START_US + HOP_US + (c->gpus - 1) * bytes / c->gpu : 0;

    return node_sum(c, bytes) + 2 * hops(c->nodes, 2) * (HOP_NET_US + bytes / c->nic) + spread;
}

static double doubling_time(const struct shunt_cluster *c, double bytes)
{
    int steps = hops(c->nodes, 2), more = 1 << steps == c->nodes ? 0 : 1; /* fold in first, and out at last */

    return node_sum(c, bytes) + (steps + more) * (HOP_NET_US + bytes / rail_width(c));
}

static double spread_time(const struct shunt_cluster *c, double bytes, int radix)
{
    double each = ceil((radix - 1.0) / c->gpus), merge = c->gpus > 1 && radix > 2 ? MERGE_US : 0;
    double hop = HOP_NET_US + (each - 1) * MESSAGE_US + each * bytes / rail_width(c) + merge;

    return node_sum(c, bytes) + hops(c->nodes, radix) * hop;
}

int shunt_wide_radix(const struct shunt_cluster *c, double bytes)
{
    int best = 2;

    for (int radix = 3; radix <= c->nodes; radix++)
        if (spread_time(c, bytes, radix) < spread_time(c, bytes, best))
            best = radix;
    return best;
}

double shunt_wide_time(const struct shunt_cluster *c, enum shunt_wide way, double bytes)
{
    switch (way) {
    case SHUNT_WIDE_FLAT:
        return flat_time(c, bytes);
    case SHUNT_WIDE_RING:
        return ring_time(c, bytes);
    case SHUNT_WIDE_GROUPS:
        return groups_time(c, bytes);
    case SHUNT_WIDE_TREE:
        return tree_time(c, bytes);
    case SHUNT_WIDE_LEADERS:
        return leaders_time(c, bytes);
    case SHUNT_WIDE_DOUBLING:
        return doubling_time(c, bytes);
    default:
        return spread_time(c, bytes, shunt_wide_radix(c, bytes));
    }
}

enum shunt_wide shunt_wide_plan(const struct shunt_cluster *c, double bytes)
{
    enum shunt_wide best = SHUNT_WIDE_FLAT;

    for (enum shunt_wide way = best + 1; way < SHUNT_NWIDE; way++)
        if (shunt_wide_time(c, way, bytes) < shunt_wide_time(c, best, bytes))
            best = way;
    return best;
}

/* ---- bounds ---- */

/*
 * The nodes that know something after `time` if one knew it at 0: each that knows it tells another every MESSAGE_US, with
 * all its GPUs side by side, and it takes HOP_NET_US to get there.
 */
static int nodes_reached(const struct shunt_cluster *c, double time)
{
    double step = MESSAGE_US / c->gpus, reached = 0;
    static const int most = 64; /* generations, far more than there are */
    double generation = 1;      /* of how many nodes, in the ways of sending so often */

    /* a node of generation g has been told over g hops and waited for j sends in all: choose(j + g, g) such orders */
    for (int g = 0; g < most && time - g * HOP_NET_US >= 0; g++) {
        double turns = floor((time - g * HOP_NET_US) / step), count = 1;
        for (int i = 1; i <= g; i++)
            count *= (turns + i) / i;
        generation = g == 0 ? 1 : count;
        reached += generation;
        if (reached >= MOST_REACHED)
            return MOST_REACHED;
    }
    return (int)reached;
}

double shunt_wide_latency_bound(const struct shunt_cluster *c)
{
    double below = 0, above = HOP_NET_US * (1 + hops(c->nodes, 2));

    for (int i = 0; i < 50; i++) {
        double middle = (below + above) / 2;
        if (nodes_reached(c, middle) >= c->nodes)
            above = middle;
        else
            below = middle;
    }
    return node_sum(c, 0) + above;
}

double shunt_wide_bandwidth_bound(const struct shunt_cluster *c, double bytes)
{
    double all = (double)c->nodes * c->gpus;

    return START_US + larger(2 * (c->nodes - 1.0) / c->nodes * bytes / node_width(c),
                             2 * (all - 1) / all * bytes / (c->gpu + rail_width(c)));
}

const char *shunt_wide_why(const struct shunt_cluster *c, double bytes)
{
    double time = shunt_wide_time(c, shunt_wide_plan(c, bytes), bytes);
    double latency = shunt_wide_latency_bound(c), bandwidth = shunt_wide_bandwidth_bound(c, bytes);

    if (time <= SHUNT_WIDE_FAR * larger(latency, bandwidth))
        return NULL;
    if (time <= SHUNT_WIDE_FAR * (latency + bandwidth - START_US))
        return "hops and bytes take about as long, and add up";
    /* what moves no byte twice over a NIC adds at one node, and tells all */
    double twice = 2 * (latency - node_sum(c, 0)) + 2 * (START_US + HOP_FENCED);
    if (time <= SHUNT_WIDE_FAR * (twice + bandwidth - START_US))
        return "few bytes mean that sums go out and come back: twice the hops, one more launch";
    if (grouped_hops(c->nodes) > 2 * hops(c->nodes, 2) * HOP_NET_US)
        return "the number of nodes is no product of small ones";
    return "few bytes mean that sums go out and come back, in several hops each, and one more launch";
}
