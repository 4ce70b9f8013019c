/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that are made elsewhere in the caller's buffer, and moved to their place when the operation has ended: of
 * Reduce_scatter in place. What they overwrite meanwhile is kept in host memory.
 */
#ifndef SHUNT_MPI_ASIDE_H
#define SHUNT_MPI_ASIDE_H

#include "base/status.h"
#include "coll/task.h"

struct shunt_aside {
    const char *from; /* where the result is made; NULL: it is in its place */
    char *to;
    size_t bytes;
    char *at;    /* what has to be there again */
    size_t kept; /* bytes of it */
    void *image; /* owned; NULL: nothing */
};

/* Before the operation. False: there is no memory, or the driver refuses. */
bool shunt_aside_keep(const struct shunt_task *task, struct shunt_aside *aside);

/* When it has run: the result goes to its place, and what it has overwritten is there again. */
enum shunt_status shunt_aside_settle(const struct shunt_aside *aside);

/* In any case, at the end. */
void shunt_aside_drop(struct shunt_aside *aside);

#endif
