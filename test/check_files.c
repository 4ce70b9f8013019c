/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File access, blocking and nonblocking, and split collectives: check_files [large] SEND:RECV ..., see pair.h. Each rank writes its part of
 * a file in one of the ways there are, and reads what it wrote and some more, or what is left of the file.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/pair.h"

#define COUNT 300
#define ROOM  (2 * PAIR_GUARD + (COUNT + 5) * PAIR_WIDE)

enum way { PLAIN, ALL, AT, AT_ALL, SHARED, ORDERED, SPLIT_ALL, SPLIT_AT_ALL, SPLIT_ORDERED, WAYS };
static const char *const names[] = {"plain", "all", "at", "at_all", "shared", "ordered", "split all", "split at_all",
                                    "split ordered"};

struct test {
    enum way way;
    int types, count; /* of elements of two floats */
    bool nonblocking; /* up to SHARED */
    bool external;    /* in a representation of its own */
};

static MPI_File file;
static MPI_Datatype gaps; /* MPICH puts elements with a lower bound below their address at another place */

static int write_part(const struct test *test, MPI_Offset at, char *buffer, int n, MPI_Datatype type, MPI_Status *status)
{
    int rc;

    switch (test->way) {
    case PLAIN: return CALL(File_write, file, buffer, n, type, status);
    case ALL: return CALL(File_write_all, file, buffer, n, type, status);
    case AT: return CALL(File_write_at, file, at, buffer, n, type, status);
    case AT_ALL: return CALL(File_write_at_all, file, at, buffer, n, type, status);
    case SHARED: return CALL(File_write_shared, file, buffer, n, type, status);
    case ORDERED: return CALL(File_write_ordered, file, buffer, n, type, status);
    case SPLIT_ALL:
        rc = CALL(File_write_all_begin, file, buffer, n, type);
        return rc != MPI_SUCCESS ? rc : MPI_File_write_all_end(file, buffer, status);
    case SPLIT_AT_ALL:
        rc = CALL(File_write_at_all_begin, file, at, buffer, n, type);
        return rc != MPI_SUCCESS ? rc : MPI_File_write_at_all_end(file, buffer, status);
    default:
        rc = CALL(File_write_ordered_begin, file, buffer, n, type);
        return rc != MPI_SUCCESS ? rc : MPI_File_write_ordered_end(file, buffer, status);
    }
}

static int read_part(const struct test *test, MPI_Offset at, char *buffer, int n, MPI_Datatype type, MPI_Status *status)
{
    int rc;

    switch (test->way) {
    case PLAIN: return CALL(File_read, file, buffer, n, type, status);
    case ALL: return CALL(File_read_all, file, buffer, n, type, status);
    case AT: return CALL(File_read_at, file, at, buffer, n, type, status);
    case AT_ALL: return CALL(File_read_at_all, file, at, buffer, n, type, status);
    case SHARED: return CALL(File_read_shared, file, buffer, n, type, status);
    case ORDERED: return CALL(File_read_ordered, file, buffer, n, type, status);
    case SPLIT_ALL:
        rc = CALL(File_read_all_begin, file, buffer, n, type);
        return rc != MPI_SUCCESS ? rc : MPI_File_read_all_end(file, buffer, status);
    case SPLIT_AT_ALL:
        rc = CALL(File_read_at_all_begin, file, at, buffer, n, type);
        return rc != MPI_SUCCESS ? rc : MPI_File_read_at_all_end(file, buffer, status);
    default:
        rc = CALL(File_read_ordered_begin, file, buffer, n, type);
        return rc != MPI_SUCCESS ? rc : MPI_File_read_ordered_end(file, buffer, status);
    }
}

/* Nonblocking, and waited for at once. */
static int begin_write(const struct test *test, MPI_Offset at, char *buffer, int n, MPI_Datatype type, MPI_Request *request)
{
    switch (test->way) {
    case PLAIN: return CALL(File_iwrite, file, buffer, n, type, request);
    case ALL: return CALL(File_iwrite_all, file, buffer, n, type, request);
    case AT: return CALL(File_iwrite_at, file, at, buffer, n, type, request);
    case AT_ALL: return CALL(File_iwrite_at_all, file, at, buffer, n, type, request);
    default: return CALL(File_iwrite_shared, file, buffer, n, type, request);
    }
}

static int begin_read(const struct test *test, MPI_Offset at, char *buffer, int n, MPI_Datatype type, MPI_Request *request)
{
    switch (test->way) {
    case PLAIN: return CALL(File_iread, file, buffer, n, type, request);
    case ALL: return CALL(File_iread_all, file, buffer, n, type, request);
    case AT: return CALL(File_iread_at, file, at, buffer, n, type, request);
    case AT_ALL: return CALL(File_iread_at_all, file, at, buffer, n, type, request);
    default: return CALL(File_iread_shared, file, buffer, n, type, request);
    }
}

