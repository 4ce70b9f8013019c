/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the GPUs of a machine are joined: the matrix of their links in NVIDIA's words, the NICs near them, and what follows
 * from it: which pairs reach each other, rings, trees, leaders, estimates. All of it but finding out (find.h) is pure.
 *
 * A machine is what one can be described as in a file (text.c), or what NVML and the system tell of the node (find.c). GPUs are told apart
 * by UUID, since each process may see its one GPU as number 0. The struct is large (about 300 kB): static or allocated.
 */
#ifndef SHUNT_TOPO_TOPO_H
#define SHUNT_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define SHUNT_TOPO_GPUS  64
#define SHUNT_TOPO_NICS  64
#define SHUNT_TOPO_NODES 16

/* X(id, word, what is between the two): from near to far; up to SYS also the words of SHUNT_P2P_LEVEL. */
#define SHUNT_LINKS(X)                                                                             \
    X(LOC, "LOC", "the same GPU")                                                                  \
    X(NVL, "NVL", "NVLink, directly or through NVSwitches")                                        \
    X(PIX, "PIX", "at most one PCIe switch")                                                       \
    X(PXB, "PXB", "several PCIe switches, but no host bridge")                                     \
    X(PHB, "PHB", "a PCIe host bridge")                                                            \
    X(NODE, "NODE", "host bridges of one NUMA node")                                               \
    X(SYS, "SYS", "the link between NUMA nodes")                                                   \
    X(NET, "NET", "the network")                                                                   \
    X(UNKNOWN, "?", "something that nobody tells")

enum shunt_link_kind {
#define X(id, word, text) SHUNT_LINK_##id,
    SHUNT_LINKS(X)
#undef X
    SHUNT_NLINKS,
    SHUNT_LINK_BY_HOST = SHUNT_NLINKS /* no link: two GPUs that meet in host memory */
};

/*
 * What a link takes: us of a flag with the data, and what waited for it; of a fence of the system behind the data, and a
 * flag; MB/s in one direction, of NVLinks for each. By kind, BY_HOST too; and measured values in place of the constants.
 */
struct shunt_link_cost {
    double flag, fenced;
    uint32_t width;
};
const struct shunt_link_cost *shunt_link_cost(int kind);
void shunt_topo_correct(int kind, double flag, double fenced, double width);

struct shunt_link {
    uint8_t kind;
    uint8_t lanes; /* NVL: how many NVLinks */
};

struct shunt_topo_gpu {
    char name[64];
    char uuid[48]; /* "GPU-...", "": not known */
    char pci[16];  /* "0000:1b:00.0", "": not known */
    char cpus[64]; /* near it, as a list; "": not known */
    int16_t numa;  /* -1: not known */
    uint8_t node;
    bool mig; /* cut into slices, which do not reach each other */
};

struct shunt_topo_nic {
    char name[32];
    char pci[16];
    uint8_t node;
};

struct shunt_topo {
    char title[96];
    char source[160]; /* where this is from, for people */
    char driver[32];  /* the driver's version, "": not known */
    int n, n_nics, n_nodes;
    bool switched; /* NVLinks end in switches: the lanes to one GPU are the lanes to all */
    char node_name[SHUNT_TOPO_NODES][48];
    struct shunt_topo_gpu gpus[SHUNT_TOPO_GPUS];
    struct shunt_topo_nic nics[SHUNT_TOPO_NICS];
    struct shunt_link links[SHUNT_TOPO_GPUS][SHUNT_TOPO_GPUS];
    struct shunt_link nic_links[SHUNT_TOPO_GPUS][SHUNT_TOPO_NICS];
    bool refused[SHUNT_TOPO_GPUS][SHUNT_TOPO_GPUS]; /* by the driver: no peer access between the two */
};

/* The word of a kind, and what it means. */
const char *shunt_link_word(enum shunt_link_kind kind);
const char *shunt_link_text(enum shunt_link_kind kind);

/* A link as NVIDIA writes it: "NV18", "PIX", "X" for the same GPU. */
void shunt_link_print(struct shunt_link link, char word[16]);

/* The reverse; false if this is no such word. */
bool shunt_link_parse(const char *word, struct shunt_link *link);

/*
 * Does a limit of SHUNT_P2P_LEVEL (an enum shunt_link_kind) allow peer access over this link? PHB means what it means to
 * NCCL: all of a NUMA node, so NODE too. What is not known counts as SYS.
 */
bool shunt_link_allowed(enum shunt_link_kind kind, int level);

/* The GPU with this UUID, or at this PCI address (of any form) of the first node; -1: none. NULL or "": not asked for. */
int shunt_topo_gpu(const struct shunt_topo *topo, const char *uuid, const char *pci);

/* A PCI address in the form of sysfs: "0000:1b:00.0", whatever its case and the digits of its domain. */
bool shunt_pci_normal(const char *pci, char normal[16]);

/* Only these GPUs, in this order. *part must be another struct. */
void shunt_topo_pick(const struct shunt_topo *topo, const int *gpus, int n, struct shunt_topo *part);

/* Set what follows from the rest: `switched`, links between nodes. Who fills a struct calls it last. */
void shunt_topo_finish(struct shunt_topo *topo);

/* ---- reaching each other ---- */

enum shunt_via {
    SHUNT_VIA_SELF,
    SHUNT_VIA_PEER, /* one GPU stores into the memory of the other */
    SHUNT_VIA_SHM,  /* they meet in host memory */
    SHUNT_VIA_HOST, /* not at all: calls are copied to host memory, for the MPI */
    SHUNT_VIA_NET,
};

struct shunt_topo_limits {
    int p2p_level; /* an enum shunt_link_kind, as in struct shunt_conf */
    bool p2p_disable, shm_disable;
};

/* How data goes from GPU i to GPU j, and why, in words (static storage). */
enum shunt_via shunt_topo_via(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, int i, int j,
                              const char **why);
const char *shunt_via_word(enum shunt_via via);

/* What a way carries in one direction with nothing beside it, in MB/s; one lane of it where it is of NVLinks. */
uint32_t shunt_topo_width(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, int i, int j);
uint32_t shunt_topo_lane(const struct shunt_topo *topo, const struct shunt_topo_limits *limits, int i, int j);

/* ---- text (text.c) ---- */

/*
 * A machine from a text: what `nvidia-smi topo -m` prints, with or without further lines, see text.c. `error`: what is wrong and
 * in which line.
 */
enum shunt_status shunt_topo_parse(const char *text, struct shunt_topo *topo, char error[160]);
enum shunt_status shunt_topo_load(const char *path, struct shunt_topo *topo, char error[160]);

/* The reverse, in pieces. */
void shunt_topo_write(const struct shunt_topo *topo, void (*put)(void *context, const char *piece), void *context);

#endif
