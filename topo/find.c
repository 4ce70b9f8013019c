/* SPDX-License-Identifier: BSD-3-Clause */
/* This node, or what SHUNT_TOPO_FILE describes; see find.h. */
#include "topo/find.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"

#define SYS "/sys"

void shunt_topo_find(struct shunt_topo *topo)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one process asks NVML from one thread at a time */
    int before = errno;

    memset(topo, 0, sizeof *topo);
    topo->n_nodes = 1;
    strcpy(topo->source, "this machine");
    pthread_mutex_lock(&lock);
    shunt_nvml_find(topo);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < topo->n; i++) {
        struct shunt_topo_gpu *gpu = &topo->gpus[i];
        gpu->numa = (int16_t)shunt_pci_numa(SYS, gpu->pci);
        shunt_pci_cpus(SYS, gpu->pci, gpu->cpus, sizeof gpu->cpus);
        for (int j = 0; j < topo->n; j++)
            if (topo->links[i][j].kind == SHUNT_LINK_UNKNOWN)
                topo->links[i][j].kind = (uint8_t)shunt_pci_distance(SYS, gpu->pci, topo->gpus[j].pci);
    }
    shunt_pci_nics(SYS, topo);
    shunt_topo_finish(topo);
    errno = before;
}

void shunt_topo_identify(struct shunt_topo *described, const struct shunt_topo *found)
{
    int here = 0;

    for (int i = 0; i < described->n; i++) {
        if (*described->gpus[i].uuid || *described->gpus[i].pci)
            return;
        here += described->gpus[i].node == 0;
    }
    for (int i = 0; here == found->n && i < here; i++) {
        memcpy(described->gpus[i].uuid, found->gpus[i].uuid, sizeof described->gpus[i].uuid);
        memcpy(described->gpus[i].pci, found->gpus[i].pci, sizeof described->gpus[i].pci);
    }
}

static struct shunt_topo *machine;

static void find_machine(void)
{
    const char *path = shunt_conf->topo_file;
    struct shunt_topo *found = calloc(1, sizeof *found);
    struct shunt_topo *described = *path ? calloc(1, sizeof *described) : NULL;
    char error[160];

    if (found != NULL)
        shunt_topo_find(found);
    machine = found;
    if (found == NULL || described == NULL) {
        free(described);
        return;
    }
    if (shunt_topo_load(path, described, error) != SHUNT_OK) {
        shunt_log_always("SHUNT_TOPO_FILE=%s cannot be used: %s", path, error);
        free(described);
        return;
    }
    shunt_topo_identify(described, found);
    machine = described;
    free(found);
}

const struct shunt_topo *shunt_topo_machine(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_machine);
    return machine;
}
