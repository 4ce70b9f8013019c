/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the CUDA driver, which is opened here and by this program alone (the library waits until its program has opened
 * it), and topo/ for links. The prototypes are written out so that shunt-info can be built where CUDA is not installed; what
 * an older driver lacks is left out of the picture.
 */
#include "tools/info_gpu.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "topo/find.h"

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

/* ---- links ---- */

/* The machine's GPUs are told apart by UUID: those of this process may be some of them, in another order. */
static void find_links(struct info_gpus *gpus)
{
    const struct shunt_topo *machine = shunt_topo_machine();
    int place[INFO_GPUS];

    if (machine == NULL || machine->n == 0) {
        snprintf(gpus->links_missing, sizeof gpus->links_missing, "NVML tells of no GPU");
        return;
    }
    snprintf(gpus->driver, sizeof gpus->driver, "%s", machine->driver);
    for (int i = 0; i < gpus->n; i++)
        place[i] = shunt_topo_gpu(machine, gpus->gpu[i].uuid, gpus->gpu[i].bus);
    for (int i = 0; i < gpus->n; i++) {
        for (int j = 0; j < gpus->n; j++) {
            struct shunt_link link = { SHUNT_LINK_UNKNOWN, 0 };
            if (place[i] >= 0 && place[j] >= 0)
                link = machine->links[place[i]][place[j]];
            shunt_link_print(link, gpus->link[i][j]);
            gpus->near[i][j] = i == j || shunt_link_allowed(link.kind, shunt_conf->p2p_level);
        }
    }
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
