/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with a count, a place or a type for each rank, and those of neighbours: check_rows [FORM] [large]
 * [by=NAME,...] SEND:RECV ..., see form.h and pair.h; by: a short run for each algorithm, asked for by hints. Rows lie in reverse order with gaps between, some are empty. Arguments that do not count on a
 * rank are ones that would do harm if anybody looked at them.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/form.h"
#include "test/pair.h"

#define RANKS 8
#define SCALE 40                      /* elements of a row: up to 3 times as many */
#define ROW   (3 * SCALE + 1)         /* elements that a row has room for */
#define ROOM  (2 * PAIR_GUARD + RANKS * ROW * PAIR_WIDE)
#define HARM  ((void *)(intptr_t)8)   /* nobody may follow it */

enum call { GATHERV, SCATTERV, ALLGATHERV, ALLTOALLV, ALLTOALLW, REDUCE_SCATTER, N_ALLGATHER, N_ALLGATHERV, N_ALLTOALL,
            N_ALLTOALLV, N_ALLTOALLW, CALLS };
static const char *const names[] = {"gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw", "reduce_scatter",
                                    "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall",
                                    "neighbor_alltoallv", "neighbor_alltoallw"};

static const char *by; /* the algorithm that is asked for; NULL: none */

/* One side: rows of elements. `counts` and so on in each width that a function may want. */
struct side {
    int n, counts[RANKS], displs[RANKS];
    MPI_Aint adispls[RANKS];
    MPI_Datatype types[RANKS];
    int count; /* where there is one for all */
    MPI_Datatype type;
#if MPI_VERSION >= 4
    MPI_Count large_counts[RANKS];
#endif
};

struct test {
    enum call call;
    const char *place;
    MPI_Comm comm;
    bool inter, in_place;
    int rank, own, opposite, root;
    bool is_root, is_idle;
    int types, scale;
    int n_sources, sources[RANKS], n_destinations, destinations[RANKS];
    struct side send, recv;
    bool sends, receives;
};

/* ---- arguments ---- */

/* Elements that rank i sends to rank j, and one of a rank alone. */
static int between(const struct test *test, int i, int j)
{
    return test->scale * ((3 * (i + j) + i * j + test->types) % 4);
}

static int alone(const struct test *test, int i)
{
    return test->scale * ((i + test->types + 1) % 4);
}

/* Set row i: as many elements of two floats each, as pairs with pair_holes or as twice as many floats. */
static void set_row(struct side *side, int i, int elements, bool wide)
{
    side->counts[i] = wide ? elements : 2 * elements;
    side->types[i] = side->type = wide ? pair_holes : MPI_FLOAT;
    side->count = side->counts[i];
    side->displs[i] = (side->n - 1 - i) * ROW * (wide ? 1 : 2);
}

static bool is_wide(const struct test *test, bool recv)
{
    return test->types == 1 || (test->types == 2 && recv);
}

/* Rows of both kinds in one call; those with gaps are staged, so not where algorithms are asked for. */
static bool mixes(const struct test *test)
{
    return by == NULL && (test->call == ALLTOALLW || test->call == N_ALLTOALLW);
}

static void finish_side(const struct test *test, struct side *side)
{
    bool by_bytes = test->call == ALLTOALLW || test->call == N_ALLTOALLW;

    for (int i = 0; i < side->n; i++) {
        if (by_bytes)
            side->displs[i] = (side->n - 1 - i) * ROW * PAIR_WIDE;
        side->adispls[i] = side->displs[i];
#if MPI_VERSION >= 4
        side->large_counts[i] = side->counts[i];
#endif
    }
}

static void set_groups(struct test *test)
{
    bool leaf = !test->is_idle && !(test->inter && test->is_root), rooted = test->call <= SCATTERV;

    test->sends = !rooted || (test->call == GATHERV ? leaf : test->is_root);
    test->receives = !rooted || (test->call == GATHERV ? test->is_root : leaf);
    test->send.n = test->call == SCATTERV || test->call == ALLTOALLV || test->call == ALLTOALLW ? test->opposite : 1;
    test->recv.n = test->call == SCATTERV ? 1 : test->opposite;
    for (int i = 0; i < test->send.n; i++) {
        bool w = test->call == ALLTOALLW;
        int elements = test->call == ALLTOALLV || w      ? between(test, test->rank, i)
                       : test->call == SCATTERV          ? alone(test, i)
                                                         : alone(test, test->rank);
        set_row(&test->send, i, elements, mixes(test) ? (test->rank + i + test->types) % 2 : is_wide(test, false));
    }
    for (int i = 0; i < test->recv.n; i++) {
        bool w = test->call == ALLTOALLW;
        int elements = test->call == ALLTOALLV || w      ? between(test, i, test->rank)
                       : test->call == SCATTERV          ? alone(test, test->rank)
                                                         : alone(test, i);
        bool wide = mixes(test) ? (test->in_place ? i + test->rank : 2 * i + test->rank) % 2 : is_wide(test, true);
        set_row(&test->recv, i, elements, wide);
    }
}

