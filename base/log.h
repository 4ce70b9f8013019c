/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines for people. Silent unless SHUNT_DEBUG asks, except shunt_log_always (refused settings, mismatched collectives,
 * a program or MPI that shunt cannot serve). A level check is one load and one branch; errno is kept; a line is
 * written by one write(2) to SHUNT_DEBUG_FILE or stderr.
 *
 *     shunt_warn_once(SHUNT_REASON_NO_IPC, "device %d: %s", device, text);   once per reason and process
 *     shunt_info("cuda", "opened block %u of rank %d", reg, rank);
 */
#ifndef SHUNT_BASE_LOG_H
#define SHUNT_BASE_LOG_H

#include "base/reasons.h"

enum shunt_log_level { SHUNT_LOG_OFF, SHUNT_LOG_WARN, SHUNT_LOG_INFO, SHUNT_LOG_TRACE };

/* One per process, owned by libshunt.so; engines get its address at start (shunt_log_use). */
struct shunt_log_state {
    int level;               /* enum shunt_log_level */
    int fd;                  /* -1: stderr */
    int rank;                /* -1: not known yet */
    unsigned subsystems;     /* mask of enum shunt_log_subsystem (log.c) */
    unsigned char warned[SHUNT_NREASONS];
};

extern struct shunt_log_state *shunt_log; /* never NULL */

void shunt_log_use(struct shunt_log_state *state);
void shunt_log_set_rank(int rank);

__attribute__((format(printf, 3, 4))) void shunt_log_line(int level, const char *subsystem, const char *format, ...);
__attribute__((format(printf, 1, 2))) void shunt_log_always(const char *format, ...);
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
