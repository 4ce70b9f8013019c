/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is legal and rare: check_unusual [large] SEND:RECV ... [CASE], as check_requests. Layouts that differ between the
 * ranks of one call, elements of odd shape, and requests that are not what they seem.
 */
#include <stdio.h>
#include <unistd.h>

#include "test/ring.h"

static MPI_Datatype committed(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype make_strided(int blocks, int length, int stride)
{
    MPI_Datatype type;

    MPI_Type_vector(blocks, length, stride, MPI_FLOAT, &type);
    return committed(type);
}

/* ---- layouts that differ between ranks ---- */

/* The root has all in one block, the others not, and the other way round. */
static int bcast_to_gaps(const void *context, char *send, char *recv, long *values)
{
    MPI_Datatype spread, slot;
    int rc = MPI_SUCCESS;

    (void)context;
    (void)send;
    noted = values;
    MPI_Type_create_resized(MPI_FLOAT, 0, 3 * sizeof(float), &slot);
    MPI_Type_commit(&slot);
    spread = make_strided(15, 3, 7);
    for (int root = 0; root < pair_ranks && rc == MPI_SUCCESS; root++) {
        bool whole = pair_rank == root;
        rc = MPI_Bcast(piece(recv, 0), 20, whole ? MPI_FLOAT : slot, root, MPI_COMM_WORLD);
        note(rc);
        rc = MPI_Bcast(piece(recv, 2), 20, whole ? slot : MPI_FLOAT, root, MPI_COMM_WORLD);
        note(rc);
        rc = MPI_Bcast(piece(recv, 4), whole ? 1 : 45, whole ? spread : MPI_FLOAT, root, MPI_COMM_WORLD);
    }
    MPI_Type_free(&spread);
    MPI_Type_free(&slot);
    return rc;
}

/* Rank 1 alone has gaps. */
static int one_with_gaps(const void *context, char *send, char *recv, long *values)
{
    MPI_Datatype spread = make_strided(5, 2, 5);
    bool odd = pair_rank == 1;
    MPI_Datatype type = odd ? spread : MPI_FLOAT;
    int count = odd ? 1 : 10, tens[64], places[64], rc[4];

    (void)context;
    noted = values;
    for (int i = 0; i < pair_ranks; i++) {
        tens[i] = 10;
        places[i] = 11 * i;
    }
    rc[0] = MPI_Gather(send, count, type, recv, 10, MPI_FLOAT, 0, MPI_COMM_WORLD);
    rc[1] = MPI_Gatherv(send, count, type, piece(recv, 1), tens, places, MPI_FLOAT, 0, MPI_COMM_WORLD);
    rc[2] = MPI_Scatter(piece(send, 2), 10, MPI_FLOAT, piece(recv, 2), count, type, 0, MPI_COMM_WORLD);
    rc[3] = MPI_Scatterv(piece(send, 3), tens, places, MPI_FLOAT, piece(recv, 3), count, type, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++)
        note(rc[i]);
    MPI_Type_free(&spread);
    return MPI_SUCCESS;
}

/* Elements that overlap where they are sent from; and blocks that are empty, repeated out of order and nested. */
static int odd_elements(const void *context, char *send, char *recv, long *values)
{
    MPI_Datatype four, overlapping, blocks, nested;
    int lengths[] = {1, 0, 2, 1, 3}, places[] = {3, 90, 4, 0, 7};

    (void)context;
    noted = values;
    MPI_Type_contiguous(4, MPI_FLOAT, &four);
    MPI_Type_create_resized(four, 0, sizeof(float), &overlapping);
    MPI_Type_commit(&overlapping);
    MPI_Type_indexed(5, lengths, places, MPI_FLOAT, &blocks);
    MPI_Type_vector(3, 1, 2, blocks, &nested);
    MPI_Type_commit(&nested);
    MPI_Sendrecv(send, 2, overlapping, right, 1, recv, 8, MPI_FLOAT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(piece(send, 1), 1, nested, right, 2, piece(recv, 1), 21, MPI_FLOAT, left, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    int rc = MPI_Sendrecv(piece(send, 3), 21, MPI_FLOAT, right, 3, piece(recv, 3), 1, nested, left, 3, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE);
    MPI_Type_free(&four);
    MPI_Type_free(&overlapping);
    MPI_Type_free(&blocks);
    MPI_Type_free(&nested);
    return rc;
}

/* Elements of nothing on one side, no elements on the other: nothing moves, and no message is left over. */
static int empty_elements(const void *context, char *send, char *recv, long *values)
{
    MPI_Datatype empty, spaced;
    int fives[64], zeros[64], rc[3];

    (void)context;
    noted = values;
    for (int i = 0; i < pair_ranks; i++) {
        fives[i] = 5;
        zeros[i] = 0;
    }
    MPI_Type_contiguous(0, MPI_FLOAT, &empty);
    MPI_Type_create_resized(empty, 0, 64, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Type_commit(&empty);
    rc[0] = MPI_Alltoallv(send, fives, zeros, empty, recv, zeros, zeros, MPI_FLOAT, MPI_COMM_WORLD);
    rc[1] = MPI_Allgather(send, 5, spaced, recv, 0, MPI_FLOAT, MPI_COMM_WORLD);
    rc[2] = MPI_Sendrecv(send, 5, spaced, right, TAG, recv, 5, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++)
        note(rc[i]);
    MPI_Type_free(&empty);
    MPI_Type_free(&spaced);
    return MPI_Sendrecv(piece(send, 1), PIECE, MPI_FLOAT, right, TAG, piece(recv, 1), PIECE, MPI_FLOAT, left, TAG,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* What is in place lies where the displacements say, with holes between, and not behind each other. */
static int in_place_with_holes(const void *context, char *send, char *recv, long *values)
{
    int counts[64], places[64];

    (void)context;
    (void)send;
    noted = values;
    for (int i = 0; i < pair_ranks; i++) {
        counts[i] = i == 1 ? 0 : 5 + i;
        places[i] = 12 * (pair_ranks - 1 - i) + 3;
    }
    note(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, counts, places, MPI_FLOAT, MPI_COMM_WORLD));
    note(MPI_Reduce_scatter_block(MPI_IN_PLACE, piece(recv, 2), 3, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD));
    return MPI_Reduce_scatter(MPI_IN_PLACE, piece(recv, 4), counts, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
}

/* ---- requests that are not what they seem ---- */

/* One receive for everybody is cancelled; later ones get each message once. */
static int from_anybody(const void *context, char *send, char *recv, long *values)
{
    MPI_Request request;
    MPI_Status status;
    int flag, sum = 0;

    (void)context;
    noted = values;
    MPI_Irecv(piece(recv, 7), PIECE, MPI_FLOAT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    note(flag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(send, 10 + pair_rank, MPI_FLOAT, 0, TAG + pair_rank, MPI_COMM_WORLD, &request);
    for (int i = 0; i < pair_ranks && pair_rank == 0; i++) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        int from = status.MPI_SOURCE, count;
        MPI_Recv(piece(recv, from % 6), PIECE, MPI_FLOAT, from, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_FLOAT, &count);
        sum += (status.MPI_TAG - TAG + 1) * (count + 1000);
    }
    note(sum);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A receive that was cancelled may be started again. */
static int cancelled_and_started(const void *context, char *send, char *recv, long *values)
{
    MPI_Request request;
    MPI_Status status;
    int flag = 0;

    (void)context;
    noted = values;
    MPI_Recv_init(recv, PIECE, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Cancel(&request);
    while (!flag)
        MPI_Test(&request, &flag, &status);
    MPI_Test_cancelled(&status, &flag);
    note(flag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Start(&request);
    MPI_Send(send, PIECE - 1, MPI_FLOAT, right, TAG, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    note_status(&status, MPI_FLOAT);
    return MPI_Request_free(&request);
}

/* Nothing in it, but a persistent request all the same. */
static int persistent_without_elements(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[2];

    (void)context;
    noted = values;
    MPI_Send_init(send, 0, MPI_FLOAT, right, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(recv, 0, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        note(MPI_Waitall(2, requests, ignored_statuses));
        note(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&requests[0]);
    return MPI_Request_free(&requests[1]);
}

/* Null, inactive, on any memory and on the stack, in each order: the two that are under way are found, and no other. */
static int orders(const void *context, char *send, char *recv, long *values)
{
    MPI_Request inactive, under_way[2];
    static float own[2][PIECE];

    (void)context;
    noted = values;
    MPI_Recv_init(recv, PIECE, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &inactive);
    for (int order = 0; order < 24; order++) {
        int places[4] = {order / 6, order / 2 % 3, order % 2, 0}, used = 0, index, flag = 0, n, indices[4];
        MPI_Request all[4];
        for (int i = 0; i < 4; i++) { /* the places[i]-th of those that are left */
            int at = 0;
            for (int skip = places[i]; used >> at & 1 || skip > 0; at++)
                skip -= !(used >> at & 1);
            used |= 1 << at;
            places[i] = at;
        }
        MPI_Irecv(piece(recv, 1 + order % 6), PIECE, MPI_FLOAT, left, TAG + order, MPI_COMM_WORLD, &under_way[0]);
        MPI_Irecv(own[1], PIECE, MPI_FLOAT, left, 2 * TAG + order, MPI_COMM_WORLD, &under_way[1]);
        all[places[0]] = MPI_REQUEST_NULL;
        all[places[1]] = inactive;
        all[places[2]] = under_way[0];
        all[places[3]] = under_way[1];
        MPI_Send(piece(send, order % 4), PIECE, MPI_FLOAT, right, TAG + order, MPI_COMM_WORLD);
        MPI_Send(own[0], PIECE, MPI_FLOAT, right, 2 * TAG + order, MPI_COMM_WORLD);
        MPI_Waitany(4, all, &index, MPI_STATUS_IGNORE);
        int other = index;
        MPI_Waitany(4, all, &index, MPI_STATUS_IGNORE);
        note(other + index == places[2] + places[3]);
        note(all[places[1]] == inactive);
        note(all[places[2]] == MPI_REQUEST_NULL && all[places[3]] == MPI_REQUEST_NULL);
        MPI_Testany(4, all, &index, &flag, MPI_STATUS_IGNORE);
        note(flag && index == MPI_UNDEFINED);
        MPI_Waitsome(4, all, &n, indices, ignored_statuses);
        note(n == MPI_UNDEFINED);
    }
    return MPI_Request_free(&inactive);
}

static int no_query(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int no_free(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int no_cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

/* Requests of windows, collectives, files and the program in one array. */
static int of_all_sorts(const void *context, char *send, char *recv, long *values)
{
    char path[] = "/tmp/check_unusual.XXXXXX";
    MPI_Request requests[6];
    MPI_Win win;
    MPI_File file;
    float *window;

    (void)context;
    noted = values;
    close(mkstemp(path));
    MPI_Win_allocate(BYTES, sizeof(float), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
#ifdef MPICH_NAME /* whose 4.0.2 counts a request twice when it is asked for again by Testall */
    int all = 1;
#else
    int all = 0;
#endif
    for (; all < 2; all++) {
        int flag = 0;
        MPI_Win_lock_all(0, win);
        MPI_Rput(send, PIECE, MPI_FLOAT, right, 0, PIECE, MPI_FLOAT, win, &requests[0]);
        MPI_Iallreduce(piece(send, 1), piece(recv, 1), PIECE, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD, &requests[1]);
        MPI_Grequest_start(no_query, no_free, no_cancel, NULL, &requests[2]);
        MPI_File_iwrite_at(file, 0, piece(send, 2), PIECE, MPI_FLOAT, &requests[3]);
        requests[4] = MPI_REQUEST_NULL;
        MPI_Irecv(piece(recv, 4), PIECE, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &requests[5]);
        MPI_Send(piece(send, 4), PIECE, MPI_FLOAT, right, TAG, MPI_COMM_WORLD);
        MPI_Grequest_complete(requests[2]);
        if (all)
            note(MPI_Waitall(6, requests, ignored_statuses));
        while (!all && !flag)
            note(MPI_Testall(6, requests, &flag, ignored_statuses) != MPI_SUCCESS);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        values[1] = (long)window[PIECE - 1];
        MPI_Barrier(MPI_COMM_WORLD);
    }
    values[0] = 0; /* as often as it asked */
    int rc = MPI_File_read_at(file, 0, piece(recv, 2), PIECE, MPI_FLOAT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Win_free(&win);
    return rc;
}

/* ---- order and statuses ---- */

/* Long and short, from this buffer and from the stack, with gaps: one tag, and each is received where it is awaited. */
static int one_after_another(const void *context, char *send, char *recv, long *values)
{
    MPI_Datatype spread = make_strided(20, 1, 3);
    MPI_Request requests[5];
    MPI_Status status;
    float own[2] = {2, 0};
    int count;

    (void)context;
    noted = values;
    MPI_Isend(send, 6 * PIECE, MPI_FLOAT, right, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(own, 1, MPI_FLOAT, right, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(piece(send, 6), 1, MPI_FLOAT, right, TAG, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(piece(send, 6), 1, spread, right, TAG, MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(&own[0], 1, MPI_FLOAT, right, TAG, MPI_COMM_WORLD, &requests[4]);
    const struct {
        void *to;
        int count;
    } rooms[] = {{recv, 6 * PIECE}, {piece(recv, 6), 1}, {&own[1], 1}, {piece(recv, 7), 20}, {piece(recv, 6) + 40, 2}};
    for (int i = 0; i < 5; i++) {
        MPI_Probe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_FLOAT, &count);
        note(count);
        note(MPI_Recv(rooms[i].to, rooms[i].count, MPI_FLOAT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        note_status(&status, MPI_FLOAT);
    }
    values[1] = (long)own[1];
    MPI_Type_free(&spread);
    return MPI_Waitall(5, requests, ignored_statuses);
}

static MPI_Status poisoned(void)
{
    MPI_Status status;

    memset(&status, 0xff, sizeof status);
    status.MPI_ERROR = 12345;
    return status;
}

/* What has one status leaves its error alone. */
static void note_poisoned(const MPI_Status *status)
{
    note_status(status, MPI_FLOAT);
    note(status->MPI_ERROR);
}

/* Nothing from somebody, from nobody, by nothing; and what has come, in each way. */
static int poisoned_statuses(const void *context, char *send, char *recv, long *values)
{
    MPI_Status status = poisoned(), both[2] = {poisoned(), poisoned()};
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int flag = 0;

    (void)context;
    noted = values;
    MPI_Sendrecv(send, 0, MPI_FLOAT, right, TAG, recv, 0, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &status);
    note_poisoned(&status);
    status = poisoned();
    MPI_Recv(recv, 5, MPI_FLOAT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &status);
    note_poisoned(&status);
    status = poisoned();
    MPI_Wait(&requests[0], &status);
    note_status(&status, MPI_FLOAT);
    status = poisoned();
    MPI_Irecv(piece(recv, 1), 9, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Send(piece(send, 1), 7, MPI_FLOAT, right, TAG, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], &status);
    note_poisoned(&status);
    status = poisoned();
    MPI_Isend(piece(send, 2), 7, MPI_FLOAT, right, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv(piece(recv, 2), 9, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &status);
    note_poisoned(&status);
    status = poisoned();
    while (!flag)
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    MPI_Irecv(piece(recv, 3), 9, MPI_FLOAT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(piece(recv, 4), 9, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(piece(send, 4), 8, MPI_FLOAT, right, TAG, MPI_COMM_WORLD);
    note(MPI_Waitall(2, requests, both));
    note_poisoned(&both[0]);
    note_poisoned(&both[1]);
    return MPI_SUCCESS;
}

/* A send is cancelled or delivered, whatever the host says, and never both. */
static int cancelled_sends(const void *context, char *send, char *recv, long *values)
{
    MPI_Request request;
    MPI_Status status;
    int mine = 0, others = 0;

    (void)context;
    noted = values;
    for (int i = 0; i < 4; i++) {
        MPI_Isend(piece(send, i), i % 2 ? PIECE : 1, MPI_FLOAT, right, TAG + i, MPI_COMM_WORLD, &request);
        if (i >= 2)
            MPI_Cancel(&request);
        if (i < 2)
            MPI_Recv(piece(recv, i), PIECE, MPI_FLOAT, left, TAG + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &mine);
        MPI_Sendrecv(&mine, 1, MPI_INT, right, 2 * TAG, &others, 1, MPI_INT, left, 2 * TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        note(mine);
        if (i >= 2 && !others)
            MPI_Recv(piece(recv, i), PIECE, MPI_FLOAT, left, TAG + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return MPI_SUCCESS;
}

/* Arrays that do not count are none, in place and under way. */
static int in_place_without_arrays(const void *context, char *send, char *recv, long *values)
{
    int counts[64], places[64];
    MPI_Datatype types[64];
    MPI_Request request;

    (void)context;
    (void)send;
    noted = values;
    for (int i = 0; i < pair_ranks; i++) {
        counts[i] = i == pair_rank ? 4 : 7 + i + pair_rank;
        places[i] = 4 * 40 * i;
        types[i] = MPI_FLOAT;
    }
    MPI_Ialltoallw(MPI_IN_PLACE, NULL, NULL, NULL, recv, counts, places, types, MPI_COMM_WORLD, &request);
    note(MPI_Wait(&request, MPI_STATUS_IGNORE));
    note(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, piece(recv, 4), counts, places, types, MPI_COMM_WORLD));
    return MPI_SUCCESS;
}

/* Where nothing is to be read or written: nowhere, in memory that is gone, or right behind what there is. */
static char *no_place(int way, char *buffer)
{
    struct gpu_block block;

    if (way == 0)
        return NULL;
    if (way == 1)
        return buffer + 2 * PIECES * BYTES;
    gpu_alloc(&block, gpu_started() ? 'D' : 'H', BYTES);
    char *gone = block.base;
    gpu_free(&block);
    return gone;
}

/* The last rank has nothing, which it cannot see of the others. */
static int nothing_on_one(const void *context, char *send, char *recv, long *values)
{
    int counts[64], displs[64], places = 0;
    bool last = pair_rank == pair_ranks - 1;

    (void)context;
    noted = values;
    for (int i = 0; i < pair_ranks; i++, places += PIECE / 8) {
        counts[i] = i == pair_ranks - 1 ? 0 : PIECE / 8;
        displs[i] = places;
    }
    for (int way = 0; way < 3; way++) {
        char *mine = last ? no_place(way, send) : send, *its = last ? no_place(way, recv) : piece(recv, 2 * way);
        note(MPI_Allgatherv(mine, counts[pair_rank], MPI_FLOAT, piece(recv, 2 * way), counts, displs, MPI_FLOAT, MPI_COMM_WORLD));
        note(MPI_Gatherv(mine, counts[pair_rank], MPI_FLOAT, its, counts, displs, MPI_FLOAT, 0, MPI_COMM_WORLD));
        note(MPI_Reduce_scatter(send, its, counts, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD));
        mine = no_place(way, send);
        its = no_place(way, recv);
        note(MPI_Sendrecv(mine, 0, MPI_FLOAT, right, TAG, its, 0, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        note(MPI_Allreduce(mine, its, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
        note(MPI_Bcast(its, 0, MPI_FLOAT, 0, MPI_COMM_WORLD));
        note(MPI_Alltoall(mine, 0, MPI_FLOAT, its, 0, MPI_FLOAT, MPI_COMM_WORLD));
    }
    return MPI_SUCCESS;
}

static const struct ring_case cases[] = {
    {"nothing-on-one", nothing_on_one, NULL},
    {"bcast-to-gaps", bcast_to_gaps, NULL},
    {"one-with-gaps", one_with_gaps, NULL},
    {"odd-elements", odd_elements, NULL},
    {"empty-elements", empty_elements, NULL},
    {"in-place-with-holes", in_place_with_holes, NULL},
    {"from-anybody", from_anybody, NULL},
    {"cancelled-and-started", cancelled_and_started, NULL},
    {"persistent-without-elements", persistent_without_elements, NULL},
    {"orders", orders, NULL},
    {"of-all-sorts", of_all_sorts, NULL},
    {"one-after-another", one_after_another, NULL},
    {"poisoned-statuses", poisoned_statuses, NULL},
    {"cancelled-sends", cancelled_sends, NULL},
    {"in-place-without-arrays", in_place_without_arrays, NULL},
};

int main(int argc, char **argv)
{
    const char *only;

    ring_start(&argc, &argv, &only);
    return ring_run("check_unusual", cases, sizeof cases / sizeof cases[0], only);
}
