/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of several processes that meet over UCX. PROCESSES is set before this is included. */
#ifndef SHUNT_TEST_UNIT_PROCESSES_H
#define SHUNT_TEST_UNIT_PROCESSES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ucx/net.h"

enum { ADDRESS = 16384 };

/* What the processes share: their addresses, and how far each has come. */
static struct board {
    size_t bytes[PROCESSES];
    struct shunt_process process[PROCESSES];
    bool strangers; /* to each other, as processes of several machines are */
    char address[PROCESSES][ADDRESS];
    _Atomic int step[PROCESSES];
    char more[256]; /* whatever a test has to tell */
} *board;

static bool look(void)
{
    return false;
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

/* In a child failures are exit codes. */
#define MUST(condition)                                                                    \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "process %d, line %d: %s\n", me, __LINE__, #condition);        \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

static void meet(int me, int step)
{
    double end = shunt_seconds() + 30;

    board->step[me] = step;
    for (int i = 0; i < PROCESSES; i++)
        while (board->step[i] < step) {
            nap();
            MUST(shunt_seconds() < end);
        }
}

/* Who hears notes about consent. */
static void begin(int me, void (*hear)(int from, const void *note, size_t bytes))
{
    const struct shunt_net_hooks hooks = { hear, look };
    size_t begins[PROCESSES + 1] = { 0 };
    static char all[PROCESSES * ADDRESS];

    MUST(shunt_net_start(&hooks) == SHUNT_OK);
    const void *address = shunt_net_address(&board->bytes[me]);
    MUST(address != NULL && board->bytes[me] <= ADDRESS);
    memcpy(board->address[me], address, board->bytes[me]);
    if (!board->strangers)
        board->process[me] = shunt_process_self();
    meet(me, 1);
    for (int i = 0; i < PROCESSES; i++) {
        memcpy(all + begins[i], board->address[i], board->bytes[i]);
        begins[i + 1] = begins[i] + board->bytes[i];
    }
    MUST(shunt_net_peers(PROCESSES, me, all, begins, board->process) == SHUNT_OK);
    meet(me, 2);
}

static void run_processes(void (*body)(int), const char *transports, bool strangers, int killed)
{
    pid_t child[PROCESSES];
    int status, bad = 0;

    memset(board, 0, sizeof *board);
    board->strangers = strangers;
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            setenv("SHUNT_UCX_TLS", transports, 1);
            alarm(60);
            body(i);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        waitpid(child[i], &status, 0);
        bad += i != killed && status != 0;
    }
    assert_int_equal(bad, 0);
}

static bool make_board(void)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board != MAP_FAILED;
}

#endif