/* Shares of a sum that both groups have in common. */
static void set_reduction(struct test *test)
{
    int all = 12 * test->scale;

    test->sends = test->receives = true;
    test->recv.n = test->own;
    for (int i = 0; i < test->own; i++) {
        test->recv.counts[i] = all / test->own - (i == 1 ? test->scale : 0) + (i == 0 && test->own > 1 ? test->scale : 0);
        if (i == test->own - 1)
            test->recv.counts[i] += all % test->own;
    }
    test->recv.type = test->send.type = test->types ? pair_holes : MPI_FLOAT;
}

static void set_neighbours(struct test *test)
{
    bool same = test->call == N_ALLGATHER || test->call == N_ALLTOALL; /* rows are all alike */
    bool gather = test->call == N_ALLGATHER || test->call == N_ALLGATHERV;

    test->sends = test->receives = true;
    test->send.n = gather ? 1 : test->n_destinations;
    test->recv.n = test->n_sources;
    for (int i = 0; i < test->send.n; i++) {
        int peer = gather ? 0 : test->destinations[i] == MPI_PROC_NULL ? test->rank : test->destinations[i];
        int elements = same ? 3 * test->scale : gather ? alone(test, test->rank) : between(test, test->rank, peer);
        set_row(&test->send, i, elements, mixes(test) ? (i + test->types) % 2 : is_wide(test, false));
    }
    for (int i = 0; i < test->recv.n; i++) {
        int peer = test->sources[i] == MPI_PROC_NULL ? test->rank : test->sources[i];
        int elements = same ? 3 * test->scale : gather ? alone(test, peer) : between(test, peer, test->rank);
        set_row(&test->recv, i, elements, mixes(test) ? (i + test->types + 1) % 2 : is_wide(test, true));
    }
}

static bool has_elements(const struct side *side, const int *peers)
{
    for (int i = 0; i < side->n; i++)
        if (side->counts[i] > 0 && (!peers || peers[i] != MPI_PROC_NULL))
            return true;
    return false;
}

/* ---- the call ---- */

#if MPI_VERSION >= 4
#define LARGE(a, b)  (pair_large ? (void *)(a) : (void *)(b))
#define COUNTS(side) LARGE((side)->large_counts, (side)->counts)
#define DISPLS(side) LARGE((side)->adispls, (side)->displs)
#else
#define COUNTS(side) ((void *)(side)->counts)
#define DISPLS(side) ((void *)(side)->displs)
#endif

