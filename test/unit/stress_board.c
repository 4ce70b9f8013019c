/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Boards under load: processes of two threads share several boards and do to each operation what a hash of it says:
 * pass on the host, arrive, arrive as neutral, veto; with delays, stopped processes, and in every third episode
 * killed ones. What each rank saw of each operation is written down and compared at the end of the episode.
 *
 *     stress_board [SECONDS] [SEED]
 *
 * A phase is a few operations on each board, the same for all members, in an order of each one's own, none waited for
 * before all are started. So a rank only waits for operations that the others start before they wait.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <time.h>

#include "base/board.h"
#include "base/conf.h"
#include "test/unit/ranks.h"

enum {
    RANKS = 40,
    THREADS = 2,
    BOARDS = 6,               /* that live as long as the episode */
    LOGS = BOARDS + THREADS,  /* and for each thread one that lives for one operation, again and again */
    OPERATIONS = 1 << 15,     /* of a board in an episode, at most */
    OPEN = 16,                /* operations of a thread under way */
};

enum outcome { NOTHING, ON_HOST, PASSED, PASSED_FULL, STAGED, RAN };

/* Shared by the processes of an episode. */
static struct scene {
    pthread_mutex_t gate;
    int64_t started, stop_at; /* phases; gate */
    _Atomic uint32_t failures;
    _Atomic int finished; /* ranks that have closed all boards */
    _Atomic uint32_t decisions; /* in the order of the decisions, which the launch lock makes one */
    struct {
        uint8_t log;
        uint32_t operation;
    } order[LOGS * OPERATIONS];
    /* ticket << 8 | enum outcome */
    _Atomic uint64_t saw[LOGS][OPERATIONS][RANKS];
} *scene;

static struct {
    uint64_t seed;
    int ranks;
    bool kills;
    uint64_t members[LOGS]; /* a bit for each rank */
} episode;

static struct {
    uint64_t operations, ran, phases, episodes, killed;
} total;

static void fail(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (atomic_fetch_add(&scene->failures, 1) < 10)
        fprintf(stderr, "stress_board: %s (seed %llu)\n", text, (unsigned long long)episode.seed);
}

/* ---- chance ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Equal on all members: what this operation is like. */
static uint64_t nature_of(int log, uint32_t operation)
{
    return mix(mix(episode.seed, (uint64_t)log + 1), operation);
}

enum act { ACT_HOST, ACT_DEVICE, ACT_NEUTRAL, ACT_VETO };

/* What a rank does to an operation; half of the operations are nothing but arrivals. */
static enum act act_of(int log, uint32_t operation, int rank)
{
    uint64_t nature = nature_of(log, operation);
    if (nature % 2)
        return ACT_DEVICE;
    unsigned dice = (unsigned)(mix(nature, (uint64_t)rank) % 16);
    return dice < 3 ? ACT_HOST : dice < 6 ? ACT_NEUTRAL : dice == 6 ? ACT_VETO : ACT_DEVICE;
}

static uint64_t count_of(int log, uint32_t operation, int rank)
{
    return mix(nature_of(log, operation), (uint64_t)rank + 100) | 1;
}

static void dawdle(uint64_t *random)
{
    *random = mix(*random, 1);
    switch (*random % 64) {
    case 0:
        nanosleep(&(struct timespec){.tv_nsec = (long)(*random >> 32) % 200000}, NULL);
        break;
    case 1:
    case 2:
        sched_yield();
        break;
    }
}

/* ---- a rank ---- */

struct rank {
    struct shunt_arena *arena;
    struct shunt_board *board[BOARDS];
    int rank;
};

/* An operation under way, and what the decider must know of it. */
struct open {
    int log;
    uint32_t operation;
    bool veto;
    struct shunt_round round;
    uint64_t floor; /* a larger ticket was seen while this one was undecided */
};

struct thread {
    struct rank *rank;
    int number;
    uint64_t random;
    uint32_t next[LOGS]; /* operation */
    struct open open[OPEN];
    int n_open;
};

