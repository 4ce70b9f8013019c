/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding out how the GPUs of this node are joined. NVML (opened at run time, if it is there) knows all GPUs, also those
 * that CUDA_VISIBLE_DEVICES hides from this process; in a container it knows those that are let in. What it does not tell
 * comes from the system's tree of PCI devices. Nothing that is missing is an error. No CUDA context is made.
 */
#ifndef SHUNT_TOPO_FIND_H
#define SHUNT_TOPO_FIND_H

#include "topo/topo.h"

/* This node; n is 0 where nobody tells of a GPU. */
void shunt_topo_find(struct shunt_topo *topo);

/*
 * The machine to reckon with: what SHUNT_TOPO_FILE describes, else this node. Asked once by each process, some milliseconds;
 * NULL if there is no memory. A file that cannot be used gets a line and counts as not given.
 */
const struct shunt_topo *shunt_topo_machine(void);

/*
 * Described GPUs that have neither UUID nor PCI address get those of the found ones, one after the other, if there are as
 * many: so what nvidia-smi printed can be used as it is.
 */
void shunt_topo_identify(struct shunt_topo *described, const struct shunt_topo *found);

/* ---- PCI, as the folder `sys` (the system's: "/sys") shows it (pci.c) ---- */

/* What lies between two devices: UNKNOWN if one is not there. */
enum shunt_link_kind shunt_pci_distance(const char *sys, const char *a, const char *b);
/* The NUMA node of a device, -1: not known; the CPUs near it, as a list, "": not known. */
int shunt_pci_numa(const char *sys, const char *pci);
void shunt_pci_cpus(const char *sys, const char *pci, char *text, int size);

/* NICs with RDMA into topo->nics, and how far they are from its GPUs. */
void shunt_pci_nics(const char *sys, struct shunt_topo *topo);

/* ---- NVML (nvml.c) ---- */

/* All GPUs and their links; false, and an empty machine, if it is not there or fails. Links that it does not tell: UNKNOWN. */
bool shunt_nvml_find(struct shunt_topo *topo);

#endif
