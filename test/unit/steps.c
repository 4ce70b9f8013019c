/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that is killed after any number of machine instructions of what it does with an arena and its boards: it is led by
 * single steps to a random one and killed there. The others must come to an end, the same for all, and everything that
 * they share must be as good as before.
 *
 *     steps [SECONDS] [SEED]      at random places
 *     steps all [SEED]            at each place: for an hour
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <time.h>

#include "base/board.h"
#include "base/conf.h"
#include "test/unit/ranks.h"

enum { RANKS = 3, MORTAL = 1, WORKERS = 6 };
enum { ROOM = 4 }; /* boards of two members that are made and freed afterwards */

static uint64_t seed, place;
static const char *script_name;
static struct shunt_arena *arena[RANKS];
static struct shunt_board *board[RANKS]; /* of all three */
static _Atomic int *ready;

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "steps: killed in \"%s\" after %llu instructions: %s\n", script_name, (unsigned long long)place, what);
    exit(1);
}

static bool decide(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    (void)context;
    verdict->algo = 1;
    verdict->chunk = 0;
    for (int i = 0; i < n; i++)
        verdict->chunk += (uint32_t)posts[i]->count;
    return true;
}

static enum shunt_status open_board(int rank, uint64_t key, int first, int step, struct shunt_board **board_p)
{
    int slots[RANKS], n = 0, me = 0;

    for (int i = first; i < RANKS; i += step) {
        me = i == rank ? n : me;
        slots[n++] = shunt_arena_slot(arena[rank], i);
    }
    return shunt_board_open(arena[rank], (struct shunt_key){{key, ~key}}, n, slots, me, board_p);
}

static enum shunt_status arrive(struct shunt_board *on, struct shunt_round *round)
{
    struct shunt_post post = {.count = 10};
    enum shunt_reason reason;

    return shunt_board_arrive(on, &post, decide, NULL, round, &reason);
}

/* ---- what the rank does that will be killed ---- */

static struct shunt_round round_of[RANKS];
static struct shunt_board *other;

/* A board that nobody has opened yet, an operation on it, another with a veto, and its end. */
static void make_and_free(void)
{
    open_board(MORTAL, 2, 0, 1, &other);
    arrive(other, &round_of[MORTAL]);
    shunt_round_poll(&round_of[MORTAL]);
    shunt_round_leave(&round_of[MORTAL]);
    arrive(other, &round_of[MORTAL]);
    shunt_round_veto(&round_of[MORTAL], SHUNT_REASON_NO_IPC);
    shunt_round_leave(&round_of[MORTAL]);
    shunt_board_close(other);
}

static void come_first(void)
{
    if (arrive(board[MORTAL], &round_of[MORTAL]) != SHUNT_OK)
        return;
    shunt_round_poll(&round_of[MORTAL]);
    shunt_round_leave(&round_of[MORTAL]);
}

/* The others have arrived already. */
static void come_last(void)
{
    come_first();
}

static void pass_on_the_host(void)
{
    shunt_board_pass(board[MORTAL]);
    shunt_board_pass(board[MORTAL]);
}

/* A communicator of which one member has been, and gone. */
static void free_last(void)
{
    shunt_board_close(other);
}

static void leave_in_order(void)
{
    shunt_board_close(board[MORTAL]);
    shunt_arena_leave(arena[MORTAL]);
}

static const struct script {
    const char *name;
    void (*run)(void);
} scripts[] = {
    {"make and free", make_and_free}, {"come first", come_first}, {"come last", come_last},
    {"pass", pass_on_the_host},       {"free last", free_last},   {"leave", leave_in_order},
};
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

static void mortal(int rank, void *context)
{
    const struct script *script = context;

    RANK_CHECK(shunt_arena_join(&arena[rank]) == SHUNT_OK);
    shunt_arena_set_world(arena[rank], rank, RANKS);
    shunt_arena_seal(arena[rank]);
    RANK_CHECK(open_board(rank, 1, 0, 1, &board[rank]) == SHUNT_OK);
    if (script->run == free_last)
        RANK_CHECK(open_board(rank, 3, 0, 1, &other) == SHUNT_OK);
    *ready = 1;
    RANK_CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    raise(SIGSTOP);
    script->run();
}

