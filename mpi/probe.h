/* SPDX-License-Identifier: BSD-3-Clause */
/* What probes have found, and the program holds as matched messages. */
#ifndef SHUNT_MPI_PROBE_H
#define SHUNT_MPI_PROBE_H

#include <stdint.h>

/* A matched message has been received: it is this parcel of this rank, on another node. */
void shunt_probe_received(int peer, uint64_t number);

#endif
