/* SPDX-License-Identifier: BSD-3-Clause */
/* What calls.txt says of a call, by its id; forms.h. */
#include "mpi/forms.h"

#include <stdint.h>

#include "mpi/call.h"

static const uint16_t families[SHUNT_NCALLS] = { SHUNT_CALL_FAMILIES };
static const bool persistent[SHUNT_NCALLS] = { SHUNT_CALL_PERSISTENT };
static const bool of_file[SHUNT_NCALLS] = { SHUNT_CALL_FILE };
static const bool rows[SHUNT_NCALLS] = { SHUNT_CALL_ROWS };
static const bool two_types[SHUNT_NCALLS] = { SHUNT_CALL_TWO_TYPES };

unsigned shunt_call_family(unsigned id)
{
    return families[id] ? families[id] : id;
}

bool shunt_call_is_persistent(unsigned id)
{
    return persistent[id];
}

bool shunt_call_is_of_file(unsigned id)
{
    return of_file[id];
}

bool shunt_call_has_rows(unsigned id)
{
    return rows[id];
}

bool shunt_call_has_two_types(unsigned id)
{
    return two_types[id];
}