/* The members of a board, by their rank in the world. */
static int list_members(int log, int members[RANKS])
{
    int n = 0;
    for (int i = 0; i < episode.ranks; i++)
        if (episode.members[log] >> i & 1)
            members[n++] = i;
    return n;
}

static bool decide(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    const struct open *open = context;
    int members[RANKS];
    if (list_members(open->log, members) != n)
        fail("a board of %d", n);
    for (int i = 0; i < n; i++)
        if (posts[i]->count != count_of(open->log, open->operation, members[i]))
            fail("the decider of %d.%u got a wrong post of member %d", open->log, open->operation, i);
    uint32_t at = atomic_load_explicit(&scene->decisions, memory_order_relaxed);
    scene->order[at].log = (uint8_t)open->log;
    scene->order[at].operation = open->operation;
    atomic_store(&scene->decisions, at + 1);
    verdict->chunk = (uint32_t)count_of(open->log, open->operation, 77);
    return true;
}

static void note(const struct thread *thread, const struct open *open, enum outcome outcome, uint64_t ticket)
{
    if (atomic_exchange(&scene->saw[open->log][open->operation][thread->rank->rank], ticket << 8 | outcome))
        fail("%d.%u came twice", open->log, open->operation);
}

static void start_operation(struct thread *thread, struct shunt_board *board, int log)
{
    struct open *open = &thread->open[thread->n_open];
    *open = (struct open){.log = log, .operation = thread->next[log]++};
    enum act act = act_of(log, open->operation, thread->rank->rank);
    dawdle(&thread->random);
    if (act == ACT_HOST) {
        shunt_board_pass(board);
        note(thread, open, ON_HOST, 0);
        return;
    }
    open->veto = act == ACT_VETO;
    struct shunt_post post = {.count = count_of(log, open->operation, thread->rank->rank),
                              .flags = act == ACT_NEUTRAL ? SHUNT_POST_NEUTRAL : 0};
    enum shunt_reason reason;
    if (shunt_board_arrive(board, &post, decide, open, &open->round, &reason) == SHUNT_OK)
        thread->n_open++;
    else
        note(thread, open, reason == SHUNT_REASON_BOARD_FULL ? PASSED_FULL : PASSED, 0);
}

/* A decided operation: all posts and the verdict are as they must be. */
static uint64_t check_run(const struct open *open)
{
    const struct shunt_verdict *verdict = shunt_round_verdict(&open->round);
    int members[RANKS], n = list_members(open->log, members);
    for (int i = 0; i < n; i++)
        if (shunt_round_post(&open->round, i)->count != count_of(open->log, open->operation, members[i]))
            fail("%d.%u has a wrong post of member %d", open->log, open->operation, i);
    if (verdict->chunk != (uint32_t)count_of(open->log, open->operation, 77))
        fail("%d.%u has a wrong verdict", open->log, open->operation);
    if (verdict->ticket <= open->floor)
        fail("ticket %llu of %d.%u was not to be seen when %llu was", (unsigned long long)verdict->ticket, open->log,
             open->operation, (unsigned long long)open->floor);
    return verdict->ticket;
}

/* Rule 6: whoever sees a ticket sees all smaller ones of its own when it looks again. */
static void raise_floors(struct thread *thread, uint64_t ticket)
{
    for (int i = 0; i < thread->n_open; i++) {
        struct open *open = &thread->open[i];
        if (open->round.board && shunt_round_poll(&open->round) == SHUNT_ROUND_UNDECIDED && open->floor < ticket)
            open->floor = ticket;
    }
}

/* Look at one open operation; true if it is over. */
static bool look(struct thread *thread, struct open *open)
{
    enum shunt_round_state state = shunt_round_poll(&open->round);
    if (state == SHUNT_ROUND_UNDECIDED) {
        thread->random = mix(thread->random, 2);
        if (open->veto && thread->random % 8 == 0)
            shunt_round_veto(&open->round, SHUNT_REASON_NO_IPC);
        return false;
    }
    uint64_t ticket = state == SHUNT_ROUND_RUN ? check_run(open) : 0;
    if (ticket)
        raise_floors(thread, ticket);
    else if (shunt_round_verdict(&open->round)->reason == SHUNT_REASON_NONE)
        fail("%d.%u is staged without a reason", open->log, open->operation);
    dawdle(&thread->random);
    note(thread, open, ticket ? RAN : STAGED, ticket);
    shunt_round_leave(&open->round);
    return true;
}

