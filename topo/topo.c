/* SPDX-License-Identifier: BSD-3-Clause */
/* Links and ways between GPUs; see topo.h. */
#include "topo/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* More NVLinks than this no GPU has. So if the matrix shows more in a row, they end in switches, and all pairs share them. */
#define LANES_OF_A_GPU 18

static const struct {
    const char *word, *text;
} links[] = {
#define X(id, word, text) [SHUNT_LINK_##id] = { word, text },
    SHUNT_LINKS(X)
#undef X
};

const char *shunt_link_word(enum shunt_link_kind kind)
{
    return kind < SHUNT_NLINKS ? links[kind].word : "?";
}

const char *shunt_link_text(enum shunt_link_kind kind)
{
    return kind < SHUNT_NLINKS ? links[kind].text : links[SHUNT_LINK_UNKNOWN].text;
}

void shunt_link_print(struct shunt_link link, char word[16])
{
    if (link.kind == SHUNT_LINK_NVL)
        snprintf(word, 16, "NV%u", link.lanes);
    else
        snprintf(word, 16, "%s", link.kind == SHUNT_LINK_LOC ? "X" : shunt_link_word(link.kind));
}

bool shunt_link_parse(const char *word, struct shunt_link *link)
{
    char *end;

    if (strncmp(word, "NV", 2) == 0 && word[2] >= '1' && word[2] <= '9') {
        long lanes = strtol(word + 2, &end, 10);
        *link = (struct shunt_link){ SHUNT_LINK_NVL, (uint8_t)lanes };
        return *end == '\0' && lanes < 256;
    }
    for (int kind = SHUNT_LINK_PIX; kind < SHUNT_NLINKS; kind++) {
        if (strcmp(word, links[kind].word) == 0) {
            *link = (struct shunt_link){ (uint8_t)kind, 0 };
            return true;
        }
    }
    *link = (struct shunt_link){ SHUNT_LINK_LOC, 0 };
    return strcmp(word, "X") == 0;
}

bool shunt_link_allowed(enum shunt_link_kind kind, int level)
{
    const int farthest = level == SHUNT_LINK_PHB ? SHUNT_LINK_NODE : level;

    return (int)(kind == SHUNT_LINK_UNKNOWN ? SHUNT_LINK_SYS : kind) <= farthest;
}

bool shunt_pci_normal(const char *pci, char normal[16])
{
    unsigned domain, bus, device, function = 0;
    int n = sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &device, &function);

    if (n < 3 || domain > 0xffffff || bus > 0xff || device > 0x1f || function > 7)
        return false;
    snprintf(normal, 16, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return true;
}

int shunt_topo_gpu(const struct shunt_topo *topo, const char *uuid, const char *pci)
{
    char normal[16];
    bool by_pci = pci != NULL && shunt_pci_normal(pci, normal);

    for (int i = 0; uuid != NULL && *uuid && i < topo->n; i++)
        if (strcasecmp(topo->gpus[i].uuid, uuid) == 0)
            return i;
    for (int i = 0; by_pci && i < topo->n; i++)
        if (topo->gpus[i].node == 0 && strcmp(topo->gpus[i].pci, normal) == 0)
            return i;
    return -1;
}

void shunt_topo_pick(const struct shunt_topo *topo, const int *gpus, int n, struct shunt_topo *part)
{
    memcpy(part, topo, sizeof *part);
    part->n = n;
    for (int i = 0; i < n; i++) {
        part->gpus[i] = topo->gpus[gpus[i]];
        memcpy(part->nic_links[i], topo->nic_links[gpus[i]], sizeof part->nic_links[i]);
        for (int j = 0; j < n; j++) {
            part->links[i][j] = topo->links[gpus[i]][gpus[j]];
            part->refused[i][j] = topo->refused[gpus[i]][gpus[j]];
        }
    }
}

void shunt_topo_finish(struct shunt_topo *topo)
{
    topo->switched = false;
    for (int i = 0; i < topo->n; i++) {
        int lanes = 0;
        for (int j = 0; j < topo->n; j++) {
            if (topo->gpus[i].node != topo->gpus[j].node)
                topo->links[i][j] = (struct shunt_link){ SHUNT_LINK_NET, 0 };
            if (topo->links[i][j].kind == SHUNT_LINK_NVL)
                lanes += topo->links[i][j].lanes;
            if (i != j && (topo->gpus[i].mig || topo->gpus[j].mig))
                topo->refused[i][j] = true;
        }
        topo->links[i][i] = (struct shunt_link){ SHUNT_LINK_LOC, 0 };
        topo->switched |= lanes > LANES_OF_A_GPU;
        for (int k = 0; k < topo->n_nics; k++)
            if (topo->gpus[i].node != topo->nics[k].node)
                topo->nic_links[i][k] = (struct shunt_link){ SHUNT_LINK_NET, 0 };
    }
}

/* ---- reaching each other ---- */

const char *shunt_via_word(enum shunt_via via)
{
    static const char *const words[] = { "itself", "peer access", "host memory (SHM)", "host memory (staged)", "the network" };
    return words[via];
}

enum shunt_via shunt_topo_via(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, int i, int j,
                              const char **why)
{
    enum shunt_link_kind kind = topo->links[i][j].kind;

    if (i == j) {
        *why = "the same GPU";
        return SHUNT_VIA_SELF;
    }
    if (kind == SHUNT_LINK_NET) {
        *why = "they are on different nodes";
        return SHUNT_VIA_NET;
    }
    if (limits->p2p_disable)
        *why = "SHUNT_P2P_DISABLE=1";
    else if (topo->gpus[i].mig || topo->gpus[j].mig)
        *why = "slices of GPUs (MIG) do not reach others";
    else if (topo->refused[i][j])
        *why = "the driver refuses peer access";
    else if (!shunt_link_allowed(kind, limits->p2p_level))
        *why = "SHUNT_P2P_LEVEL does not go so far";
    else {
        *why = shunt_link_text(kind);
        return SHUNT_VIA_PEER;
    }
    return limits->shm_disable ? SHUNT_VIA_HOST : SHUNT_VIA_SHM;
}

/* Of one NVLink, where it is of these. */
uint32_t shunt_topo_lane(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, int i, int j)
{
    const char *why;
    enum shunt_via via = shunt_topo_via(topo, limits, i, j, &why);

    return shunt_link_cost(via == SHUNT_VIA_SHM || via == SHUNT_VIA_HOST ? (int)SHUNT_LINK_BY_HOST : topo->links[i][j].kind)->width;
}

uint32_t shunt_topo_width(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, int i, int j)
{
    const char *why;
    bool lanes = topo->links[i][j].kind == SHUNT_LINK_NVL && shunt_topo_via(topo, limits, i, j, &why) == SHUNT_VIA_PEER;

    return shunt_topo_lane(topo, limits, i, j) * (lanes ? topo->links[i][j].lanes : 1);
}
