/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that talk by UCX, over TCP and over shared memory: notes, data of all sizes, early and late, and a lost peer. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROCESSES = 3 };
#include "test/unit/processes.h"
#include "ucx/interfaces.h"

static struct {
    char text[64];
    int count;
} heard[PROCESSES];

static void hear(int from, const void *note, size_t bytes)
{
    memcpy(heard[from].text, note, bytes < sizeof heard[from].text ? bytes : sizeof heard[from].text);
    __atomic_fetch_add(&heard[from].count, 1, __ATOMIC_RELEASE);
}

static enum shunt_net_state finish(struct shunt_net_part *part, double seconds)
{
    double end = shunt_seconds() + seconds;

    while (shunt_net_state(part) == SHUNT_NET_UNDER_WAY && shunt_seconds() < end)
        if (!shunt_net_progress())
            nap();
    return shunt_net_state(part);
}

/* The threads answer while the processes themselves only sleep. */
static void exchange_notes(int me)
{
    char text[64];

    snprintf(text, sizeof text, "from %d", me);
    for (int i = 0; i < PROCESSES; i++)
        for (int subject = 0; subject < SHUNT_NET_SUBJECTS; subject++)
            shunt_net_note(i, subject, text, strlen(text) + 1);
    for (int i = 0; i < PROCESSES; i++) {
        double end = shunt_seconds() + 20;
        while (__atomic_load_n(&heard[i].count, __ATOMIC_ACQUIRE) == 0 && shunt_seconds() < end)
            nap();
        snprintf(text, sizeof text, "from %d", i);
        MUST(strcmp(heard[i].text, text) == 0 && heard[i].count == 1); /* what nobody hears is dropped */
    }
}

static unsigned char byte_of(int from, size_t bytes, size_t i)
{
    return (unsigned char)(from * 37 + bytes * 11 + i * 7 + (i >> 8));
}

static void exchange_data(int me)
{
    static const size_t sizes[] = { 0, 1, 7, 64, 1000, 8191, 8192, 65536, 262145, 1 << 20, (4 << 20) + 3 };
    const int to = (me + 1) % PROCESSES, from = (me + PROCESSES - 1) % PROCESSES;
    const unsigned n = sizeof sizes / sizeof sizes[0];

    for (unsigned round = 0; round < 2 * n; round++) {
        const size_t bytes = sizes[round % n];
        const bool late = round >= n; /* what is received late has come early */
        unsigned char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
        struct shunt_net_part sent, received;
        struct shunt_net_tag tag = { { round, 1, 2, 3 } };
        MUST(out != NULL && in != NULL);
        for (size_t i = 0; i < bytes; i++)
            out[i] = byte_of(me, bytes, i);
        if (!late)
            shunt_net_receive(&received, from, tag, in, bytes);
        shunt_net_send(&sent, to, tag, out, bytes);
        if (late) {
            for (int i = 0; i < 20; i++)
                nap();
            shunt_net_receive(&received, from, tag, in, bytes);
        }
        MUST(finish(&sent, 20) == SHUNT_NET_DONE);
        MUST(finish(&received, 20) == SHUNT_NET_DONE);
        for (size_t i = 0; i < bytes; i++)
            MUST(in[i] == byte_of(from, bytes, i));
        free(out);
        free(in);
    }
}

/* A receive that is cancelled ends; one of another size fails. */
static void refuse_data(int me)
{
    char in[16];
    struct shunt_net_part part, sent;
    struct shunt_net_tag tag = { { 77, me, 0, 0 } };

    shunt_net_receive(&part, (me + 1) % PROCESSES, tag, in, sizeof in);
    shunt_net_cancel(&part);
    MUST(shunt_net_state(&part) == SHUNT_NET_FAILED);
    tag.word[1] = 100;
    shunt_net_send(&sent, (me + 1) % PROCESSES, tag, in, 8);
    shunt_net_receive(&part, (me + PROCESSES - 1) % PROCESSES, tag, in, sizeof in);
    MUST(finish(&part, 20) == SHUNT_NET_FAILED);
    MUST(finish(&sent, 20) == SHUNT_NET_DONE);
}