static void finish_operations(struct thread *thread)
{
    unsigned spins = 0;
    for (int left = thread->n_open; left;) {
        thread->random = mix(thread->random, 3);
        struct open *open = &thread->open[thread->random % (unsigned)thread->n_open];
        if (open->round.board)
            left -= look(thread, open);
        shunt_board_relax(&spins);
    }
    thread->n_open = 0;
}

/* NULL: a member was killed before the arena was sealed; then nobody has this board. */
static struct shunt_board *open_board(const struct rank *rank, int log, uint64_t key)
{
    int members[RANKS], slots[RANKS], n = list_members(log, members), me = 0;
    struct shunt_board *board = NULL;
    for (int i = 0; i < n; i++) {
        slots[i] = shunt_arena_slot(rank->arena, members[i]);
        if (slots[i] < 0 && episode.kills)
            return NULL;
        RANK_CHECK(slots[i] >= 0);
        me = members[i] == rank->rank ? i : me;
    }
    RANK_CHECK(shunt_board_open(rank->arena, (struct shunt_key){{key, ~key}}, n, slots, me, &board) == SHUNT_OK);
    return board;
}

/* May this phase begin? */
static bool pass_gate(int64_t phase)
{
    if (!shunt_shared_lock(&scene->gate))
        _exit(1);
    bool go = phase < scene->stop_at;
    if (go && scene->started < phase)
        scene->started = phase;
    shunt_shared_unlock(&scene->gate);
    return go;
}

/* The boards of a thread are those of its number, on all ranks. */
static void run_phase(struct thread *thread, int64_t phase)
{
    struct rank *rank = thread->rank;
    int brief = BOARDS + thread->number, first = (int)(mix(thread->random, 4) % BOARDS);
    struct shunt_board *board = NULL;
    if (episode.members[brief] >> rank->rank & 1) {
        board = open_board(rank, brief, mix((uint64_t)phase + 1000, (uint64_t)thread->number));
        if (board)
            start_operation(thread, board, brief);
        if (thread->random >> 40 & 1) {
            shunt_board_close(board); /* freed with the operation under way */
            board = NULL;
        }
    }
    for (int i = 0; i < BOARDS; i++) {
        int log = (first + i) % BOARDS;
        int operations = (int)(mix(episode.seed + (uint64_t)log, (uint64_t)phase) % 4);
        if (log % THREADS == thread->number && rank->board[log])
            for (int k = 0; k < operations; k++)
                start_operation(thread, rank->board[log], log);
    }
    finish_operations(thread);
    shunt_board_close(board);
}

static void *thread_main(void *context)
{
    struct thread *thread = context;
    for (int64_t phase = 0; pass_gate(phase); phase++)
        run_phase(thread, phase);
    return NULL;
}

/* Nothing is in use when all have finished. */
static void check_returned(struct shunt_arena *arena)
{
    struct shunt_pool_use use;
    while (scene->finished < episode.ranks)
        sched_yield();
    shunt_pool_count(arena, &use);
    if (use.boards || use.rings || use.posts)
        fail("%u boards, %u rings and %u posts were not returned", use.boards, use.rings, use.posts);
}

