/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways to complete operations in point to point, and what their statuses say: check_requests [large] SEND:RECV ... [CASE].
 * Each case starts operations on parts of two buffers; pair.h runs it on host memory and on the given kinds.
 */
#include "test/ring.h"

/* ---- ways to complete ---- */

static int wait_each(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[2 * PIECES];

    (void)context;
    noted = values;
    exchange(send, recv, PIECES, requests);
    for (int i = 2 * PIECES - 1; i >= 0; i--) {
        MPI_Status status = {.MPI_ERROR = 77};
        int rc = MPI_Wait(&requests[i], i % 4 ? &status : MPI_STATUS_IGNORE);
        note(rc);
        note(requests[i] == MPI_REQUEST_NULL);
        if (i % 4 && i % 2 == 0)
            note_status(&status, MPI_FLOAT);
        note(status.MPI_ERROR);
    }
    return MPI_SUCCESS;
}

static int wait_all(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[2 * PIECES];
    MPI_Status statuses[2 * PIECES];
    const bool *ignored = context;

    noted = values;
    exchange(send, recv, PIECES, requests);
    int rc = MPI_Waitall(2 * PIECES, requests, *ignored ? ignored_statuses : statuses);
    for (int i = 0; i < 2 * PIECES; i++) {
        note(requests[i] == MPI_REQUEST_NULL);
        if (!*ignored && i % 2 == 0)
            note_status(&statuses[i], MPI_FLOAT);
    }
    return rc;
}

