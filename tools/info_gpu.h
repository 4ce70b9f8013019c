/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of this machine as shunt-info shows them, asked without making a CUDA context. */
#ifndef SHUNT_TOOLS_INFO_GPU_H
#define SHUNT_TOOLS_INFO_GPU_H

#include <stdbool.h>
#include <stdint.h>

enum { INFO_GPUS = 32 };

struct info_gpu {
    char name[96];
    char uuid[48];
    char bus[24]; /* PCI address */
    uint64_t memory;
    int major, minor; /* compute capability */
};

struct info_gpus {
    char missing[320];     /* why there is none, in words; "" if there is one */
    char library[256];     /* the driver's library */
    char driver[32];       /* the driver's version, "" if NVML does not tell */
    char links_missing[256]; /* why there is no link matrix; "" if there is one */
    int cuda;              /* newest CUDA that the driver serves, 1000 * major + 10 * minor */
    int n;
    struct info_gpu gpu[INFO_GPUS];
    bool peer[INFO_GPUS][INFO_GPUS];    /* [i][j]: GPU i can reach the memory of GPU j */
    bool near[INFO_GPUS][INFO_GPUS];    /* SHUNT_P2P_LEVEL allows it */
    char link[INFO_GPUS][INFO_GPUS][16]; /* as NVIDIA names it: NV18, PIX, PXB, PHB, NODE, SYS; "?": not known */
};

void info_gpus_find(struct info_gpus *gpus);

/* Which CPUs are near the device at a PCI address: "CPUs 0-15, NUMA node 0"; "" if that is not known. */
void info_cpus_near(const char *bus, char *text, int size);

#endif
