/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices of the simulated driver: what they are, and which can reach which.
 */
#include "sim/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/device.def"

bool sim_device_ok(CUdevice device)
{
    return device >= 0 && device < sim_config()->n_visible;
}

int sim_gpu(CUdevice device)
{
    return sim_config()->visible[device];
}

/* What every question about a device begins with */
static CUresult check(CUdevice device, const void *answer)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!answer)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_device_ok(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_config()->n_visible;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = check(ordinal, device);
    if (!result)
        *device = ordinal;
    return result;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    CUresult result = check(device, name);
    if (!result && room > 0)
        snprintf(name, (size_t)room, "%s", sim_config()->preset->name);
    return result;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    CUresult result = check(device, bytes);
    if (!result)
        *bytes = sim_config()->memory;
    return result;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    CUresult result = check(device, uuid);
    if (!result)
        sim_uuid(sim_gpu(device), (unsigned char *)uuid->bytes);
    return result;
}

#undef cuDeviceGetUuid
SIM_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

CUresult cuDeviceGetPCIBusId(char *text, int room, CUdevice device)
{
    CUresult result = check(device, text);
    if (result)
        return result;
    if (room < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)room, "0000:%02X:00.0", sim_config()->preset->bus[sim_gpu(device)]);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    CUresult result = check(0, device);
    unsigned domain, bus;
    if (result)
        return result;
    if (!text || (sscanf(text, "%x:%x:", &domain, &bus) != 2 && sscanf(text, "%x:", &bus) != 1))
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_config()->n_visible; i++)
        if (sim_config()->preset->bus[sim_gpu(i)] == bus) {
            *device = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult result = check(device, value);
    if (result)
        return result;
    if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    int gpu = sim_gpu(device);
    switch (attribute) {
#define SIM_X(name, number)          \
    case CU_DEVICE_ATTRIBUTE_##name: \
        *value = number;             \
        break;
        SIM_ATTRIBUTES(SIM_X)
#undef SIM_X
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    CUresult result =
        cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    return result
               ? result
               : cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult result = check(device, can);
    if (!result && !sim_device_ok(peer))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result)
        *can = device != peer && !sim_has_fault(SIM_FAULT_NOP2P);
    return result;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device,
                                 CUdevice peer)
{
    int can;
    CUresult result = check(device, value);
    if (!result)
        result = cuDeviceCanAccessPeer(&can, device, peer);
    if (result)
        return result;
    if (device == peer)
        return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: /* by NVLink alone */
        *value = can && sim_config()->preset->links > 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = can;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult result = check(device, pool);
    if (!result)
        *pool = sim_default_pool(device);
    return result;
}
