/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other ways to begin operations, and their ends: check_starts [large] SEND:RECV ... [CASE], as check_requests.
 */
#include "test/ring.h"

/* ---- ways to send ---- */

enum mode { SYNCHRONOUS, READY, BUFFERED };

static void send_by(enum mode mode, bool init, char *buffer, int i, MPI_Request *request)
{
    static int (*const functions[2][3])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
        {MPI_Issend, MPI_Irsend, MPI_Ibsend}, {MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init}};

    functions[init][mode](piece(buffer, i), PIECE, MPI_FLOAT, right, TAG + i, MPI_COMM_WORLD, request);
}

static int other_sends(const void *context, char *send, char *recv, long *values)
{
    static char space[8 * (BYTES + MPI_BSEND_OVERHEAD)];
    MPI_Request sends[6], receives[6];
    void *old;
    int size;

    (void)context;
    noted = values;
    MPI_Buffer_attach(space, sizeof space);
    for (int i = 0; i < 6; i++)
        MPI_Irecv(piece(recv, i), PIECE, MPI_FLOAT, left, TAG + i, MPI_COMM_WORLD, &receives[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) {
        send_by((enum mode)i, false, send, i, &sends[i]);
        send_by((enum mode)i, true, send, 3 + i, &sends[3 + i]);
    }
    MPI_Startall(3, sends + 3);
    MPI_Waitall(6, sends, ignored_statuses);
    int rc = MPI_Waitall(6, receives, ignored_statuses);
    for (int i = 3; i < 6; i++)
        MPI_Request_free(&sends[i]);
    MPI_Buffer_detach(&old, &size);
    return rc;
}

/* Other data each time. */
static int persistent(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[4];

    (void)context;
    noted = values;
    CALL(Send_init, send, PIECE, MPI_FLOAT, right, 1, MPI_COMM_WORLD, &requests[0]);
    CALL(Send_init, piece(send, 1), 7, pair_holes, right, 2, MPI_COMM_WORLD, &requests[1]);
    CALL(Recv_init, recv, PIECE + 3, MPI_FLOAT, left, 1, MPI_COMM_WORLD, &requests[2]);
    CALL(Recv_init, piece(recv, 2), 9, pair_holes, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[3]);
    for (int round = 0; round < 4; round++) {
        float number = (float)(100 * round + pair_rank);
        MPI_Status statuses[4];
        gpu_copy(piece(send, 0) + 4, &number, sizeof number);
        gpu_copy(piece(send, 1) + 4, &number, sizeof number);
        gpu_synchronize();
        if (round % 2)
            MPI_Startall(4, requests);
        else
            for (int i = 3; i >= 0; i--)
                MPI_Start(&requests[i]);
        if (round < 2)
            note(MPI_Waitall(4, requests, statuses));
        for (int i = 0; i < 4 && round >= 2; i++)
            MPI_Wait(&requests[i], &statuses[i]);
        note_status(&statuses[2], MPI_FLOAT);
        note_status(&statuses[3], pair_holes);
        gpu_copy(&number, recv + 4, sizeof number);
        note((long)number);
        /* Inactive ones are complete, and say nothing. */
        int flag = 0;
        note(MPI_Testall(4, requests, &flag, ignored_statuses));
        note(flag);
        number = -1;
        gpu_copy(recv, &number, sizeof number);
    }
    for (int i = 0; i < 4; i++)
        note(MPI_Request_free(&requests[i]));
    return MPI_SUCCESS;
}

/*
 * What fits, then what is too long: some hosts write then what there is room for, others nothing. The program writes to the
 * buffer between, so that what the first start left elsewhere would show. Open MPI frees a request that ends in an error.
 */
static int cut(const void *context, char *send, char *recv, long *values)
{
    static const float fresh[PIECE];
    MPI_Request request;

    (void)context;
    noted = values;
    MPI_Recv_init(recv, PIECE, MPI_FLOAT, left, TAG, MPI_COMM_WORLD, &request);
    for (int pieces = 1; pieces <= 2; pieces++) {
        int class;
        gpu_copy(recv, fresh, sizeof fresh);
        MPI_Start(&request);
        MPI_Send(send, pieces * PIECE, MPI_FLOAT, right, TAG, MPI_COMM_WORLD);
        MPI_Error_class(MPI_Wait(&request, MPI_STATUS_IGNORE), &class);
        note(class);
    }
    note(request == MPI_REQUEST_NULL);
    return request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Request_free(&request);
}

/* Freed while they are under way. That the data has come is known from the messages behind it. */
static int freed(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[3], repeated;
    int token = 0, answer;

    (void)context;
    noted = values;
    MPI_Irecv(recv, PIECE, MPI_FLOAT, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(piece(recv, 1), PIECE, MPI_FLOAT, left, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(piece(recv, 2), PIECE, MPI_FLOAT, left, 3, MPI_COMM_WORLD, &requests[2]);
    MPI_Issend(send, PIECE, MPI_FLOAT, right, 1, MPI_COMM_WORLD, &repeated);
    note(MPI_Request_free(&repeated));
    note(repeated == MPI_REQUEST_NULL);
    MPI_Send_init(piece(send, 1), PIECE, MPI_FLOAT, right, 2, MPI_COMM_WORLD, &repeated);
    MPI_Start(&repeated);
    note(MPI_Request_free(&repeated));
    note(repeated == MPI_REQUEST_NULL);
    MPI_Ssend_init(piece(send, 2), PIECE, MPI_FLOAT, right, 3, MPI_COMM_WORLD, &repeated);
    MPI_Start(&repeated);
    note(MPI_Request_free(&repeated));
    int rc = MPI_Waitall(3, requests, ignored_statuses);
    MPI_Sendrecv(&token, 1, MPI_INT, left, 9, &answer, 1, MPI_INT, right, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return rc;
}

static int matched(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[3];
    MPI_Message message;
    MPI_Status status;

    (void)context;
    noted = values;
    MPI_Isend(send, PIECE, MPI_FLOAT, right, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(piece(send, 1), 5, pair_holes, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Mprobe(left, 2, MPI_COMM_WORLD, &message, &status);
    CALL(Imrecv, piece(recv, 1), 8, pair_holes, &message, &requests[2]);
    MPI_Wait(&requests[2], &status);
    note_status(&status, pair_holes);
    MPI_Mprobe(left, 1, MPI_COMM_WORLD, &message, &status);
    CALL(Imrecv, recv, PIECE, MPI_FLOAT, &message, &requests[2]);
    return MPI_Waitall(3, requests, ignored_statuses);
}

/* A collective under way while its arrays and its communicator are the only ones; and another behind it. */
static int collectives(const void *context, char *send, char *recv, long *values)
{
    int counts[2][64], displs[64];
    MPI_Datatype types[64];
    MPI_Request requests[3];
    MPI_Comm comm;

    (void)context;
    noted = values;
    for (int i = 0; i < pair_ranks; i++) {
        counts[0][i] = counts[1][i] = 20;
        displs[i] = 80 * i;
        types[i] = MPI_FLOAT;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Ialltoallw(send, counts[0], displs, types, recv, counts[1], displs, types, comm, &requests[0]);
    MPI_Iallreduce(piece(send, 2), piece(recv, 2), PIECE, MPI_FLOAT, MPI_MAX, comm, &requests[1]);
    MPI_Ibcast(piece(recv, 4), 8, pair_holes, 0, comm, &requests[2]);
    int rc = MPI_Waitall(3, requests, ignored_statuses);
    MPI_Comm_free(&comm);
    return rc;
}

/* More than there is pinned memory for, under way at once. */
static int many(const void *context, char *send, char *recv, long *values)
{
    enum { MANY = 2000 };
    static MPI_Request requests[2 * MANY];

    (void)context;
    noted = values;
    for (int i = 0; i < MANY; i++)
        MPI_Irecv(recv + 4 * (i % 400), 1, MPI_FLOAT, left, i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < MANY; i++)
        MPI_Isend(send + 4 * (i % 400), 1, MPI_FLOAT, right, i, MPI_COMM_WORLD, &requests[MANY + i]);
    return MPI_Waitall(2 * MANY, requests, ignored_statuses);
}

#if MPI_VERSION >= 4

static int sendrecv(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];

    (void)context;
    noted = values;
    CALL(Isendrecv, send, PIECE, MPI_FLOAT, right, 1, recv, 2 * PIECE, MPI_FLOAT, left, 1, MPI_COMM_WORLD, &requests[0]);
    /* MPICH 4.0 does not survive a derived type in the second, nor MPI_PROC_NULL in the first. */
    CALL(Isendrecv_replace, piece(recv, 3), PIECE, MPI_FLOAT, right, 2, left, 2, MPI_COMM_WORLD, &requests[1]);
    CALL(Isendrecv, piece(send, 3), PIECE, MPI_FLOAT, pair_rank, 3, piece(recv, 5), PIECE, MPI_FLOAT, pair_rank, 3,
         MPI_COMM_WORLD, &requests[2]);
    int rc = MPI_Waitall(3, requests, statuses);
#ifndef MPICH_NAME /* whose 4.0 leaves these statuses as they are */
    note_status(&statuses[0], MPI_FLOAT);
    note_status(&statuses[1], MPI_FLOAT);
#endif
    return rc;
}

/* Partitions become ready in an odd order, and each is used, and changed, when it has arrived. */
static int partitioned(const void *context, char *send, char *recv, long *values)
{
    enum { PARTS = 6 };
    MPI_Request requests[2];

    (void)context;
    noted = values;
    MPI_Psend_init(send, PARTS, PIECE, MPI_FLOAT, right, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(recv, PARTS, PIECE, MPI_FLOAT, left, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 2; round++) {
        MPI_Startall(2, requests);
        for (int i = 0; i < PARTS; i++) {
            float number = (float)(10 * round + i);
            gpu_copy(piece(send, i) + 8, &number, sizeof number);
        }
        gpu_synchronize();
        MPI_Pready(3, requests[0]);
        MPI_Pready_range(4, 5, requests[0]);
        MPI_Pready_list(3, (int[]){2, 0, 1}, requests[0]);
        for (int i = PARTS - 1; i >= 0; i--) {
            float number = 0;
            for (int flag = 0; !flag;)
                MPI_Parrived(requests[1], i, &flag);
            gpu_copy(&number, piece(recv, i) + 8, sizeof number);
            note((long)number);
            number = 99;
            if (i % 2)
                gpu_copy(piece(recv, i), &number, sizeof number);
        }
        gpu_synchronize();
        note(MPI_Waitall(2, requests, ignored_statuses));
    }
    MPI_Request_free(&requests[0]);
    return MPI_Request_free(&requests[1]);
}

#endif

static const struct ring_case cases[] = {
    {"sends", other_sends, NULL},
    {"persistent", persistent, NULL},
    {"cut", cut, NULL},
    {"freed", freed, NULL},
    {"matched", matched, NULL},
    {"collectives", collectives, NULL},
    {"many", many, NULL},
#if MPI_VERSION >= 4
    {"sendrecv", sendrecv, NULL},
    {"partitioned", partitioned, NULL},
#endif
};

int main(int argc, char **argv)
{
    const char *only;

    ring_start(&argc, &argv, &only);
    return ring_run("check_starts", cases, sizeof cases / sizeof cases[0], only);
}
