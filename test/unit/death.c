/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that die or leave while others wait for them on a board. */
#include "base/board.h"

#include <sys/mman.h>
#include <time.h>

#include "test/unit/rounds.h"

static struct {
    _Atomic int step;
} *scene;

static void nap(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static bool decide_and_die(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    (void)posts, (void)n, (void)context, (void)verdict;
    raise(SIGKILL);
    return true;
}

/* Rank 1 in a process of its own. *context: arrive and be killed, be killed while deciding, or leave in order. */
enum fate { KILLED_WAITING, KILLED_DECIDING, LEAVES };

static void mortal(int rank, void *context)
{
    const enum fate fate = *(enum fate *)context;
    RANK_CHECK(shunt_arena_join(&arena[rank]) == SHUNT_OK);
    shunt_arena_set_world(arena[rank], rank, 3);
    shunt_arena_seal(arena[rank]);
    RANK_CHECK(open_one(rank, 1, 3, &board[rank]) == SHUNT_OK);
    while (!scene->step)
        nap(1);
    struct shunt_post post = {.count = 1};
    if (fate == LEAVES) {
        shunt_board_close(board[rank]);
        shunt_arena_leave(arena[rank]);
        _exit(0);
    }
    shunt_board_arrive(board[rank], &post, decide_and_die, NULL, &rounds[rank], &reasons[rank]);
    scene->step = 2;
    for (;;)
        nap(1000);
}

/* Ranks 0 and 2 here, rank 1 a process with its fate. */
static pid_t start_mortal(const char *job, enum fate *fate)
{
    scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene != MAP_FAILED);
    pid_t pid = ranks_start(job, 1, 3, mortal, fate);
    for (int rank = 0; rank < 3; rank += 2) {
        ranks_be(job, rank, 3);
        assert_int_equal(shunt_arena_join(&arena[rank]), SHUNT_OK);
        shunt_arena_set_world(arena[rank], rank, 3);
    }
    for (int rank = 0; rank < 3; rank += 2) {
        shunt_arena_seal(arena[rank]);
        assert_int_equal(open_one(rank, 1, 3, &board[rank]), SHUNT_OK);
    }
    return pid;
}

static void end_mortal(void)
{
    for (int rank = 0; rank < 3; rank += 2) {
        shunt_board_close(board[rank]);
        shunt_arena_leave(arena[rank]);
    }
    memset(board, 0, sizeof board);
    munmap(scene, sizeof *scene);
}

/* The wait ends soon after the death, not after 30 seconds. */
static void wait_for_stage(int rank)
{
    unsigned spins = 0;
    time_t end = time(NULL) + 5;
    while (shunt_round_poll(&rounds[rank]) == SHUNT_ROUND_UNDECIDED) {
        assert_true(time(NULL) < end);
        shunt_board_relax(&spins);
    }
    expect_stage(rank, SHUNT_REASON_PEER_VETO);
}

static void test_killed_waiting(void **state)
{
    (void)state;
    enum fate fate = KILLED_WAITING;
    pid_t pid = start_mortal("waiting", &fate);
    scene->step = 1;
    arrive(0);
    while (scene->step != 2)
        nap(1);
    nap(30);
    expect(0, SHUNT_ROUND_UNDECIDED);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    wait_for_stage(0);
    assert_int_equal(arrive_not(2), SHUNT_REASON_PEER_VETO);
    leave(0);
    end_mortal();
}

/* With the launch lock in its hands: the others get the lock, and the tickets go on. */
static void test_killed_deciding(void **state)
{
    (void)state;
    enum fate fate = KILLED_DECIDING;
    pid_t pid = start_mortal("deciding", &fate);
    arrive(0);
    arrive(2);
    scene->step = 1;
    waitpid(pid, NULL, 0);
    wait_for_stage(0);
    wait_for_stage(2);
    leave(0);
    leave(2);
    struct shunt_board *three[3] = {board[0], NULL, board[2]};
    int slots[2] = {shunt_arena_slot(arena[0], 0), shunt_arena_slot(arena[0], 2)};
    struct shunt_key key = {{77, 78}};
    assert_int_equal(shunt_board_open(arena[0], key, 2, slots, 0, &board[0]), SHUNT_OK);
    assert_int_equal(shunt_board_open(arena[2], key, 2, slots, 1, &board[2]), SHUNT_OK);
    arrive(0);
    arrive(2);
    expect(0, SHUNT_ROUND_RUN);
    assert_true(shunt_round_verdict(&rounds[0])->ticket >= 1);
    leave(0);
    leave(2);
    shunt_board_close(board[0]);
    shunt_board_close(board[2]);
    memcpy(board, three, sizeof three);
    end_mortal();
}

/* A member that has left in order will not come either. */
static void test_left(void **state)
{
    (void)state;
    enum fate fate = LEAVES;
    pid_t pid = start_mortal("left", &fate);
    arrive(0);
    arrive(2);
    scene->step = 1;
    assert_true(ranks_end(pid));
    wait_for_stage(2);
    expect_stage(0, SHUNT_REASON_PEER_VETO);
    leave(0);
    leave(2);
    end_mortal();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(test_killed_waiting), TEST(test_killed_deciding), TEST(test_left),
    };
    return cmocka_run_group_tests_name("death", tests, NULL, NULL);
}