/* ---- its end ---- */

/* Lead it `steps` instructions on and kill it; answers how many it did, fewer if it came to its end. */
static uint64_t lead(pid_t pid, uint64_t steps)
{
    int status;
    uint64_t done = 0;

    check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "it did not stop");
    while (done < steps && ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid &&
           WIFSTOPPED(status))
        done++;
    if (WIFEXITED(status))
        return done;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return done;
}

/* ---- the others ---- */

static void join_others(const char *job, const struct script *script)
{
    for (int rank = 0; rank < RANKS; rank += 2) {
        ranks_be(job, rank, RANKS);
        check(shunt_arena_join(&arena[rank]) == SHUNT_OK, "joining");
        shunt_arena_set_world(arena[rank], rank, RANKS);
    }
    for (int rank = 0; rank < RANKS; rank += 2) {
        shunt_arena_seal(arena[rank]);
        check(open_board(rank, 1, 0, 1, &board[rank]) == SHUNT_OK, "opening");
    }
    while (!*ready)
        sched_yield();
    if (script->run == free_last) {
        for (int rank = 0; rank < RANKS; rank += 2) {
            check(open_board(rank, 3, 0, 1, &other) == SHUNT_OK, "opening");
            shunt_board_close(other);
        }
    }
}

/* An operation with the dead member is over within seconds, the same for both others. */
static void end_operation(struct shunt_board *of[RANKS], bool arrived)
{
    enum shunt_round_state states[RANKS];
    time_t end = time(NULL) + 10;

    for (int rank = 0; rank < RANKS; rank += 2) {
        unsigned spins = 0;
        states[rank] = SHUNT_ROUND_STAGE;
        if (!arrived && arrive(of[rank], &round_of[rank]) != SHUNT_OK)
            continue;
        while ((states[rank] = shunt_round_poll(&round_of[rank])) == SHUNT_ROUND_UNDECIDED && time(NULL) < end)
            shunt_board_relax(&spins);
        check(states[rank] != SHUNT_ROUND_UNDECIDED, "an operation stays undecided");
        if (states[rank] == SHUNT_ROUND_RUN)
            check(shunt_round_verdict(&round_of[rank])->chunk == 10 * RANKS, "a verdict on wrong posts");
        else
            check(shunt_round_verdict(&round_of[rank])->reason != SHUNT_REASON_NONE, "staged without a reason");
        shunt_round_leave(&round_of[rank]);
    }
    check(states[0] == states[2], "two members saw different ends");
}

/* Boards of the living come and go, and their operations run, with growing tickets. */
static uint64_t go_on(uint64_t ticket)
{
    for (uint64_t i = 0; i < ROOM; i++) {
        struct shunt_board *two[RANKS];
        for (int rank = 0; rank < RANKS; rank += 2)
            check(open_board(rank, 100 + i, 0, 2, &two[rank]) == SHUNT_OK, "no board for the living");
        for (int rank = 0; rank < RANKS; rank += 2)
            check(arrive(two[rank], &round_of[rank]) == SHUNT_OK, "the living cannot arrive");
        for (int rank = 0; rank < RANKS; rank += 2) {
            check(shunt_round_poll(&round_of[rank]) == SHUNT_ROUND_RUN, "an operation of the living does not run");
            uint64_t got = shunt_round_verdict(&round_of[rank])->ticket;
            check(rank == 0 ? got > ticket : got == ticket, "a ticket out of order");
            ticket = got;
        }
        for (int rank = 0; rank < RANKS; rank += 2) {
            shunt_round_leave(&round_of[rank]);
            shunt_board_close(two[rank]);
        }
    }
    return ticket;
}

static struct shunt_pool_use count_use(void)
{
    struct shunt_pool_use use;

    shunt_pool_count(arena[0], &use);
    return use;
}

