/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations whose buffers at the origin are of any memory, on windows of host memory, or of what kind `window=`
 * says: check_accesses [window=KIND] [large] SEND:RECV ... [CASE], as check_requests. Each rank works on the window of its
 * right neighbour.
 */
#include "test/ring.h"

static MPI_Win win;
static float *own; /* this rank's window */

/* What is in the windows at first, and when all are done with them. */
static void open_windows(long *values)
{
    noted = values;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, pair_rank, 0, win);
    for (int i = 0; i < PIECES * PIECE; i++)
        own[i] = (float)((i * 7 + 13 * pair_rank) % 101);
    MPI_Win_unlock(pair_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int note_windows(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, pair_rank, 0, win);
    for (int i = 0; i < PIECES * PIECE; i++)
        note((long)own[i]);
    MPI_Win_unlock(pair_rank, win);
    return MPI_SUCCESS;
}

static MPI_Aint place(int i)
{
    return i * PIECE;
}

/* The first number of a piece of any memory; and another one there, which no later call may overwrite. */
static void use_piece(char *buffer, int i)
{
    float number = 0, mine = 3;

    gpu_copy(&number, piece(buffer, i), sizeof number);
    note((long)number);
    gpu_copy(piece(buffer, i), &mine, sizeof mine);
    gpu_synchronize();
}

/* All kinds of operations on pieces 0 to 6. */
static void access_all(char *send, char *recv)
{
    CALL(Put, send, PIECE, MPI_FLOAT, right, place(0), PIECE, MPI_FLOAT, win);
    CALL(Get, recv, PIECE, MPI_FLOAT, right, place(1), PIECE, MPI_FLOAT, win);
    CALL(Put, piece(send, 1), 10, pair_holes, right, place(2), 20, MPI_FLOAT, win);
    CALL(Get, piece(recv, 1), 10, pair_holes, right, place(3), 20, MPI_FLOAT, win);
    CALL(Accumulate, piece(send, 3), PIECE, MPI_FLOAT, right, place(4), PIECE, MPI_FLOAT, MPI_SUM, win);
    CALL(Get_accumulate, piece(send, 4), PIECE, MPI_FLOAT, piece(recv, 4), PIECE, MPI_FLOAT, right, place(5), PIECE,
         MPI_FLOAT, MPI_MAX, win);
    CALL(Get_accumulate, NULL, 0, MPI_FLOAT, piece(recv, 5), PIECE, MPI_FLOAT, right, place(6), PIECE, MPI_FLOAT, MPI_NO_OP,
         win);
    CALL(Put, piece(send, 5), PIECE, MPI_FLOAT, MPI_PROC_NULL, place(6), PIECE, MPI_FLOAT, win);
    CALL(Get, piece(recv, 6), PIECE, MPI_FLOAT, MPI_PROC_NULL, place(6), PIECE, MPI_FLOAT, win);
}

static int fences(const void *context, char *send, char *recv, long *values)
{
    (void)context;
    open_windows(values);
    MPI_Win_fence(0, win);
    access_all(send, recv);
    MPI_Win_fence(0, win);
    use_piece(recv, 0);
    use_piece(recv, 4);
    MPI_Win_fence(0, win);
    return note_windows();
}

static int groups(const void *context, char *send, char *recv, long *values)
{
    MPI_Group all, to, from;

    (void)context;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &right, &to);
    MPI_Group_incl(all, 1, &left, &from);
    open_windows(values);
    MPI_Win_post(from, 0, win);
    MPI_Win_start(to, 0, win);
    access_all(send, recv);
    MPI_Win_complete(win);
    use_piece(recv, 0);
    MPI_Win_wait(win);
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    return note_windows();
}

static int locks(const void *context, char *send, char *recv, long *values)
{
    (void)context;
    open_windows(values);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    access_all(send, recv);
    MPI_Win_unlock(right, win);
    use_piece(recv, 0);
    use_piece(recv, 5);
    return note_windows();
}

enum flush { FLUSH, FLUSH_ALL, FLUSH_LOCAL, FLUSH_LOCAL_ALL };

static int flush_by(enum flush flush)
{
    switch (flush) {
    case FLUSH: return MPI_Win_flush(right, win);
    case FLUSH_ALL: return MPI_Win_flush_all(win);
    case FLUSH_LOCAL: return MPI_Win_flush_local(right, win);
    default: return MPI_Win_flush_local_all(win);
    }
}

/* What is fetched is there after a flush, and may be changed before the lock ends. */
static int flushes(const void *context, char *send, char *recv, long *values)
{
    (void)context;
    open_windows(values);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 4; i++) {
        /* In the other order MPICH 4.0 by itself has not fetched anything after a local flush. */
        CALL(Put, piece(send, i), PIECE, MPI_FLOAT, right, place(4 + i), PIECE, MPI_FLOAT, win);
        CALL(Get, piece(recv, i), PIECE, MPI_FLOAT, right, place(i), PIECE, MPI_FLOAT, win);
        flush_by((enum flush)i);
        use_piece(recv, i);
        use_piece(send, i);
    }
    MPI_Win_unlock_all(win);
    return note_windows();
}

