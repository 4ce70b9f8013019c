/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of communicators over several nodes: inside each node on the GPUs, between nodes over UCX, inside again.
 *
 * An operation goes in chunks. What a rank does for one says a table of plans (hier_plans.c): ordinary operations on a board of the
 * node's ranks, copies to and from host memory, and messages between it and ranks of other nodes (hier_steps.c). No GPU ever
 * waits for another node. Where the GPUs of a node cannot do their part, its ranks do it over UCX, too (hier_node.c).
 */
#ifndef SHUNT_COLL_HIER_H
#define SHUNT_COLL_HIER_H

#include "coll/run.h"

struct shunt_hier; /* one communicator's */

/*
 * For a communicator of n ranks, of which `world` has the world ranks. SHUNT_OK: it goes over several nodes, all of which have
 * a network, the same on all ranks. Its board has the ranks of this node, and takes a step for each call of the communicator.
 */
enum shunt_status shunt_hier_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *world, int me,
                                  struct shunt_hier **hier_p);
void shunt_hier_close(struct shunt_hier *hier);

/* The world rank of a rank on another node; -1: it is on this one, or there is no such rank. */
int shunt_hier_distant(const struct shunt_hier *hier, int rank);

struct shunt_board *shunt_hier_board(const struct shunt_hier *hier);

/* As shunt_coll_run. */
enum shunt_status shunt_hier_run(struct shunt_hier *hier, const struct shunt_task *task, const struct shunt_progress *progress,
                                 struct shunt_outcome *outcome);

#endif
