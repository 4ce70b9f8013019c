/* SPDX-License-Identifier: BSD-3-Clause */
/* The faces of flights; face.h. */
#include "mpi/face.h"

#include <stddef.h>

/* As hosts do for collectives. */
static int query_face(void *state, MPI_Status *status)
{
    (void)state;
    shunt_host.Status_set_elements(status, MPI_BYTE, 0);
    shunt_host.Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 0;
    status->MPI_TAG = 0;
    return MPI_SUCCESS;
}

static int free_face(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int cancel_face(void *state, int complete)
{
    (void)state;
    (void)complete;
    return MPI_ERR_REQUEST;
}

int shunt_face_make(MPI_Request *face)
{
    return shunt_host.Grequest_start(query_face, free_face, cancel_face, NULL, face);
}
