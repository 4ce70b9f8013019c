/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines for people. Silent unless SHUNT_DEBUG asks, except shunt_log_always (refused settings, mismatched collectives,
 * a program or MPI that shunt cannot serve). A level check is one load and one branch; errno is kept; a line is
 * written by one write(2) to SHUNT_DEBUG_FILE or stderr, cut at about 1000 bytes. Safe in any thread, takes no lock,
 * allocates nothing.
 *
 *     shunt_warn_once(SHUNT_REASON_NO_IPC, "device %d: %s", device, text);   once per reason and process
 *     shunt_info("cuda", "opened block %u of rank %d", reg, rank);
 *
 * prints "shunt [host:pid rank R] cuda: opened block 3 of rank 1".
 */
#ifndef SHUNT_BASE_LOG_H
#define SHUNT_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/reasons.h"

enum shunt_log_level { SHUNT_LOG_OFF, SHUNT_LOG_WARN, SHUNT_LOG_INFO, SHUNT_LOG_TRACE };

/* X(word, what its lines are about): the words to use as `subsystem`, and those of SHUNT_DEBUG_SUBSYS. */
#define SHUNT_SUBSYSTEMS(X)                                                                        \
    X(front, "finding the program's MPI and loading the engine for it")                            \
    X(arena, "the node's shared memory: who joined, who left")                                     \
    X(board, "agreement: arrivals, decisions, vetoes")                                             \
    X(mpi, "intercepted calls, requests, start and end of MPI")                                    \
    X(comm, "communicators and their boards")                                                      \
    X(coll, "choice of the algorithm, launches")                                                   \
    X(cuda, "driver, contexts, memory, IPC, kernels")                                              \
    X(message, "messages between the GPUs of a node")                                              \
    X(stage, "copies through host memory")                                                         \
    X(topo, "how the GPUs are joined")                                                             \
    X(net, "UCX, and GPUs on several nodes")

enum { SHUNT_LOG_LINES = 32 }; /* different lines of shunt_log_always in one process, the rest is not shown */

/* One per process, owned by libshunt.so; engines get its address at start (shunt_log_use). */
struct shunt_log_state {
    int level;           /* enum shunt_log_level */
    int fd;              /* of `file`; -1: not open yet, -2: cannot be opened, use stderr */
    int rank;            /* -1: not known yet */
    unsigned subsystems; /* bit i: subsystem i of SHUNT_SUBSYSTEMS is shown */
    const char *file;    /* SHUNT_DEBUG_FILE, never NULL; "": stderr */
    uint64_t device, inode;             /* of the file that `fd` was opened on */
    uint64_t said[SHUNT_LOG_LINES];     /* hashes of the lines of shunt_log_always so far; 0: free */
    unsigned char warned[SHUNT_NREASONS];
};

extern struct shunt_log_state *shunt_log; /* never NULL */

/*
 * Take level, subsystems and file from shunt_conf, the rank from the launcher if it tells. SHUNT_DEBUG=help: prints the
 * levels and subsystems, on the job's first rank only where the launcher tells which that is.
 */
void shunt_log_start(void);

/* Engines: use the front's. */
void shunt_log_use(struct shunt_log_state *state);
void shunt_log_set_rank(int rank);

__attribute__((format(printf, 3, 4))) void shunt_log_line(int level, const char *subsystem, const char *format, ...);

/* "shunt: <text>", whatever the level. A line that this process has already printed is not printed again. */
__attribute__((format(printf, 1, 2))) void shunt_log_always(const char *format, ...);

/* A line that was asked for (statistics, help): "shunt [host] <text>" for the node, else with pid and rank too. */
__attribute__((format(printf, 2, 3))) void shunt_log_report(bool node, const char *format, ...);

/* A warn record, once per reason and process: "<words of the reason>: <detail>". */
__attribute__((format(printf, 2, 3))) void shunt_warn_once(enum shunt_reason reason, const char *format, ...);

#define SHUNT_LOG_AT(lvl, subsystem, ...)                         \
    do {                                                          \
        if (shunt_log->level >= (lvl))                            \
            shunt_log_line((lvl), (subsystem), __VA_ARGS__);      \
    } while (0)
#define shunt_warn(subsystem, ...)  SHUNT_LOG_AT(SHUNT_LOG_WARN, subsystem, __VA_ARGS__)
#define shunt_info(subsystem, ...)  SHUNT_LOG_AT(SHUNT_LOG_INFO, subsystem, __VA_ARGS__)
#define shunt_trace(subsystem, ...) SHUNT_LOG_AT(SHUNT_LOG_TRACE, subsystem, __VA_ARGS__)

#endif
