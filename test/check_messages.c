/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking point to point and Reduce_local: check_messages [cut] [large] SEND:RECV ..., see pair.h. Each rank sends to the
 * next and receives from the one before, exactly what fits, less, half an element, and more. cut: of a message that is too long
 * any part may come, as MPI allows.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/pair.h"

#define COUNT 3000 /* elements: too long to be sent before it is received */
#define ROOM  (2 * PAIR_GUARD + (COUNT + 3) * PAIR_WIDE)

enum call { SEND, SSEND, RSEND, BSEND, RECV, TWO, SENDRECV, SENDRECV_REPLACE, MRECV, CALLS };
static const char *const names[] = {"send", "ssend", "rsend", "bsend", "recv", "two sends", "sendrecv", "sendrecv_replace",
                                    "mrecv"};

enum amount { EXACT, LESS, MORE };
static bool cut;

struct test {
    enum call call;
    int types;  /* 0: floats, 1: pairs with holes, 2: floats to pairs */
    int floats; /* that are sent */
    enum amount amount;
    bool absolute, ignore, any, alone; /* MPI_BOTTOM; no status; wildcards; MPI_PROC_NULL */
};

/* A side of a message: elements at an address, or one element of a type that has the address in it. */
struct side {
    void *buffer;
    int count;
    MPI_Datatype type, made;
};

static struct side make_side(const struct test *test, char *at, int floats, bool wide)
{
    int count = wide ? (floats + 1) / 2 : floats;
    struct side side = {at, count, wide ? pair_holes : MPI_FLOAT, MPI_DATATYPE_NULL};

    if (test->absolute && count > 0) {
        MPI_Type_create_hindexed(1, &count, (MPI_Aint[]){(MPI_Aint)(intptr_t)at}, side.type, &side.made);
        MPI_Type_commit(&side.made);
        side = (struct side){MPI_BOTTOM, 1, side.made, side.made};
    }
    return side;
}

static void free_side(struct side *side)
{
    if (side->made != MPI_DATATYPE_NULL)
        MPI_Type_free(&side->made);
}

static int next_rank(const struct test *test)
{
    return test->alone ? MPI_PROC_NULL : (pair_rank + 1) % pair_ranks;
}

static int last_rank(const struct test *test)
{
    return test->alone ? MPI_PROC_NULL : test->any ? MPI_ANY_SOURCE : (pair_rank + pair_ranks - 1) % pair_ranks;
}

static int last_tag(const struct test *test)
{
    return test->any ? MPI_ANY_TAG : 7;
}

static int send_by(const struct test *test, const struct side *s)
{
    int to = next_rank(test);

    switch (test->call) {
    case SSEND: return CALL(Ssend, s->buffer, s->count, s->type, to, 7, MPI_COMM_WORLD);
    case RSEND: return CALL(Rsend, s->buffer, s->count, s->type, to, 7, MPI_COMM_WORLD);
    case BSEND: return CALL(Bsend, s->buffer, s->count, s->type, to, 7, MPI_COMM_WORLD);
    default: return CALL(Send, s->buffer, s->count, s->type, to, 7, MPI_COMM_WORLD);
    }
}

