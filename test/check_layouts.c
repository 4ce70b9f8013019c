/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of derived types between two ranks, with a layout of its own on each side: check_layouts ROUNDS SEED KINDS. What
 * lies in the gaps, before and behind must stay; types are freed while messages are under way; and buffers of one kind of memory
 * (gpu.h) each are kept, or new ones in each round.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu.h"

enum { UNIT = 64, MARGIN = 4096, LAYOUTS = 6, WAYS = 7, MOST = 200 * 1024 };
enum way { SENDRECV, ISEND, SSEND, PERSISTENT, MPROBE, REPLACE, PERSISTENT_BOTH };

static int rank, cases, failures;
static unsigned random_state;
static char *made, *wanted, *got, *packed;

/* The same on both ranks. */
static unsigned draw(unsigned below)
{
    random_state = random_state * 1103515245 + 12345;
    return (random_state >> 16) % below;
}

static size_t space(size_t bytes)
{
    return 2 * MARGIN + 4 * bytes;
}

/* Elements of a layout that have so many bytes together. */
struct side {
    MPI_Datatype type;
    int count;
};

static MPI_Datatype resize(MPI_Datatype type, MPI_Aint lb, MPI_Aint extent)
{
    MPI_Datatype made_of = type;

    MPI_Type_create_resized(made_of, lb, extent, &type);
    MPI_Type_free(&made_of);
    return type;
}

static struct side make_side(int layout, size_t bytes)
{
    struct side side = {MPI_DATATYPE_NULL, (int)(bytes / 16)};

    switch (layout) {
    case 0:
        MPI_Type_contiguous(16, MPI_BYTE, &side.type);
        break;
    case 1:
        MPI_Type_vector((int)bytes / 16, 2, 5, MPI_DOUBLE, &side.type);
        side.count = 1;
        break;
    case 2:
        MPI_Type_vector(4, 1, 3, MPI_FLOAT, &side.type);
        side.type = resize(side.type, 0, 44);
        break;
    case 3:
        MPI_Type_create_hindexed(4, (int[]){3, 7, 1, 5}, (MPI_Aint[]){40, 0, 96, 64}, MPI_INT, &side.type);
        side.type = resize(side.type, 0, 160);
        side.count = (int)bytes / 64;
        break;
    case 4:
        MPI_Type_create_struct(2, (int[]){8, 1}, (MPI_Aint[]){-24, 16}, (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE}, &side.type);
        side.type = resize(side.type, -24, 48);
        break;
    default:
        MPI_Type_create_subarray(3, (int[]){2, (int)bytes / 64, 24}, (int[]){1, (int)bytes / 64, 16}, (int[]){0, 0, 3},
                                 MPI_ORDER_C, MPI_INT, &side.type);
        side.count = 1;
    }
    MPI_Type_commit(&side.type);
    return side;
}

static void fill(char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(seed * 31 + i * 7 + (i >> 8) * 13 + 1);
}

struct test {
    enum way way;
    size_t sent, room; /* bytes */
    struct side send, recv;
    char *from, *to;   /* of the first elements */
    unsigned seed;     /* of what rank 0 sends; rank 1 has the next */
};

static void fail(const struct test *test, const char *what, long where)
{
    if (++failures < 10)
        printf("FAIL rank %d: way %d, %zu of %zu bytes: %s %ld\n", rank, test->way, test->sent, test->room, what, where);
}

/* What the other sends, as it arrives in the buffer. */
static void expect(const struct test *test, struct side theirs)
{
    int sent = (int)test->sent, room = (int)test->room, most = sent < room ? sent : room, end = 0, at = 0;

    fill(made, space(test->sent), test->seed + 1 - (unsigned)rank);
    PMPI_Pack(made + MARGIN, theirs.count, theirs.type, packed, sent, &end, MPI_COMM_SELF);
    end = 0;
    PMPI_Pack(wanted + MARGIN, test->recv.count, test->recv.type, got, room, &end, MPI_COMM_SELF);
    memcpy(got, packed, (size_t)most);
    PMPI_Unpack(got, room, &at, wanted + MARGIN, test->recv.count, test->recv.type, MPI_COMM_SELF);
}

/* The gaps must be as they were; of a message that is too long any part may have come. */
static void compare(const struct test *test, const char *buffer, const char *before, bool cut)
{
    size_t bytes = space(test->room);

    gpu_copy(got, buffer, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] != wanted[i] && !(cut && got[i] == before[i])) {
            fail(test, "wrong at", (long)i - MARGIN);
            return;
        }
    }
}

