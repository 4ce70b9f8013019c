/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated libnvidia-ml: all GPUs of the simulated machine, whatever CUDA_VISIBLE_DEVICES
 * says, and how they are joined.
 */
#include "sim/nvml_abi.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sim/config.h"

#define NVML_API __attribute__((visibility("default")))

/* A device is a place in this array */
struct nvml_device {
    char unused;
};

static struct nvml_device devices[SIM_MAX_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;

static int index_of(const struct nvml_device *d)
{
    return d >= devices && d < devices + sim_config()->boards ? (int)(d - devices) : -1;
}

/* What every question about a device begins with */
static enum nvml_return check(const struct nvml_device *d, const void *answer)
{
    if (!users)
        return NVML_UNINITIALIZED;
    return index_of(d) >= 0 && answer ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

static enum nvml_return put_text(char *to, unsigned room, const char *text)
{
    if (strlen(text) >= room)
        return NVML_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
}

/* ---- the library ---- */

NVML_API enum nvml_return nvmlInit_v2(void)
{
    if (sim_has_fault(SIM_FAULT_NONVML))
        return NVML_DRIVER_NOT_LOADED;
    pthread_mutex_lock(&lock);
    users++;
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

NVML_API enum nvml_return nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

NVML_API enum nvml_return nvmlShutdown(void)
{
    pthread_mutex_lock(&lock);
    enum nvml_return result = users ? NVML_SUCCESS : NVML_UNINITIALIZED;
    users -= users > 0;
    pthread_mutex_unlock(&lock);
    return result;
}

NVML_API const char *nvmlErrorString(enum nvml_return result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_UNINITIALIZED:
        return "Uninitialized";
    case NVML_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_NOT_FOUND:
        return "Not Found";
    case NVML_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    }
    return "Unknown Error";
}

NVML_API enum nvml_return nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    if (!users)
        return NVML_UNINITIALIZED;
    return text ? put_text(text, room, "580.0 (simulated)") : NVML_INVALID_ARGUMENT;
}

NVML_API enum nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!version)
        return NVML_INVALID_ARGUMENT;
    *version = 13000;
    return NVML_SUCCESS;
}

/* ---- devices ---- */

NVML_API enum nvml_return nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!users)
        return NVML_UNINITIALIZED;
    if (!count)
        return NVML_INVALID_ARGUMENT;
    *count = (unsigned)sim_config()->boards;
    return NVML_SUCCESS;
}

NVML_API enum nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **device)
{
    if (!users)
        return NVML_UNINITIALIZED;
    if (!device || index >= (unsigned)sim_config()->boards)
        return NVML_INVALID_ARGUMENT;
    *device = &devices[index];
    return NVML_SUCCESS;
}

