/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions of programs: may device memory be handed to this MPI? With an engine, on a node with a GPU, it may, whatever
 * the host would say; in a fork child, which shunt leaves alone, the host answers.
 */
#ifndef SHUNT_MPI_QUERY_H
#define SHUNT_MPI_QUERY_H

#include <stdbool.h>

/* Once, before anybody asks. `gpu`: this node has one. */
void shunt_query_start(bool gpu);

#endif
