/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and properties of the slots, from slots.def. */
#include "front/slots.h"

/* Room for the longest name: an array of arrays needs no relocation, of which 1000 would cost every process. */
enum { NAME_BYTES = 40 };
static const char names[][NAME_BYTES] = {
#define SLOT(slot, name, absent) #name,
#include "front/slots.def"
#undef SLOT
};
#define SLOT(slot, name, absent) _Static_assert(sizeof #name <= NAME_BYTES, "too long: " #name);
#include "front/slots.def"
#undef SLOT

static const char absents[] = {
#define SLOT(slot, name, absent) absent,
#include "front/slots.def"
#undef SLOT
};

const char *shunt_slot_name(unsigned slot)
{
    return names[slot];
}

bool shunt_slot_may_be_absent(unsigned slot)
{
    return absents[slot] != 0;
}

bool shunt_slot_answers_no(unsigned slot)
{
    return absents[slot] == 2;
}