NVML_API enum nvml_return nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **device)
{
    char text[41];
    if (!users)
        return NVML_UNINITIALIZED;
    if (!uuid || !device)
        return NVML_INVALID_ARGUMENT;
    for (int i = 0; i < sim_config()->boards; i++) {
        sim_board_text(i, text);
        if (!strcmp(text, uuid)) {
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_NOT_FOUND;
}

NVML_API enum nvml_return nvmlDeviceGetHandleByPciBusId_v2(const char *text,
                                                           struct nvml_device **device)
{
    unsigned domain, bus;
    if (!users)
        return NVML_UNINITIALIZED;
    if (!text || !device)
        return NVML_INVALID_ARGUMENT;
    if (sscanf(text, "%x:%x:", &domain, &bus) == 2)
        for (int i = 0; i < sim_config()->boards; i++)
            if (sim_config()->preset->bus[i] == bus) {
                *device = &devices[i];
                return NVML_SUCCESS;
            }
    return NVML_NOT_FOUND;
}

NVML_API enum nvml_return nvmlDeviceGetIndex(struct nvml_device *device, unsigned *index)
{
    enum nvml_return result = check(device, index);
    if (!result)
        *index = (unsigned)index_of(device);
    return result;
}

NVML_API enum nvml_return nvmlDeviceGetUUID(struct nvml_device *device, char *text, unsigned room)
{
    char uuid[41];
    enum nvml_return result = check(device, text);
    if (result)
        return result;
    sim_board_text(index_of(device), uuid);
    return put_text(text, room, uuid);
}

NVML_API enum nvml_return nvmlDeviceGetName(struct nvml_device *device, char *text, unsigned room)
{
    enum nvml_return result = check(device, text);
    return result ? result : put_text(text, room, sim_config()->preset->name);
}

NVML_API enum nvml_return nvmlDeviceGetPciInfo_v3(struct nvml_device *device,
                                                  struct nvml_pci_info *pci)
{
    enum nvml_return result = check(device, pci);
    if (result)
        return result;
    memset(pci, 0, sizeof *pci);
    pci->bus = sim_config()->preset->bus[index_of(device)];
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

NVML_API enum nvml_return nvmlDeviceGetCudaComputeCapability(struct nvml_device *device, int *major,
                                                             int *minor)
{
    enum nvml_return result = check(device, major);
    if (result || !minor)
        return result ? result : NVML_INVALID_ARGUMENT;
    *major = sim_config()->preset->capability / 10;
    *minor = sim_config()->preset->capability % 10;
    return NVML_SUCCESS;
}

NVML_API enum nvml_return nvmlDeviceGetMigMode(struct nvml_device *device, unsigned *current,
                                               unsigned *pending)
{
    enum nvml_return result = check(device, current);
    if (result || !pending)
        return result ? result : NVML_INVALID_ARGUMENT;
    *current = *pending = sim_config()->sliced;
    return NVML_SUCCESS;
}

/* What processes use of it is known to themselves only */
NVML_API enum nvml_return nvmlDeviceGetMemoryInfo(struct nvml_device *device,
                                                  struct nvml_memory *memory)
{
    enum nvml_return result = check(device, memory);
    if (!result)
        *memory = (struct nvml_memory){sim_config()->memory, sim_config()->memory, 0};
    return result;
}

NVML_API enum nvml_return
nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned *count,
                                        struct nvml_process_info *processes)
{
    enum nvml_return result = check(device, count);
    (void)processes;
    if (!result)
        *count = 0;
    return result;
}

/* ---- links ---- */

static enum nvml_return check_link(struct nvml_device *device, unsigned link, const void *answer)
{
    enum nvml_return result = check(device, answer);
    return result || link < sim_config()->preset->links ? result : NVML_INVALID_ARGUMENT;
}

NVML_API enum nvml_return nvmlDeviceGetNvLinkState(struct nvml_device *device, unsigned link,
                                                   unsigned *active)
{
    enum nvml_return result = check_link(device, link, active);
    if (!result)
        *active = !sim_has_fault(SIM_FAULT_NOP2P);
    return result;
}

NVML_API enum nvml_return nvmlDeviceGetNvLinkVersion(struct nvml_device *device, unsigned link,
                                                     unsigned *version)
{
    enum nvml_return result = check_link(device, link, version);
    if (!result)
        *version = 4;
    return result;
}

NVML_API enum nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(struct nvml_device *device,
                                                              unsigned link, int *type)
{
    enum nvml_return result = check_link(device, link, type);
    if (!result)
        *type = NVML_REMOTE_SWITCH;
    return result;
}

/* A switch that the machine does not show, as from inside a virtual machine */
NVML_API enum nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(struct nvml_device *device,
                                                              unsigned link,
                                                              struct nvml_pci_info *pci)
{
    enum nvml_return result = check_link(device, link, pci);
    if (result)
        return result;
    memset(pci, 0, sizeof *pci);
    pci->domain = pci->device_id = pci->subsystem_id = ~0u;
    pci->bus = pci->device = 0xff;
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "FFFFFFF:FF:FF.0");
    snprintf(pci->bus_id, sizeof pci->bus_id, "FFFFFFFF:FF:FF.0");
    return NVML_SUCCESS;
}

NVML_API enum nvml_return nvmlDeviceGetTopologyCommonAncestor(struct nvml_device *device,
                                                              struct nvml_device *other, int *level)
{
    enum nvml_return result = check(device, level);
    if (!result)
        result = check(other, level);
    if (result)
        return result;
    if (device == other)
        return NVML_NOT_SUPPORTED;
    const unsigned short *place = sim_config()->preset->place;
    unsigned differ = place[index_of(device)] ^ place[index_of(other)];
    *level = differ >> 12 ? NVML_TOPOLOGY_SYSTEM
             : differ >> 8 ? NVML_TOPOLOGY_NODE
             : differ >> 4 ? NVML_TOPOLOGY_HOSTBRIDGE
             : differ      ? NVML_TOPOLOGY_MULTIPLE
                           : NVML_TOPOLOGY_SINGLE;
    return NVML_SUCCESS;
}

NVML_API enum nvml_return nvmlDeviceGetP2PStatus(struct nvml_device *device,
                                                 struct nvml_device *other, unsigned capability,
                                                 int *status)
{
    enum nvml_return result = check(device, status);
    if (!result)
        result = check(other, status);
    if (result || capability > NVML_P2P_PROPRIETARY)
        return result ? result : NVML_INVALID_ARGUMENT;
    if (sim_has_fault(SIM_FAULT_NOP2P))
        *status = NVML_P2P_DISABLED;
    else
        *status = capability == NVML_P2P_PCI ? NVML_P2P_NOT_SUPPORTED : NVML_P2P_OK;
    return NVML_SUCCESS;
}