/* What nobody wants is gone for its sender, too, whether it comes before or after that is said. */
static void drop_data(int me)
{
    static char out[1 << 20];
    const int to = (me + 1) % PROCESSES, from = (me + PROCESSES - 1) % PROCESSES;

    for (int round = 0; round < 4; round++) {
        const size_t bytes = round % 2 == 0 ? 100 : sizeof out;
        struct shunt_net_tag tag = { { 200 + round } };
        struct shunt_net_part sent;
        if (round < 2)
            shunt_net_drop(from, tag);
        shunt_net_send(&sent, to, tag, out, bytes);
        for (int i = 0; round >= 2 && i < 20; i++)
            nap();
        if (round >= 2)
            shunt_net_drop(from, tag);
        MUST(finish(&sent, 20) == SHUNT_NET_DONE);
    }
}

static void run_all(int me)
{
    begin(me, hear);
    exchange_notes(me);
    meet(me, 3);
    exchange_data(me);
    meet(me, 4);
    refuse_data(me);
    meet(me, 5);
    drop_data(me);
    meet(me, 6);
    shunt_net_stop();
    _exit(0);
}

/* Process 0 is killed; the others wait for data of it, one of them for what it sends to it. */
static void lose_one(int me)
{
    static char data[4 << 20];
    struct shunt_net_part part, sent = { .state = SHUNT_NET_IDLE };

    begin(me, hear);
    exchange_notes(me);
    meet(me, 3);
    if (me == 0)
        kill(getpid(), SIGKILL);
    shunt_net_receive(&part, 0, (struct shunt_net_tag){ { 1 } }, data, sizeof data);
    if (me == 1)
        shunt_net_send(&sent, 0, (struct shunt_net_tag){ { 2 } }, data, sizeof data);
    MUST(finish(&part, 10) == SHUNT_NET_FAILED);
    MUST(me != 1 || finish(&sent, 10) == SHUNT_NET_FAILED);
    MUST(shunt_net_lost(0) && !shunt_net_lost(3 - me));
    shunt_net_receive(&part, 0, (struct shunt_net_tag){ { 3 } }, data, sizeof data);
    MUST(shunt_net_state(&part) == SHUNT_NET_FAILED);
    for (board->step[me] = 4; board->step[3 - me] < 4;)
        nap();
    shunt_net_stop();
    _exit(0);
}

/* A process with nothing to do costs no time. */
static void idle(int me)
{
    struct timespec before, after;

    begin(me, hear);
    exchange_notes(me);
    meet(me, 3);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    for (int i = 0; i < 10; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    MUST((double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9 < 0.1);
    meet(me, 4);
    shunt_net_stop();
    _exit(0);
}

static void test_tcp(void **state)
{
    (void)state;
    run_processes(run_all, "tcp,self", true, -1);
}

static void test_shm(void **state)
{
    (void)state;
    run_processes(run_all, "shm,self", false, -1);
}

static void test_lost_tcp(void **state)
{
    (void)state;
    run_processes(lose_one, "tcp,self", true, 0);
}

static void test_lost_shm(void **state)
{
    (void)state;
    run_processes(lose_one, "shm,self", false, 0);
}

static void test_idle(void **state)
{
    (void)state;
    run_processes(idle, "shm,tcp,self", false, -1);
}

static void test_interfaces(void **state)
{
    char names[256];

    (void)state;
    assert_false(shunt_interfaces_choose("", names, sizeof names));
    assert_true(shunt_interfaces_choose("lo", names, sizeof names));
    assert_non_null(strstr(names, "lo"));
    assert_true(shunt_interfaces_choose("=l", names, sizeof names)); /* there is none of this name: UCX's business */
    assert_string_equal(names, "l");
    assert_true(shunt_interfaces_choose("mlx5_0:1,mlx5_1:1", names, sizeof names));
    assert_string_equal(names, "mlx5_0:1,mlx5_1:1");
    shunt_interfaces_choose("^lo", names, sizeof names);
    assert_null(strstr(names, "lo"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interfaces), cmocka_unit_test(test_tcp),      cmocka_unit_test(test_shm),
        cmocka_unit_test(test_lost_tcp),   cmocka_unit_test(test_lost_shm), cmocka_unit_test(test_idle),
    };

    if (!make_board())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
