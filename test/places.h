/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators for random collectives, and who sends to whom there; for one test program, which draws its numbers here. */
#ifndef SHUNT_TEST_PLACES_H
#define SHUNT_TEST_PLACES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "test/calls.h"

#define RANKS CALL_RANKS

/* A communicator: whom each member sends to, in the order of its neighbours; all ranks where there is no topology. */
struct place {
    const char *name;
    MPI_Comm comm;
    int n, rank;
    bool topology, grid, twice; /* twice: a rank is a neighbour several times */
    int out[RANKS][RANKS], n_out[RANKS], in[RANKS][RANKS], n_in[RANKS];
};

static struct place places[24];
static int n_places, world_rank, world_size;

static uint64_t draw_state;

static uint64_t draw(void)
{
    uint64_t z = draw_state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned below(unsigned n)
{
    return (unsigned)(draw() % n);
}

static struct place *new_place(const char *name, MPI_Comm comm)
{
    struct place *place = &places[n_places++];

    *place = (struct place){.name = name, .comm = comm};
    return place;
}

/* Everybody learns everybody's neighbours: also who is no member knows size and lists, to draw the same cases. */
static void finish_place(struct place *place, const int *in, int n_in, const int *out, int n_out)
{
    place->n_in[place->rank] = n_in;
    place->n_out[place->rank] = n_out;
    memcpy(place->in[place->rank], in, (size_t)n_in * sizeof *in);
    memcpy(place->out[place->rank], out, (size_t)n_out * sizeof *out);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, place->n_in, 1, MPI_INT, place->comm);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, place->n_out, 1, MPI_INT, place->comm);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, place->in, RANKS, MPI_INT, place->comm);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, place->out, RANKS, MPI_INT, place->comm);
}

static void add_group(int n)
{
    int all[RANKS];
    MPI_Comm comm;

    MPI_Comm_split(MPI_COMM_WORLD, world_rank < n ? 0 : MPI_UNDEFINED, n % 2 ? world_rank : -world_rank, &comm);
    struct place *place = new_place("a group", comm);
    place->n = n;
    if (comm == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(comm, &place->rank);
    for (int i = 0; i < n; i++)
        all[i] = i;
    finish_place(place, all, n, all, n);
}

/* How many edges before this one lead to the same rank. */
static long places_earlier(const int *peers, int i)
{
    long earlier = 0;

    for (int k = 0; k < i; k++)
        earlier += peers[k] == peers[i];
    return earlier;
}

enum { GRAPHS = 3, DOUBLED, TANGLE }; /* so many at random; a ring whose edges are there twice; edges to oneself, up to three alike */

static int edges_from(int kind, int p, int q, int n)
{
    return kind == TANGLE ? (int)below(4) : kind == DOUBLED ? 2 * (q == (p + 1) % n) : (int)below(3) > 0;
}

static void add_graph(int kind)
{
    int in[RANKS], out[RANKS], all_in[RANKS] = {0}, all_out[RANKS] = {0}, weights[RANKS] = {0}, me = world_rank, n = world_size;
    MPI_Comm comm;

    for (int k = 0; k < n * n; k++) { /* edge p -> q, on all ranks alike */
        int p = k / n, q = k % n;
        for (int t = edges_from(kind, p, q, n); t > 0 && all_in[q] < RANKS && all_out[p] < RANKS; t--) {
            if (q == me)
                in[all_in[q]] = p;
            if (p == me)
                out[all_out[p]] = q;
            all_in[q]++;
            all_out[p]++;
        }
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, all_in[me], in, weights, all_out[me], out, weights, MPI_INFO_NULL, 0, &comm);
    struct place *place = new_place("a graph", comm);
    place->n = n;
    place->topology = true;
    place->twice = kind >= DOUBLED;
    place->rank = me;
    finish_place(place, in, all_in[me], out, all_out[me]);
}

/*
 * A row of processes, open (with MPI_PROC_NULL at its ends) or closed; of two, both neighbours are one rank then. Of two
 * dimensions, the second is a ring of this rank alone.
 */
static void add_row(int closed, int dimensions)
{
    const int sizes[] = {world_size, 1}, periods[] = {closed, 1};
    int near[4];
    MPI_Comm comm;

    MPI_Cart_create(MPI_COMM_WORLD, dimensions, sizes, periods, 0, &comm);
    struct place *place = new_place(closed ? "a ring" : "a row", comm);
    place->n = world_size;
    place->topology = place->grid = true;
    place->twice = dimensions == 2 || (closed && world_size < 3);
    MPI_Comm_rank(comm, &place->rank);
    for (int i = 0; i < dimensions; i++)
        MPI_Cart_shift(comm, i, 1, &near[2 * i], &near[2 * i + 1]);
    finish_place(place, near, 2 * dimensions, near, 2 * dimensions);
}

static void make_places(void)
{
    for (int n = 1; n <= world_size; n++)
        add_group(n);
    for (int kind = 0; kind <= TANGLE; kind++)
        add_graph(kind);
    add_row(true, 1);
    add_row(false, 1);
    add_row(true, 2);
}

#endif
