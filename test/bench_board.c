/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a board costs: a host rank's pass, opening and closing, and one operation (arrive, decide, leave) of 2, 4 ...
 * ranks on as many processors, in ns.
 *
 *     bench_board [RANKS]        up to that many; default: as many as there are processors, at least 2
 *
 * Figures are the best of many batches: what else runs on the machine only makes them worse.
 */
#include <sched.h>
#include <time.h>

#include "test/unit/ranks.h"

enum { BATCH = 100, BATCHES = 2000, BATCHES_CROWDED = 20 };

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static bool decide(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    (void)context;
    for (int i = 1; i < n; i++)
        if (posts[i]->count != posts[0]->count)
            return false;
    verdict->algo = 1;
    return true;
}

static struct shunt_board *open_key(struct shunt_arena *arena, int rank, int n, uint64_t key)
{
    int slots[SHUNT_TREE_RANKS];
    struct shunt_board *board = NULL;
    for (int i = 0; i < n; i++)
        slots[i] = shunt_arena_slot(arena, i);
    RANK_CHECK(shunt_board_open(arena, (struct shunt_key){{key, key}}, n, slots, rank, &board) == SHUNT_OK);
    return board;
}

static void operate(struct shunt_board *board)
{
    struct shunt_post post = {.count = 1};
    struct shunt_round round;
    enum shunt_reason reason;
    unsigned spins = 0;
    RANK_CHECK(shunt_board_arrive(board, &post, decide, NULL, &round, &reason) == SHUNT_OK);
    while (shunt_round_poll(&round) == SHUNT_ROUND_UNDECIDED)
        shunt_board_relax(&spins);
    RANK_CHECK(shunt_round_poll(&round) == SHUNT_ROUND_RUN);
    shunt_round_leave(&round);
}

/* The best batch of a repeated action, in ns for one. */
#define BEST(best, batches, action)                                                                         \
    do {                                                                                           \
        best = 1e18;                                                                               \
        for (int batch = 0; batch < (batches); batch++) {                                            \
            double start = now_ns();                                                               \
            for (int i = 0; i < BATCH; i++) {                                                      \
                action;                                                                            \
            }                                                                                      \
            double took = (now_ns() - start) / BATCH;                                              \
            best = took < best ? took : best;                                                      \
        }                                                                                          \
    } while (0)

static void rank_main(int rank, void *context)
{
    const int n = *(int *)context, processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t cpus;
    struct shunt_arena *arena;
    RANK_CHECK(shunt_arena_join(&arena) == SHUNT_OK); /* before it is bound: the arena sees the ranks as many on few */
    shunt_arena_set_world(arena, rank, n);
    shunt_arena_seal(arena);
    CPU_ZERO(&cpus);
    CPU_SET(rank % processors, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    struct shunt_board *board = open_key(arena, rank, n, 1);
    double best, pass, open;
    BEST(best, n <= processors ? BATCHES : BATCHES_CROWDED, operate(board));
    if (rank == 0) {
        BEST(pass, BATCHES, shunt_board_pass(board));
        struct shunt_board *brief;
        BEST(open, BATCHES, brief = open_key(arena, 0, 1, 2); shunt_board_close(brief));
        printf("%2d ranks on %2d processors: arrive, decide, leave %7.0f ns; pass %.2f ns; open and close %.0f ns\n", n,
               processors, best, pass, open);
        fflush(stdout);
    }
    shunt_board_close(board);
    shunt_arena_leave(arena);
}

int main(int argc, char **argv)
{
    int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int most = argc > 1 ? atoi(argv[1]) : processors < 2 ? 2 : processors;
    bool good = true;
    for (int n = 2; good && n <= most && n <= SHUNT_TREE_RANKS; n *= 2)
        good = ranks_run("bench", n, rank_main, &n);
    return !good;
}