static int single(const void *context, char *send, char *recv, long *values)
{
    float number;

    (void)context;
    open_windows(values);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    MPI_Fetch_and_op(send, recv, MPI_FLOAT, right, 3, MPI_SUM, win);
    MPI_Fetch_and_op(NULL, recv + 4, MPI_FLOAT, right, 4, MPI_NO_OP, win);
    MPI_Fetch_and_op(send + 8, recv + 8, MPI_FLOAT, right, 5, MPI_REPLACE, win);
    MPI_Win_flush(right, win);
    /* As an integer: compare with what is there, which the program knows, and with something else. */
    number = (float)((9 * 7 + 13 * right) % 101);
    gpu_copy(send + 12, &number, sizeof number);
    gpu_synchronize();
    MPI_Compare_and_swap(send + 16, send + 12, recv + 12, MPI_INT, right, 9, win);
    MPI_Compare_and_swap(send + 20, send + 12, recv + 16, MPI_INT, right, 10, win);
    MPI_Win_unlock(right, win);
    return note_windows();
}

static int requests(const void *context, char *send, char *recv, long *values)
{
    MPI_Request requests[4];

    (void)context;
    open_windows(values);
    MPI_Win_lock_all(0, win);
    CALL(Rput, send, PIECE, MPI_FLOAT, right, place(0), PIECE, MPI_FLOAT, win, &requests[0]);
    CALL(Rget, recv, PIECE, MPI_FLOAT, right, place(1), PIECE, MPI_FLOAT, win, &requests[1]);
    CALL(Raccumulate, piece(send, 1), PIECE, MPI_FLOAT, right, place(2), PIECE, MPI_FLOAT, MPI_SUM, win, &requests[2]);
    CALL(Rget_accumulate, piece(send, 2), PIECE, MPI_FLOAT, piece(recv, 2), PIECE, MPI_FLOAT, right, place(3), PIECE,
         MPI_FLOAT, MPI_SUM, win, &requests[3]);
    MPI_Waitall(4, requests, ignored_statuses);
    use_piece(send, 0);
    use_piece(recv, 0);
    use_piece(recv, 2);
    MPI_Win_flush_all(win);
    /* A flush ends it, and the request says so once more. */
    CALL(Rget, piece(recv, 3), PIECE, MPI_FLOAT, right, place(4), PIECE, MPI_FLOAT, win, &requests[0]);
    MPI_Win_flush(right, win);
    use_piece(recv, 3);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
    return note_windows();
}

/* Many at once, to be completed together. */
static int many(const void *context, char *send, char *recv, long *values)
{
    (void)context;
    open_windows(values);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 2 * PIECE; i++) {
        MPI_Put(send + 4 * i, 1, MPI_FLOAT, right, i, 1, MPI_FLOAT, win);
        MPI_Get(recv + 4 * i, 1, MPI_FLOAT, right, place(4) + i, 1, MPI_FLOAT, win);
    }
    MPI_Win_fence(0, win);
    return note_windows();
}

static int wrong(const void *context, char *send, char *recv, long *values)
{
    int class;

    (void)context;
    open_windows(values);
    MPI_Win_fence(0, win);
    MPI_Error_class(MPI_Put(send, PIECE, MPI_FLOAT, pair_ranks, 0, PIECE, MPI_FLOAT, win), &class);
    note(class);
    MPI_Error_class(MPI_Get(recv, -1, MPI_FLOAT, right, 0, PIECE, MPI_FLOAT, win), &class);
    note(class);
    MPI_Error_class(MPI_Put(send, PIECE, MPI_DATATYPE_NULL, right, 0, PIECE, MPI_FLOAT, win), &class);
    note(class);
    MPI_Win_fence(0, win);
    return note_windows();
}

static const struct ring_case cases[] = {
    {"fences", fences, NULL},   {"groups", groups, NULL},     {"locks", locks, NULL}, {"flushes", flushes, NULL},
    {"single", single, NULL},   {"requests", requests, NULL}, {"many", many, NULL},   {"wrong", wrong, NULL},
};

static void make_window(char kind, struct gpu_block *block)
{
    if (!kind) {
        MPI_Win_allocate(PIECES * BYTES, sizeof(float), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
        return;
    }
    gpu_start(gpu_local_rank());
    gpu_alloc(block, kind, PIECES * BYTES);
    own = (float *)block->base;
    MPI_Win_create(own, PIECES * BYTES, sizeof(float), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
}

int main(int argc, char **argv)
{
    struct gpu_block block;
    const char *only;
    char kind = 0;

    if (argc > 1 && strncmp(argv[1], "window=", 7) == 0) {
        kind = argv[1][7];
        memmove(&argv[1], &argv[2], (size_t)(argc-- - 1) * sizeof *argv); /* with the NULL behind the last */
    }
    ring_start(&argc, &argv, &only);
    make_window(kind, &block);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ring_run_one(&cases[i], only);
    MPI_Win_free(&win);
    if (kind)
        gpu_free(&block);
    return pair_finish("check_accesses");
}
