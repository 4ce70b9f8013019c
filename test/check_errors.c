/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erroneous calls on device memory: check_errors wrong: arguments that the host MPI refuses are refused with the same
 * class, through the error handler of the communicator, once, and later calls still work. check_errors alone: one rank is
 * refused, and the others never hear of it. check_errors mismatch-count,
 * mismatch-op, mismatch-type, mismatch-coll, mismatch-root, mismatch-rows: ranks that do not agree; what then happens is the
 * host MPI's affair, but for a hang, which ends here.
 */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/case.h"
#include "test/gpu.h"

static int rank, size;
static int handled; /* calls of the handler */
static MPI_Comm handled_comm;
static jmp_buf jump;
static bool jumping;

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    handled++;
    handled_comm = *comm;
    if (jumping)
        longjmp(jump, 1);
}

struct wrong {
    const char *name;
    int count;
    MPI_Datatype type;
    MPI_Op op;
    bool recv_in_place;
    bool same; /* send and receive buffer are one */
};

static void *receive_side(const struct wrong *wrong, void *send, void *recv)
{
    return wrong->recv_in_place ? MPI_IN_PLACE : wrong->same ? send : recv;
}

/* The same call on host memory by the host MPI alone, then on device memory: class, handler, buffers. */
static void compare(const struct wrong *wrong, MPI_Comm comm, struct gpu_block *send, struct gpu_block *recv)
{
    static char host_send[4096], host_recv[4096], image[4096];
    int host_class, class, host_handled, rc;
    MPI_Comm host_comm;

    handled = 0;
    rc = PMPI_Allreduce(host_send, receive_side(wrong, host_send, host_recv), wrong->count, wrong->type, wrong->op,
                        comm);
    MPI_Error_class(rc, &host_class);
    host_handled = handled;
    host_comm = handled_comm;
    if (host_class == MPI_SUCCESS) /* this host MPI does not mind */
        return;
    test_tally.cases++;
    memset(image, 0x5e, sizeof image);
    gpu_copy(send->base, image, sizeof image);
    gpu_copy(recv->base, image, sizeof image);
    handled = 0;
    rc = MPI_Allreduce(send->base, receive_side(wrong, send->base, recv->base), wrong->count, wrong->type,
                       wrong->op, comm);
    MPI_Error_class(rc, &class);
    if (class != host_class || handled != host_handled || (handled && handled_comm != host_comm)) {
        printf("FAIL rank %d: %s: class %d, handler called %d times; the host MPI: %d, %d times\n", rank,
               wrong->name, class, handled, host_class, host_handled);
        test_tally.failures++;
    }
    for (int i = 0; i < 2; i++) {
        gpu_copy(image, i ? send->base : recv->base, sizeof image);
        for (size_t byte = 0; byte < sizeof image; byte++)
            test_tally.failures += image[byte] != 0x5e;
    }
}

static void run_wrong(void)
{
    MPI_Datatype open_type;
    MPI_Errhandler handler;
    struct gpu_block send, recv;
    MPI_Comm comm;
    const struct wrong wrongs[] = {
#ifdef OPEN_MPI /* Debian's MPICH does not look at these and crashes */
        {"negative count", -1, MPI_INT, MPI_SUM, false, false},
        {"no operation", 4, MPI_INT, MPI_OP_NULL, false, false},
        {"no type", 4, MPI_DATATYPE_NULL, MPI_SUM, false, false},
        {"receive in place", 4, MPI_INT, MPI_SUM, true, false},
        {"one buffer twice", 4, MPI_INT, MPI_SUM, false, true},
#endif
        {"bits of a float", 4, MPI_FLOAT, MPI_BAND, false, false},
        {"order of complex", 4, MPI_C_DOUBLE_COMPLEX, MPI_MAX, false, false},
        {"sum of bytes", 4, MPI_BYTE, MPI_SUM, false, false},
        {"location of an int", 4, MPI_INT, MPI_MINLOC, false, false},
        {"sum of a derived type", 4, MPI_DATATYPE_NULL, MPI_SUM, false, false},
    };
    int n = sizeof wrongs / sizeof *wrongs;

    gpu_start(gpu_local_rank());
    gpu_alloc(&send, 'D', 4096);
    gpu_alloc(&recv, 'D', 4096);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Type_contiguous(2, MPI_INT, &open_type);
    MPI_Type_commit(&open_type);
    for (int i = 0; i < 2 * n; i++) {
        struct wrong wrong = wrongs[i % n];
        MPI_Comm_set_errhandler(comm, i < n ? MPI_ERRORS_RETURN : handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, i < n ? MPI_ERRORS_RETURN : handler); /* some go there */
        if (i % n == n - 1)
            wrong.type = open_type;
        compare(&wrong, comm, &send, &recv);
    }
    jumping = true;
    if (setjmp(jump) == 0) { /* a handler that does not come back: later calls must still be seen as the program's */
        MPI_Allreduce(send.base, recv.base, 4, MPI_FLOAT, MPI_BAND, comm);
        test_tally.failures++;
    }
    jumping = false;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    for (int i = 0; i < 3; i++)
        case_sum(comm, "dup", "D", 100, (uint64_t)i);
    gpu_free(&send);
    gpu_free(&recv);
    MPI_Type_free(&open_type);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
}

