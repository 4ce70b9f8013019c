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

/* At set-up, before the card is published: whether this process may have a segment. */
void shunt_shm_start(const struct shunt_layout *layout, struct shunt_card *mine);

/* May it? */
bool shunt_shm_possible(const struct shunt_card *card);

/* Has one of the two said that they go this way? Once they have met, both have. */
bool shunt_shm_chosen(const struct shunt_card *a, const struct shunt_card *b);

/* Is what kept two GPUs from each other nothing to host memory? */
bool shunt_shm_helps(enum shunt_reason reason);

/*
 * Go this way, one step at a time, called until the answer is OPEN or REFUSED (with peer->reason, as it was if there is one).
 * `scratch` is the own one in device memory. Inside the device's context, one caller at a time.
 */
enum shunt_peer_state shunt_shm_meet(struct shunt_arena *arena, int slot, struct shunt_peer *peer, char *scratch);

/* Where peers write to us, as our GPU sees it. */
char *shunt_shm_own(void);

/* Give back all segments, inside the context or when it has gone. */
void shunt_shm_stop(bool context);

#endif