static int run_rows(const struct test *test, char *send, char *recv)
{
    const struct side *s = &test->send, *r = &test->recv;
    bool bare = test->in_place && test->call != SCATTERV && (test->call != GATHERV || test->is_root);
    void *in = bare ? MPI_IN_PLACE : send, *out = test->in_place && test->call == SCATTERV && test->is_root ? MPI_IN_PLACE : recv;
    bool sends = test->sends && !bare, receives = test->receives && out != MPI_IN_PLACE;
    void *counts = test->sends && !bare ? COUNTS(s) : HARM, *displs = sends ? DISPLS(s) : HARM;
    void *rcounts = receives ? COUNTS(r) : HARM, *rdispls = receives ? DISPLS(r) : HARM;
    int sendcount = sends ? s->count : 1 << 20, recvcount = receives ? r->count : 1 << 20;
    MPI_Datatype sendtype = sends ? s->type : MPI_CHAR, recvtype = receives ? r->type : MPI_CHAR;
    MPI_Op op = test->types ? pair_add : MPI_SUM;

    switch (test->call) {
    case GATHERV:
        return FORM_CALL(pair_large, Gatherv, Igatherv,
                         in, sendcount, sendtype, out, rcounts, rdispls, recvtype, test->root, test->comm);
    case SCATTERV:
        return FORM_CALL(pair_large, Scatterv, Iscatterv,
                         in, counts, displs, sendtype, out, recvcount, recvtype, test->root, test->comm);
    case ALLGATHERV:
        return FORM_CALL(pair_large, Allgatherv, Iallgatherv,
                         in, sendcount, sendtype, out, rcounts, rdispls, recvtype, test->comm);
    case ALLTOALLV:
        return FORM_CALL(pair_large, Alltoallv, Ialltoallv,
                         in, counts, displs, sendtype, out, rcounts, rdispls, recvtype, test->comm);
    case ALLTOALLW:
        return FORM_CALL(pair_large, Alltoallw, Ialltoallw,
                         in, counts, displs, sends ? s->types : HARM, out, rcounts, rdispls, r->types, test->comm);
    case REDUCE_SCATTER:
        return FORM_CALL(pair_large, Reduce_scatter, Ireduce_scatter,
                         in, out, rcounts, recvtype, op, test->comm);
    case N_ALLGATHER:
        return FORM_CALL(pair_large, Neighbor_allgather, Ineighbor_allgather,
                         in, sendcount, sendtype, out, recvcount, recvtype, test->comm);
    case N_ALLGATHERV:
        return FORM_CALL(pair_large, Neighbor_allgatherv, Ineighbor_allgatherv,
                         in, sendcount, sendtype, out, rcounts, rdispls, recvtype, test->comm);
    case N_ALLTOALL:
        return FORM_CALL(pair_large, Neighbor_alltoall, Ineighbor_alltoall,
                         in, sendcount, sendtype, out, recvcount, recvtype, test->comm);
    case N_ALLTOALLV:
        return FORM_CALL(pair_large, Neighbor_alltoallv, Ineighbor_alltoallv,
                         in, counts, displs, sendtype, out, rcounts, rdispls, recvtype, test->comm);
    default:
        return FORM_CALL(pair_large, Neighbor_alltoallw, Ineighbor_alltoallw,
                         in, counts, s->adispls, s->types, out, rcounts, r->adispls, r->types, test->comm);
    }
}

static int call(const void *context, char *send, char *recv, long *values)
{
    (void)values;
    return run_rows(context, send, recv);
}

static void run_test(struct test *test)
{
    char name[200];
    const int *from = test->call >= N_ALLGATHER ? test->sources : NULL;
    const int *to = test->call >= N_ALLTOALL ? test->destinations : NULL;

    memset(&test->send, 0, sizeof test->send);
    memset(&test->recv, 0, sizeof test->recv);
    test->is_root = test->call <= SCATTERV && (test->inter ? test->root == MPI_ROOT : test->root == test->rank);
    test->is_idle = test->call <= SCATTERV && test->inter && test->root == MPI_PROC_NULL;
    if (test->call == REDUCE_SCATTER)
        set_reduction(test);
    else if (test->call < N_ALLGATHER)
        set_groups(test);
    else
        set_neighbours(test);
    finish_side(test, &test->send);
    finish_side(test, &test->recv);
    snprintf(name, sizeof name, "%s on %s, types %d, scale %d, root %d%s", names[test->call], test->place, test->types,
             test->scale, test->root, test->in_place ? ", in place" : "");
    struct pair_test pair = {.name = name, .call = call, .context = test};
    bool bare = test->in_place && test->call != SCATTERV && (test->call != GATHERV || test->is_root);
    if (test->call == REDUCE_SCATTER) {
        pair.sends = test->scale > 0 && !bare;
        pair.receives = test->recv.counts[test->rank] > 0 || (bare && test->scale > 0);
    } else {
        pair.sends = test->sends && !bare && has_elements(&test->send, to);
        pair.receives = test->receives && !(test->in_place && test->call == SCATTERV && test->is_root) &&
                        has_elements(&test->recv, from);
    }
    pair_run(&pair);
}

/*
 * Open MPI 4.1 takes the sender's counts for elements of the receiver's type in one call, and hangs behind Ialltoallv and
 * Ialltoallw in place. Of the latter MPICH 4.0 makes nonsense.
 */
static bool fails_host(const struct test *test)
{
    bool started_in_place = form != BLOCKING && test->in_place;

#ifdef OPEN_MPI
    if ((test->call == SCATTERV && test->inter && test->types == 2) || (started_in_place && test->call == ALLTOALLV))
        return true;
#endif
    return started_in_place && test->call == ALLTOALLW;
}

