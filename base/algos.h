/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of algorithms: collectives use the same ones. Settings and statistics say them, models know them. */
#ifndef SHUNT_BASE_ALGOS_H
#define SHUNT_BASE_ALGOS_H

#define SHUNT_ALGO_NAMES(X) X(oneshot) X(twoshot) X(copy) X(ring) X(tree) X(hier)
enum shunt_algo_name {
#define X(name) SHUNT_NAME_##name,
    SHUNT_ALGO_NAMES(X)
#undef X
    SHUNT_NALGO_NAMES,
    SHUNT_NAME_staged = SHUNT_NALGO_NAMES /* by the host MPI, in host memory */
};

#endif
