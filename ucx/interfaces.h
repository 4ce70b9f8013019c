/* SPDX-License-Identifier: BSD-3-Clause */
/* SHUNT_NET_IFNAME: from the words of the user to the devices that UCX gets. */
#ifndef SHUNT_UCX_INTERFACES_H
#define SHUNT_UCX_INTERFACES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * As NCCL reads its own such setting: names or their beginnings, separated by commas; = in front: whole names; ^: all but
 * these. What is no interface of this machine goes on as it is, since UCX has names of its own (mlx5_0:1). False: nothing
 * is chosen.
 */
bool shunt_interfaces_choose(const char *wanted, char *names, size_t bytes);

#endif