static int exchange(struct test *test, MPI_Status *status)
{
    struct side *s = &test->send, *r = &test->recv;
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Message message;
    int peer = 1 - rank, rc = MPI_SUCCESS;

    switch (test->way) {
    case SENDRECV:
        return MPI_Sendrecv(test->from, s->count, s->type, peer, 3, test->to, r->count, r->type, peer, 3, MPI_COMM_WORLD,
                            status);
    case REPLACE:
        return MPI_Sendrecv_replace(test->to, r->count, r->type, peer, 3, peer, 3, MPI_COMM_WORLD, status);
    case PERSISTENT_BOTH:
        MPI_Recv_init(test->to, r->count, r->type, peer, 3, MPI_COMM_WORLD, &request[0]);
        MPI_Send_init(test->from, s->count, s->type, peer, 3, MPI_COMM_WORLD, &request[1]);
        for (int i = 0; i < 2; i++) {
            MPI_Startall(2, request);
            if (i == 0)
                MPI_Waitall(2, request, (MPI_Status[2]){{0}});
        }
        rc = MPI_Wait(&request[0], status);
        MPI_Wait(&request[1], MPI_STATUS_IGNORE);
        MPI_Request_free(&request[0]);
        MPI_Request_free(&request[1]);
        return rc;
    case PERSISTENT:
        MPI_Recv_init(test->to, r->count, r->type, peer, 3, MPI_COMM_WORLD, &request[0]);
        MPI_Start(&request[0]);
        break;
    case MPROBE: break;
    default: MPI_Irecv(test->to, r->count, r->type, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &request[0]);
    }
    if (test->way == SSEND)
        MPI_Issend(test->from, s->count, s->type, peer, 3, MPI_COMM_WORLD, &request[1]);
    else
        MPI_Isend(test->from, s->count, s->type, peer, 3, MPI_COMM_WORLD, &request[1]);
    if (test->way == MPROBE) {
        MPI_Mprobe(peer, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(test->to, r->count, r->type, &message, &request[0]);
    }
    MPI_Type_free(&s->type); /* while it is in use */
    MPI_Type_free(&r->type);
    if (test->way == SSEND) { /* all at once, or in the order in which they end */
        MPI_Wait(&request[1], MPI_STATUS_IGNORE);
        rc = MPI_Wait(&request[0], status);
    } else {
        rc = MPI_Wait(&request[0], status);
        MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    }
    if (request[0] != MPI_REQUEST_NULL)
        MPI_Request_free(&request[0]);
    return rc;
}

static void check_answer(const struct test *test, int rc, const MPI_Status *status)
{
    bool cut = test->sent > test->room;
    int class = MPI_SUCCESS, bytes = -1;

    MPI_Error_class(rc, &class);
    if (class != (cut ? MPI_ERR_TRUNCATE : MPI_SUCCESS))
        fail(test, "error class", class);
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (!cut && bytes != (int)test->sent)
        fail(test, "bytes", bytes);
}

static void run(char kind, bool fresh)
{
    static struct gpu_block kept[2];
    static const size_t sizes[] = {64, 4096, 32768, 65536, 40000 / 64 * 64, MOST};
    struct test test = {.way = draw(WAYS), .sent = sizes[draw(6)], .seed = draw(1000) * 2};
    int layouts[4] = {(int)draw(LAYOUTS), (int)draw(LAYOUTS), (int)draw(LAYOUTS), (int)draw(LAYOUTS)}; /* of each rank: sent, received */
    struct gpu_block own[2], *block = fresh ? own : kept;
    unsigned part = draw(6);
    MPI_Status status;

    test.room = test.sent;
    if (test.way != REPLACE && test.way != PERSISTENT_BOTH && test.sent > 128 && part < 2)
        *(part == 0 ? &test.sent : &test.room) /= 2;
    test.sent -= test.sent % UNIT;
    test.room -= test.room % UNIT;
    if (test.way == REPLACE)
        layouts[0] = layouts[1] = layouts[2] = layouts[3];
    for (int i = 0; i < 2; i++)
        if (fresh || !kept[i].base)
            gpu_alloc(&block[i], kind, space(MOST));
    test.send = make_side(layouts[2 * rank], test.sent);
    test.recv = make_side(layouts[2 * rank + 1], test.room);
    struct side theirs = make_side(layouts[2 - 2 * rank], test.sent);
    struct side freed = make_side(layouts[2 * rank + 1], test.room); /* as test.recv, which may be freed */
    char *before = malloc(space(MOST));
    test.from = block[0].base + MARGIN;
    test.to = block[1].base + MARGIN;
    fill(before, space(test.room), test.way == REPLACE ? test.seed + (unsigned)rank : 77);
    fill(made, space(test.sent), test.seed + (unsigned)rank);
    gpu_copy(block[0].base, made, space(test.sent));
    gpu_copy(block[1].base, before, space(test.room));
    gpu_synchronize();
    int rc = exchange(&test, &status);
    test.recv.type = freed.type;
    memcpy(wanted, before, space(test.room));
    cases++;
    check_answer(&test, rc, &status);
    expect(&test, theirs);
    compare(&test, block[1].base, before, test.sent > test.room);
    MPI_Type_free(&theirs.type);
    MPI_Type_free(&freed.type);
    free(before);
    for (int i = 0; fresh && i < 2; i++)
        gpu_free(&own[i]);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 50, all = 0;
    const char *kinds = argc > 3 ? argv[3] : "D";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    random_state = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    gpu_start(gpu_local_rank());
    made = malloc(space(MOST));
    wanted = malloc(space(MOST));
    got = malloc(space(MOST));
    packed = malloc(MOST);
    for (int i = 0; i < rounds; i++)
        run(kinds[strlen(kinds) - 1], draw(4) == 0);
    PMPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_layouts: ranks 2 cases %d failures %d device 0 host 0\n", cases, all);
    MPI_Finalize();
    return all != 0;
}