/* Hints for all calls that have the algorithm; sums have no copies. */
static void ask_for(MPI_Comm comm, const char *algorithm)
{
    char key[64];
    MPI_Info info;

    MPI_Info_create(&info);
    for (int i = 0; i < CALLS; i++) {
        snprintf(key, sizeof key, "shunt_%s", names[i]);
        if (i != REDUCE_SCATTER || strcmp(algorithm, "copy") != 0)
            MPI_Info_set(info, key, algorithm);
    }
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
}

static void run_shapes(struct test *test)
{
    static const int scales[] = {0, 1, SCALE};
    int types = by ? 1 : test->call == REDUCE_SCATTER ? 2 : 3;

    for (test->types = 0; test->types < types; test->types++) {
        for (int i = 0; i < 3; i++) {
            test->scale = scales[i];
            if (test->types && i == 2)
                test->scale = 5; /* each block of a type with gaps is a copy */
            if ((test->types < 2 || !test->in_place) && !fails_host(test))
                run_test(test);
        }
    }
}

/* ---- communicators ---- */

static void run_intra(MPI_Comm comm)
{
    struct test test = {.comm = comm, .place = by ? by : "the world", .rank = pair_rank, .own = pair_ranks,
                        .opposite = pair_ranks};

    for (test.call = 0; test.call < N_ALLGATHER; test.call++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            test.in_place = in_place;
            for (test.root = 0; test.root < (test.call <= SCATTERV ? 2 : 1); test.root++)
                run_shapes(&test);
        }
    }
}

/* The first rank and all others; either has the root once. */
static void run_inter(void)
{
    struct test test = {.place = "an inter-communicator", .inter = true};
    bool low = pair_rank == 0;
    MPI_Comm local;

    MPI_Comm_split(MPI_COMM_WORLD, low, pair_rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, low ? 1 : 0, 5, &test.comm);
    MPI_Comm_free(&local);
    MPI_Comm_set_errhandler(test.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(test.comm, &test.rank);
    MPI_Comm_size(test.comm, &test.own);
    MPI_Comm_remote_size(test.comm, &test.opposite);
    for (test.call = 0; test.call < N_ALLGATHER; test.call++) {
        for (int side = 0; side < (test.call <= SCATTERV ? 2 : 1); side++) {
            test.root = low != (side == 0) ? 0 : test.rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
            run_shapes(&test);
        }
    }
    MPI_Comm_free(&test.comm);
}

static void run_neighbours(MPI_Comm comm, const char *place, const int *sources, int n_sources, const int *destinations,
                           int n_destinations)
{
    struct test test = {.comm = comm, .place = place, .n_sources = n_sources, .n_destinations = n_destinations};

    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (by)
        ask_for(comm, by);
    MPI_Comm_rank(comm, &test.rank);
    MPI_Comm_size(comm, &test.own);
    memcpy(test.sources, sources, n_sources * sizeof *sources);
    memcpy(test.destinations, destinations, n_destinations * sizeof *destinations);
    for (test.call = N_ALLGATHER; test.call < CALLS; test.call++)
        run_shapes(&test);
    MPI_Comm_free(&comm);
}

/* A line with open ends, a ring across it: so each is its own neighbour, twice. */
static void run_grid(void)
{
    int grid[4];
    MPI_Comm comm;

    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){pair_ranks, 1}, (int[]){0, 1}, 0, &comm);
    MPI_Cart_shift(comm, 0, 1, &grid[0], &grid[1]);
    MPI_Cart_shift(comm, 1, 1, &grid[2], &grid[3]);
    run_neighbours(comm, "a grid", grid, 4, grid, 4);
}

/* A star; and edges that are not the same in both directions. */
static void run_graphs(void)
{
    int n = pair_ranks, r = pair_rank, next = (r + 1) % n, last = (r + n - 1) % n;
    int index[RANKS], edges[2 * RANKS], centre[RANKS];
    MPI_Comm comm;

    for (int i = 0; i < n; i++) {
        index[i] = i == 0 ? n - 1 : n - 1 + i;
        edges[i == 0 ? 0 : n - 2 + i] = 0;
        centre[i] = i + 1;
    }
    for (int i = 0; i < n - 1; i++)
        edges[i] = i + 1;
    MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &comm);
    run_neighbours(comm, "a star", r == 0 ? centre : (int[]){0}, r == 0 ? n - 1 : 1, r == 0 ? centre : (int[]){0},
                   r == 0 ? n - 1 : 1);
    /* Everybody sends to the next one; rank 0 also to itself. */
    int from[] = {last, 0}, to[] = {next, 0}, ones[] = {1, 1}, degree = r == 0 ? 2 : 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, from, ones, degree, to, ones, MPI_INFO_NULL, 0, &comm);
    run_neighbours(comm, "a ring", from, degree, to, degree);
}

