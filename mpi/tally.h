/* SPDX-License-Identifier: BSD-3-Clause */
/* Under which name the statistics count a call. */
#ifndef SHUNT_MPI_TALLY_H
#define SHUNT_MPI_TALLY_H

#include "mpi/image.h"

/* A call that goes through host memory for want of a device algorithm, with what it copies. */
void shunt_tally_staged(const struct shunt_call *call, const struct shunt_images *images);

#endif
