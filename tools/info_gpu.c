/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the CUDA driver and NVML, both opened here and by this program alone (the library waits until its program has
 * opened the driver). The prototypes are written out so that shunt-info can be built where CUDA is not installed; what
 * an older driver lacks is left out of the picture.
 */
#include "tools/info_gpu.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- functions, found by name ---- */

struct cuda_uuid {
    unsigned char bytes[16];
};

static struct {
    int (*cuInit)(unsigned flags);
    int (*cuGetErrorString)(int error, const char **text);
    int (*cuDriverGetVersion)(int *version);
    int (*cuDeviceGetCount)(int *count);
    int (*cuDeviceGet)(int *device, int ordinal);
    int (*cuDeviceGetName)(char *name, int size, int device);
    int (*cuDeviceGetUuid_v2)(struct cuda_uuid *uuid, int device);
    int (*cuDeviceTotalMem_v2)(size_t *bytes, int device);
    int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
    int (*cuDeviceGetPCIBusId)(char *text, int size, int device);
    int (*cuDeviceCanAccessPeer)(int *can, int device, int peer);
} cuda;

enum { CUDA_MAJOR = 75, CUDA_MINOR = 76 }; /* attributes: compute capability */

struct nvml_pci { /* nvmlPciInfo_t */
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

static struct {
    int (*nvmlInit_v2)(void);
    int (*nvmlShutdown)(void);
    const char *(*nvmlErrorString)(int error);
    int (*nvmlSystemGetDriverVersion)(char *text, unsigned size);
    int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *bus, void **device);
    int (*nvmlDeviceGetPciInfo_v3)(void *device, struct nvml_pci *pci);
    int (*nvmlDeviceGetTopologyCommonAncestor)(void *device, void *other, unsigned *level);
    int (*nvmlDeviceGetNvLinkState)(void *device, unsigned link, int *active);
    int (*nvmlDeviceGetNvLinkRemoteDeviceType)(void *device, unsigned link, int *type);
    int (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(void *device, unsigned link, struct nvml_pci *pci);
} nvml;

enum { NVML_REMOTE_SWITCH = 2, NVML_MOST_LINKS = 36 };

struct function {
    const char *name;
    void *place;
};
#define FUNCTION(library, name) {#name, &library.name}

static const struct function cuda_functions[] = {
    FUNCTION(cuda, cuInit),
    FUNCTION(cuda, cuGetErrorString),
    FUNCTION(cuda, cuDriverGetVersion),
    FUNCTION(cuda, cuDeviceGetCount),
    FUNCTION(cuda, cuDeviceGet),
    FUNCTION(cuda, cuDeviceGetName),
    FUNCTION(cuda, cuDeviceGetUuid_v2),
    FUNCTION(cuda, cuDeviceTotalMem_v2),
    FUNCTION(cuda, cuDeviceGetAttribute),
    FUNCTION(cuda, cuDeviceGetPCIBusId),
    FUNCTION(cuda, cuDeviceCanAccessPeer),
};

static const struct function nvml_functions[] = {
    FUNCTION(nvml, nvmlInit_v2),
    FUNCTION(nvml, nvmlShutdown),
    FUNCTION(nvml, nvmlErrorString),
    FUNCTION(nvml, nvmlSystemGetDriverVersion),
    FUNCTION(nvml, nvmlDeviceGetHandleByPciBusId_v2),
    FUNCTION(nvml, nvmlDeviceGetPciInfo_v3),
    FUNCTION(nvml, nvmlDeviceGetTopologyCommonAncestor),
    FUNCTION(nvml, nvmlDeviceGetNvLinkState),
    FUNCTION(nvml, nvmlDeviceGetNvLinkRemoteDeviceType),
    FUNCTION(nvml, nvmlDeviceGetNvLinkRemotePciInfo_v2),
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Fill in what the library has; what it has not stays NULL. */
static void find_functions(void *library, const struct function *functions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, functions[i].name);
        memcpy(functions[i].place, &found, sizeof found);
    }
}

/* 0: the function is there and answers success. */
#define ASK(library, name, ...) (!library.name || library.name(__VA_ARGS__))

/* ---- the driver ---- */

static void find_gpu(int ordinal, struct info_gpu *gpu)
{
    int device;
    struct cuda_uuid uuid;
    size_t memory;
    if (ASK(cuda, cuDeviceGet, &device, ordinal))
        return;
    if (ASK(cuda, cuDeviceGetName, gpu->name, sizeof gpu->name, device))
        strcpy(gpu->name, "a GPU without a name");
    if (!ASK(cuda, cuDeviceTotalMem_v2, &memory, device))
        gpu->memory = memory;
    if (ASK(cuda, cuDeviceGetAttribute, &gpu->major, CUDA_MAJOR, device) ||
        ASK(cuda, cuDeviceGetAttribute, &gpu->minor, CUDA_MINOR, device))
        gpu->major = gpu->minor = 0;
    if (ASK(cuda, cuDeviceGetPCIBusId, gpu->bus, sizeof gpu->bus, device))
        gpu->bus[0] = '\0';
    if (ASK(cuda, cuDeviceGetUuid_v2, &uuid, device))
        return;
    char *to = gpu->uuid + sprintf(gpu->uuid, "GPU-");
    for (int i = 0; i < 16; i++)
        to += sprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid.bytes[i]);
}

