/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which machine is simulated: the presets, and the environment that shunt-sim hands down to the
 * simulated libraries.
 */
#ifndef SHUNT_SIM_CONFIG_H
#define SHUNT_SIM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/presets.def"

enum { SIM_MAX_GPUS = 8 };

struct sim_preset {
    const char *word;
    int gpus;
    const char *name;
    int capability;  /* times 10 */
    unsigned memory; /* MiB */
    bool p2p;        /* GPUs can reach each other's memory */
    unsigned links;  /* NVLinks of each GPU */
    unsigned char bus[SIM_MAX_GPUS];    /* PCI bus number of each GPU */
    unsigned short place[SIM_MAX_GPUS]; /* where it is, see presets.def */
};

enum sim_fault {
#define SIM_X(id, word, text) SIM_FAULT_##id,
    SIM_FAULTS(SIM_X)
#undef SIM_X
        SIM_N_FAULTS
};

struct sim_config {
    const struct sim_preset *preset;
    int gpus;                  /* in the machine, visible or not; slices of one count each */
    bool sliced;               /* they are slices of one GPU (MIG) */
    int boards;                /* GPUs as NVML numbers them, which has no slices */
    unsigned faults;           /* a bit per enum sim_fault */
    unsigned sms;              /* multiprocessors of a GPU */
    size_t memory;             /* bytes of a GPU */
    bool blocking;             /* CUDA_LAUNCH_BLOCKING: a launch returns after the kernel */
    int visible[SIM_MAX_GPUS]; /* the GPU behind each ordinal, by CUDA_VISIBLE_DEVICES */
    int n_visible;
    bool named_twice; /* CUDA_VISIBLE_DEVICES has one GPU twice, and so none is visible */
};

extern const struct sim_preset sim_presets[];
extern const unsigned sim_n_presets;
extern const char *const sim_fault_words[SIM_N_FAULTS];
extern const char *const sim_fault_texts[SIM_N_FAULTS];

/*
 * The machine of this process, read from the environment at the first call. A wrong word counts as
 * not given.
 */
const struct sim_config *sim_config(void);
bool sim_has_fault(enum sim_fault fault);

/* -1 if there is none of that name */
int sim_preset_find(const char *word);
int sim_fault_find(const char *word, size_t length);

/* The 16 bytes that name a GPU: the same in every process of a host, different on every host. */
void sim_uuid(int gpu, unsigned char uuid[16]);

/* "GPU-8f2b…", of a slice "MIG-8f2b…", 41 bytes with the NUL; and of a GPU that NVML numbers. */
void sim_uuid_text(int gpu, char text[41]);
void sim_board_text(int board, char text[41]);

#endif
