/* SPDX-License-Identifier: BSD-3-Clause */
/* Parcels from process to process over UCX: whole ones, cut ones, those that cannot be read, and those of the dead. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/conf.h"
#include "cuda/gpu.h"
#include "cuda/pageable.h"
#include "pt2pt/distant_inner.h"
enum { PROCESSES = 2 };
#include "test/unit/processes.h"

enum { BYTES = 2500001, ROOM = 1100000 }; /* of pieces of 1 MiB: three, and two for which there is room */

static const uint64_t token[2] = { 17, 19 };
static struct shunt_parcels page;
static bool unreadable;

/* ---- in place of a GPU and an arena ---- */

enum shunt_status shunt_stage_out(void *host, const void *device, size_t bytes)
{
    if (unreadable)
        return SHUNT_ERR_CUDA;
    memcpy(host, device, bytes);
    return SHUNT_OK;
}

enum shunt_status shunt_stage_in(void *device, const void *host, size_t bytes)
{
    memcpy(device, host, bytes);
    return SHUNT_OK;
}

void *shunt_pageable_get(size_t bytes)
{
    return malloc(bytes);
}

void shunt_pageable_put(void *memory, bool touched)
{
    (void)touched;
    free(memory);
}

bool shunt_pull_ready(uint64_t ticket)
{
    (void)ticket;
    return true;
}

int shunt_arena_self(const struct shunt_arena *arena)
{
    (void)arena;
    return 0;
}

int shunt_arena_local_size(const struct shunt_arena *arena)
{
    (void)arena;
    return 1;
}

struct shunt_parcels *shunt_arena_parcels(const struct shunt_arena *arena, int slot)
{
    (void)arena, (void)slot;
    return &page;
}

void shunt_arena_token(const struct shunt_arena *arena, uint64_t own[2])
{
    (void)arena;
    own[0] = own[1] = 1;
}

void shunt_board_relax(unsigned *spins)
{
    (void)spins;
    nap();
}

/* ---- */

static char buffer[BYTES];

static void hear_nothing(int from, const void *note, size_t bytes)
{
    (void)from, (void)note, (void)bytes;
}

static char byte_of(int round, size_t i)
{
    return (char)(round * 31 + (int)(i * 7) + (int)(i >> 9));
}

static void start(int me)
{
    begin(me, hear_nothing);
    shunt_distant_start(PROCESSES, me, token);
    meet(me, 3);
    if (me == 1)
        shunt_distant_accept();
    const double end = shunt_seconds() + 20;
    while (me == 0 && !shunt_distant_takes(1)) {
        nap();
        MUST(shunt_seconds() < end);
    }
    meet(me, 4);
}

/* Rank 0 sends a parcel, by way of the board. `posts`: and its data. */
static void send_one(int me, int round, bool posts)
{
    const struct shunt_distant_note note = { .comm = 5, .bytes = BYTES, .tag = round, .peer = 1 };
    struct shunt_descriptor descriptor;

    for (size_t i = 0; i < BYTES; i++)
        buffer[i] = byte_of(round, i);
    struct shunt_shipment *shipment = shunt_distant_expose(&note, &descriptor);
    MUST(shipment != NULL);
    memcpy(board->more, &descriptor, sizeof descriptor);
    if (posts)
        MUST((shunt_distant_post(NULL, shipment, buffer) == SHUNT_OK) == !unreadable);
}

static enum shunt_status receive_one(int me, size_t room, struct shunt_fetch *fetch)
{
    enum shunt_status status;
    const double end = shunt_seconds() + 15;

    *fetch = (struct shunt_fetch){ .to = buffer, .room = room, .distant = true };
    MUST(shunt_distant_read(board->more, &fetch->descriptor));
    while ((status = shunt_distant_fetch(fetch)) == SHUNT_AGAIN) {
        nap();
        MUST(shunt_seconds() < end);
    }
    return status;
}

/* All that was sent is received or dropped, and forgotten. */
static void await_tidy(int me)
{
    const double end = shunt_seconds() + 20;

    while (me == 0 && (distant.bytes > 0 || distant.shipments != NULL)) {
        shunt_distant_withdraw(0); /* none, but it tidies up */
        nap();
        MUST(shunt_seconds() < end);
    }
}

static void exchange(int me)
{
    static const size_t rooms[] = { BYTES, ROOM, 0 };
    struct shunt_fetch fetch;

    start(me);
    for (int round = 0; round < 3; round++) {
        const struct shunt_distant_note kind = { .comm = 5, .tag = round, .peer = 0 };
        uint64_t number = 0, bytes = 0;
        if (me == 0)
            send_one(me, round, true);
        meet(me, 5 + 2 * round);
        if (me == 1) {
            MUST(shunt_distant_ask(&kind, 0, &number, &bytes) && bytes == BYTES);
            MUST(receive_one(me, rooms[round], &fetch) == SHUNT_OK && fetch.descriptor.number == number);
            for (size_t i = 0; i < rooms[round]; i++)
                MUST(buffer[i] == byte_of(round, i));
            MUST(!shunt_distant_ask(&kind, 0, &number, &bytes));
        }
        meet(me, 6 + 2 * round);
    }
    /* One that is called back, whose data is on its way. */
    if (me == 0) {
        send_one(me, 9, true);
        shunt_distant_withdraw(distant.last);
    }
    await_tidy(me);
    meet(me, 20);
    unreadable = true;
    if (me == 0)
        send_one(me, 10, true);
    meet(me, 21);
    MUST(me == 0 || receive_one(me, BYTES, &fetch) == SHUNT_ERR_DEAD);
    await_tidy(me);
    meet(me, 22);
    shunt_net_stop();
    shunt_distant_stop();
    _exit(0);
}

static void die(int me)
{
    struct shunt_fetch fetch;

    start(me);
    if (me == 0)
        send_one(me, 0, false);
    meet(me, 5);
    if (me == 0)
        kill(getpid(), SIGKILL);
    MUST(receive_one(me, BYTES, &fetch) == SHUNT_ERR_DEAD);
    shunt_net_stop();
    shunt_distant_stop();
    _exit(0);
}

static void test_tcp(void **state)
{
    (void)state;
    run_processes(exchange, "tcp,self", true, -1);
}

static void test_shm(void **state)
{
    (void)state;
    run_processes(exchange, "shm,self", false, -1);
}

static void test_dead(void **state)
{
    (void)state;
    run_processes(die, "tcp,self", true, 0);
    run_processes(die, "shm,self", false, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_tcp), cmocka_unit_test(test_shm), cmocka_unit_test(test_dead) };

    if (!make_board())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
