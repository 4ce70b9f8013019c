/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums on communicators inside of nodes and across them: check_nodes NODES ROUNDS [KINDS [die]]. NODES has a letter for each world
 * rank, that of its node. Each round is of the world, of the own node, of the first ranks of all nodes, of pairs of ranks
 * that may be anywhere; ranks of different nodes do what is their own in another order. die: the last rank does afterwards,
 * and who is on another node has as many sums there, and ends.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/case.h"
#include "test/gpu.h"

static const char *nodes, *kinds = "D";
static int rank, size;

/* The first rank of its node? */
static bool leads(void)
{
    return strchr(nodes, nodes[rank]) == nodes + rank;
}

static MPI_Comm part(int color)
{
    MPI_Comm comm;

    MPI_Comm_split(MPI_COMM_WORLD, color, 0, &comm);
    return comm;
}

static long length(int round)
{
    static const long lengths[] = {1, 1000, 17, 70000, 300};

    return lengths[round % 5];
}

static void go_on_without_the_last(MPI_Comm node, int rounds)
{
    if (rank == size - 1)
        raise(SIGKILL);
    sleep(1);
    if (nodes[rank] == nodes[size - 1])
        _exit(0);
    for (int round = 0; round < rounds; round++)
        case_sum(node, "node", kinds, length(round), (uint64_t)round);
    printf("world rank %d: %s\n", rank, test_tally.failures ? "wrong" : "right");
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    nodes = argv[1];
    if ((int)strlen(nodes) != size)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int rounds = atoi(argv[2]);
    kinds = argc > 3 ? argv[3] : kinds;
    gpu_start(gpu_local_rank());
    MPI_Comm node = part(nodes[rank]), first = part(leads() ? 0 : MPI_UNDEFINED), pair = part(rank / 2), other;
    MPI_Comm_dup(node, &other);
    for (int round = 0; round < rounds; round++) {
        MPI_Comm now = nodes[rank] % 2 ? node : other, then = nodes[rank] % 2 ? other : node;
        case_sum(MPI_COMM_WORLD, "world", kinds, length(round), (uint64_t)round);
        case_sum(now, "node", kinds, length(round + 1), (uint64_t)round);
        if (first != MPI_COMM_NULL)
            case_sum(first, "first ranks", kinds, length(round + 2), (uint64_t)round);
        case_sum(then, "node again", kinds, length(round + 3), (uint64_t)round);
        case_sum(pair, "pair", kinds, length(round + 4), (uint64_t)round);
    }
    if (argc > 4)
        go_on_without_the_last(node, rounds);
    MPI_Comm comms[] = {node, first, pair, other};
    for (int i = 0; i < 4; i++)
        if (comms[i] != MPI_COMM_NULL)
            MPI_Comm_free(&comms[i]);
    bool good = case_summary("check_nodes");
    case_finish();
    MPI_Finalize();
    return !good;
}
