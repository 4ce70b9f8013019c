/* SPDX-License-Identifier: BSD-3-Clause */
/* The jump slots of slots.S, numbered as slots.def says, and what is known of each. */
#ifndef SHUNT_FRONT_SLOTS_H
#define SHUNT_FRONT_SLOTS_H

#include <stdbool.h>

#include "call_ids.h" /* SHUNT_NSLOTS */

enum { SHUNT_SLOT_BYTES = 16 }; /* of code, for each slot, in each of the arrays below */

#pragma GCC visibility push(hidden)
extern _Atomic(void *) shunt_slots[SHUNT_NSLOTS]; /* where each function jumps to */
extern const char shunt_functions[];              /* the functions that are shown */
extern const char shunt_asks[];                   /* for each, a function that calls shunt_absent_ask with its slot */
extern const char shunt_own_init[];               /* our PMPI_Init; that name alone may lead to another library's */
#pragma GCC visibility pop

const char *shunt_slot_name(unsigned slot);
bool shunt_slot_may_be_absent(unsigned slot); /* not every MPI library has it */
bool shunt_slot_answers_no(unsigned slot);    /* a question to which a library without the function means 0 */

#endif
