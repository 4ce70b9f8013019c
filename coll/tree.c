/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce, Bcast and Reduce by two trees, one for each team, with half of every block's data: chunks go up, and are added on
 * the way, and down again, while the next ones come. A hop for each level of the tree and not for each rank, as around a
 * ring. Each rank has children in one of the trees at most, so no link carries more than the data, up and down.
 *
 * A rank adds what comes from its first child, its own, and what comes from its second child: so operands come in the order
 * of ranks (in the second tree, which is the first one moved on by a rank, in that order from another rank on).
 *
 * With a root, the trees are those of all others, and the root is above both.
 */
#include <stdbool.h>

#include "coll/plan.h"
#include "topo/graph.h"

/* Signals; those of team 1 behind those of team 0. */
enum { BEGUN, DATA, READ, PER_TEAM = 2 };

/* The place of a rank in the tree of a team. */
struct node {
    uint32_t team;
    uint8_t parent; /* NONE: it is the root */
    uint8_t child[2];
    uint32_t levels;
};

static uint64_t bit(uint8_t rank)
{
    return rank == SHUNT_TREE_NONE ? 0 : 1ull << rank;
}

static uint64_t children(const struct node *node)
{
    return bit(node->child[0]) | bit(node->child[1]);
}

static uint8_t data_of(const struct node *node)
{
    return (uint8_t)(DATA + PER_TEAM * node->team);
}

static uint8_t read_of(const struct node *node)
{
    return (uint8_t)(READ + PER_TEAM * node->team);
}

/* Where rank `from` writes to rank `to`. */
static struct shunt_ref way(const struct node *node, uint32_t from, uint32_t to)
{
    return (struct shunt_ref){ (uint8_t)(SHUNT_SPACE_SCRATCH0 + node->team), (uint8_t)to, (uint8_t)from, 0 };
}

static struct shunt_ref out_ref(const struct shunt_plan *plan)
{
    return (struct shunt_ref){ SHUNT_SPACE_OUT, (uint8_t)plan->me, 0, 0 };
}

/* Chunks that a signal is behind what it answers, both ways through the tree. */
static uint32_t lag_of(const struct node *node)
{
    return 2 * node->levels + 1;
}

/*
 * All that has been sent to area 0 of these has been read, chunks that are sent at `lag`. (Of area 1 nobody writes before he
 * has heard from its owner in an operation.) So in that team, who sends finds the place of the next chunk free.
 */
static void end_step(struct shunt_plan *plan, const struct node *node, uint64_t ranks, uint32_t lag)
{
    if (node->team != 0 || ranks == 0)
        return;
    struct shunt_step *end = shunt_plan_step(plan, SHUNT_STEP_WAIT, 0, lag + plan->depth - 1);
    end->wait[0] = (struct shunt_wait){ ranks, read_of(node), 0 };
}

/* What the children have sent, and mine, to the parent; at the root to where the result is. `ends`: an end step follows. */
static void up_step(struct shunt_plan *plan, const struct node *node, bool ends)
{
    const uint32_t me = plan->me;
    struct shunt_step *up = shunt_plan_step(plan, SHUNT_STEP_REDUCE, node->team, 0);

    for (int c = 0; c < 2; c++) {
        if (node->child[c] != SHUNT_TREE_NONE)
            shunt_plan_in(plan, up, way(node, node->child[c], me));
        if (c == 0)
            shunt_plan_in(plan, up, (struct shunt_ref){ .space = SHUNT_SPACE_IN });
    }
    shunt_plan_out(plan, up, node->parent != SHUNT_TREE_NONE ? way(node, me, node->parent) : out_ref(plan));
    up->wait[0] = (struct shunt_wait){ children(node), data_of(node), 0 };
    if (!ends || node->team != 0)
        up->wait[1] = (struct shunt_wait){ bit(node->parent), read_of(node), (uint8_t)plan->depth };
    up->raise = bit(node->parent);
    up->raise_signal = data_of(node);
    up->back = children(node);
    up->back_signal = read_of(node);
}

