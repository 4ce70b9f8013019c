/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a sender moves the data of a parcel that its receiver does not fetch in time: a file in memory, without a name.
 *
 * Each sender has one, as large as addresses go and empty but for what has been moved: parcel i of its table has a window
 * of its own in it. A receiver gets the file's descriptor by its mailbox before the first parcel. So what has been
 * moved lives as long as the receiver has the file, whatever becomes of the sender.
 */
#ifndef SHUNT_PT2PT_SPILL_H
#define SHUNT_PT2PT_SPILL_H

#include "base/parcel.h"
#include "base/status.h"

/* The sender: see to it that the process in `slot` can get the file. False: it cannot, or not yet. */
bool shunt_spill_offer(struct shunt_arena *arena, int slot);

/* Move the data of parcel `index`. An error: there is no memory; nothing has changed. */
enum shunt_status shunt_spill_store(uint32_t index, const void *device, uint64_t bytes);

/* It has been fetched. */
void shunt_spill_drop(uint32_t index, uint64_t bytes);

/* The receiver: be reachable, and say so in the arena (not yet `decodes`). False: senders will keep to plain messages. */
bool shunt_spill_open(struct shunt_parcels *mine);

/* Take what has come, so that there is room for more. */
void shunt_spill_collect(struct shunt_arena *arena);

/* The first `bytes` of parcel `index` of the process in `slot`, which has moved them, above 0; to be given back by munmap. */
enum shunt_status shunt_spill_map(struct shunt_arena *arena, int slot, uint32_t index, uint64_t bytes, void **window);

/* At Finalize. */
void shunt_spill_close(void);

#endif
