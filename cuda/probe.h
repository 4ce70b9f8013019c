/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does what this GPU writes into a peer's memory arrive there? Drivers say that GPUs can reach each other, and open the
 * memory, on machines where an IOMMU or a switch leads the writes astray. So before the first operation each process
 * writes a pattern into the scratch of each peer, and the owner, who alone can tell, looks for it in its own GPU's memory.
 * Where two meet in host memory the owner's scratch is a segment that both have mapped.
 *
 * The copy goes from GPU to GPU and is never waited for; one that has not ended after SHUNT_PROBE_MS counts as none.
 */
#ifndef SHUNT_CUDA_PROBE_H
#define SHUNT_CUDA_PROBE_H

#include "cuda/driver.h"

/* A pattern on its way to one peer. Zero: none has begun. */
struct shunt_probe {
    CUstream stream; /* of its own: a kernel on ours may be waiting for the very peer that waits for this */
    double begun;    /* seconds; 0: not yet */
};

/*
 * Send the pattern: called, inside the context, until the answer is not AGAIN. OK: the copy is complete. LIMIT: it takes too
 * long, and what becomes of it is the driver's affair. `sender` and `owner` are channels, `to` is the owner's scratch or segment.
 */
enum shunt_status shunt_probe_send(struct shunt_probe *probe, char *own_scratch, char *to, uint32_t sender, uint32_t owner);

/* Begin anew, on another way: what is under way has its end in the driver. */
void shunt_probe_drop(struct shunt_probe *probe);

/* Is it there? An error of the driver is a no. */
bool shunt_probe_arrived(const char *own_scratch, uint32_t sender, uint32_t owner);
bool shunt_probe_arrived_host(const char *own_segment, uint32_t sender, uint32_t owner);

/* The longest time in seconds that a pattern of this process has taken so far. */
double shunt_probe_slowest(void);

#endif
