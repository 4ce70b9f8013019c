/* SPDX-License-Identifier: BSD-3-Clause */
/* A host MPI that only keeps books of communicators: the test says who is in them. For one test program. */
#ifndef SHUNT_TEST_UNIT_BOOKS_H
#define SHUNT_TEST_UNIT_BOOKS_H

#include <stdlib.h>
#include <string.h>

#include "mpi/call.h"

enum { COMMS = 256, RANKS = 8 };

/* A communicator of the host; its handle and its groups' handles are made of its number. */
struct fake {
    int n, ranks[RANKS];   /* world ranks of the members */
    int n2, ranks2[RANKS]; /* remote group: an inter-communicator */
    void *attribute;
    bool live;
};

static struct fake fakes[COMMS];
static int me; /* the world rank that this process plays */
static MPI_Comm_delete_attr_function *delete_attribute;

struct shunt_host_table shunt_host;

static MPI_Comm comm_of(long number)
{
    return (MPI_Comm)(intptr_t)(0x1000 + 8 * number);
}

static MPI_Group group_of(long number)
{
    return (MPI_Group)(intptr_t)(0x9000 + 8 * number);
}

static struct fake *fake_of(MPI_Comm comm)
{
    static struct fake world = { .n = 4, .ranks = { 0, 1, 2, 3 } }, self = { .n = 1 };

    if (comm == MPI_COMM_WORLD)
        return &world;
    if (comm == MPI_COMM_SELF) {
        self.ranks[0] = me;
        return &self;
    }
    struct fake *fake = &fakes[((intptr_t)comm - 0x1000) / 8];
    assert_true(fake->live);
    return fake;
}

static int fake_size(MPI_Comm comm, int *size)
{
    *size = fake_of(comm)->n;
    return MPI_SUCCESS;
}

static int fake_rank(MPI_Comm comm, int *rank)
{
    *rank = 0;
    for (int i = 0; i < fake_of(comm)->n; i++)
        if (fake_of(comm)->ranks[i] == me)
            *rank = i;
    return MPI_SUCCESS;
}

static int fake_test_inter(MPI_Comm comm, int *flag)
{
    *flag = fake_of(comm)->n2 > 0;
    return MPI_SUCCESS;
}

static long number_of(MPI_Comm comm)
{
    return comm == MPI_COMM_WORLD ? COMMS : comm == MPI_COMM_SELF ? COMMS + 1 : fake_of(comm) - fakes;
}

static int fake_group(MPI_Comm comm, MPI_Group *group)
{
    *group = group_of(2 * number_of(comm));
    return MPI_SUCCESS;
}

static int fake_remote_group(MPI_Comm comm, MPI_Group *group)
{
    *group = group_of(2 * number_of(comm) + 1);
    return MPI_SUCCESS;
}

static const int *members_of(MPI_Group group, int *n)
{
    long number = ((intptr_t)group - 0x9000) / 8;
    struct fake *fake = number / 2 == COMMS       ? fake_of(MPI_COMM_WORLD)
                        : number / 2 == COMMS + 1 ? fake_of(MPI_COMM_SELF)
                                                  : &fakes[number / 2];

    *n = number % 2 ? fake->n2 : fake->n;
    return number % 2 ? fake->ranks2 : fake->ranks;
}

static int fake_group_size(MPI_Group group, int *size)
{
    members_of(group, size);
    return MPI_SUCCESS;
}

static int fake_translate(MPI_Group group, int n, const int *ranks, MPI_Group world, int *out)
{
    int size;
    const int *members = members_of(group, &size);

    assert_true(world == group_of(2 * COMMS));
    for (int i = 0; i < n; i++)
        out[i] = members[ranks[i]] >= 100 ? MPI_UNDEFINED : members[ranks[i]];
    return MPI_SUCCESS;
}

static int fake_group_free(MPI_Group *group)
{
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}

static int fake_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete, int *keyval,
                              void *extra)
{
    (void)copy;
    (void)extra;
    delete_attribute = delete;
    *keyval = 77;
    return MPI_SUCCESS;
}

static int fake_free_keyval(int *keyval)
{
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

static int fake_set_attr(MPI_Comm comm, int keyval, void *value)
{
    assert_int_equal(keyval, 77);
    fake_of(comm)->attribute = value;
    return MPI_SUCCESS;
}

/* Requests are never complete when they are given out. */
static int fake_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    (void)request;
    (void)status;
    *flag = 0;
    return MPI_SUCCESS;
}

static void start_host(void)
{
    shunt_host = (struct shunt_host_table){
        .Comm_size = fake_size,
        .Comm_rank = fake_rank,
        .Comm_test_inter = fake_test_inter,
        .Comm_group = fake_group,
        .Comm_remote_group = fake_remote_group,
        .Group_size = fake_group_size,
        .Group_translate_ranks = fake_translate,
        .Group_free = fake_group_free,
        .Comm_create_keyval = fake_create_keyval,
        .Comm_free_keyval = fake_free_keyval,
        .Comm_set_attr = fake_set_attr,
        .Request_get_status = fake_get_status,
    };
}

/* A live communicator of these members. */
static MPI_Comm new_comm(int number, int n, const int *ranks, int n2, const int *ranks2)
{
    struct fake *fake = &fakes[number];

    assert_false(fake->live);
    *fake = (struct fake){ .n = n, .n2 = n2, .live = true };
    memcpy(fake->ranks, ranks, n * sizeof *ranks);
    if (n2 > 0)
        memcpy(fake->ranks2, ranks2, n2 * sizeof *ranks2);
    return comm_of(number);
}

/* The host frees a communicator: its attributes go first. */
static void end_comm(MPI_Comm comm)
{
    struct fake *fake = fake_of(comm);

    if (fake->attribute)
        delete_attribute(comm, 77, fake->attribute, NULL);
    fake->live = false;
}

#endif
