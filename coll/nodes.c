/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes of a job and of a communicator; nodes.h. */
#include "coll/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "coll/consent.h"
#include "cuda/spare.h"
#include "ucx/net.h"

/* What all have told; by world rank. */
static struct {
    int n;
    struct shunt_node_record *records;
} job;

void shunt_nodes_describe(const struct shunt_arena *arena, struct shunt_node_record *record, const void **address)
{
    struct shunt_identity identity;
    size_t bytes = 0;

    *record = (struct shunt_node_record){
#define X(field, name) .field = shunt_conf->field,
        SHUNT_NODE_SETTINGS(X)
#undef X
    };
    *address = NULL;
    if (arena == NULL || shunt_identity_find(&identity) != SHUNT_OK)
        return;
    shunt_arena_node(arena, record->node);
    record->process = shunt_process_self();
    record->machine = strtoull(identity.machine + sizeof SHUNT_IDENTITY_PREFIX - 1 + 16, NULL, 16);
    if (shunt_net_start(&shunt_consent_hooks) == SHUNT_OK)
        *address = shunt_net_address(&bytes);
    record->address_bytes = *address != NULL ? bytes : 0;
}

static size_t *lay_out(int n, const struct shunt_node_record *records)
{
    size_t *begins = malloc(((size_t)n + 1) * sizeof *begins);

    if (begins == NULL)
        return NULL;
    begins[0] = 0;
    for (int i = 0; i < n; i++)
        begins[i + 1] = begins[i] + records[i].address_bytes;
    return begins;
}

/* The setting in which these two differ; NULL: none. */
static const char *find_difference(const struct shunt_node_record *a, const struct shunt_node_record *b)
{
#define X(field, name)         \
    if (a->field != b->field)  \
        return name;
    SHUNT_NODE_SETTINGS(X)
#undef X
    return NULL;
}

/* All ranks come to the same answer, for all have the same records. */
static bool have_same_settings(int n, int self, const struct shunt_node_record *records)
{
    const char *name = NULL;
    int i = 0;

    while (++i < n && (name = find_difference(&records[0], &records[i])) == NULL)
        ;
    if (name != NULL && self == 0)
        shunt_log_always("%s is not the same on ranks 0 and %d: calls on device memory of several nodes are staged", name, i);
    return name == NULL;
}

void shunt_nodes_accept(int n, int self, const struct shunt_node_record *records, const void *addresses)
{
    size_t *begins = lay_out(n, records);
    struct shunt_process *processes = calloc((size_t)n, sizeof *processes);
    struct shunt_node_record *copy = malloc((size_t)n * sizeof *copy);
    enum shunt_status status = SHUNT_ERR_MEMORY;

    if (!have_same_settings(n, self, records)) {
        status = SHUNT_PASS;
    } else if (begins != NULL && processes != NULL && copy != NULL && shunt_consent_start(n) == SHUNT_OK) {
        memcpy(copy, records, (size_t)n * sizeof *copy);
        for (int i = 0; i < n; i++)
            if (records[i].machine == records[self].machine)
                processes[i] = records[i].process;
        status = shunt_net_peers(n, self, addresses, begins, processes);
    }
    if (status == SHUNT_OK) {
        job.n = n;
        job.records = copy;
    } else {
        shunt_info("net", "no network: %s", shunt_status_text(status));
        free(copy);
    }
    free(processes);
    free(begins);
}

void shunt_nodes_end(void)
{
    shunt_spare_close();
}

void shunt_nodes_stop(void)
{
    shunt_net_stop();
    shunt_consent_stop();
    free(job.records);
    job.records = NULL;
    job.n = 0;
}

/* ---- teams ---- */

static bool same_node(int a, int b)
{
    return memcmp(job.records[a].node, job.records[b].node, sizeof job.records[a].node) == 0;
}

/* Put rank i where it belongs. */
static void place_rank(struct shunt_team *team, int i)
{
    int node = 0;

    while (node < team->nodes && !same_node(team->world[team->first[node]], team->world[i]))
        node++;
    if (node == team->nodes) {
        team->first[node] = i;
        team->size[node] = 0;
        team->nodes++;
    }
    team->node[i] = node;
    team->place[i] = team->size[node]++;
}

enum shunt_status shunt_team_make(int n, int me, const int *world, struct shunt_team *team)
{
    *team = (struct shunt_team){ .n = n, .me = me };
    for (int i = 0; i < n; i++)
        if (world[i] < 0 || world[i] >= job.n || job.records[world[i]].address_bytes == 0)
            return SHUNT_PASS;
    int *memory = malloc((size_t)n * 5 * sizeof *memory);
    if (memory == NULL)
        return SHUNT_ERR_MEMORY;
    team->world = memory;
    team->node = memory + n;
    team->place = memory + 2 * n;
    team->first = memory + 3 * n;
    team->size = memory + 4 * n;
    memcpy(team->world, world, (size_t)n * sizeof *world);
    for (int i = 0; i < n; i++)
        place_rank(team, i);
    team->least = n;
    for (int i = 0; i < team->nodes; i++) {
        team->least = team->size[i] < team->least ? team->size[i] : team->least;
        team->most = team->size[i] > team->most ? team->size[i] : team->most;
    }
    if (team->nodes > 1 && team->most <= SHUNT_BOARD_RANKS)
        return SHUNT_OK;
    shunt_team_drop(team);
    return SHUNT_PASS;
}

void shunt_team_drop(struct shunt_team *team)
{
    free(team->world);
    *team = (struct shunt_team){ 0 };
}

int shunt_team_rank(const struct shunt_team *team, int node, int place)
{
    for (int i = team->first[node]; i < team->n; i++)
        if (team->node[i] == node && team->place[i] == place)
            return i;
    return -1;
}
