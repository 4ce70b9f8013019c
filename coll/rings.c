/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce, Reduce_scatter and Allgather around rings: every rank sends to the next one only, and hears from the one before
 * only. So what has no direct link, or shares one, is crossed as seldom as can be. Slices travel on, one hop in each phase,
 * and gather the sums of those whom they pass; then the sums go around.
 *
 * Team 0 goes around in the order of the ring, team 1 against it, each with half of every slice, areas and signals of its
 * own. Where links allow more than one ring, blocks take them in turns.
 *
 * In place is safe, since a team reads all of a chunk, slice after slice, before it stores the first one.
 *
 * Who has only heard from its neighbour knows nothing of the others, and no kernel may wait long for one that has not begun.
 * So all first tell all that they have begun.
 */
#include "coll/plan.h"

/* Signals; those of team 1 behind those of team 0. */
enum { BEGUN, DATA, READ, PER_TEAM = 2 };

/* A ring as a rank sees it in the direction of a team. */
struct ring {
    uint32_t way, team;
    uint32_t before, next; /* ranks */
    uint32_t at;           /* my place in the order */
};

static uint64_t bit(uint32_t rank)
{
    return 1ull << rank;
}

/* The place k hops ago. */
static uint8_t place(const struct shunt_plan *plan, const struct ring *ring, uint32_t k)
{
    return (uint8_t)((ring->at + (ring->team == 0 ? plan->n - k : k)) % plan->n);
}

static struct shunt_ref in_ref(uint8_t slice)
{
    return (struct shunt_ref){ .space = SHUNT_SPACE_IN, .slice = slice };
}

static struct shunt_ref out_ref(const struct shunt_plan *plan, uint8_t slice)
{
    return (struct shunt_ref){ SHUNT_SPACE_OUT, (uint8_t)plan->me, 0, slice };
}

static struct shunt_ref come_ref(const struct shunt_plan *plan, const struct ring *ring, uint8_t slice)
{
    return (struct shunt_ref){ (uint8_t)(SHUNT_SPACE_SCRATCH0 + ring->team), (uint8_t)plan->me, (uint8_t)ring->before, slice };
}

static struct shunt_ref next_ref(const struct shunt_plan *plan, const struct ring *ring, uint8_t slice)
{
    return (struct shunt_ref){ (uint8_t)(SHUNT_SPACE_SCRATCH0 + ring->team), (uint8_t)ring->next, (uint8_t)plan->me, slice };
}

/* A step of this ring in phases from ... to - 1, without references. `takes`: what has come; `sends`: something, to the next. */
static struct shunt_step *ring_step(struct shunt_plan *plan, const struct ring *ring, uint32_t from, uint32_t to, bool takes,
                                    bool sends)
{
    const uint8_t data = (uint8_t)(DATA + PER_TEAM * ring->team), read = (uint8_t)(READ + PER_TEAM * ring->team);
    struct shunt_step *step = shunt_plan_step(plan, SHUNT_STEP_REDUCE, ring->team, 0);

    step->way = (uint8_t)ring->way;
    step->from = (uint8_t)from;
    step->to = (uint8_t)to;
    step->turns = true;
    step->ahead = takes; /* what comes at a turn is passed on at the next one */
    if (takes) {
        step->wait[0] = (struct shunt_wait){ bit(ring->before), data, 0 };
        step->back = bit(ring->before);
        step->back_signal = read;
    }
    if (sends) {
        if (takes || ring->team != 0) /* else end_step has waited for as much, a turn before */
            step->wait[1] = (struct shunt_wait){ bit(ring->next), read, (uint8_t)(plan->depth - step->ahead) };
        step->raise = bit(ring->next);
        step->raise_signal = data;
    }
    return step;
}

/* All that is sent to area 0 has been read. (Of area 1 nobody writes before he has heard from its owner in an operation.) */
static void end_step(struct shunt_plan *plan, const struct ring *ring)
{
    if (ring->team != 0)
        return;
    struct shunt_step *end = shunt_plan_step(plan, SHUNT_STEP_WAIT, 0, plan->depth - 1);
    end->way = (uint8_t)ring->way;
    end->wait[0] = (struct shunt_wait){ bit(ring->next), READ, 0 };
}

static struct ring ring_of(const struct shunt_plan *plan, uint32_t way, uint32_t team)
{
    const uint8_t *order = plan->order[way];
    struct ring ring = { .way = way, .team = team };

    while (order[ring.at] != plan->me)
        ring.at++;
    ring.before = order[place(plan, &ring, 1)];
    ring.next = order[place(plan, &ring, plan->n - 1)];
    return ring;
}

