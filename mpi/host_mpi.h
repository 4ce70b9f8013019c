/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's mpi.h with its extensions: what gen.py looks at and the shims are compiled against. */
#ifndef SHUNT_MPI_HOST_MPI_H
#define SHUNT_MPI_HOST_MPI_H

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#endif