static int access_part(const struct test *test, bool reads, MPI_Offset at, char *buffer, int n, MPI_Datatype type,
                       MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;

    if (!test->nonblocking)
        return (reads ? read_part : write_part)(test, at, buffer, n, type, status);
    int rc = (reads ? begin_read : begin_write)(test, at, buffer, n, type, &request);
    return rc != MPI_SUCCESS ? rc : MPI_Wait(&request, status);
}

static void go_to(MPI_Offset at)
{
    MPI_File_seek(file, at, MPI_SEEK_SET);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* With the shared pointer one rank after the other, so that each has its place. */
static int in_turns(const struct test *test, bool reads, MPI_Offset at, char *buffer, int n, MPI_Datatype type,
                    MPI_Status *status)
{
    int rc = MPI_SUCCESS;

    for (int i = 0; i < (test->way == SHARED ? pair_ranks : 1); i++) {
        if (test->way != SHARED || i == pair_rank)
            rc = access_part(test, reads, at, buffer, n, type, status);
        if (test->way == SHARED)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    return rc;
}

/*
 * Asked for more than there is, hosts write what was never set, where elements have gaps; and Open MPI 4.1 never ends a
 * nonblocking or split collective then, or one of no elements. Open MPI 5 never ends a read in another representation then.
 */
static bool short_of_host(const struct test *test)
{
#ifdef OPEN_MPI
    return test->types || test->nonblocking || (test->external && OMPI_MAJOR_VERSION >= 5) || test->way >= SPLIT_ALL;
#else
    return test->types;
#endif
}

static int call(const void *context, char *send, char *recv, long values[PAIR_VALUES])
{
    const struct test *test = context;
    MPI_Datatype type = test->types ? gaps : MPI_FLOAT;
    int n = test->types ? test->count : 2 * test->count, elements;
    bool ordered = test->way == SHARED || test->way == ORDERED || test->way == SPLIT_ORDERED;
    MPI_Offset at = (MPI_Offset)pair_rank * test->count * 8;
    MPI_Status status;

    MPI_File_set_size(file, 0);
    go_to(at);
    int sent = in_turns(test, false, at, send, n, type, &status);
    MPI_Get_elements(&status, type, &elements);
    values[0] = elements;
    MPI_File_sync(file);
    go_to(at);
    /* Where ranks follow each other the last finds less than it asks for, else each reads on in its neighbour's. */
    int more = (ordered && pair_rank < pair_ranks - 1) || short_of_host(test) ? 0 : 4;
    int rc = in_turns(test, true, at, recv, n + more, type, &status);
    MPI_Get_elements(&status, type, &elements);
    values[1] = elements;
    MPI_Barrier(MPI_COMM_WORLD);
    return sent != MPI_SUCCESS ? sent : rc;
}

static void open_file(char *name)
{
    if (pair_rank == 0) {
        int descriptor = mkstemp(name);
        if (descriptor >= 0)
            close(descriptor);
    }
    MPI_Bcast(name, (int)strlen(name) + 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file) != MPI_SUCCESS)
        pair_fail(name, "cannot be opened");
}

/* Another representation, where the host knows it: elements, not bytes, are written then. */
static void run_external(void)
{
    struct test test = {.way = AT, .count = 7, .external = true};

    if (MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL) != MPI_SUCCESS)
        return;
    pair_run(&(struct pair_test){.name = "external32", .call = call, .context = &test, .sends = true, .receives = true,
                                 .apart = true});
}

/* With gaps the short one only. */
static void run_counts(struct test test)
{
    static const int counts[] = {0, 7, COUNT};
    char name[100];

    for (int i = 0; i < 5; i++) {
        test.types = i & 1;
        test.count = counts[i / 2];
        if (short_of_host(&test) && test.count == 0)
            continue;
        bool ordered = test.way == SHARED || test.way == ORDERED || test.way == SPLIT_ORDERED;
        bool asks = test.count > 0 || !ordered || pair_rank == pair_ranks - 1;
        snprintf(name, sizeof name, "%s%s, types %d, %d elements", test.nonblocking ? "nonblocking " : "",
                 names[test.way], test.types, test.count);
        pair_run(&(struct pair_test){.name = name, .call = call, .context = &test, .sends = test.count > 0,
                                     .receives = asks, .apart = true});
    }
}

int main(int argc, char **argv)
{
    char path[] = "/dev/shm/check_files.XXXXXX"; /* on a disk each sync takes its time */
    MPI_Datatype bare;

    pair_start(&argc, &argv, ROOM);
    open_file(path);
    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){0, 12}, MPI_FLOAT, &bare);
    MPI_Type_create_resized(bare, 0, PAIR_WIDE, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Type_free(&bare);
    for (int way = 0; way < WAYS; way++) {
        run_counts((struct test){.way = way});
        if (way <= SHARED)
            run_counts((struct test){.way = way, .nonblocking = true});
    }
    run_external();
    MPI_File_close(&file);
    MPI_Type_free(&gaps);
    return pair_finish("check_files");
}
