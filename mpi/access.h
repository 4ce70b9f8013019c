/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations whose origin, result or compare buffers are device memory; the windows are the host's. */
#ifndef SHUNT_MPI_ACCESS_H
#define SHUNT_MPI_ACCESS_H

/* At the end of MPI: forget what has not ended. In the child after fork: forget it, touch nothing. */
void shunt_accesses_clear(void);
void shunt_accesses_abandon(void);

#endif
