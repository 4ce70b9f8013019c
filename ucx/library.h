/* SPDX-License-Identifier: BSD-3-Clause */
/* The UCX library: the one that is in the process already, else the system's, opened at run time. */
#ifndef SHUNT_UCX_LIBRARY_H
#define SHUNT_UCX_LIBRARY_H

#include <stdbool.h>

#include <ucp/api/ucp.h>

struct shunt_ucp {
#define X(type, name, parameters) type(*name) parameters;
#include "ucx/ucp.def"
#undef X
};

extern struct shunt_ucp shunt_ucp;

/* Open it and find the functions. False: it is not there, or too old; a line says which. Idempotent. */
bool shunt_ucp_open(void);

/*
 * UCX takes over signals when it is loaded or started. They are the application's: `keep` before, `restore` behind, in the
 * same thread.
 */
void shunt_signals_keep(void);
void shunt_signals_restore(void);

#endif
