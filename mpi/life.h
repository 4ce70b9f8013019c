/* SPDX-License-Identifier: BSD-3-Clause */
/* The process as MPI sees it, from Init to Finalize: its arena, its world. */
#ifndef SHUNT_MPI_LIFE_H
#define SHUNT_MPI_LIFE_H

#include "base/board.h"
#include "mpi/call.h"

/* The node's arena; NULL before Init, after Finalize and where there is none. */
struct shunt_arena *shunt_life_arena(void);

/* The group of MPI_COMM_WORLD; MPI_GROUP_NULL outside of Init ... Finalize. Not to be freed. */
MPI_Group shunt_life_world_group(void);

/* Is this a child of fork? It must not touch CUDA, the arena or any lock of ours. */
bool shunt_life_forked(void);

/* shunt_flush (include/shunt.h). */
int shunt_life_flush(void);

/* May several threads call MPI at once? */
bool shunt_life_has_threads(void);

/* Is a session open? */
bool shunt_life_has_session(void);

#endif
