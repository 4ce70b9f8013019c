/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's one entry: takes what libshunt.so hands over and gives it the shims. Calls no MPI function. */
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "config.h"
#include "mpi/float16.h"
#include "mpi/life.h"
#include "mpi/query.h"
#include "mpi/shim.h"

struct shunt_host_table shunt_host;
void *shunt_next[SHUNT_NSLOTS];
struct shunt_thread *(*shunt_thread)(void);

static void fill_host_table(const struct shunt_front *front)
{
    for (const struct shunt_host_row *row = shunt_host_rows; row->symbol; row++) {
        void *function = row->slot >= 0 ? front->next[row->slot] : front->find(row->symbol);
        if (!function && row->slot >= 0) /* Open MPI's extensions have no PMPIX_ names; that of MPIX_ comes before */
            function = front->next[row->slot - 1];
        memcpy((char *)&shunt_host + row->offset, &function, sizeof function);
    }
}

static void place_shims(const struct shunt_front *front)
{
    for (const struct shunt_shim *shim = shunt_shims; shim->slot >= 0; shim++)
        if (front->next[shim->slot] || shim->always)
            front->target[shim->slot] = shim->function;
}

/* A handle as a number; of MPIs where it is an int, with its sign. */
static uintptr_t find_datatype(unsigned which)
{
    return (uintptr_t)shunt_float16_get(which);
}

__attribute__((visibility("default"))) shunt_engine_start_function shunt_engine_start;

enum shunt_status shunt_engine_start(const struct shunt_front *front)
{
    shunt_log_use(front->log);
    shunt_conf_use(front->conf);
    if (front->digest != SHUNT_CALLS_DIGEST || strcmp(front->version, PACKAGE_VERSION) != 0) {
        shunt_log_always("libshunt.so (%s) and its engine (%s) are of different builds: calls pass through",
                         front->version, PACKAGE_VERSION);
        return SHUNT_ERR_INVALID;
    }
    if (shunt_thread) /* started by another copy of libshunt.so, which sees the calls first */
        return SHUNT_PASS;
    shunt_thread = front->thread;
    shunt_query_start(front->gpu);
    memcpy(shunt_next, front->next, sizeof shunt_next);
    fill_host_table(front);
    front->services->flush = shunt_life_flush;
    front->services->datatype = find_datatype;
    place_shims(front);
    return SHUNT_OK;
}
