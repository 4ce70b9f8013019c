/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one exchange of a job on several nodes; exchange.h. Whether it takes place must come out the same on all ranks: it follows from
 * the settings of all ranks of this machine, and from how many ranks the launcher has announced for it, which on several nodes is
 * nowhere all of them.
 */
#include "mpi/exchange.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/identity.h"
#include "base/log.h"
#include "coll/nodes.h"
#include "mpi/call.h"
#include "pt2pt/distant.h"

/*
 * Without an arena this rank's own settings are all there is. With one it takes part if any rank of its machine wants it, with or without a
 * network of its own.
 */
static bool is_wanted(const struct shunt_arena *arena, int size)
{
    struct shunt_identity identity;
    bool apart = *shunt_conf->node != 0;
    bool wanted = arena ? shunt_arena_net(arena, &apart) : shunt_conf->net != SHUNT_NET_MPI;

    if (!wanted || apart)
        return wanted;
    return shunt_identity_find(&identity) == SHUNT_OK && identity.local_size > 0 && identity.local_size < size;
}

/* The addresses, whose sizes are known by now; NULL: there are none, on no rank. */
static char *gather_addresses(const struct shunt_node_record *records, const void *own, int rank, int size)
{
    int *counts = malloc((size_t)size * sizeof *counts), *begins = malloc((size_t)size * sizeof *begins);
    uint64_t total = 0;
    char *all = NULL;

    for (int i = 0; counts && begins && i < size; i++) {
        counts[i] = (int)records[i].address_bytes;
        begins[i] = (int)total;
        total += records[i].address_bytes;
    }
    if (counts && begins && total > 0 && total < INT_MAX && (all = malloc(total)) &&
        shunt_host.Allgatherv(own, counts[rank], MPI_BYTE, all, counts, begins, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS) {
        free(all);
        all = NULL;
    }
    free(counts);
    free(begins);
    return all;
}

/* The token of descriptors for other nodes is made from a number that only ranks of the job know, and is no arena's own. */
static void start_distant(const struct shunt_node_record *own, int rank, int size, const struct shunt_node_record *records)
{
    const uint64_t token[2] = { records[0].node[0] * UINT64_C(0x9e3779b97f4a7c15) + 1, ~records[0].node[1] };

    if (own->address_bytes > 0)
        shunt_distant_start(size, rank, token);
}

void shunt_exchange(const struct shunt_arena *arena, int rank, int size)
{
    struct shunt_node_record own, *records;
    const void *address;

    if (size < 2 || !is_wanted(arena, size))
        return;
    shunt_nodes_describe(shunt_conf->net != SHUNT_NET_MPI ? arena : NULL, &own, &address);
    if (own.address_bytes == 0)
        shunt_warn("net", "this rank has no network: calls on device memory of several nodes are staged");
    records = malloc((size_t)size * sizeof *records);
    if (records && shunt_host.Allgather(&own, sizeof own, MPI_BYTE, records, sizeof own, MPI_BYTE, MPI_COMM_WORLD) == MPI_SUCCESS) {
        char *all = gather_addresses(records, address, rank, size);
        if (all) {
            shunt_nodes_accept(size, rank, records, all);
            start_distant(&own, rank, size, records);
        }
        free(all);
    }
    free(records);
}
