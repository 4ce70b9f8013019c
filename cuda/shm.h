/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pinned host memory between two GPUs that do not reach each other. Each process has a segment, which is to those peers what
 * scratch in device memory is to the others: they write there, it reads. Nothing else goes that way: no user memory is
 * registered, and no kernel knows the difference but for the address.
 *
 * A segment is a file without a name (memfd), so nothing is left of it when its process ends, however that happens. Its
 * descriptor goes to the peers by a mailbox (mailbox.h). Whether a pair goes this way says either of the two on its card,
 * for both, before anything goes between them; and it is proven like peer access (probe.h).
 */
#ifndef SHUNT_CUDA_SHM_H
#define SHUNT_CUDA_SHM_H

#include "cuda/registry.h"

/* Has one of the two said that they go this way? Once they have met, both have. */
bool shunt_shm_chosen(const struct shunt_card *a, const struct shunt_card *b);

/* Give back all segments, those of peers too, inside the context or when it has gone. */
void shunt_shm_stop(bool context);

#endif
