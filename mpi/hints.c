/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hints: what the info of a communicator asks for, by keys like shunt_allreduce (coll/wishes.h). They come with
 * Comm_set_info and Comm_dup_with_info; Comm_dup passes them on. Its info tells under shunt_topology how its GPUs are joined.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "coll/run.h"
#include "mpi/comm.h"
#include "mpi/life.h"

enum { VALUE = 256 };

static const struct shunt_wishes *read_info(MPI_Info info)
{
    static _Thread_local char values[SHUNT_HINTS][VALUE];
    struct shunt_hint hints[SHUNT_HINTS];
    int n = 0;

    for (unsigned i = 0; i < SHUNT_HINTS && info != MPI_INFO_NULL; i++) {
        const char *key = shunt_hint_key(i);
        int found = 0;
        if (!key || shunt_host.Info_get(info, key, VALUE - 1, values[n], &found) != MPI_SUCCESS || !found)
            continue;
        hints[n] = (struct shunt_hint){ key, values[n] };
        n++;
    }
    return shunt_wishes_make(hints, n);
}

void shunt_hook_hints_after(const struct shunt_call *call, int rc)
{
    const bool dup = call->id == SHUNT_CALL_Comm_dup, with_info = call->id == SHUNT_CALL_Comm_dup_with_info;
    int saved = errno;

    if (rc != MPI_SUCCESS || shunt_life_forked() || !(dup || with_info || call->id == SHUNT_CALL_Comm_set_info))
        return;
    struct shunt_comm *from = shunt_comm_get(call->comm);
    struct shunt_comm *comm = dup || with_info ? shunt_comm_find(*call->newcomm) : from;
    if (comm != NULL)
        atomic_store_explicit(&comm->wishes, dup ? from != NULL ? from->wishes : NULL : read_info(call->info),
                              memory_order_relaxed);
    errno = saved;
}

/* "MACHINE GROUP FARTHEST", two hashes and a word, once the ranks have met on the GPUs. */
void shunt_hook_hints_told(const struct shunt_call *call, int rc)
{
    const struct shunt_comm *comm = call->id == SHUNT_CALL_Comm_get_info ? shunt_comm_find(call->comm) : NULL;
    struct shunt_topology topology;
    MPI_Info *info = call->recvbuf;
    char text[64];
    int saved = errno;

    if (rc == MPI_SUCCESS && comm && comm->board && !shunt_life_forked() && *info != MPI_INFO_NULL &&
        shunt_select_topology(shunt_life_arena(), comm->slots, comm->size, &topology)) {
        snprintf(text, sizeof text, "%016llx %016llx %s", (unsigned long long)topology.machine,
                 (unsigned long long)topology.group, topology.farthest);
        shunt_host.Info_set(*info, "shunt_topology", text);
    }
    errno = saved;
}
