/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call that receives tells about what has come. */
#ifndef SHUNT_MPI_MESSAGE_H
#define SHUNT_MPI_MESSAGE_H

#include <stdint.h>

#include "mpi/call.h"

/* The status to call the host with: one of this thread's where the program wants none. */
MPI_Status *shunt_message_status(MPI_Status *status);

/*
 * Bytes that the host has written to the buffer, without gaps; where a message was longer than the buffer, its length, or
 * SHUNT_RECEIVED_CUT (image.h) where the host does not tell. `error` is what the call has answered.
 */
int64_t shunt_message_received(const MPI_Status *status, int error);

#endif
