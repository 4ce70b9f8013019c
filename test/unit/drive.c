/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that nobody waits for, when a member fails: which are ended, which are their owner's to give back, and that neither
 * happens twice. Two ranks of one process; the GPU is never asked.
 */
#include "coll/drive.h"

#include <pthread.h>
#include <time.h>

#include "cuda/peer.h"
#include "cuda/registry.h"
#include "test/unit/rounds.h"

enum { TICKET = 7 };

static struct shunt_device device;
static uint32_t abort_word;
static struct shunt_work work;
static int slots[2];
static int drops;

static void count_drop(struct shunt_work *dropped)
{
    assert_ptr_equal(dropped, &work);
    drops++;
}

/* Rank 0 has arrived in an operation of which it has written the plan: it waits for its turn. */
static int begin(void **state)
{
    before(state);
    open_all("drive", 2);
    device = (struct shunt_device){ .abort = &abort_word };
    drops = 0;
    for (int i = 0; i < 2; i++)
        slots[i] = shunt_arena_slot(arena[0], i);
    return 0;
}

static void list_work(void)
{
    arrive(0);
    work = (struct shunt_work){ .round = rounds[0], .device = &device, .state = SHUNT_WORK_ARRIVED, .detached = true,
                                .planned = true, .drop = count_drop, .last = TICKET,
                                .launch = { .ticket = TICKET, .slots = slots } };
    shunt_drive_lock();
    shunt_drive_list(&work);
    shunt_drive_unlock();
}

/* The other rank has failed, and somebody looks after the members. */
static void look_after_failure(void)
{
    struct shunt_waiter waiter = { .arena = arena[0], .board = board[0], .looked = 1e-9 };

    shunt_peer_fail(arena[1], TICKET);
    shunt_drive_check(&waiter, &work);
}

static bool is_listed(void)
{
    shunt_drive_lock();
    bool listed = !shunt_drive_idle();
    shunt_drive_unlock();
    return listed;
}

static void drop(void)
{
    shunt_drive_hold();
    work.dropped = true;
    shunt_drive_release();
    shunt_drive_drop(arena[0]);
}

/* (That it is left, once, `after` sees: nothing may be in use then.) */
static void one_that_runs_is_ended(void **state)
{
    (void)state;
    list_work();
    arrive(1);
    look_after_failure();
    assert_int_equal(shunt_work_state(&work), SHUNT_WORK_FINISHED);
    assert_int_equal(work.status, SHUNT_ERR_DEAD);
    assert_false(is_listed());
    assert_true(shunt_peer_failed(arena[1], slots[0], TICKET)); /* the others hear of it */
    assert_int_equal(drops, 0);
    leave(1);
}

static void one_that_is_staged_is_its_owners(void **state)
{
    (void)state;
    list_work();
    shunt_board_pass(board[1]);
    expect(0, SHUNT_ROUND_STAGE);
    look_after_failure();
    assert_int_equal(shunt_work_state(&work), SHUNT_WORK_ARRIVED);
    assert_false(shunt_peer_failed(arena[1], slots[0], TICKET));
    assert_true(is_listed());
    drop();
    assert_int_equal(drops, 1);
    assert_false(is_listed());
}

static void *look_in_a_thread(void *context)
{
    (void)context;
    look_after_failure();
    return NULL;
}

/* While its owner looks at it nothing is ended, and what has been dropped then not at all. */
static void one_that_its_owner_holds(void **state)
{
    (void)state;
    for (int dropped = 0; dropped < 2; dropped++) {
        pthread_t thread;
        list_work();
        arrive(1);
        shunt_drive_hold();
        assert_int_equal(pthread_create(&thread, NULL, look_in_a_thread, NULL), 0);
        nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL); /* for what must not happen */
        assert_int_equal(shunt_work_state(&work), SHUNT_WORK_ARRIVED);
        work.dropped = dropped;
        shunt_drive_release();
        pthread_join(thread, NULL);
        assert_int_equal(shunt_work_state(&work), dropped ? SHUNT_WORK_ARRIVED : SHUNT_WORK_FINISHED);
        shunt_drive_drop(arena[0]);
        assert_int_equal(drops, dropped);
        assert_false(is_listed());
        leave(1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_runs_is_ended, begin, after),
        cmocka_unit_test_setup_teardown(one_that_is_staged_is_its_owners, begin, after),
        cmocka_unit_test_setup_teardown(one_that_its_owner_holds, begin, after),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
