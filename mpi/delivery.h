/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nonblocking sends of parcels, and nonblocking and persistent receives of what may be parcels.
 *
 * A descriptor is sent by a persistent request of the host, because hosts give out one handle for all small sends that are
 * complete at once, and its record is to be found under it; the program gets that handle, and it is freed when the program
 * has been told of its end. A receive keeps the host's own request. What has come may be fetched before the program asks
 * for it: whoever waits for a buffer of his to be fetched looks after the receives of this process meanwhile.
 */
#ifndef SHUNT_MPI_DELIVERY_H
#define SHUNT_MPI_DELIVERY_H

#include "mpi/receipt.h"
#include "mpi/request.h"

/*
 * Hooks of the calls that create requests. Before: true if it is one of these, which is then done (*done, with *rc set) or
 * has *kept. After: true if `kept` is one of these, and then *rc is what the call answers.
 */
bool shunt_delivery_before(struct shunt_call *call, int *rc, void **kept, bool *done);
bool shunt_delivery_after(const struct shunt_call *call, void *kept, int *rc);

/* Fetch what has come for receives that are under way. */
void shunt_deliveries_advance(void);

/*
 * Before a call returns: wait for the copies that it has begun. The program may go into a call of the host next that waits for
 * the sender, which cannot see their end.
 */
void shunt_deliveries_drain(void);

/* Only look what has come. Has one of them this descriptor, and has not fetched its parcel? */
void shunt_deliveries_look(void);
bool shunt_deliveries_hold(int slot, uint32_t index, uint64_t number);
bool shunt_deliveries_hold_distant(int peer, uint64_t number);

#endif