static void rank_main(int number, void *context)
{
    (void)context;
    struct rank rank = {.rank = number};
    static struct thread threads[THREADS];
    pthread_t ids[THREADS];
    RANK_CHECK(shunt_arena_join(&rank.arena) == SHUNT_OK);
    shunt_arena_set_world(rank.arena, number, episode.ranks);
    shunt_arena_seal(rank.arena);
    for (int log = 0; log < BOARDS; log++)
        if (episode.members[log] >> number & 1)
            rank.board[log] = open_board(&rank, log, (uint64_t)log);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.rank = &rank, .number = i, .random = mix(episode.seed, (uint64_t)(number * 8 + i))};
        RANK_CHECK(pthread_create(&ids[i], NULL, thread_main, &threads[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    for (int log = 0; log < BOARDS; log++)
        shunt_board_close(rank.board[log]);
    atomic_fetch_add(&scene->finished, 1);
    if (number == 0 && !episode.kills)
        check_returned(rank.arena);
    shunt_arena_leave(rank.arena);
}

/* ---- the episode ---- */

static void nap(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void plan_episode(uint64_t seed)
{
    static const int ranks[] = {2, 3, 8, 4, 16, 5, 33, 18, 40};
    episode.seed = seed;
    episode.ranks = ranks[seed % (sizeof ranks / sizeof *ranks)];
    episode.kills = total.episodes % 3 == 2;
    for (int log = 0; log < LOGS; log++) {
        uint64_t all = (1ull << episode.ranks) - 1, some = mix(seed, (uint64_t)log + 50) & all;
        episode.members[log] = log < THREADS || !some ? all : some;
    }
    madvise(scene, sizeof *scene, MADV_REMOVE); /* zero again */
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&scene->gate, &attributes);
    scene->stop_at = OPERATIONS / 4;
}

/* Stop and continue ranks at random; in an episode of kills, kill one or more. */
static uint64_t trouble(const pid_t *pids, double end)
{
    uint64_t random = mix(episode.seed, 9);
    uint64_t dead = 0;
    while (seconds() < end) {
        random = mix(random, 5);
        int victim = (int)(random % (unsigned)episode.ranks);
        nap((long)(random >> 20) % 20000);
        if (episode.kills && random >> 8 & 1) {
            kill(pids[victim], SIGKILL);
            dead |= 1ull << victim;
            if (random >> 9 & 1)
                break;
        } else if (!(dead >> victim & 1)) {
            kill(pids[victim], SIGSTOP);
            nap((long)(random >> 40) % 15000);
            kill(pids[victim], SIGCONT);
        }
    }
    if (shunt_shared_lock(&scene->gate)) {
        scene->stop_at = scene->started + 1;
        shunt_shared_unlock(&scene->gate);
    }
    return dead;
}

/* Wait for all; those that do not end are stuck. */
static void collect(const pid_t *pids, uint64_t dead)
{
    double end = seconds() + 20;
    for (int rank = 0; rank < episode.ranks; rank++) {
        int status = 0;
        while (waitpid(pids[rank], &status, WNOHANG) == 0) {
            if (seconds() > end) {
                fail("rank %d of %d is stuck", rank, episode.ranks);
                kill(pids[rank], SIGKILL);
                waitpid(pids[rank], &status, 0);
                break;
            }
            nap(500);
        }
        if (!(dead >> rank & 1) && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
            fail("rank %d of %d ended with %x", rank, episode.ranks, status);
    }
}

/* What the members saw of one operation. Answers the ticket, 0: staged. */
static uint64_t check_operation(int log, uint32_t operation, uint64_t dead)
{
    int members[RANKS], n = list_members(log, members), count[RAN + 1] = {0};
    uint64_t ticket = 0;
    bool doubt = dead != 0, device = false;
    for (int i = 0; i < n; i++) {
        uint64_t saw = atomic_load(&scene->saw[log][operation][members[i]]);
        enum act act = act_of(log, operation, members[i]);
        if (!(saw & 0xff) && (dead >> members[i] & 1))
            continue;
        count[saw & 0xff]++;
        if ((saw & 0xff) == RAN && ticket && ticket != saw >> 8)
            fail("%d.%u has two tickets", log, operation);
        ticket = saw >> 8 ? saw >> 8 : ticket;
        doubt |= act == ACT_HOST || act == ACT_VETO || (saw & 0xff) == PASSED_FULL;
        device |= act == ACT_DEVICE;
    }
    if (count[NOTHING])
        fail("%d.%u was not seen by %d members", log, operation, count[NOTHING]);
    if (count[RAN] && count[ON_HOST] + count[PASSED] + count[PASSED_FULL] + count[STAGED])
        fail("%d.%u ran on %d members and on %d it did not", log, operation, count[RAN],
             count[ON_HOST] + count[PASSED] + count[PASSED_FULL] + count[STAGED]);
    /* neutral ranks may pass until the flag is up, which it is after a few operations */
    if (!doubt && device && !ticket && operation > 64)
        fail("%d.%u did not run: host %d passed %d staged %d", log, operation, count[ON_HOST], count[PASSED],
             count[STAGED]);
    total.operations++;
    total.ran += ticket != 0;
    return ticket;
}

static void check_episode(uint64_t dead)
{
    static uint64_t tickets[LOGS][OPERATIONS];
    uint64_t last = 0;
    memset(tickets, 0, sizeof tickets);
    uint32_t ran = 0, ordered = 0;
    for (int log = 0; log < LOGS; log++)
        for (uint32_t operation = 0; operation < OPERATIONS; operation++) {
            uint64_t any = 0;
            for (int rank = 0; rank < episode.ranks; rank++)
                any |= atomic_load_explicit(&scene->saw[log][operation][rank], memory_order_relaxed);
            if (!any)
                break;
            tickets[log][operation] = check_operation(log, operation, dead);
            ran += tickets[log][operation] != 0;
        }
    for (uint32_t i = 0; i < scene->decisions; i++) {
        uint64_t *ticket = &tickets[scene->order[i].log][scene->order[i].operation];
        if (*ticket && *ticket <= last)
            fail("ticket %llu was decided after %llu", (unsigned long long)*ticket, (unsigned long long)last);
        last = *ticket ? *ticket : last;
        ordered += *ticket != 0;
        *ticket = 0; /* decided twice: seen as one too few */
    }
    if (ordered != ran)
        fail("%u operations ran, %u were decided", ran, ordered);
}

static void run_episode(double length)
{
    char job[32];
    pid_t pids[RANKS];
    snprintf(job, sizeof job, "stress%llu", (unsigned long long)total.episodes);
    double end = seconds() + length;
    for (int rank = 0; rank < episode.ranks; rank++)
        pids[rank] = ranks_start(job, rank, episode.ranks, rank_main, NULL);
    if (episode.kills && episode.seed & 8)
        nap((long)(episode.seed >> 8) % 30000); /* some die before the arena is sealed */
    uint64_t dead = trouble(pids, end);
    collect(pids, dead);
    total.killed += (unsigned)__builtin_popcountll(dead);
    total.phases += (uint64_t)scene->started;
    total.episodes++;
    check_episode(dead);
    if (ranks_files(job)) {
        /* killed before the arena was sealed, and nobody was left to leave last: the next start removes it */
        struct shunt_arena *arena;
        ranks_be("stress.next", 0, 1);
        if (!dead || shunt_arena_join(&arena) != SHUNT_OK || ranks_files(job))
            fail("a file is left in /dev/shm");
        else
            shunt_arena_leave(arena);
    }
}

int main(int argc, char **argv)
{
    double length = argc > 1 ? atof(argv[1]) : 10, end = seconds() + length;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    struct shunt_conf conf = *shunt_conf;
    conf.arena_size = 8 << 20;
    shunt_conf_use(&conf);
    ranks_origin = getpid();
    scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (scene == MAP_FAILED)
        return perror("mmap"), 1;
    uint32_t failures = 0;
    while (seconds() < end && !failures) {
        plan_episode(seed + total.episodes);
        run_episode(episode.kills ? 0.15 : 0.7);
        failures = scene->failures;
    }
    printf("stress_board: %llu episodes, %llu phases, %llu operations, %llu ran, %llu ranks killed, %u failures\n",
           (unsigned long long)total.episodes, (unsigned long long)total.phases, (unsigned long long)total.operations,
           (unsigned long long)total.ran, (unsigned long long)total.killed, failures);
    return failures || !total.ran;
}