static void find_peers(struct info_gpus *gpus)
{
    for (int i = 0; i < gpus->n; i++) {
        for (int j = 0; j < gpus->n; j++) {
            int device, peer, can;
            gpus->peer[i][j] = i == j || (!ASK(cuda, cuDeviceGet, &device, i) && !ASK(cuda, cuDeviceGet, &peer, j) &&
                                          !ASK(cuda, cuDeviceCanAccessPeer, &can, device, peer) && can);
        }
    }
}

static const char *cuda_text(int error)
{
    const char *text = NULL;
    return ASK(cuda, cuGetErrorString, error, &text) || !text ? "unknown error" : text;
}

static void find_driver(struct info_gpus *gpus)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        snprintf(gpus->missing, sizeof gpus->missing, "no NVIDIA driver: %s%s", dlerror(),
                 access("/dev/nvidiactl", F_OK) == 0 ? "" : "; there is no /dev/nvidiactl");
        return;
    }
    struct link_map *map;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        snprintf(gpus->library, sizeof gpus->library, "%s", map->l_name);
    find_functions(library, cuda_functions, COUNT(cuda_functions));
    if (!cuda.cuInit || !cuda.cuDeviceGetCount) {
        snprintf(gpus->missing, sizeof gpus->missing, "%s is not a CUDA driver", gpus->library);
        return;
    }
    int error = cuda.cuInit(0);
    if (!error)
        error = cuda.cuDeviceGetCount(&gpus->n);
    if (error)
        snprintf(gpus->missing, sizeof gpus->missing, "the driver says: %s", cuda_text(error));
    else if (gpus->n == 0)
        snprintf(gpus->missing, sizeof gpus->missing, "the driver shows no GPU");
    if (gpus->missing[0])
        gpus->n = 0;
    if (ASK(cuda, cuDriverGetVersion, &gpus->cuda))
        gpus->cuda = 0;
}

/* ---- NVML ---- */

static bool same_device(const struct nvml_pci *a, const struct nvml_pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* How many active NVLinks of `device` lead to `other`, directly or into a switch, which joins all. */
static int count_nvlinks(void *device, void *other)
{
    struct nvml_pci target;
    int links = 0;
    if (ASK(nvml, nvmlDeviceGetPciInfo_v3, other, &target))
        return 0;
    for (unsigned link = 0; link < NVML_MOST_LINKS; link++) {
        int active, type;
        struct nvml_pci remote;
        if (ASK(nvml, nvmlDeviceGetNvLinkState, device, link, &active) || !active)
            continue;
        if (!ASK(nvml, nvmlDeviceGetNvLinkRemoteDeviceType, device, link, &type) && type == NVML_REMOTE_SWITCH)
            links++;
        else if (!ASK(nvml, nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, &remote) &&
                 same_device(&remote, &target))
            links++;
    }
    return links;
}

static const char *ancestor_word(void *device, void *other)
{
    static const struct {
        unsigned level;
        const char *word;
    } words[] = {{0, "PIX"}, {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};
    unsigned level;
    if (!ASK(nvml, nvmlDeviceGetTopologyCommonAncestor, device, other, &level))
        for (size_t i = 0; i < COUNT(words); i++)
            if (words[i].level == level)
                return words[i].word;
    return "?";
}

static void find_link(const struct info_gpu *gpu, const struct info_gpu *peer, char word[16])
{
    void *device, *other;
    strcpy(word, "?");
    if (ASK(nvml, nvmlDeviceGetHandleByPciBusId_v2, gpu->bus, &device) ||
        ASK(nvml, nvmlDeviceGetHandleByPciBusId_v2, peer->bus, &other))
        return;
    int links = count_nvlinks(device, other);
    if (links > 0)
        snprintf(word, 16, "NV%d", links);
    else
        snprintf(word, 16, "%s", ancestor_word(device, other));
}

static void find_links(struct info_gpus *gpus)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) {
        snprintf(gpus->links_missing, sizeof gpus->links_missing, "%s", dlerror());
        return;
    }
    find_functions(library, nvml_functions, COUNT(nvml_functions));
    int error = nvml.nvmlInit_v2 ? nvml.nvmlInit_v2() : -1;
    if (error) {
        snprintf(gpus->links_missing, sizeof gpus->links_missing, "NVML says: %s",
                 nvml.nvmlErrorString ? nvml.nvmlErrorString(error) : "no nvmlInit_v2");
        return;
    }
    if (ASK(nvml, nvmlSystemGetDriverVersion, gpus->driver, sizeof gpus->driver))
        gpus->driver[0] = '\0';
    for (int i = 0; i < gpus->n; i++)
        for (int j = 0; j < gpus->n; j++)
            if (i != j)
                find_link(&gpus->gpu[i], &gpus->gpu[j], gpus->link[i][j]);
    if (nvml.nvmlShutdown)
        nvml.nvmlShutdown();
}

void info_gpus_find(struct info_gpus *gpus)
{
    memset(gpus, 0, sizeof *gpus);
    find_driver(gpus);
    if (gpus->n == 0)
        return;
    if (gpus->n > INFO_GPUS)
        gpus->n = INFO_GPUS;
    for (int i = 0; i < gpus->n; i++)
        find_gpu(i, &gpus->gpu[i]);
    find_peers(gpus);
    find_links(gpus);
}
