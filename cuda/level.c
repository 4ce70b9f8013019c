/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far apart two GPUs are, by what is known of them: the machine as it is described or as NVML tells it, where a GPU is
 * found by its UUID or, for a slice of one (MIG), by its PCI address; without that, what the driver says of NVLink; and last
 * the tree of PCI devices, which shows GPUs too that are hidden from this process. What nobody knows is far away.
 */
#include "cuda/level.h"

#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "topo/find.h"

static void uuid_text(const unsigned char uuid[16], char text[48])
{
    int length = sprintf(text, "GPU-");

    for (int i = 0; i < 16; i++)
        length += sprintf(text + length, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

int shunt_level_gpu(const struct shunt_topo *machine, const struct shunt_card *card)
{
    char uuid[48];

    uuid_text(card->uuid, uuid);
    return shunt_topo_gpu(machine, uuid, card->pci);
}

static enum shunt_link_kind distance(const struct shunt_card *a, const struct shunt_card *b, bool nvlink)
{
    const struct shunt_topo *machine = shunt_topo_machine();
    int i = machine != NULL ? shunt_level_gpu(machine, a) : -1, j = machine != NULL ? shunt_level_gpu(machine, b) : -1;
    enum shunt_link_kind kind = i >= 0 && j >= 0 ? machine->links[i][j].kind : SHUNT_LINK_UNKNOWN;
    if (kind == SHUNT_LINK_UNKNOWN && nvlink)
        kind = SHUNT_LINK_NVL;
    return kind == SHUNT_LINK_UNKNOWN ? shunt_pci_distance("/sys", a->pci, b->pci) : kind;
}

bool shunt_level_allows(const struct shunt_card *mine, const struct shunt_card *theirs, bool nvlink)
{
    const int level = shunt_conf->p2p_level;

    if (level >= SHUNT_LINK_SYS) /* whatever the driver allows: nobody is asked */
        return true;
    enum shunt_link_kind kind = distance(mine, theirs, nvlink);
    bool allowed = shunt_link_allowed(kind, level);
    if (!allowed)
        shunt_warn_once(SHUNT_REASON_P2P_LEVEL, "between the GPUs of processes %u and %u of the node is %s (%s), "
                        "SHUNT_P2P_LEVEL is %s", mine->channel, theirs->channel, shunt_link_word(kind),
                        shunt_link_text(kind), shunt_link_word((enum shunt_link_kind)level));
    return allowed;
}
