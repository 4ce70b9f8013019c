/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPUs of some processes as a machine. A GPU is found by its UUID or PCI address in what SHUNT_TOPO_FILE describes or
 * NVML tells; which pairs reach each other is what their processes have found out (probe.h), whatever a table says.
 */
#include "cuda/machine.h"

#include <stdio.h>
#include <string.h>

#include "cuda/level.h"
#include "cuda/peer.h"
#include "topo/find.h"

void shunt_machine_key(struct shunt_arena *arena, const int *slots, int n, struct shunt_machine_key *key)
{
    uint32_t hosted[SHUNT_KRANKS], channel[SHUNT_KRANKS];

    memset(key, 0, sizeof *key);
    key->n = n;
    for (int i = 0; i < n; i++) {
        const struct shunt_card *card = shunt_card(arena, slots[i]);
        key->slot[i] = slots[i];
        memcpy(key->uuid[i], card->uuid, sizeof key->uuid[i]);
        channel[i] = card->channel;
        hosted[i] = atomic_load_explicit(&card->hosted, memory_order_acquire); /* either of two says it for both */
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            key->hosted[i] |= ((hosted[i] >> channel[j] | hosted[j] >> channel[i]) & 1) << j;
}

static void describe_unknown(struct shunt_arena *arena, const struct shunt_machine_key *key, struct shunt_topo *machine)
{
    memset(machine, 0, sizeof *machine);
    machine->n = key->n;
    machine->n_nodes = 1;
    for (int i = 0; i < key->n; i++) {
        machine->gpus[i].numa = -1;
        for (int j = 0; j < key->n; j++)
            machine->links[i][j] = shunt_peer_whole_lines(arena, key->slot[i], key->slot[j]) ?
                                       (struct shunt_link){ SHUNT_LINK_NVL, 1 } :
                                       (struct shunt_link){ SHUNT_LINK_UNKNOWN, 0 };
    }
    shunt_topo_finish(machine);
}

void shunt_machine_of(struct shunt_arena *arena, const struct shunt_machine_key *key, struct shunt_topo *machine)
{
    const struct shunt_topo *all = shunt_topo_machine();
    int gpus[SHUNT_KRANKS];
    bool known = all != NULL;

    for (int i = 0; i < key->n && known; i++) {
        gpus[i] = shunt_level_gpu(all, shunt_card(arena, key->slot[i]));
        known = gpus[i] >= 0;
    }
    if (known)
        shunt_topo_pick(all, gpus, key->n, machine);
    else
        describe_unknown(arena, key, machine);
    for (int i = 0; i < key->n; i++)
        for (int j = 0; j < key->n; j++)
            machine->refused[i][j] = key->hosted[i] >> j & 1;
}
