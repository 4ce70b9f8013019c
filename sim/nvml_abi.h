/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the simulated libnvidia-ml offers, as far as programs can tell: the layouts and numbers of
 * NVML's interface, which are not in the CUDA toolkit.
 */
#ifndef SHUNT_SIM_NVML_ABI_H
#define SHUNT_SIM_NVML_ABI_H

enum nvml_return {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
};

enum nvml_topology_level {
    NVML_TOPOLOGY_SINGLE = 10,
    NVML_TOPOLOGY_MULTIPLE = 20,
    NVML_TOPOLOGY_HOSTBRIDGE = 30,
    NVML_TOPOLOGY_NODE = 40,
    NVML_TOPOLOGY_SYSTEM = 50,
};

enum nvml_p2p_status {
    NVML_P2P_OK = 0,
    NVML_P2P_DISABLED = 4, /* by a setting of the driver */
    NVML_P2P_NOT_SUPPORTED = 5,
};

enum nvml_p2p_capability { /* what P2P status is asked for */
                           NVML_P2P_READ,
                           NVML_P2P_WRITE,
                           NVML_P2P_NVLINK,
                           NVML_P2P_ATOMICS,
                           NVML_P2P_PCI,
                           NVML_P2P_PROPRIETARY,
};

enum nvml_remote_type { NVML_REMOTE_GPU = 0, NVML_REMOTE_SWITCH = 2, NVML_REMOTE_UNKNOWN = 255 };

struct nvml_pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_process_info {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml_memory {
    unsigned long long total, unused, used;
};

#endif
