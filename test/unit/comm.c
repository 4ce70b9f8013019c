/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracking of communicators on a host of this file's own: one process plays the members one after the other, and their
 * boards must meet.
 */
#include "mpi/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi/life.h"
#include "test/unit/books.h"
#include "test/unit/fake_hier.h"

/* ---- life, arena and boards ---- */

struct shunt_board {
    struct shunt_key key;
    int passed;
};

static bool has_world, forked;
static int open_boards;
static int unregistered = -1; /* a world rank without a slot */
static enum shunt_status refusal;

struct shunt_arena *shunt_life_arena(void)
{
    return has_world ? (struct shunt_arena *)&open_boards : NULL;
}

MPI_Group shunt_life_world_group(void)
{
    return has_world ? group_of(2 * COMMS) : MPI_GROUP_NULL;
}

int shunt_flights;

void shunt_flights_meet(MPI_Comm comm)
{
    (void)comm;
}

void shunt_flights_part(MPI_Comm comm)
{
    (void)comm;
}

void shunt_flights_look(void)
{
    fail_msg("nothing goes on here");
}

bool shunt_poll_waits(enum shunt_call_id id)
{
    (void)id;
    return false;
}

bool shunt_poll_completes(enum shunt_call_id id)
{
    (void)id;
    return false;
}

void shunt_poll_fetch(void)
{
}

int shunt_poll_call(const struct shunt_wait *wait)
{
    (void)wait;
    return MPI_SUCCESS;
}

bool shunt_life_forked(void)
{
    return forked;
}

int shunt_arena_slot(const struct shunt_arena *arena, int world_rank)
{
    (void)arena;
    return world_rank == unregistered ? -1 : world_rank + 10;
}

enum shunt_status shunt_board_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, int rank,
                                   struct shunt_board **board_p)
{
    (void)arena;
    assert_true(n > 1);
    assert_int_equal(slots[rank], me + 10);
    if (refusal != SHUNT_OK)
        return refusal;
    *board_p = calloc(1, sizeof **board_p);
    (*board_p)->key = key;
    __atomic_add_fetch(&open_boards, 1, __ATOMIC_RELAXED);
    return SHUNT_OK;
}

void shunt_board_close(struct shunt_board *board)
{
    __atomic_sub_fetch(&open_boards, 1, __ATOMIC_RELAXED);
    free(board);
}

void shunt_board_pass(struct shunt_board *board)
{
    if (board)
        board->passed++;
}

void shunt_board_retract(struct shunt_board *board)
{
    if (board)
        board->passed--;
}

/* ---- helpers ---- */

/* Play world rank `rank` from its Init on. */
static void play(int rank)
{
    me = rank;
    has_world = true;
    shunt_comm_start();
}

static void stop(void)
{
    shunt_comm_stop();
    assert_int_equal(open_boards, 0);
    assert_int_equal(shunt_requests_tracked, 0);
    memset(fakes, 0, sizeof fakes);
    has_world = false;
}

static int setup(void **state)
{
    (void)state;
    start_host();
    unregistered = -1;
    refusal = SHUNT_OK;
    forked = false;
    return 0;
}

/* One creation call of the program, with what the host answers. */
static struct shunt_comm *create(struct shunt_call call, MPI_Comm made)
{
    call.newcomm = &made;
    shunt_hook_comm_before(&call);
    shunt_hook_comm_after(&call, MPI_SUCCESS);
    return made == MPI_COMM_NULL ? NULL : shunt_comm_find(made);
}

static void free_comm(MPI_Comm comm)
{
    struct shunt_call call = { .id = SHUNT_CALL_Comm_free, .newcomm = &comm };

    shunt_hook_free(&call);
    end_comm(comm);
}