/* What only this rank calls, and the host MPI refuses, in each form that there is. */
static void be_refused(int round, const char *send, char *recv, MPI_Comm comm)
{
    MPI_Request request;
    int rc, class;

    if (round % 3 == 0)
        rc = MPI_Allreduce(send, recv, 4, MPI_FLOAT, MPI_BAND, comm);
    else if (round % 3 == 1)
        rc = MPI_Iallreduce(send, recv, 4, MPI_FLOAT, MPI_BAND, comm, &request);
    else
        rc = MPI_Reduce(send, recv, 4, MPI_FLOAT, MPI_BAND, 0, comm);
    MPI_Error_class(rc, &class);
    if (class != MPI_ERR_OP) {
        printf("FAIL rank %d: round %d: class %d\n", rank, round, class);
        test_tally.failures++;
    }
}

static void run_alone(void)
{
    struct gpu_block blocks[2][2];

    gpu_start(gpu_local_rank());
    for (int i = 0; i < 2; i++)
        for (int kind = 0; kind < 2; kind++)
            gpu_alloc(&blocks[i][kind], kind ? 'D' : 'H', 4096);
    for (int round = 0; round < 12; round++) {
        int kind = round / 3 % 2;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        for (int i = 0; i < round % 2 + 1 && rank == round / 6; i++)
            be_refused(round, blocks[0][kind].base, blocks[1][kind].base, MPI_COMM_WORLD);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        for (int i = 0; i < 3; i++)
            case_sum(MPI_COMM_WORLD, "after", "D", 100, (uint64_t)(3 * round + i));
    }
    for (int i = 0; i < 2; i++)
        for (int kind = 0; kind < 2; kind++)
            gpu_free(&blocks[i][kind]);
}

/* Rank 0 sends 100 integers to each other rank, which expects 50 more of it. */
static int call_rows(const void *send, void *recv)
{
    int counts[64], displs[64];

    for (int q = 0; q < size; q++) {
        counts[q] = q == 0 && rank > 0 ? 150 : 100;
        displs[q] = 150 * q;
    }
    return MPI_Allgatherv(send, 100, MPI_INT, recv, counts, displs, MPI_INT, MPI_COMM_WORLD);
}

/* Rank 0 differs from the others, once, between good calls. */
static void run_mismatch(const char *what)
{
    struct gpu_block send, recv;
    bool odd = rank == 0;
    MPI_Datatype type = odd && strcmp(what, "mismatch-type") == 0 ? MPI_FLOAT : MPI_INT;
    MPI_Op op = odd && strcmp(what, "mismatch-op") == 0 ? MPI_MAX : MPI_SUM;
    int count = odd && strcmp(what, "mismatch-count") == 0 ? 200 : 100, rc;

    gpu_start(gpu_local_rank());
    gpu_alloc(&send, 'D', 4096);
    gpu_alloc(&recv, 'D', 4096);
    case_sum(MPI_COMM_WORLD, "world", "D", 100, 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (strcmp(what, "mismatch-coll") == 0 || strcmp(what, "mismatch-root") == 0 || strcmp(what, "mismatch-rows") == 0)
        alarm(3); /* the host MPI may wait for ever then */
    if (strcmp(what, "mismatch-root") == 0 || (odd && strcmp(what, "mismatch-coll") == 0))
        rc = MPI_Bcast(send.base, count, type, odd ? 1 : 0, MPI_COMM_WORLD);
    else if (strcmp(what, "mismatch-rows") == 0)
        rc = call_rows(send.base, recv.base);
    else
        rc = MPI_Allreduce(send.base, recv.base, count, type, op, MPI_COMM_WORLD);
    printf("rank %d: %s\n", rank, rc == MPI_SUCCESS ? "completed" : "refused");
    fflush(stdout);
    if (rc != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 9);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    bool good = true;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(mode, "wrong") == 0 || strcmp(mode, "alone") == 0) {
        (strcmp(mode, "wrong") == 0 ? run_wrong : run_alone)();
        good = case_summary("check_errors");
    } else {
        run_mismatch(mode);
    }
    case_finish();
    MPI_Finalize();
    return good ? 0 : 1;
}
