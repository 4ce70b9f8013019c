/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHUNT_P2P_LEVEL: may two processes' GPUs use each other's memory, as far as they are apart? Both come to the same answer,
 * since they ask the same sources about the same pair; if they do not, both stage, as after any refusal.
 */
#ifndef SHUNT_CUDA_LEVEL_H
#define SHUNT_CUDA_LEVEL_H

#include <stdbool.h>

#include "cuda/registry.h"
#include "topo/topo.h"

/* `nvlink`: the driver says of the two what is true of NVLink alone. A refusal says why, once. */
bool shunt_level_allows(const struct shunt_card *mine, const struct shunt_card *theirs, bool nvlink);

/* The GPU of this card in a machine; -1: it is not known there. */
int shunt_level_gpu(const struct shunt_topo *machine, const struct shunt_card *card);

#endif
