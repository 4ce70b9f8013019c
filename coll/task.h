/* SPDX-License-Identifier: BSD-3-Clause */
/* A call that classify understood: bytes, element type, operation, memory. No MPI type in it. */
#ifndef SHUNT_COLL_TASK_H
#define SHUNT_COLL_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/spans.h"
#include "coll/colls.h"
#include "cuda/gpu.h"
#include "cuda/types.h"

struct shunt_task {
    enum shunt_coll coll;
    uint64_t count; /* elements; with spans: of the largest block of this rank */
    enum shunt_type type;
    enum shunt_op op;
    int root;
    bool in_place;
    bool neutral;     /* zero elements: takes part in nothing */
    const void *send; /* in place: the same as recv */
    void *recv;
    struct shunt_mem send_mem, recv_mem;
    void *home; /* where the result is to be moved from recv when the operation has ended; NULL: it is there */
    const struct shunt_wishes *wishes; /* of the communicator; NULL: the settings */
    const struct shunt_spans *spans; /* blocks that differ, of each wave: the caller's, until the operation has ended; else NULL */
    uint32_t waves; /* with spans: how many, up to SHUNT_SPAN_WAVES */
};

/* What lower layers need of the host MPI, as functions: called now and then from wait loops. */
struct shunt_progress {
    void (*poke)(void *context); /* drives the host MPI's progress on the operation's communicator */
    void *context;
};

#endif
