/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libshunt.so hands to the engine that it has loaded, and what it keeps for each thread.
 *
 * Front and engine share settings and log: there is one of each in a process, in the front. The front knows no MPI
 * type; functions travel as addresses, numbered as front/slots.def says.
 */
#ifndef SHUNT_FRONT_FRONT_H
#define SHUNT_FRONT_FRONT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct shunt_conf;
struct shunt_log_state;

/* What libshunt.so offers besides MPI and only an engine can do. A function that is NULL has nothing to do. */
struct shunt_services {
    int (*flush)(void);                   /* shunt_flush */
    uintptr_t (*datatype)(unsigned which); /* shunt_type_float16 (0), shunt_type_bfloat16 (1): the handle as a number */
};

/* One per thread, in the thread-local storage of the front, where the fastest model works. At most 64 bytes. */
struct shunt_thread {
    volatile uintptr_t *outer; /* see mpi/shim.h: the mark of the call of the program that is under way, or NULL */
};

/* Valid as long as the process lives; the arrays have SHUNT_NSLOTS entries. */
struct shunt_front {
    const char *version; /* PACKAGE_VERSION of the front */
    uint32_t digest;     /* SHUNT_CALLS_DIGEST of the front */
    bool gpu;            /* this node has one, real or simulated */
    const struct shunt_conf *conf;
    struct shunt_log_state *log;
    struct shunt_thread *(*thread)(void);
    void *(*find)(const char *symbol); /* any function of the host, NULL if it has none of that name */
    void *const *next;                 /* the host's functions, NULL where it has none */
    void **target;                     /* in: as next; the engine puts its shims here before it returns */
    struct shunt_services *services;   /* in: zero; filled likewise */
};

/*
 * The one symbol that an engine shows. Must not call MPI. SHUNT_OK: target[] is final. Anything else: the engine has
 * said why, target[] is not looked at and all calls pass.
 */
#define SHUNT_ENGINE_START "shunt_engine_start"
typedef enum shunt_status shunt_engine_start_function(const struct shunt_front *front);

#endif
