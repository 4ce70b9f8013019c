/* SPDX-License-Identifier: BSD-3-Clause */
/* The faces of flights: generalized requests of the host, which look like those of its own collectives. */
#ifndef SHUNT_MPI_FACE_H
#define SHUNT_MPI_FACE_H

#include "mpi/call.h"

/* Answers an MPI error. */
int shunt_face_make(MPI_Request *face);

#endif