/* Requests of both kinds of memory, null ones and inactive ones in one array. */
static int mixed(const void *context, char *send, char *recv, long *values)
{
    static float own[2][PIECE];
    MPI_Request requests[8];
    MPI_Status statuses[8];

    (void)context;
    noted = values;
    for (int i = 0; i < PIECE; i++)
        own[0][i] = (float)(i + pair_rank);
    requests[0] = requests[3] = MPI_REQUEST_NULL;
    MPI_Irecv(own[1], PIECE, MPI_FLOAT, left, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(recv, PIECE, MPI_FLOAT, left, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Recv_init(piece(recv, 1), PIECE, MPI_FLOAT, left, 3, MPI_COMM_WORLD, &requests[4]);
    MPI_Isend(own[0], PIECE, MPI_FLOAT, right, 2, MPI_COMM_WORLD, &requests[5]);
    MPI_Isend(send, PIECE, MPI_FLOAT, right, 1, MPI_COMM_WORLD, &requests[6]);
    MPI_Irecv(piece(recv, 2), PIECE, MPI_FLOAT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[7]);
    int rc = MPI_Waitall(8, requests, statuses);
    for (int i = 0; i < 8; i++) {
        note(requests[i] == MPI_REQUEST_NULL);
        if (i < 5 || i == 7)
            note_status(&statuses[i], MPI_FLOAT);
    }
    MPI_Request_free(&requests[4]);
    memcpy(&values[1], own[1], sizeof values[1]);
    return rc;
}

static int wait_any(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[2 * PIECES];
    long sum = 0;
    const bool *test = context;

    noted = values;
    exchange(send, recv, PIECES, requests);
    for (int n = 0; n < 2 * PIECES; n++) {
        int index = -1, flag = 0, count;
        MPI_Status status;
        if (*test)
            while (!flag)
                MPI_Testany(2 * PIECES, requests, &index, &flag, &status);
        else
            MPI_Waitany(2 * PIECES, requests, &index, &status);
        MPI_Get_count(&status, MPI_FLOAT, &count);
        if (index % 2 == 0)
            sum += (index + 1) * (count + 10000l * status.MPI_TAG);
    }
    int index, flag = 1;
    MPI_Waitany(2 * PIECES, requests, &index, MPI_STATUS_IGNORE);
    note(index == MPI_UNDEFINED);
    MPI_Testany(2 * PIECES, requests, &index, &flag, MPI_STATUS_IGNORE);
    note(flag);
    note(sum);
    return MPI_SUCCESS;
}

static int wait_some(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[2 * PIECES];
    MPI_Status statuses[2 * PIECES];
    const bool *test = context;
    long sum = 0;
    int done = 0, n = 0, indices[2 * PIECES];

    noted = values;
    exchange(send, recv, PIECES, requests);
    while (done < 2 * PIECES) {
        MPI_Status *ignored = done % 3 == 1 ? ignored_statuses : statuses;
        if (*test)
            MPI_Testsome(2 * PIECES, requests, &n, indices, ignored);
        else
            MPI_Waitsome(2 * PIECES, requests, &n, indices, ignored);
        for (int i = 0; i < n; i++)
            sum += indices[i];
        done += n;
    }
    MPI_Waitsome(2 * PIECES, requests, &n, indices, statuses);
    note(n == MPI_UNDEFINED);
    note(sum);
    return MPI_SUCCESS;
}

static int test_each(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[2 * PIECES];

    (void)context;
    noted = values;
    exchange(send, recv, PIECES, requests);
    for (int i = 0; i < 2 * PIECES; i++) {
        MPI_Status status = {.MPI_ERROR = 77};
        for (int flag = 0; !flag;)
            MPI_Test(&requests[i], &flag, i % 4 ? &status : MPI_STATUS_IGNORE);
        if (i % 4 && i % 2 == 0)
            note_status(&status, MPI_FLOAT);
        note(status.MPI_ERROR);
    }
    return MPI_SUCCESS;
}

static int test_all(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[2 * PIECES];
    MPI_Status statuses[2 * PIECES];
    const bool *ignored = context;

    noted = values;
    exchange(send, recv, PIECES, requests);
    for (int flag = 0; !flag;)
        MPI_Testall(2 * PIECES, requests, &flag, *ignored ? ignored_statuses : statuses);
    for (int i = 0; i < 2 * PIECES; i += 2)
        if (!*ignored)
            note_status(&statuses[i], MPI_FLOAT);
    return MPI_SUCCESS;
}

/* What has come is there when this says so; after that it is the program's, and no later call may write it again. */
static int get_status(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[2 * PIECES];
    float mine = 5;

    (void)context;
    noted = values;
    exchange(send, recv, PIECES, requests);
    for (int i = 0; i < 2 * PIECES; i++) {
        MPI_Status status;
        for (int flag = 0; !flag;)
            MPI_Request_get_status(requests[i], &flag, i % 4 ? &status : MPI_STATUS_IGNORE);
        if (i % 4 && i % 2 == 0)
            note_status(&status, MPI_FLOAT);
        note(requests[i] == MPI_REQUEST_NULL);
    }
    for (int i = 0; i < PIECES; i++) {
        float first;
        gpu_copy(&first, piece(recv, i), sizeof first);
        note((long)first);
        gpu_copy(piece(recv, i) + sizeof first, &mine, sizeof mine);
    }
    gpu_synchronize();
    int rc = MPI_Waitall(2 * PIECES, requests, ignored_statuses);
    return rc;
}

/* ---- messages of all kinds ---- */

/* To the same rank, in both orders. */
static int to_self(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[4];
    MPI_Status statuses[4];

    (void)context;
    noted = values;
    MPI_Isend(send, PIECE, MPI_FLOAT, pair_rank, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(recv, PIECE, MPI_FLOAT, pair_rank, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(piece(recv, 1), PIECE, MPI_FLOAT, 0, 2, MPI_COMM_SELF, &requests[2]);
    MPI_Issend(piece(send, 1), PIECE, MPI_FLOAT, 0, 2, MPI_COMM_SELF, &requests[3]);
    int rc = MPI_Waitall(4, requests, statuses);
    note_status(&statuses[1], MPI_FLOAT);
    note_status(&statuses[2], MPI_FLOAT);
    return rc;
}

/* Nothing is sent, or to nobody. */
static int nothing(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[6];
    MPI_Status statuses[6];

    (void)context;
    noted = values;
    MPI_Irecv(recv, PIECE, MPI_FLOAT, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(send, 0, MPI_FLOAT, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(NULL, 0, MPI_FLOAT, left, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(NULL, 0, MPI_FLOAT, right, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Irecv(recv, PIECE, MPI_FLOAT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[4]);
    MPI_Isend(send, PIECE, MPI_FLOAT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[5]);
    int rc = MPI_Waitall(6, requests, statuses);
    for (int i = 0; i < 6; i += 2)
        note_status(&statuses[i], MPI_FLOAT);
    return rc;
}

/* Elements with gaps; fewer than were awaited, and a part of one; types that are freed under way. */
static int gaps(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[6];
    MPI_Status statuses[6];
    MPI_Datatype type;
    MPI_Comm comm;

    (void)context;
    noted = values;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_dup(pair_holes, &type);
    MPI_Irecv(recv, 20, type, left, 1, comm, &requests[0]);
    MPI_Irecv(piece(recv, 2), 20, type, left, 2, comm, &requests[1]);
    MPI_Irecv(piece(recv, 4), 20, type, left, 3, comm, &requests[2]);
    MPI_Barrier(comm);
    MPI_Isend(send, 20, type, right, 1, comm, &requests[3]);
    MPI_Isend(piece(send, 2), 9, type, right, 2, comm, &requests[4]);
    MPI_Isend(piece(send, 4), 15, MPI_FLOAT, right, 3, comm, &requests[5]);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
    int rc = MPI_Waitall(6, requests, statuses);
    for (int i = 0; i < 3; i++)
        note_status(&statuses[i], pair_holes);
    return rc;
}

/* A message that is too long: the error of the host, and nothing behind the buffer. */
static int too_long(const void *context, char *send, char *recv, long *values)
{
    static float own[PIECE];
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int class;

    (void)context;
    noted = values;
    MPI_Irecv(recv, PIECE, MPI_FLOAT, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(piece(recv, 2), PIECE / 2, MPI_FLOAT, left, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(send, PIECE, MPI_FLOAT, right, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(piece(send, 2), PIECE, MPI_FLOAT, right, 2, MPI_COMM_WORLD, &requests[3]);
    int rc = MPI_Waitall(4, requests, statuses);
    memset(own, 0, sizeof own);
    MPI_Error_class(rc, &class);
    note(class);
    for (int i = 0; i < 4; i++) {
        MPI_Error_class(statuses[i].MPI_ERROR, &class);
        if (class == MPI_ERR_PENDING)
            class = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        note(class);
        note(requests[i] == MPI_REQUEST_NULL);
    }
#ifdef MPICH_NAME /* writes what has room, or not, as it happens */
    gpu_copy(piece(recv, 2), own, sizeof own / 2);
    gpu_synchronize();
#endif
    return MPI_SUCCESS;
}

static int cancelled(const void *context, char *send, char *recv, long *values)
{
    MPI_Request request, repeated;
    MPI_Status status;

    (void)context;
    (void)send;
    noted = values;
    MPI_Irecv(recv, PIECE, MPI_FLOAT, left, 999, MPI_COMM_WORLD, &request);
    MPI_Recv_init(piece(recv, 1), PIECE, MPI_FLOAT, left, 998, MPI_COMM_WORLD, &repeated);
    MPI_Start(&repeated);
    MPI_Cancel(&request);
    MPI_Cancel(&repeated);
    MPI_Wait(&request, &status);
    int flag;
    MPI_Test_cancelled(&status, &flag);
    note(flag);
    MPI_Wait(&repeated, &status);
    MPI_Test_cancelled(&status, &flag);
    note(flag);
    return MPI_Request_free(&repeated);
}

/* Wrong calls have the errors of the host, and leave nothing behind. */
static int wrong(const void *context, char *send, char *recv, long *values)
{
    MPI_Request request;
    int class;

    (void)context;
    noted = values;
    MPI_Error_class(MPI_Isend(send, PIECE, MPI_FLOAT, pair_ranks, 1, MPI_COMM_WORLD, &request), &class);
    note(class);
    MPI_Error_class(MPI_Isend(send, -1, MPI_FLOAT, right, 1, MPI_COMM_WORLD, &request), &class);
    note(class);
    MPI_Error_class(MPI_Irecv(recv, PIECE, MPI_DATATYPE_NULL, left, 1, MPI_COMM_WORLD, &request), &class);
    note(class);
    MPI_Error_class(MPI_Send_init(send, PIECE, MPI_FLOAT, right, -5, MPI_COMM_WORLD, &request), &class);
    note(class);
    MPI_Error_class(MPI_Recv_init(recv, PIECE, MPI_FLOAT, pair_ranks, 1, MPI_COMM_WORLD, &request), &class);
    note(class);
    return MPI_SUCCESS;
}

static const bool no = false, yes = true;

static const struct ring_case cases[] = {
    {"wait", wait_each, NULL},
    {"waitall", wait_all, &no},
    {"waitall-ignored", wait_all, &yes},
    {"waitany", wait_any, &no},
    {"waitsome", wait_some, &no},
    {"test", test_each, NULL},
    {"testall", test_all, &no},
    {"testall-ignored", test_all, &yes},
    {"testany", wait_any, &yes},
    {"testsome", wait_some, &yes},
    {"get_status", get_status, NULL},
    {"mixed", mixed, NULL},
    {"self", to_self, NULL},
    {"nothing", nothing, NULL},
    {"gaps", gaps, NULL},
    {"too-long", too_long, NULL},
    {"cancelled", cancelled, NULL},
    {"wrong", wrong, NULL},
};

int main(int argc, char **argv)
{
    const char *only;

    ring_start(&argc, &argv, &only);
    return ring_run("check_requests", cases, sizeof cases / sizeof cases[0], only);
}
