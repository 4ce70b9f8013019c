/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bcast and Reduce from rank to rank: chunks go along a line of all ranks, each of which passes them on while the next ones
 * come. No GPU sends or gets the vector more than twice, where in one hop the root has n - 1 vectors to send or get; but a
 * chunk takes n - 1 hops. For large messages of more than two ranks.
 *
 * Bcast goes around from the root. Reduce goes from rank 0 to the last, so that all is added in rank order (of 16-bit
 * floats each hop would round: for them it is not chosen), and from there to the root.
 *
 * Who has only heard from its neighbour knows nothing of the others, and no kernel may wait long for one that has not begun.
 * So all tell all that they have begun, chunk by chunk as signals are, and nobody goes on before.
 */
#include <stdbool.h>

#include "coll/plan.h"

/*
 * Signals: I have begun; my turn at this chunk is over, so what is yours lies in your scratch, or what was yours has been read;
 * the result has been read.
 */
enum { BEGUN, TURN, READ };

static uint64_t bit(uint32_t rank)
{
    return 1ull << rank;
}

static void begin_step(struct shunt_plan *plan)
{
    struct shunt_step *begin = shunt_plan_step(plan, SHUNT_STEP_WAIT, 0, 0);

    begin->raise = shunt_plan_others(plan);
    begin->raise_signal = BEGUN;
}

static void all_begun_step(struct shunt_plan *plan, uint32_t team, uint32_t lag)
{
    struct shunt_step *wait = shunt_plan_step(plan, SHUNT_STEP_WAIT, team, lag);

    wait->wait[0] = (struct shunt_wait){ shunt_plan_others(plan), BEGUN, 0 };
}

/*
 * What was sent to `rank` in this team has been read: what every plan ends with (base/plan.h). Just as late as the places of
 * a ring allow, so that the next chunk finds its place free.
 */
static void end_step(struct shunt_plan *plan, uint32_t rank, uint8_t signal)
{
    struct shunt_step *end = shunt_plan_step(plan, SHUNT_STEP_WAIT, 1, plan->depth - 1);

    end->wait[0] = (struct shunt_wait){ bit(rank), signal, 0 };
}

static struct shunt_ref scratch_of(uint32_t rank, uint32_t sender)
{
    return (struct shunt_ref){ SHUNT_SPACE_SCRATCH0, (uint8_t)rank, (uint8_t)sender, 0 };
}

/* ---- Bcast ---- */

static void pass_on(struct shunt_plan *plan, uint32_t root, uint32_t before, uint32_t next)
{
    const struct shunt_ref in = { .space = SHUNT_SPACE_IN }, out = { SHUNT_SPACE_OUT, (uint8_t)plan->me, 0, 0 };
    struct shunt_step *pass = shunt_plan_step(plan, SHUNT_STEP_COPY, 1, 0);
    const struct shunt_ref from = plan->me == root ? in : scratch_of(plan->me, before);

    if (plan->me != root) {
        pass->wait[0] = (struct shunt_wait){ bit(before), TURN, 0 };
        pass->raise |= bit(before);
    }
    if (next != root) {
        pass->raise |= bit(next);
        shunt_plan_pair(plan, pass, from, scratch_of(next, plan->me));
    }
    if (plan->me != root)
        shunt_plan_pair(plan, pass, from, out);
    pass->raise_signal = TURN;
}

void shunt_plan_bcast_ring(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    uint32_t before = (me + shape->n - 1) % shape->n, next = (me + 1) % shape->n;

    shunt_plan_begin(plan, shape, me, 1);
    begin_step(plan);
    all_begun_step(plan, 1, 0);
    pass_on(plan, shape->root, before, next);
    if (next != shape->root)
        end_step(plan, next, TURN);
}

/* ---- Reduce ---- */

/* Where the sums that rank `me` has made go. */
static struct shunt_ref sum_of(const struct shunt_plan *plan, uint32_t last, uint32_t root)
{
    if (plan->me == last && root == last)
        return (struct shunt_ref){ SHUNT_SPACE_OUT, (uint8_t)last, 0, 0 };
    return scratch_of(plan->me == last ? root : plan->me + 1, plan->me);
}

static void add_step(struct shunt_plan *plan, uint32_t root, uint32_t team, uint32_t lag)
{
    const uint32_t me = plan->me, last = plan->n - 1;
    const struct shunt_ref in = { .space = SHUNT_SPACE_IN };
    struct shunt_step *add = shunt_plan_step(plan, me == 0 ? SHUNT_STEP_COPY : SHUNT_STEP_REDUCE, team, lag);

    if (me == 0) {
        shunt_plan_pair(plan, add, in, sum_of(plan, last, root));
    } else {
        add->wait[0] = (struct shunt_wait){ bit(me - 1), TURN, 0 };
        add->raise = bit(me - 1);
        shunt_plan_in(plan, add, scratch_of(me, me - 1));
        shunt_plan_in(plan, add, in);
        shunt_plan_out(plan, add, sum_of(plan, last, root));
    }
    if (me < last || root != last)
        add->raise |= bit(me < last ? me + 1 : root);
    if (team == 0) /* whose end is in the other team */
        add->wait[1] = (struct shunt_wait){ bit(me + 1), TURN, (uint8_t)plan->depth };
    add->raise_signal = TURN;
}

/* The root takes what the last rank has sent; so all in between have read what came to them. */
static void result_step(struct shunt_plan *plan, uint32_t last)
{
    struct shunt_step *get = shunt_plan_step(plan, SHUNT_STEP_COPY, 1, 0);

    get->wait[0] = (struct shunt_wait){ bit(last), TURN, 0 };
    shunt_plan_pair(plan, get, scratch_of(plan->me, last), (struct shunt_ref){ SHUNT_SPACE_OUT, (uint8_t)plan->me, 0, 0 });
    get->raise = bit(last);
    get->raise_signal = READ;
}

void shunt_plan_reduce_ring(const struct shunt_shape *shape, uint32_t me, struct shunt_plan *plan)
{
    const uint32_t last = shape->n - 1;
    const bool takes = me == shape->root && me != last;
    /* The root adds in team 0, behind its own signals by more than all scratch between the ranks can hold. */
    const uint32_t team = takes ? 0 : 1, lag = takes ? shape->n * shape->depth + 2 : 0;

    shunt_plan_begin(plan, shape, me, 1);
    begin_step(plan);
    all_begun_step(plan, team, lag);
    add_step(plan, shape->root, team, lag);
    if (takes)
        result_step(plan, last);
    else if (me < last)
        end_step(plan, me + 1, TURN);
    else if (shape->root != last)
        end_step(plan, shape->root, READ);
}
