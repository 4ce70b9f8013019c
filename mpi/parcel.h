/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending parcels (base/parcel.h) in place of messages: which messages can be, and when the program has its buffer back.
 *
 * The host MPI carries the descriptor with the program's communicator, destination, tag and mode, so the order of messages,
 * and what waits for what, are as ever.
 */
#ifndef SHUNT_MPI_PARCEL_H
#define SHUNT_MPI_PARCEL_H

#include "mpi/operand.h"
#include "pt2pt/distant.h"
#include "pt2pt/send.h"

/* What a call sends in place of its data; must stay until the host has sent it. */
struct shunt_parcel_sent {
    struct shunt_sending sending;
    struct shunt_descriptor descriptor;
    struct shunt_shipment *shipment; /* to another node; NULL: to this one */
    const void *buffer;              /* of the shipment, until it is posted */
    enum shunt_status status;        /* of that */
};

/*
 * A call that sends is about to be made. A receiver that probes takes the first parcel in the sender's list for what it finds,
 * so who has been sent a message just as long as a descriptor gets no parcels from then on.
 */
void shunt_parcel_notice(const struct shunt_call *call);

/* If it can be, expose the buffer, and put the descriptor into the call in its place. `send` has been found and held. */
bool shunt_parcel_send(struct shunt_call *call, const struct shunt_operand *send, struct shunt_parcel_sent *sent);

/* At Finalize: what is still under way is fetched, or moved, before its memory goes. */
void shunt_parcels_finish(void);

/* The descriptor is on its way, as far as this rank is concerned: what goes to another node follows. */
void shunt_parcel_follow(struct shunt_parcel_sent *sent);

/* Is the buffer the program's again? */
bool shunt_parcel_poll(struct shunt_parcel_sent *sent);

/* The host has answered `rc`; returns when the buffer is the program's again. False: the message could not be sent. */
bool shunt_parcel_wait(struct shunt_parcel_sent *sent, int rc);

#endif
