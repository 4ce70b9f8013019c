/* SPDX-License-Identifier: BSD-3-Clause */
/* What NVML tells of the node's GPUs. Opened for as long as it is asked; its functions come from one list. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "topo/find.h"

struct nvmlDevice_st;

struct nvml_pci { /* nvmlPciInfo_t */
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

enum { REMOTE_SWITCH = 2, MOST_LINKS = 36, CAPABILITY_WRITE = 1, STATUS_OK = 0 };

static struct nvml {
#define NVML(name, parameters) int(*name) parameters;
#include "topo/nvml.def"
#undef NVML
} nvml;

/* 0: the function is there and answers success. */
#define ASK(name, ...) (!nvml.name || nvml.name(__VA_ARGS__))

static void find_functions(void *library)
{
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define NVML(name, parameters) { #name, offsetof(struct nvml, name) },
#include "topo/nvml.def"
#undef NVML
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(library, functions[i].name);
        memcpy((char *)&nvml + functions[i].offset, &f, sizeof f);
    }
}

/* ---- NVLinks ---- */

/* Where the active NVLinks of a GPU lead: into switches, which join all, or to a device. */
struct lanes {
    int switched, n;
    struct nvml_pci remote[MOST_LINKS];
};

static void find_lanes(struct nvmlDevice_st *device, struct lanes *lanes)
{
    lanes->switched = lanes->n = 0;
    for (unsigned link = 0; link < MOST_LINKS; link++) {
        int active = 0, type = -1;
        struct nvml_pci remote;
        if (ASK(nvmlDeviceGetNvLinkState, device, link, &active) || !active)
            continue;
        bool told = !ASK(nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, &remote);
        /* In a virtual machine a switch has no address, or one of ones. */
        if ((!ASK(nvmlDeviceGetNvLinkRemoteDeviceType, device, link, &type) && type == REMOTE_SWITCH) ||
            (told && remote.domain == ~0u))
            lanes->switched++;
        else if (told)
            lanes->remote[lanes->n++] = remote;
    }
}

static int lanes_between(const struct lanes *mine, const struct lanes *theirs, const struct nvml_pci *their_pci)
{
    int n = mine->switched < theirs->switched ? mine->switched : theirs->switched;

    for (int i = 0; i < mine->n; i++)
        n += mine->remote[i].domain == their_pci->domain && mine->remote[i].bus == their_pci->bus &&
             mine->remote[i].device == their_pci->device;
    return n;
}

/* ---- GPUs ---- */

static enum shunt_link_kind ancestor(struct nvmlDevice_st *device, struct nvmlDevice_st *other)
{
    int level;

    if (ASK(nvmlDeviceGetTopologyCommonAncestor, device, other, &level))
        return SHUNT_LINK_UNKNOWN;
    switch (level) {
    case 0: /* of one board */
    case 10: return SHUNT_LINK_PIX;
    case 20: return SHUNT_LINK_PXB;
    case 30: return SHUNT_LINK_PHB;
    case 40: return SHUNT_LINK_NODE;
    case 50: return SHUNT_LINK_SYS;
    default: return SHUNT_LINK_UNKNOWN;
    }
}

static void describe(struct nvmlDevice_st *device, struct shunt_topo_gpu *gpu, struct nvml_pci *pci)
{
    unsigned mig = 0, pending;

    *gpu = (struct shunt_topo_gpu){ .numa = -1 };
    memset(pci, 0, sizeof *pci);
    if (ASK(nvmlDeviceGetName, device, gpu->name, sizeof gpu->name))
        gpu->name[0] = '\0';
    if (ASK(nvmlDeviceGetUUID, device, gpu->uuid, sizeof gpu->uuid))
        gpu->uuid[0] = '\0';
    if (ASK(nvmlDeviceGetPciInfo_v3, device, pci) || !shunt_pci_normal(pci->text, gpu->pci))
        gpu->pci[0] = '\0';
    gpu->mig = !ASK(nvmlDeviceGetMigMode, device, &mig, &pending) && mig == 1;
}

static struct nvmlDevice_st *devices[SHUNT_TOPO_GPUS];
static struct nvml_pci places[SHUNT_TOPO_GPUS];
static struct lanes lanes[SHUNT_TOPO_GPUS];

static void find_link(struct shunt_topo *topo, int i, int j)
{
    int n = lanes_between(&lanes[i], &lanes[j], &places[j]), status;
    struct shunt_link link = { SHUNT_LINK_NVL, (uint8_t)n };

    if (n == 0)
        link.kind = (uint8_t)ancestor(devices[i], devices[j]);
    topo->links[i][j] = link;
    topo->refused[i][j] =
        !ASK(nvmlDeviceGetP2PStatus, devices[i], devices[j], CAPABILITY_WRITE, &status) && status != STATUS_OK;
}

/* A GPU that this process may not look at is left out. */
static void find_all(struct shunt_topo *topo)
{
    unsigned count = 0;

    if (ASK(nvmlSystemGetDriverVersion, topo->driver, sizeof topo->driver))
        topo->driver[0] = '\0';
    if (ASK(nvmlDeviceGetCount_v2, &count))
        return;
    for (unsigned index = 0; index < count && topo->n < SHUNT_TOPO_GPUS; index++) {
        struct nvmlDevice_st *device;
        if (ASK(nvmlDeviceGetHandleByIndex_v2, index, &device))
            continue;
        describe(device, &topo->gpus[topo->n], &places[topo->n]);
        find_lanes(device, &lanes[topo->n]);
        devices[topo->n++] = device;
    }
    for (int i = 0; i < topo->n; i++)
        for (int j = 0; j < topo->n; j++)
            if (i != j)
                find_link(topo, i, j);
}

bool shunt_nvml_find(struct shunt_topo *topo)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

    topo->n = 0;
    if (library == NULL) {
        shunt_info("topo", "%s", dlerror());
        return false;
    }
    find_functions(library);
    if (ASK(nvmlInit_v2)) {
        shunt_info("topo", "NVML cannot be used here");
    } else {
        find_all(topo);
        (void)ASK(nvmlShutdown);
    }
    memset(&nvml, 0, sizeof nvml);
    dlclose(library);
    return topo->n > 0;
}
