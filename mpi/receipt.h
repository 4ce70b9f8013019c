/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done with a message that has come: if it is the descriptor of a parcel, the parcel is fetched, and the status
 * tells of the message as it was sent.
 *
 * The host has written what came to the program's buffer, or to an image of it. A parcel goes to the same place, or
 * right into the device buffer that the image stands for.
 */
#ifndef SHUNT_MPI_RECEIPT_H
#define SHUNT_MPI_RECEIPT_H

#include "mpi/image.h"
#include "pt2pt/receive.h"

/* A receive. Zero: none. */
struct shunt_receipt {
    MPI_Comm comm; /* MPI_COMM_NULL: not known */
    void *buffer;  /* the program's, or an image of it */
    MPI_Count count;
    MPI_Datatype datatype; /* after shunt_receipt_begin only where `typed` */
    bool typed;    /* its elements are moved by the host */
    MPI_Count room; /* bytes of all elements */
    char *dense;   /* where these lie in order and without gaps; NULL: they do not */
    const struct shunt_images *images; /* of the call; NULL: all is host memory */
    bool blind;    /* the status does not tell how much has come: all of the buffer has been filled before */
    bool parcel;   /* a descriptor has come */
    bool fetched;  /* and the message after it */
    bool direct;   /* to the device buffer itself, so that nothing is to be copied back */
    enum shunt_status status;
    bool widened;  /* the host receives to `small`, since the buffer has no room for a descriptor */
    void *diverted; /* owned, unless it is that: what the host receives to where the buffer has gaps; NULL: the buffer itself */
    struct shunt_pattern *pattern; /* owned, with `diverted`: of the buffer's elements; NULL: the host knows them */
    MPI_Datatype packed; /* owned, if `made`: an element's bytes, where there are too many of all */
    bool made;
    struct shunt_fetch fetch;
    unsigned char small[SHUNT_DESCRIPTOR_BYTES]; /* if not `widened`: what was in the buffer before, where a descriptor may come */
};

/* Does this process take descriptors? Begins to, if it can, when the first receive with CUDA in use asks. */
bool shunt_receipt_wanted(void);
bool shunt_receipt_early(void); /* may it begin to when CUDA is in use, as far as is known? */

/* At Finalize, and in the child after fork. */
void shunt_receipts_stop(void);

/* A call that receives is about to be made with these arguments, some of which may be replaced. To be released. */
enum shunt_status shunt_receipt_begin(struct shunt_call *call, const struct shunt_images *images,
                                      struct shunt_receipt *receipt);
void shunt_receipt_release(struct shunt_receipt *receipt);

/*
 * Is a receive that has begun one of a call (Sendrecv_replace) that the host cannot make, since it is to receive more than it
 * sends? Then it is Sendrecv, from the buffer in the call to receipt->small.
 */
bool shunt_receipt_replaces(const struct shunt_call *call, const struct shunt_receipt *receipt);

/* The host has received, with this status: has a descriptor come? */
void shunt_receipt_look(struct shunt_receipt *receipt, const MPI_Status *status);

/* One attempt to fetch; true when nothing is to be done any more. */
bool shunt_receipt_advance(struct shunt_receipt *receipt);

/* Put into the status what was sent, and answer what the call answers; `rc` is what the host has answered. */
int shunt_receipt_settle(struct shunt_receipt *receipt, MPI_Status *status, int rc);

/* A persistent receive begins anew. */
void shunt_receipt_again(struct shunt_receipt *receipt);

/* The same after a look, whatever it has shown: wait until all is fetched. */
int shunt_receipt_finish(struct shunt_receipt *receipt, MPI_Status *status);

/* All of this, for calls that wait. */
int shunt_receipt_end(struct shunt_receipt *receipt, MPI_Status *status, int rc);

/* Where the host gives nothing else: one more turn of waiting. */
void shunt_receipt_relax(unsigned *turns);

#endif