/* What the parent has sent, or `source` at the root, to its place and to the children. An end step follows. */
static void down_step(struct shunt_plan *plan, const struct node *node, struct shunt_ref source, uint32_t lag)
{
    const bool root = node->parent == SHUNT_TREE_NONE;
    struct shunt_step *down = shunt_plan_step(plan, SHUNT_STEP_REDUCE, node->team, lag);

    shunt_plan_in(plan, down, root ? source : way(node, node->parent, plan->me));
    if (!root)
        shunt_plan_out(plan, down, out_ref(plan));
    for (int c = 0; c < 2; c++)
        if (node->child[c] != SHUNT_TREE_NONE)
            shunt_plan_out(plan, down, way(node, plan->me, node->child[c]));
    down->wait[0] = (struct shunt_wait){ bit(node->parent), data_of(node), 0 };
    if (node->team != 0)
        down->wait[1] = (struct shunt_wait){ children(node), read_of(node), (uint8_t)plan->depth };
    down->raise = children(node);
    down->raise_signal = data_of(node);
    down->back = bit(node->parent);
    down->back_signal = read_of(node);
}

/* The nodes of this rank in both trees over `ranks`, above which is `top`, if there is one. */
static void find_nodes(uint32_t me, const uint8_t *ranks, uint32_t n, uint8_t top, struct node nodes[2])
{
    struct shunt_tree trees[2];
    uint32_t levels = 1;

    while (1u << levels < n + 2)
        levels++;
    shunt_trees_make(ranks, (int)n, trees);
    for (uint32_t t = 0; t < 2; t++) {
        nodes[t] = (struct node){ t, trees[t].parent[me], { trees[t].child[me][0], trees[t].child[me][1] }, levels };
        if (me == top)
            nodes[t] = (struct node){ t, SHUNT_TREE_NONE, { trees[t].root, SHUNT_TREE_NONE }, levels };
        else if (me == trees[t].root)
            nodes[t].parent = top;
    }
}

static void begin(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    shunt_plan_begin(plan, shape, me, 1);
    shunt_plan_split(plan);
    shunt_plan_all_begin(plan, BEGUN);
}

/* The ranks in order, but for `without`. Answers how many. */
static uint32_t list_ranks(const struct shunt_shape *shape, uint32_t without, uint8_t *ranks)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < shape->n; k++) {
        uint8_t rank = shape->ways > 0 ? shape->order[0][k] : (uint8_t)k;
        if (rank != without)
            ranks[n++] = rank;
    }
    return n;
}

void shunt_plan_allreduce_tree(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    uint8_t ranks[SHUNT_PLAN_RANKS];
    struct node nodes[2];

    begin(shape, me, plan);
    find_nodes(me, ranks, list_ranks(shape, SHUNT_TREE_NONE, ranks), SHUNT_TREE_NONE, nodes);
    for (int t = 0; t < 2; t++) {
        up_step(plan, &nodes[t], false);
        down_step(plan, &nodes[t], out_ref(plan), lag_of(&nodes[t]));
        /* What went up has been read, since what comes down is sent after it. */
        end_step(plan, &nodes[t], children(&nodes[t]), lag_of(&nodes[t]));
    }
}

/* Down from the root, or up to it, by trees of all others. */
static void write_rooted(const struct shunt_shape *shape, uint32_t me, bool down, struct shunt_plan *plan)
{
    uint8_t ranks[SHUNT_PLAN_RANKS];
    struct node nodes[2];

    begin(shape, me, plan);
    find_nodes(me, ranks, list_ranks(shape, shape->root, ranks), (uint8_t)shape->root, nodes);
    for (int t = 0; t < 2; t++) {
        if (down)
            down_step(plan, &nodes[t], (struct shunt_ref){ .space = SHUNT_SPACE_IN }, 0);
        else
            up_step(plan, &nodes[t], true);
        end_step(plan, &nodes[t], down ? children(&nodes[t]) : bit(nodes[t].parent), 0);
    }
}

void shunt_plan_bcast_tree(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    write_rooted(shape, me, true, plan);
}

void shunt_plan_reduce_tree(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    write_rooted(shape, me, false, plan);
}
