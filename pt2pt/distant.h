/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parcels for ranks of other nodes: the host MPI carries a descriptor as ever, and the data goes over UCX, in pieces.
 *
 * The sender copies the buffer to host memory when the descriptor is on its way, and begins to send each piece when it is
 * there. Then the buffer is the program's again, and nobody has waited for a receiver: what is left is the business of the
 * network's thread. The receiver has some pieces under way at a time, and copies each to its place when it has come.
 * Notes tell who takes descriptors, what was received, and, to those who probe, how long a message is.
 */
#ifndef SHUNT_PT2PT_DISTANT_H
#define SHUNT_PT2PT_DISTANT_H

#include "pt2pt/receive.h"

/* When all `n` ranks of the job know each other's addresses; `token`: a number that only they know. Until stop, behind the network's. */
void shunt_distant_start(int n, int self, const uint64_t token[2]);
void shunt_distant_stop(void);

/* ---- the sender ---- */

struct shunt_shipment;

/* For whom a parcel is (world rank), and how the host MPI knows it. */
struct shunt_distant_note {
    uint64_t comm, bytes; /* a hash of the communicator */
    int32_t tag;
    int32_t peer;
};

/* Does this rank take descriptors, as far as is known? It is asked if need be, and the next call may know. */
bool shunt_distant_takes(int peer);

/* It has been sent a message as long as a descriptor: it gets none from now on. */
void shunt_distant_liken(int peer);

/* The descriptor, which is to be sent then. NULL: there is no memory, or too much is under way. */
struct shunt_shipment *shunt_distant_expose(const struct shunt_distant_note *note, struct shunt_descriptor *descriptor);

/*
 * Copy what lies at `device` and begin to send it. Of what cannot be copied receiving fails, too. The shipment is forgotten when it has
 * been received; or withdrawn: its descriptor has not been sent, or was called back.
 */
enum shunt_status shunt_distant_post(struct shunt_arena *arena, struct shunt_shipment *shipment, const void *device);
void shunt_distant_withdraw(uint64_t number);

/* ---- the receiver ---- */

/* This process takes descriptors from now on. */
void shunt_distant_accept(void);

/* As shunt_descriptor_read, for one from another node. */
bool shunt_distant_read(const void *at, struct shunt_descriptor *descriptor);

/* As shunt_receive_fetch and shunt_receive_discard. */
enum shunt_status shunt_distant_fetch(struct shunt_fetch *fetch);
void shunt_distant_discard(const struct shunt_descriptor *descriptor);

/*
 * Ask the sender for its oldest parcel of this kind that has a number above `above` and has not been received. False: there is none, or it
 * is lost. Waits for the answer of its thread. One thread at a time.
 */
bool shunt_distant_ask(const struct shunt_distant_note *kind, uint64_t above, uint64_t *number, uint64_t *bytes);

#endif
