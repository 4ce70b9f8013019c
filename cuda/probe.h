/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does what this GPU writes into a peer's memory arrive there? Drivers say that GPUs can reach each other, and open the
 * memory, on machines where an IOMMU or a switch leads the writes astray. So before the first operation each process
 * writes a pattern into the scratch of each peer, and the owner, who alone can tell, looks for it in its own GPU's memory.
 */
#ifndef SHUNT_CUDA_PROBE_H
#define SHUNT_CUDA_PROBE_H

#include "cuda/driver.h"

/*
 * Called inside the context. `sender` and `owner` are channels. Complete on return, whatever runs on our stream: a kernel
 * there may be waiting for the very peer that waits for this.
 */
enum shunt_status shunt_probe_write(char *scratch_of_owner, uint32_t sender, uint32_t owner);

/* Is it there? An error of the driver is a no. */
bool shunt_probe_arrived(const char *own_scratch, uint32_t sender, uint32_t owner);

/* The same through host memory, where the owner's scratch is a segment that both map; by way of the sender's own scratch. */
enum shunt_status shunt_probe_write_host(char *segment_of_owner, char *own_scratch, uint32_t sender, uint32_t owner);
bool shunt_probe_arrived_host(const char *own_segment, uint32_t sender, uint32_t owner);

#endif