static int receive(const struct test *test, const struct side *r, MPI_Status *status)
{
    MPI_Message message;

    if (test->call != MRECV)
        return CALL(Recv, r->buffer, r->count, r->type, last_rank(test), last_tag(test), MPI_COMM_WORLD, status);
    MPI_Mprobe(last_rank(test), last_tag(test), MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    return CALL(Mrecv, r->buffer, r->count, r->type, &message, status);
}

/* The receive must be there before: it goes to host memory by a request. */
static int run_ready(const struct test *test, const struct side *s, char *recv)
{
    float *room = calloc(test->floats + 1, sizeof *room);
    MPI_Request request;

    MPI_Irecv(room, test->floats, MPI_FLOAT, last_rank(test), 7, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    int rc = send_by(test, s);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!test->alone)
        gpu_copy(recv, room, test->floats * sizeof *room);
    gpu_synchronize();
    free(room);
    return rc;
}

/* Even ranks send first. Of two messages of one tag the first sent is the first received, whatever their lengths. */
static int run_both(const struct test *test, const struct side *s, const struct side *r, MPI_Status *status)
{
    int rc = MPI_SUCCESS, sent = MPI_SUCCESS, two = test->call == TWO;
    struct side first = *r;

    if (two)
        first.count = 1;
    for (int half = 0; half < 2; half++) {
        if (half == pair_rank % 2) {
            if (two)
                sent = CALL(Send, s->buffer, 1, s->type, next_rank(test), 7, MPI_COMM_WORLD);
            if (sent == MPI_SUCCESS)
                sent = send_by(test, s);
        } else {
            if (two)
                rc = receive(test, &first, MPI_STATUS_IGNORE);
            if (rc == MPI_SUCCESS)
                rc = receive(test, r, status);
        }
    }
    return rc != MPI_SUCCESS ? rc : sent;
}

static int run_exchange(const struct test *test, const struct side *s, const struct side *r, MPI_Status *status)
{
    int from = last_rank(test), to = next_rank(test);

    if (test->call == SENDRECV)
        return CALL(Sendrecv, s->buffer, s->count, s->type, to, 7, r->buffer, r->count, r->type, from, last_tag(test),
                    MPI_COMM_WORLD, status);
    return CALL(Sendrecv_replace, r->buffer, r->count, r->type, to, 7, from, last_tag(test), MPI_COMM_WORLD, status);
}

static int run_message(const void *context, char *send, char *recv, long values[PAIR_VALUES])
{
    const struct test *test = context;
    int received = test->floats + (test->amount == LESS ? -2 : test->amount == MORE ? 6 : 0), rc;
    struct side s = make_side(test, send, test->floats, test->types == 1);
    struct side r = make_side(test, recv, received, test->types > 0);
    MPI_Status status = {.MPI_ERROR = 12345}, *asked = test->ignore ? MPI_STATUS_IGNORE : &status;

    if (test->call == RSEND)
        rc = run_ready(test, &s, recv);
    else if (test->call == SENDRECV || test->call == SENDRECV_REPLACE)
        rc = run_exchange(test, &s, &r, asked);
    else
        rc = run_both(test, &s, &r, asked);
    if (!test->ignore && test->call != RSEND && rc == MPI_SUCCESS) {
        int elements, count;
        MPI_Get_elements(&status, r.type, &elements);
        MPI_Get_count(&status, r.type, &count);
        values[0] = elements;
        values[1] = count;
        values[2] = 1000 * status.MPI_SOURCE + status.MPI_TAG;
        values[3] = status.MPI_ERROR;
    }
    free_side(&s);
    free_side(&r);
    MPI_Barrier(MPI_COMM_WORLD);
    return rc;
}

static void run_test(const struct test *test)
{
    static const char *const amounts[] = {"", ", less room", ", more room"};
    char name[200];
    int received = test->floats + (test->amount == LESS ? -2 : test->amount == MORE ? 6 : 0);

    snprintf(name, sizeof name, "%s, types %d, %d floats%s%s%s%s%s", names[test->call], test->types, test->floats,
             amounts[test->amount], test->absolute ? ", MPI_BOTTOM" : "", test->ignore ? ", no status" : "",
             test->any ? ", wildcards" : "", test->alone ? ", MPI_PROC_NULL" : "");
    struct pair_test pair = {.name = name, .call = run_message, .context = test, .fails = test->amount == LESS && !test->alone};
    pair.sends = test->floats > 0 && !test->alone && test->call != SENDRECV_REPLACE;
    /* A message from nobody is told by its handle, which is not looked at. */
    pair.receives = received > 0 && (!test->alone || test->call == MRECV) && test->call != RSEND;
    pair.apart = test->call != SENDRECV && test->call != SENDRECV_REPLACE;
    pair.times = test->call == TWO ? 2 : 1;
    pair.vague = cut && pair.fails ? (size_t)test->floats * PAIR_WIDE : 0;
    pair_run(&pair);
}

/* How messages and rooms for them may differ. */
static void run_amounts(struct test test)
{
    static const int sizes[] = {0, 1, 7, 50};

    for (int i = 0; i < 4; i++) {
        test.floats = sizes[i];
        for (test.types = 0; test.types < 3; test.types++) {
            bool replaces = test.call == SENDRECV_REPLACE;
            if ((test.types == 1 && test.floats % 2) || (replaces && (test.types > 1 || test.amount)))
                continue; /* half elements are not sent */
            if (test.call == TWO && test.floats == 0)
                continue; /* the first has one element */
            if (test.floats > 3 || test.amount != LESS)
                run_test(&test);
        }
    }
}

static void run_calls(void)
{
    for (struct test test = {.call = 0}; test.call < CALLS; test.call++) {
        int variants = test.call <= BSEND ? 1 : 5;
        test.amount = EXACT;
        for (int i = 0; i < variants; i++) {
            test.ignore = i == 1;
            test.any = i == 2;
            test.absolute = i == 3 || test.call == BSEND;
            test.alone = i == 4;
            run_amounts(test);
        }
        test.ignore = test.any = test.absolute = test.alone = false;
        if (test.call == RECV || test.call == SENDRECV || test.call == MRECV) {
            test.amount = MORE;
            run_amounts(test);
        }
        if (test.call == RECV || test.call == MRECV) {
            test.amount = LESS;
            run_amounts(test);
        }
        test.amount = EXACT;
        test.types = 0;
        test.floats = 2 * COUNT;
        run_test(&test);
    }
}

/* ---- Reduce_local ---- */

struct local {
    int types, count;
};

static int reduce_local(const void *context, char *send, char *recv, long values[PAIR_VALUES])
{
    const struct local *local = context;

    (void)values;
    return CALL(Reduce_local, send, recv, local->count, local->types ? pair_holes : MPI_FLOAT,
                local->types ? pair_add : MPI_SUM);
}

static void run_local(void)
{
    static const int counts[] = {0, 1, 7, 50};

    for (int i = 0; i < 8; i++) {
        struct local local = {i / 4, counts[i % 4]};
        bool some = local.count > 0;
        pair_run(&(struct pair_test){.name = "reduce_local", .call = reduce_local, .context = &local, .sends = some,
                                     .receives = some});
    }
}

int main(int argc, char **argv)
{
    int room = 4 * ROOM, returned = 0;
    struct gpu_block attached;
    void *buffer = NULL;

    if ((cut = argc > 1 && strcmp(argv[1], "cut") == 0)) {
        argv++;
        argc--;
    }
    pair_start(&argc, &argv, ROOM);
    gpu_alloc(&attached, 'D', room);
    MPI_Buffer_attach(attached.base, room);
    run_calls();
    run_local();
    MPI_Buffer_detach(&buffer, &returned);
    if (buffer != attached.base || returned != room)
        pair_fail("Buffer_detach", "gives %d bytes at %p, attached were %d at %p", returned, buffer, room, attached.base);
    gpu_free(&attached);
    return pair_finish("check_messages");
}
