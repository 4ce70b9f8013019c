/* SPDX-License-Identifier: BSD-3-Clause */
/* Under which name the statistics count a call. */
#ifndef SHUNT_MPI_TALLY_H
#define SHUNT_MPI_TALLY_H

#include "base/reasons.h"
#include "mpi/image.h"

/* A call that goes through host memory, why, and with what it copies. */
void shunt_tally_staged(const struct shunt_call *call, const struct shunt_images *images, enum shunt_reason reason);

#endif
