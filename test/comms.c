/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators for the test programs: see comms.h. */
#include "test/comms.h"

#include <stdlib.h>
#include <string.h>

#define SIDE 1000 /* the second group of an inter-communicator counts its contributions from here */

static void make_dup(int rank, int size, MPI_Comm *comm)
{
    (void)rank, (void)size;
    MPI_Comm_dup(MPI_COMM_WORLD, comm);
}

static void make_idup(int rank, int size, MPI_Comm *comm)
{
    MPI_Request request;

    (void)rank, (void)size;
    MPI_Comm_idup(MPI_COMM_WORLD, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void make_split(int rank, int size, MPI_Comm *comm)
{
    (void)size;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, comm);
}

static void make_reverse(int rank, int size, MPI_Comm *comm)
{
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, comm);
}

static void make_undefined(int rank, int size, MPI_Comm *comm)
{
    MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1 && size > 1 ? MPI_UNDEFINED : 7, rank, comm);
}

/* All but rank 0, and rank 0 alone: two groups at the same time with the same tag. */
static void make_group(int rank, int size, MPI_Comm *comm)
{
    MPI_Group world, group;
    int range[1][3] = {{1, size - 1, 1}};

    if (rank == 0 || size == 1)
        range[0][0] = range[0][1] = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

/* The last rank first, the others not turned round. */
static void make_create(int rank, int size, MPI_Comm *comm)
{
    MPI_Group world, group;
    int *order = malloc((size_t)size * sizeof *order);

    (void)rank;
    for (int i = 0; i < size; i++)
        order[i] = (i + size - 1) % size;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, size, order, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    free(order);
}

static void make_inter(int rank, int size, MPI_Comm *comm)
{
    MPI_Comm half;
    int low = rank < (size + 1) / 2;

    *comm = MPI_COMM_NULL;
    if (size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? (size + 1) / 2 : 0, 3, comm);
    MPI_Comm_free(&half);
}

static void make_merge(int rank, int size, MPI_Comm *comm)
{
    MPI_Comm inter;

    make_inter(rank, size, &inter);
    *comm = MPI_COMM_NULL;
    if (inter == MPI_COMM_NULL)
        return;
    MPI_Intercomm_merge(inter, rank < (size + 1) / 2, comm); /* the upper half comes first */
    MPI_Comm_free(&inter);
}

static void make_cart(int rank, int size, MPI_Comm *comm)
{
    int dims[2] = {0, 0}, periods[2] = {1, 0};

    (void)rank;
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, comm);
}

static const struct {
    const char *name;
    void (*make)(int rank, int size, MPI_Comm *comm);
} makers[] = {
    {"dup", make_dup},       {"idup", make_idup},     {"split", make_split}, {"reverse", make_reverse},
    {"group", make_group},   {"create", make_create}, {"merge", make_merge}, {"undefined", make_undefined},
    {"cart", make_cart},     {"inter", make_inter},
};

bool comms_make(const char *name, MPI_Comm *comm)
{
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    *comm = strcmp(name, "self") == 0 ? MPI_COMM_SELF : MPI_COMM_WORLD;
    if (strcmp(name, "world") == 0 || strcmp(name, "self") == 0)
        return true;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strcmp(makers[i].name, name) == 0) {
            makers[i].make(rank, size, comm);
            return true;
        }
    }
    return false;
}

void comms_free(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL && *comm != MPI_COMM_WORLD && *comm != MPI_COMM_SELF)
        MPI_Comm_free(comm);
}

/* 1: the caller is in the group of world rank 0. */
static int low_side(void)
{
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return rank < (size + 1) / 2;
}

void comms_contributors(MPI_Comm comm, int *first, int *n)
{
    int inter;

    MPI_Comm_test_inter(comm, &inter);
    *first = inter && low_side() ? SIDE : 0;
    if (inter)
        MPI_Comm_remote_size(comm, n);
    else
        MPI_Comm_size(comm, n);
}

int comms_self(MPI_Comm comm)
{
    int inter, rank;

    MPI_Comm_test_inter(comm, &inter);
    MPI_Comm_rank(comm, &rank);
    return inter && !low_side() ? SIDE + rank : rank;
}