static void assert_same(struct shunt_key a, struct shunt_key b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

static void assert_different(struct shunt_key a, struct shunt_key b)
{
    assert_memory_not_equal(&a, &b, sizeof a);
}

static const int everybody[] = { 0, 1, 2, 3 }, even[] = { 0, 2 }, odd[] = { 1, 3 };

#define DUP ((struct shunt_call){ .id = SHUNT_CALL_Comm_dup, .comm = MPI_COMM_WORLD })
#define SPLIT ((struct shunt_call){ .id = SHUNT_CALL_Comm_split, .comm = MPI_COMM_WORLD })

/* ---- tests ---- */

static void test_dups(void **state)
{
    (void)state;
    struct shunt_key keys[4][3];

    for (int rank = 0; rank < 4; rank++) {
        play(rank);
        for (int i = 0; i < 3; i++) {
            struct shunt_comm *comm = create(DUP, new_comm(i, 4, everybody, 0, NULL));
            assert_int_equal(comm->size, 4);
            assert_int_equal(comm->rank, rank);
            assert_int_equal(comm->reason, SHUNT_REASON_NONE);
            keys[rank][i] = comm->board->key;
            assert_same(keys[rank][i], comm->key);
        }
        assert_same(keys[rank][0], keys[0][0]);
        assert_same(keys[rank][1], keys[0][1]);
        assert_different(keys[rank][0], keys[rank][1]);
        assert_different(keys[rank][1], keys[rank][2]);
        assert_different(keys[rank][0], shunt_comm_find(MPI_COMM_WORLD)->key);
        stop();
    }
}

/* Rank 3 gets no communicator: it counts the call all the same. */
static void test_undefined_color(void **state)
{
    (void)state;
    static const int some[] = { 2, 0, 1 };
    struct shunt_key first[4], second[4];

    for (int rank = 0; rank < 4; rank++) {
        play(rank);
        struct shunt_comm *comm = create(SPLIT, rank < 3 ? new_comm(0, 3, some, 0, NULL) : MPI_COMM_NULL);
        if (rank < 3)
            first[rank] = comm->key;
        second[rank] = create(SPLIT, new_comm(1, 2, rank % 2 ? odd : even, 0, NULL))->key;
        stop();
    }
    assert_same(first[0], first[2]);
    assert_same(second[0], second[2]);
    assert_same(second[1], second[3]);
    assert_different(second[0], second[1]);
}

/* A call that failed matched nothing on the other ranks. */
static void test_failed_call(void **state)
{
    (void)state;
    struct shunt_key keys[2];

    for (int rank = 0; rank < 2; rank++) {
        play(rank);
        MPI_Comm none = MPI_COMM_NULL;
        struct shunt_call call = DUP;
        call.newcomm = &none;
        if (rank == 0)
            shunt_hook_comm_after(&call, MPI_ERR_ARG);
        keys[rank] = create(DUP, new_comm(0, 4, everybody, 0, NULL))->key;
        stop();
    }
    assert_same(keys[0], keys[1]);
}

/* Only members call Comm_create_group, so it may not shift anything of the others. */
static void test_create_group(void **state)
{
    (void)state;
    struct shunt_call call = { .id = SHUNT_CALL_Comm_create_group, .comm = MPI_COMM_WORLD, .tag = 4 };
    struct shunt_key first[4], second[4], dup[4];

    for (int rank = 0; rank < 4; rank++) {
        play(rank);
        if (rank % 2) {
            first[rank] = create(call, new_comm(0, 2, odd, 0, NULL))->key;
            second[rank] = create(call, new_comm(1, 2, odd, 0, NULL))->key;
            assert_int_equal(shunt_comm_find(MPI_COMM_WORLD)->board->passed, 0);
        }
        dup[rank] = create(DUP, new_comm(2, 4, everybody, 0, NULL))->key;
        stop();
    }
    assert_same(first[1], first[3]);
    assert_same(second[1], second[3]);
    assert_different(first[1], second[1]);
    assert_same(dup[0], dup[1]);
}

/* The sides come from different communicators; the merged one has a board on which all meet. */
static void test_intercomm(void **state)
{
    (void)state;
    static const int merged[] = { 1, 3, 0, 2 };
    struct shunt_call inter = { .id = SHUNT_CALL_Intercomm_create, .tag = 8 };
    struct shunt_call merge = { .id = SHUNT_CALL_Intercomm_merge };
    struct shunt_key between[4], keys[4], again[4];

    for (int rank = 0; rank < 4; rank++) {
        const int *mine = rank % 2 ? odd : even, *others = rank % 2 ? even : odd;
        play(rank);
        inter.comm = create(SPLIT, new_comm(0, 2, mine, 0, NULL))->handle;
        struct shunt_comm *comm = create(inter, new_comm(1, 2, mine, 2, others));
        assert_true(comm->intercomm);
        assert_null(comm->board);
        assert_int_equal(comm->reason, SHUNT_REASON_INTERCOMM);
        between[rank] = comm->key;
        merge.comm = comm->handle;
        comm = create(merge, new_comm(2, 4, merged, 0, NULL));
        assert_non_null(comm->board);
        keys[rank] = comm->key;
        again[rank] = create(merge, new_comm(3, 4, merged, 0, NULL))->key;
        stop();
    }
    assert_same(between[0], between[1]);
    for (int rank = 1; rank < 4; rank++) {
        assert_same(keys[0], keys[rank]);
        assert_same(again[0], again[rank]);
    }
    assert_different(keys[0], again[0]);
}

static void test_no_board(void **state)
{
    (void)state;
    static const int strangers[] = { 0, 100 }, alone[] = { 2 };
    struct shunt_call spawn = { .id = SHUNT_CALL_Comm_spawn, .comm = MPI_COMM_WORLD };
    struct shunt_call merge = { .id = SHUNT_CALL_Intercomm_merge };

    play(0);
    merge.comm = create(spawn, new_comm(0, 4, everybody, 1, strangers + 1))->handle;
    struct shunt_comm *comm = create(merge, new_comm(1, 2, strangers, 0, NULL));
    assert_null(comm->board);
    assert_int_equal(comm->reason, SHUNT_REASON_NOT_REGISTERED);
    /* What is made of it has none either, although all its members have a slot. */
    struct shunt_call dup = { .id = SHUNT_CALL_Comm_dup, .comm = comm->handle };
    comm = create(dup, new_comm(2, 2, even, 0, NULL));
    assert_null(comm->board);
    assert_int_equal(comm->reason, SHUNT_REASON_NOT_REGISTERED);
    stop();

    unregistered = 2;
    play(0);
    assert_null(shunt_comm_find(MPI_COMM_WORLD)->board);
    comm = create(SPLIT, new_comm(0, 2, even, 0, NULL));
    assert_null(comm->board);
    assert_int_equal(comm->reason, SHUNT_REASON_NOT_REGISTERED);
    comm = create(SPLIT, new_comm(1, 2, (const int[]){ 0, 3 }, 0, NULL));
    assert_non_null(comm->board);
    stop();
    unregistered = -1;

    refusal = SHUNT_ERR_LIMIT;
    play(2);
    assert_int_equal(create(DUP, new_comm(0, 4, everybody, 0, NULL))->reason, SHUNT_REASON_BOARD_FULL);
    comm = create(SPLIT, new_comm(1, 1, alone, 0, NULL));
    assert_null(comm->board);
    assert_int_equal(comm->reason, SHUNT_REASON_NONE); /* needs none */
    stop();
}

/* A session in a program that has not called MPI_Init. */
static void test_session(void **state)
{
    (void)state;
    struct shunt_call call = { .id = SHUNT_CALL_Comm_create_from_group, .stringtag = "org.example" };

    me = 0;
    struct shunt_comm *comm = create(call, new_comm(0, 2, even, 0, NULL));
    assert_int_equal(comm->size, 2);
    assert_null(comm->board);
    assert_int_equal(comm->reason, SHUNT_REASON_NO_ARENA);
    free_comm(comm->handle);
    stop();
}

static void *start_idup(MPI_Comm *made, MPI_Request *request, int number)
{
    struct shunt_call call = { .id = SHUNT_CALL_Comm_idup, .comm = MPI_COMM_WORLD, .newcomm = made,
                               .requests = request };

    *made = new_comm(number, 4, everybody, 0, NULL);
    *request = (MPI_Request)(intptr_t)(0x800 + number);
    shunt_hook_comm_before(&call);
    shunt_hook_comm_after(&call, MPI_SUCCESS);
    return shunt_comm_find(*made);
}

/* Waitany, in which request number `index` completes. */
static void complete_any(MPI_Request *requests, int index)
{
    struct shunt_wait wait = { .id = SHUNT_CALL_Waitany, .n_requests = 3, .requests = requests,
                               .statuses = MPI_STATUS_IGNORE, .index = &index };
    void *kept = NULL;
    int rc = MPI_ERR_OTHER;

    assert_false(shunt_hook_done_before(&wait, &rc, &kept));
    requests[index] = MPI_REQUEST_NULL;
    if (kept)
        assert_int_equal(shunt_hook_done_after(&wait, kept, MPI_SUCCESS), MPI_SUCCESS);
}

/* Keys are in the order of the calls, whatever the order of completion. */
static void test_idup(void **state)
{
    (void)state;
    struct shunt_key keys[2][2];

    for (int rank = 0; rank < 2; rank++) {
        MPI_Comm made[2];
        MPI_Request requests[3];
        play(rank);
        assert_null(start_idup(&made[0], &requests[0], 0));
        requests[1] = (MPI_Request)(intptr_t)0x900; /* somebody else's */
        assert_null(start_idup(&made[1], &requests[2], 1));
        assert_int_equal(shunt_requests_tracked, 2);

        complete_any(requests, rank ? 0 : 2);
        assert_non_null(shunt_comm_find(made[rank ? 0 : 1]));
        assert_null(shunt_comm_find(made[rank ? 1 : 0]));
        assert_int_equal(shunt_requests_tracked, 1);

        /* Nothing completes: nothing is entered. */
        complete_any(requests, 1);
        assert_int_equal(shunt_requests_tracked, 1);

        complete_any(requests, rank ? 2 : 0);
        assert_int_equal(shunt_requests_tracked, 0);
        for (int i = 0; i < 2; i++)
            keys[rank][i] = shunt_comm_find(made[i])->key;
        stop();
    }
    assert_same(keys[0][0], keys[1][0]);
    assert_same(keys[0][1], keys[1][1]);
    assert_different(keys[0][0], keys[0][1]);
}

/* Completion was not seen, but the program uses the communicator. */
static void test_idup_adopted(void **state)
{
    (void)state;
    MPI_Comm made;
    MPI_Request request;

    play(1);
    start_idup(&made, &request, 0);
    struct shunt_call barrier = { .id = SHUNT_CALL_Barrier, .comm = made };
    shunt_hook_coll(&barrier);
    assert_int_equal(shunt_comm_find(made)->board->passed, 1);
    assert_int_equal(shunt_requests_tracked, 0);
    stop();
}

static void test_frees(void **state)
{
    (void)state;

    play(0);
    assert_int_equal(open_boards, 1);
    MPI_Comm comm = create(DUP, new_comm(0, 4, everybody, 0, NULL))->handle;
    assert_int_equal(open_boards, 2);
    free_comm(comm);
    assert_int_equal(open_boards, 1);
    assert_null(shunt_comm_find(comm));

    /* A free that no hook saw. */
    comm = create(DUP, new_comm(0, 4, everybody, 0, NULL))->handle;
    end_comm(comm);
    assert_int_equal(open_boards, 1);
    assert_null(shunt_comm_find(comm));

    /* The handle is at once another communicator's; a late callback of the old one must not hit it. */
    free_comm(create(DUP, new_comm(0, 4, everybody, 0, NULL))->handle);
    struct shunt_comm *now = create(SPLIT, new_comm(0, 2, even, 0, NULL));
    delete_attribute(comm, 77, &comm, NULL);
    assert_ptr_equal(shunt_comm_find(comm), now);

    /* The world and self are not to be had. */
    struct shunt_call call = { .id = SHUNT_CALL_Comm_free, .newcomm = &(MPI_Comm){ MPI_COMM_WORLD } };
    shunt_hook_free(&call);
    assert_non_null(shunt_comm_find(MPI_COMM_WORLD)->board);
    stop();
}

static void test_passes(void **state)
{
    (void)state;
    struct shunt_call call = { .id = SHUNT_CALL_Ibcast, .comm = MPI_COMM_WORLD };

    play(0);
    struct shunt_board *board = shunt_comm_find(MPI_COMM_WORLD)->board;
    shunt_hook_coll(&call);
    assert_int_equal(board->passed, 1);
    create(DUP, new_comm(0, 4, everybody, 0, NULL));
    assert_int_equal(board->passed, 2);
    create(SPLIT, MPI_COMM_NULL);
    assert_int_equal(board->passed, 3);
    stop();
}

/* In a child nothing is found, nothing is taken, nothing is closed. */
static void test_child(void **state)
{
    (void)state;
    MPI_Comm made;
    MPI_Request request;

    play(0);
    MPI_Comm comm = create(DUP, new_comm(0, 4, everybody, 0, NULL))->handle;
    start_idup(&made, &request, 1);
    pid_t child = fork();
    if (child == 0) {
        struct shunt_call call = { .id = SHUNT_CALL_Barrier, .comm = comm, .newcomm = &comm };
        struct shunt_board *board = shunt_comm_find(comm)->board;
        forked = true;
        shunt_comm_abandon();
        shunt_hook_coll(&call);
        shunt_hook_free(&call);
        end_comm(comm);
        call.comm = made;
        shunt_hook_coll(&call);
        _exit(board->passed != 0 || open_boards != 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    stop();
}

/* Threads, each with a communicator of its own, of which they make and free duplicates. */
static void *churn(void *argument)
{
    int number = (int)(intptr_t)argument;
    struct shunt_call barrier = { .id = SHUNT_CALL_Barrier };
    struct shunt_call dup = { .id = SHUNT_CALL_Comm_dup, .comm = comm_of(10 + number) };

    for (int i = 0; i < 2000; i++) {
        struct shunt_comm *comm = create(dup, new_comm(number, 4, everybody, 0, NULL));
        barrier.comm = comm_of(number);
        shunt_hook_coll(&barrier);
        if (!comm || comm->board->passed != 1)
            return argument;
        free_comm(comm_of(number));
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];

    play(0);
    for (int i = 1; i <= 4; i++)
        create(DUP, new_comm(10 + i, 4, everybody, 0, NULL));
    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(open_boards, 1 + 4);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_dups, setup),
        cmocka_unit_test_setup(test_undefined_color, setup),
        cmocka_unit_test_setup(test_failed_call, setup),
        cmocka_unit_test_setup(test_create_group, setup),
        cmocka_unit_test_setup(test_intercomm, setup),
        cmocka_unit_test_setup(test_no_board, setup),
        cmocka_unit_test_setup(test_session, setup),
        cmocka_unit_test_setup(test_idup, setup),
        cmocka_unit_test_setup(test_idup_adopted, setup),
        cmocka_unit_test_setup(test_frees, setup),
        cmocka_unit_test_setup(test_passes, setup),
        cmocka_unit_test_setup(test_child, setup),
        cmocka_unit_test_setup(test_threads, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
