/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of mpi/ alone: no communicator goes over several nodes. */
#ifndef SHUNT_TEST_FAKE_HIER_H
#define SHUNT_TEST_FAKE_HIER_H

#include "coll/hier.h"

enum shunt_status shunt_hier_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *world, int me,
                                  struct shunt_hier **hier_p)
{
    (void)arena, (void)key, (void)n, (void)world, (void)me, (void)hier_p;
    return SHUNT_PASS;
}

void shunt_hier_close(struct shunt_hier *hier)
{
    (void)hier;
}

struct shunt_board *shunt_hier_board(const struct shunt_hier *hier)
{
    (void)hier;
    return NULL;
}

enum shunt_status shunt_hier_run(struct shunt_hier *hier, const struct shunt_task *task, const struct shunt_progress *progress,
                                 struct shunt_outcome *outcome)
{
    (void)hier, (void)task, (void)progress, (void)outcome;
    return SHUNT_PASS;
}

#endif
