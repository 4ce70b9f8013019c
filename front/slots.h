/* SPDX-License-Identifier: BSD-3-Clause */
/* The jump slots of slots.S, numbered as slots.def says, and what is known of each. */
#ifndef SHUNT_FRONT_SLOTS_H
#define SHUNT_FRONT_SLOTS_H

#include "call_ids.h" /* SHUNT_NSLOTS */

enum { SHUNT_SLOT_BYTES = 16 }; /* of code, for each slot, in each of the arrays below */

/* What it means that a host lacks a function. */
enum shunt_lack {
    SHUNT_ALL_HAVE,        /* nothing: all hosts have it */
    SHUNT_MAY_LACK,        /* who asks for it finds none, who calls it gets an error */
    SHUNT_MEANS_NO,        /* a question: who calls it gets "no" */
    SHUNT_SHOWN_MEANS_NO,  /* the same, but who asks for it always finds it */
    SHUNT_SHOWN_WRITES_NO, /* and its second argument says where "no" is written to */
};

#pragma GCC visibility push(hidden)
extern _Atomic(void *) shunt_slots[SHUNT_NSLOTS]; /* where each function jumps to */
extern const char shunt_functions[];              /* the functions that are shown */
extern const char shunt_asks[];                   /* for each, a function that calls shunt_absent_ask with its slot */
extern const char shunt_own_init[];               /* our PMPI_Init; that name alone may lead to another library's */
#pragma GCC visibility pop

const char *shunt_slot_name(unsigned slot);
enum shunt_lack shunt_slot_lack(unsigned slot);

#endif
