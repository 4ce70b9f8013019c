/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trees, and who speaks for a node. In a binary tree whose points are numbered from left to right, so that all on the left
 * of a point come before it, the even ones can all be leaves. The second tree is the first one moved on by one: there the
 * others are.
 */
#include "topo/graph.h"

#include <string.h>

/* The root of the tree over positions lo to hi: an odd one near the middle, so that both sides begin with a leaf. */
static int middle(int lo, int hi)
{
    return lo == hi ? lo : lo + ((hi - lo + 1) / 2 | 1);
}

static void plant(const uint8_t *point, int n, int lo, int hi, uint8_t parent, struct shunt_tree *tree)
{
    int at = middle(lo, hi);
    uint8_t me = point[at];

    tree->parent[me] = parent;
    tree->child[me][0] = at > lo ? point[middle(lo, at - 1)] : SHUNT_TREE_NONE;
    tree->child[me][1] = at < hi ? point[middle(at + 1, hi)] : SHUNT_TREE_NONE;
    if (at > lo)
        plant(point, n, lo, at - 1, me, tree);
    if (at < hi)
        plant(point, n, at + 1, hi, me, tree);
}

void shunt_trees_make(const uint8_t *order, int n, struct shunt_tree trees[2])
{
    uint8_t point[SHUNT_TOPO_GPUS];

    memset(trees, SHUNT_TREE_NONE, 2 * sizeof *trees);
    for (int t = 0; t < 2 && n > 0; t++) {
        for (int i = 0; i < n; i++)
            point[(i + t) % n] = order[i];
        trees[t].root = point[middle(0, n - 1)];
        plant(point, n, 0, n - 1, SHUNT_TREE_NONE, &trees[t]);
    }
}

int shunt_tree_depth(const struct shunt_tree *tree, int n)
{
    int deepest = 0;

    for (int i = 0; i < n; i++) {
        int depth = 0;
        for (int at = i; tree->parent[at] != SHUNT_TREE_NONE && depth < n; at = tree->parent[at])
            depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

/* The kind of the nearest NIC's link; NET if the node has none. */
static enum shunt_link_kind nearest(const struct shunt_topo *topo, int gpu)
{
    enum shunt_link_kind best = SHUNT_LINK_NET;

    for (int k = 0; k < topo->n_nics; k++)
        if (topo->nic_links[gpu][k].kind < best)
            best = topo->nic_links[gpu][k].kind;
    return best;
}

int shunt_topo_leader(const struct shunt_topo *topo, int node)
{
    int leader = -1;

    for (int i = 0; i < topo->n; i++)
        if (topo->gpus[i].node == node && (leader < 0 || nearest(topo, i) < nearest(topo, leader)))
            leader = i;
    return leader;
}

int shunt_topo_nic(const struct shunt_topo *topo, int gpu)
{
    int given[SHUNT_TOPO_NICS] = { 0 }, mine = -1;

    for (int i = 0; i <= gpu; i++) {
        enum shunt_link_kind kind = nearest(topo, i);
        mine = -1;
        for (int k = 0; k < topo->n_nics && kind != SHUNT_LINK_NET; k++)
            if (topo->nic_links[i][k].kind == kind && (mine < 0 || given[k] < given[mine]))
                mine = k;
        if (mine >= 0)
            given[mine]++;
    }
    return mine;
}