static void check_others(const struct script *script)
{
    struct shunt_board *late[RANKS] = {NULL};
    enum shunt_status status[RANKS];

    end_operation(board, script->run == come_last);
    end_operation(board, false);
    uint64_t ticket = go_on(0);
    struct shunt_pool_use before = count_use();
    go_on(ticket);
    struct shunt_pool_use use = count_use();
    check(use.boards == before.boards && use.rings == before.rings && use.posts == before.posts,
          "boards of the living are not given back");
    /* its own: the boards that it had open, an operation that it was in */
    check(use.boards <= 3 && use.rings <= 3 && use.posts <= 3, "more than its own is lost");
    for (int rank = 0; rank < RANKS; rank += 2)
        status[rank] = open_board(rank, 2, 0, 1, &late[rank]);
    check(status[0] == status[2], "one member has a board, another has not");
    if (status[0] == SHUNT_OK)
        end_operation(late, false);
    for (int rank = 0; rank < RANKS; rank += 2)
        shunt_board_close(late[rank]);
}

/* Answers how many instructions it did. */
static uint64_t run(const struct script *script, uint64_t steps)
{
    static unsigned runs;
    char job[32];

    script_name = script->name;
    place = steps;
    *ready = 0;
    snprintf(job, sizeof job, "steps%u", runs++);
    pid_t pid = ranks_start(job, MORTAL, RANKS, mortal, (void *)script);
    join_others(job, script);
    for (int rank = 0; rank < RANKS && script->run == come_last; rank += 2)
        check(arrive(board[rank], &round_of[rank]) == SHUNT_OK, "arriving");
    uint64_t done = lead(pid, steps);
    check_others(script);
    for (int rank = 0; rank < RANKS; rank += 2) {
        shunt_board_close(board[rank]);
        shunt_arena_leave(arena[rank]);
    }
    check(ranks_files(job) == 0, "a file is left in /dev/shm");
    return done;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Each process its own. */
static bool prepare(void)
{
    ready = mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return ready != MAP_FAILED;
}

static uint64_t chance(void)
{
    uint64_t x = seed += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct task {
    bool all;
    double end;
    uint64_t lengths[SCRIPTS];
};

/* One of WORKERS processes, since most of the time is spent in waiting until a death is seen. */
static int work(const struct task *task, int worker)
{
    uint64_t kills = 0;

    ranks_origin = getpid();
    seed += (uint64_t)worker << 32;
    for (int i = 0; task->all && i < SCRIPTS; i++)
        for (uint64_t at = (uint64_t)worker; at < task->lengths[i]; at += WORKERS, kills++)
            run(&scripts[i], at);
    for (int i = worker; !task->all && seconds() < task->end; i++, kills++)
        run(&scripts[i % SCRIPTS], chance() % task->lengths[i % SCRIPTS]);
    printf("steps: killed %llu times\n", (unsigned long long)kills);
    fflush(stdout);
    return kills == 0;
}

static bool work_together(const struct task *task)
{
    pid_t pids[WORKERS];
    bool good = true;

    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            exit(prctl(PR_SET_PDEATHSIG, SIGKILL) || !prepare() || work(task, i));
    }
    for (int i = 0; i < WORKERS; i++)
        good &= ranks_end(pids[i]);
    return good;
}

int main(int argc, char **argv)
{
    struct task task = {.all = argc > 1 && strcmp(argv[1], "all") == 0};
    struct shunt_conf conf = *shunt_conf;

    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    conf.arena_size = 1 << 20;
    shunt_conf_use(&conf);
    ranks_origin = getpid();
    if (!prepare())
        return perror("mmap"), 1;
    printf("steps: seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < SCRIPTS; i++) {
        task.lengths[i] = run(&scripts[i], UINT64_MAX);
        printf("steps: %s: %llu instructions\n", scripts[i].name, (unsigned long long)task.lengths[i]);
    }
    fflush(stdout);
    task.end = seconds() + (argc > 1 && !task.all ? atof(argv[1]) : 5); /* counting takes seconds under a sanitizer */
    return !work_together(&task);
}
