/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums on communicators made in every way, in turns that must not confuse who meets whom: check_comms MODE [KINDS].
 * KINDS: a letter of gpu.h per world rank, repeated (D). The modes are the table at the end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/case.h"
#include "test/gpu.h"

enum { MOST = 8 };

static int rank, size;
static const char *kinds = "D";
static uint64_t seed = 1;

static void use(MPI_Comm comm, const char *name)
{
    uint64_t common = ++seed; /* ranks have used different numbers of communicators */

    if (comm == MPI_COMM_NULL)
        return;
    MPI_Bcast(&common, 1, MPI_UINT64_T, 0, comm);
    case_sum(comm, name, kinds, 500, common);
}

static void done_with(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL)
        MPI_Comm_free(comm);
}

static void use_once(MPI_Comm comm, const char *name)
{
    use(comm, name);
    done_with(&comm);
}

/* ---- creation calls that are collective on the parent ---- */

static void dups(MPI_Comm parent)
{
    MPI_Comm a, b, c;

    MPI_Comm_dup(parent, &a);
    MPI_Comm_dup_with_info(parent, MPI_INFO_NULL, &b);
    MPI_Comm_dup(a, &c);
    use(b, "dup_with_info");
    use(a, "dup");
    use(c, "dup of dup");
    done_with(&a);
    use(c, "dup of freed dup");
    done_with(&c);
    done_with(&b);
}

/* A different rank is left out each time: what comes next must meet all the same. */
static void splits(MPI_Comm parent)
{
    int me, n;
    MPI_Comm comms[MOST], shared;

    MPI_Comm_rank(parent, &me);
    MPI_Comm_size(parent, &n);
    for (int i = 0; i < n && i < MOST; i++)
        MPI_Comm_split(parent, me == i && n > 1 ? MPI_UNDEFINED : 0, -me, &comms[i]);
    MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    use_once(shared, "split_type");
    for (int i = n < MOST ? n - 1 : MOST - 1; i >= 0; i--)
        use_once(comms[i], "split with undefined");
    MPI_Comm_split(parent, me % 2, me, &comms[0]);
    use_once(comms[0], "split");
}

static void topologies(MPI_Comm parent)
{
    int n, me, dims[2] = {0, 0}, periods[2] = {1, 0}, remain[2] = {1, 0};
    MPI_Comm cart, sub, graph, dist;

    MPI_Comm_size(parent, &n);
    MPI_Comm_rank(parent, &me);
    MPI_Dims_create(n, 2, dims);
    MPI_Cart_create(parent, 2, dims, periods, 1, &cart);
    MPI_Cart_sub(cart, remain, &sub);
    use(sub, "cart_sub");
    use(cart, "cart");
    done_with(&sub);
    dims[0] = n > 1 ? n - 1 : 1;
    done_with(&cart);
    MPI_Cart_create(parent, 1, dims, periods, 0, &cart); /* the last rank is not in it */
    use_once(cart, "smaller cart");

    int index[1] = {0}, right = (me + 1) % n, left = (me + n - 1) % n, one = 1;
    MPI_Graph_create(parent, 1, index, &right, 0, &graph); /* of one rank */
    use_once(graph, "graph");
    MPI_Dist_graph_create(parent, 1, &me, &one, &right, &one, MPI_INFO_NULL, 0, &dist);
    use_once(dist, "dist_graph");
    MPI_Dist_graph_create_adjacent(parent, 1, &left, &one, 1, &right, &one, MPI_INFO_NULL, 0, &dist);
    use_once(dist, "dist_graph_adjacent");
}

/* ---- those in which only some ranks take part ---- */

/* Ranks first, first + step ... of the parent. */
static MPI_Group take_group(MPI_Comm parent, int first, int step)
{
    MPI_Group all, some;
    int n, ranges[1][3];

    MPI_Comm_size(parent, &n);
    memcpy(ranges[0], (int[]){first, n - 1, step}, sizeof ranges[0]);
    MPI_Comm_group(parent, &all);
    MPI_Group_range_incl(all, 1, ranges, &some);
    MPI_Group_free(&all);
    return some;
}

static void groups(MPI_Comm parent)
{
    int me, n;
    MPI_Comm all, again[3], halves;

    MPI_Comm_rank(parent, &me);
    MPI_Comm_size(parent, &n);
    int mine = n > 1 ? me % 2 : 0;
    MPI_Group half = take_group(parent, mine, 2), rest = take_group(parent, n > 1, 1);
    /* The odd ranks make three while the even ones make two: then all make one together. */
    for (int i = 0; i < 2 + mine; i++)
        MPI_Comm_create_group(parent, half, i == 1 ? 6 : 5, &again[i]);
    MPI_Comm_dup(parent, &all);
    use(all, "dup after create_group");
    for (int i = 1 + mine; i >= 0; i--)
        use_once(again[i], "create_group");
    MPI_Comm_create(parent, rest, &halves);
    use_once(halves, "create");
    done_with(&all);
    MPI_Group_free(&half);
    MPI_Group_free(&rest);
}

/* Both halves of the parent, with an inter-communicator between them, merged in both orders. */
static void between(MPI_Comm parent)
{
    int me, n;
    MPI_Comm half, inter, copy, merged;

    MPI_Comm_rank(parent, &me);
    MPI_Comm_size(parent, &n);
    if (n < 2)
        return;
    int low = me < n / 2;
    MPI_Comm_split(parent, low, me, &half);
    for (int turn = 0; turn < 2; turn++) {
        MPI_Intercomm_create(half, 0, parent, low ? n / 2 : 0, 9, &inter);
        MPI_Comm_dup(inter, &copy);
        MPI_Intercomm_merge(copy, low ? turn : !turn, &merged);
        use_once(merged, "merge");
        MPI_Intercomm_merge(inter, low ? turn : !turn, &merged);
        use_once(merged, "merge again");
        MPI_Comm_free(&copy);
        MPI_Comm_free(&inter);
    }
    use_once(half, "half");
}