/* Write the steps of all rings by `write`, one direction of one ring at a time. */
static void rings(struct shunt_plan *plan, const struct shunt_shape *shape, uint32_t phases,
                  void (*write)(struct shunt_plan *plan, const struct ring *ring))
{
    plan->phases = phases;
    plan->ways = shape->ways > 0 ? shape->ways : 1;
    shunt_plan_split(plan);
    shunt_plan_all_begin(plan, BEGUN);
    for (uint32_t way = 0; way < plan->ways; way++) {
        for (uint32_t k = 0; k < plan->n; k++)
            plan->order[way][k] = shape->ways > 0 ? shape->order[way][k] : (uint8_t)k;
        for (uint32_t team = 0; team < SHUNT_PLAN_TEAMS; team++) {
            const struct ring ring = ring_of(plan, way, team);
            write(plan, &ring);
            end_step(plan, &ring);
        }
    }
}

/* What has come and mine are added and go on, in phases 0 ... n - 3. */
static void add_step(struct shunt_plan *plan, const struct ring *ring, uint8_t from)
{
    struct shunt_step *add = ring_step(plan, ring, 0, plan->n - 2, true, true);

    shunt_plan_in(plan, add, come_ref(plan, ring, from));
    shunt_plan_in(plan, add, in_ref(from));
    shunt_plan_out(plan, add, next_ref(plan, ring, from));
}

/* A block of others has come: it is stored here, and goes on if `sends`. */
static void pass_step(struct shunt_plan *plan, const struct ring *ring, uint32_t from, uint32_t to, bool sends)
{
    const uint8_t slice = place(plan, ring, 1);
    struct shunt_step *pass = ring_step(plan, ring, from, to, true, sends);

    shunt_plan_in(plan, pass, come_ref(plan, ring, slice));
    shunt_plan_out(plan, pass, out_ref(plan, slice));
    if (sends)
        shunt_plan_out(plan, pass, next_ref(plan, ring, slice));
}

/* ---- Allreduce ---- */

/* At phase p the slice of who is p + 1 hops behind comes: its sum is complete at phase n - 2, and goes around from there. */
static void allreduce(struct shunt_plan *plan, const struct ring *ring)
{
    const uint32_t n = plan->n;
    const uint8_t mine = (uint8_t)ring->at, from = place(plan, ring, 1);
    struct shunt_step *send = ring_step(plan, ring, 0, 1, false, true);

    shunt_plan_in(plan, send, in_ref(mine));
    shunt_plan_out(plan, send, next_ref(plan, ring, mine));
    add_step(plan, ring, from);
    struct shunt_step *total = ring_step(plan, ring, n - 2, n - 1, true, true);
    shunt_plan_in(plan, total, come_ref(plan, ring, from));
    shunt_plan_in(plan, total, in_ref(from));
    shunt_plan_out(plan, total, out_ref(plan, from));
    shunt_plan_out(plan, total, next_ref(plan, ring, from));
    pass_step(plan, ring, n - 1, 2 * n - 3, true);
    pass_step(plan, ring, 2 * n - 3, 2 * n - 2, false);
}

void shunt_plan_allreduce_ring(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    shunt_plan_begin(plan, shape, me, shape->n);
    rings(plan, shape, 2 * shape->n - 2, allreduce);
}

/* ---- Reduce_scatter ---- */

/* The block of who is behind goes first, so that mine comes last. */
static void reduce_scatter(struct shunt_plan *plan, const struct ring *ring)
{
    const uint8_t behind = place(plan, ring, 1), from = place(plan, ring, 2 % plan->n), me = (uint8_t)plan->me;
    struct shunt_step *send = ring_step(plan, ring, 0, 1, false, true);

    shunt_plan_in(plan, send, in_ref(behind));
    shunt_plan_out(plan, send, next_ref(plan, ring, behind));
    add_step(plan, ring, from);
    struct shunt_step *total = ring_step(plan, ring, plan->n - 2, plan->n - 1, true, false);
    total->turns = false; /* it is but one phase, and the result has a place of its own */
    shunt_plan_in(plan, total, come_ref(plan, ring, me));
    shunt_plan_in(plan, total, in_ref(me));
    shunt_plan_out(plan, total, out_ref(plan, 0));
}

void shunt_plan_reduce_scatter_block_ring(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    shunt_plan_begin_blocks(plan, shape, me);
    rings(plan, shape, shape->n - 1, reduce_scatter);
}

void shunt_plan_reduce_scatter_ring(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    shunt_plan_reduce_scatter_block_ring(shape, me, plan);
}

/* ---- Allgather ---- */

static void allgather(struct shunt_plan *plan, const struct ring *ring)
{
    const uint8_t me = (uint8_t)plan->me;
    struct shunt_step *send = ring_step(plan, ring, 0, 1, false, true);

    send->turns = false;
    shunt_plan_in(plan, send, in_ref(0));
    shunt_plan_out(plan, send, out_ref(plan, me));
    shunt_plan_out(plan, send, next_ref(plan, ring, me));
    pass_step(plan, ring, 0, plan->n - 2, true);
    pass_step(plan, ring, plan->n - 2, plan->n - 1, false);
}

void shunt_plan_allgather_ring(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    shunt_plan_begin_blocks(plan, shape, me);
    rings(plan, shape, shape->n - 1, allgather);
}