/* ---- what is no buffer ---- */

/* The heap and device memory are too far from each other for one image. */
static bool far_apart(void)
{
    for (int i = 0; i < pair_count(); i++)
        if ((pair_block(i, false)->kind == 'H') != (pair_block(i, true)->kind == 'H'))
            return true;
    return false;
}

/* MPI_BOTTOM, and types that hold the addresses themselves: rows of one call lie in different memories. */
static void run_absolute(void)
{
    static char received[2][ROOM], wanted[2][ROOM], found[ROOM];
    MPI_Datatype in[RANKS], out[RANKS];
    int ones[RANKS], zeros[RANKS] = {0};

    int apart = far_apart(), any;

    MPI_Allreduce(&apart, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < pair_count() && !any; i++) {
        const struct gpu_block *block[2] = {pair_block(i, false), pair_block(i, true)};
        for (int k = 0; k < 2; k++) {
            pair_fill(received[k], 2 * pair_rank + k);
            memcpy(wanted[k], received[k], ROOM);
        }
        for (int j = 0; j < pair_ranks; j++) {
            /* What rank r has for rank j is its row j of one of the blocks; what comes goes behind all that. */
            int k = (pair_rank + j) % 2, at = PAIR_GUARD + 64 * j, to = at + 64 * RANKS;
            float sent[2] = {(float)(100 * j + pair_rank), (float)(1000 * j + pair_rank)};
            float mine[2] = {(float)(100 * pair_rank + j), (float)(1000 * pair_rank + j)};
            ones[j] = 1;
            memcpy(received[k] + at, &mine[0], 4);
            memcpy(received[k] + at + 12, &mine[1], 4);
            memcpy(wanted[k] + at, &mine[0], 4);
            memcpy(wanted[k] + at + 12, &mine[1], 4);
            memcpy(wanted[!k] + to, &sent[0], 4);
            memcpy(wanted[!k] + to + 12, &sent[1], 4);
            MPI_Aint here = (MPI_Aint)(intptr_t)(block[k]->base + at), there = (MPI_Aint)(intptr_t)(block[!k]->base + to);
            MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){here, here + 12}, MPI_FLOAT, &in[j]);
            MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){there, there + 12}, MPI_FLOAT, &out[j]);
            MPI_Type_commit(&in[j]);
            MPI_Type_commit(&out[j]);
        }
        for (int k = 0; k < 2; k++)
            gpu_copy(block[k]->base, received[k], ROOM);
        gpu_synchronize();
        pair_counted(!gpu_kind_on_host(block[0]->kind) || !gpu_kind_on_host(block[1]->kind));
        if (MPI_Alltoallw(MPI_BOTTOM, ones, zeros, in, MPI_BOTTOM, ones, zeros, out, MPI_COMM_WORLD) != MPI_SUCCESS)
            pair_fail("alltoallw", "fails on MPI_BOTTOM");
        for (int k = 0; k < 2; k++) {
            gpu_copy(found, block[k]->base, ROOM);
            if (memcmp(found, wanted[k], ROOM) != 0)
                pair_fail("alltoallw", "MPI_BOTTOM, kinds %c and %c: block %d is wrong", block[0]->kind, block[1]->kind, k);
        }
        for (int j = 0; j < pair_ranks; j++) {
            MPI_Type_free(&in[j]);
            MPI_Type_free(&out[j]);
        }
    }
}

static void run_everything(void)
{
    run_intra(MPI_COMM_WORLD);
    run_inter();
    run_grid();
    run_graphs();
    run_absolute();
}

static void run_by(void)
{
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    ask_for(comm, by);
    run_intra(comm);
    MPI_Comm_free(&comm);
    run_graphs();
}

/* Takes the argument by=... out. */
static char *take_algorithms(int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++) {
        if (strncmp(argv[i], "by=", 3) != 0)
            continue;
        char *found = argv[i] + 3;
        memmove(&argv[i], &argv[i + 1], (size_t)(*argc - i) * sizeof *argv);
        --*argc;
        return found;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    char *asked = take_algorithms(&argc, argv);

    form_start(&argc, &argv);
    pair_start(&argc, &argv, ROOM);
    if (asked) {
        for (by = strtok(asked, ","); by; by = strtok(NULL, ","))
            run_by();
    } else {
        run_everything();
    }
    return pair_finish("check_rows");
}