static void all_ways(MPI_Comm parent)
{
    dups(parent);
    splits(parent);
    topologies(parent);
    groups(parent);
    between(parent);
}

/* Everything on the world, and on a communicator in another order. */
static void every(void)
{
    MPI_Comm reverse;

    all_ways(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reverse);
    all_ways(reverse);
    done_with(&reverse);
}

/* ---- Comm_idup ---- */

/* Each rank sees its duplicates complete in an order of its own. */
static void idups(void)
{
    MPI_Comm comms[6];
    MPI_Request requests[6];
    MPI_Status statuses[6];
    int index, flag = 0, n, indices[6];

    for (int i = 0; i < 6; i++)
        MPI_Comm_idup(MPI_COMM_WORLD, &comms[i], &requests[i]);
    /* Odd ranks wait for the second before the first. */
    MPI_Wait(&requests[rank % 2], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1 - rank % 2], MPI_STATUS_IGNORE);
    use(comms[0], "first idup");
    use(comms[1], "second idup");
    MPI_Waitany(6, requests, &index, MPI_STATUS_IGNORE);
    MPI_Waitsome(6, requests, &n, indices, statuses);
    while (!flag)
        MPI_Testall(6, requests, &flag, statuses);
    for (int i = 2; i < 6; i++)
        use(comms[i], "idup");
    for (int i = 0; i < 6; i++)
        MPI_Comm_free(&comms[i]);
}

/* It is known to have completed although no call has taken the request. */
static void idup_status(void)
{
    MPI_Comm comm;
    MPI_Request request;
    int flag = 0;

    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    while (!flag)
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    use(comm, "idup, Request_get_status");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use(comm, "idup, after that Wait");
    MPI_Comm_free(&comm);
}

/* ---- the end of communicators ---- */

/* Freed with operations under way. (Open MPI 4.1 does not survive this with a nonblocking collective.) */
static void open_operations(void)
{
    enum { ROUNDS = 10 };
    float in = 1, out[ROUNDS];
    int from[ROUNDS], right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Request requests[3 * ROUNDS];
    MPI_Status statuses[3 * ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        use(comm, "before the end");
        MPI_Irecv(&from[i], 1, MPI_INT, left, i, comm, &requests[3 * i]);
        MPI_Isend(&rank, 1, MPI_INT, right, i, comm, &requests[3 * i + 1]);
        requests[3 * i + 2] = MPI_REQUEST_NULL;
        out[i] = (float)size;
#ifndef OPEN_MPI
        MPI_Iallreduce(&in, &out[i], 1, MPI_FLOAT, MPI_SUM, comm, &requests[3 * i + 2]);
#endif
        MPI_Comm_free(&comm);
        use(MPI_COMM_WORLD, "world");
    }
    MPI_Waitall(3 * ROUNDS, requests, statuses);
    for (int i = 0; i < ROUNDS; i++)
        if (from[i] != left || out[i] != (float)(size * (int)in)) {
            printf("FAIL rank %d: open operations gave %d and %g\n", rank, from[i], out[i]);
            test_tally.failures++;
        }
}

/* Freed by a call that a preloaded library does not see. */
static void unseen_free(void)
{
    Dl_info host;
    void *library = NULL;
    int (*host_free)(MPI_Comm *) = NULL;

    /* Something that only the host has shows where it is. */
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Group_size");
    if (symbol && dladdr(symbol, &host))
        library = dlopen(host.dli_fname, RTLD_NOLOAD | RTLD_NOW);
    if (library)
        *(void **)&host_free = dlsym(library, "PMPI_Comm_free");
    if (!host_free) {
        printf("FAIL rank %d: the host's PMPI_Comm_free was not found\n", rank);
        test_tally.failures++;
        return;
    }
    for (int i = 0; i < 300; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (i % 50 == 0)
            use(comm, "dup");
        host_free(&comm);
        /* Its handle comes back, as one of other members. */
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
        if (i % 50 == 1)
            use(comm, "reverse");
        host_free(&comm);
    }
}

/* Ranks 1 ... together and in pairs, also while rank 0 has no shunt. */
static void without_first(void)
{
    MPI_Comm rest, pair;

    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &rest);
    if (rank > 0)
        use(rest, "all but rank 0");
    MPI_Comm_split(rest, rank % 2, rank, &pair);
    if (rank > 0)
        use(pair, "every second of them");
    done_with(&pair);
    done_with(&rest);
}

static void world(void)
{
    for (int i = 0; i < 3; i++)
        use(MPI_COMM_WORLD, "world");
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"every", every},           /* all creation calls */
    {"idup", idups},            /* nonblocking duplicates, completed in different orders */
    {"idup-status", idup_status},
    {"open", open_operations},  /* freed while an operation is under way */
    {"unseen", unseen_free},    /* freed past shunt */
    {"rest", without_first},    /* without rank 0 */
    {"world", world},
};

int main(int argc, char **argv)
{
    void (*run)(void) = NULL;

    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++)
        if (!strcmp(argv[1], modes[i].name))
            run = modes[i].run;
    if (!run) {
        fprintf(stderr, "usage: check_comms MODE [KINDS]\n");
        return 2;
    }
    if (argc > 2)
        kinds = argv[2];
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    run();
    bool good = case_summary("check_comms");
    case_finish();
    MPI_Finalize();
    return !good;
}
