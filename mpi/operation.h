/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staged operations that go on after the call that began them: nonblocking and persistent ones.
 *
 * The host's function gets images in place of device buffers and returns the program's request. The record of that request
 * keeps the images until the operation has ended. What is sent is copied to its image before the host starts the operation,
 * what has come is copied back before the program learns of its end. Nothing here waits for a peer.
 */
#ifndef SHUNT_MPI_OPERATION_H
#define SHUNT_MPI_OPERATION_H

#include "base/reasons.h"
#include "mpi/image.h"
#include "mpi/repeat.h"
#include "mpi/request.h"

/* Of partitioned operations: what each partition has. */
struct shunt_partitions {
    int n;
    int64_t count;         /* elements of each */
    int64_t extent;        /* from one to the next, in bytes */
    atomic_bool *returned; /* has it been copied back since the start? NULL where data is sent */
};

struct shunt_operation {
    struct shunt_request request;
    struct shunt_images images;
    bool by_status; /* of what is written the status says how much has come */
    struct shunt_partitions partitions;
    struct shunt_repeat *repeat; /* of persistent collectives, which all have one; else NULL. Owned */
    int error;                   /* that the last start of it has ended with */
};

/*
 * Make the operation of a call, with images in the call in place of staged buffers, and filled. It is staged for `reason`; with
 * NONE it is not known yet whether it is.
 * PASS: nothing is staged, and the call is as it was.
 */
enum shunt_status shunt_operation_make(struct shunt_call *call, enum shunt_reason reason,
                                       struct shunt_operation **operation_p);

/* The same, but the images have still to be filled. */
enum shunt_status shunt_operation_make_empty(struct shunt_call *call, enum shunt_reason reason,
                                             struct shunt_operation **operation_p);

/* The host has begun it, and has given out this request. Answers an MPI error. */
int shunt_operation_begun(struct shunt_operation *operation, MPI_Request handle);

void shunt_operation_release(struct shunt_operation *operation);

/* The operands and images of Psend_init and Precv_init; of mpi/partition.c. */
enum shunt_status shunt_partitions_make(struct shunt_call *call, struct shunt_operation *operation);
extern const struct shunt_request_kind shunt_partitions_kind;

/* Call the error handler of a communicator that may be gone by now; answers the error. */
int shunt_operation_fail(MPI_Comm comm);

#endif
