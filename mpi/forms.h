/* SPDX-License-Identifier: BSD-3-Clause */
/* What calls.txt says of a call, by its id. */
#ifndef SHUNT_MPI_FORMS_H
#define SHUNT_MPI_FORMS_H

#include <stdbool.h>

/* The id of the blocking form of a call, or of the call itself if it has none. */
unsigned shunt_call_family(unsigned id);

bool shunt_call_is_persistent(unsigned id); /* what it makes is started by Start */
bool shunt_call_is_of_file(unsigned id);
bool shunt_call_has_rows(unsigned id);      /* its call->rows is one */
bool shunt_call_has_two_types(unsigned id);

#endif
