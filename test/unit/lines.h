/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Catches what a test prints on stderr, write by write: stderr becomes a socket that keeps the bounds of each write(2),
 * so that one line in two writes is seen.
 */
#ifndef SHUNT_TEST_UNIT_LINES_H
#define SHUNT_TEST_UNIT_LINES_H

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int lines_socket, lines_stderr;
static char lines_last[4096];

static inline void lines_start(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    lines_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    lines_socket = ends[0];
}

static inline void lines_stop(void)
{
    dup2(lines_stderr, STDERR_FILENO);
    close(lines_stderr);
    close(lines_socket);
}

/* The next write, or "" if there is none; valid until the next call. */
static inline const char *lines_next(void)
{
    ssize_t n = recv(lines_socket, lines_last, sizeof lines_last - 1, MSG_DONTWAIT);
    lines_last[n > 0 ? n : 0] = '\0';
    return lines_last;
}

/* How many writes there are; takes them all. */
static inline int lines_count(void)
{
    int count = 0;
    while (*lines_next())
        count++;
    return count;
}

#endif
