/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and properties of the slots, from slots.def. */
#include "front/slots.h"

/* Room for the longest name: an array of arrays needs no relocation, of which 1000 would cost every process. */
enum { NAME_BYTES = 40 };
static const char names[][NAME_BYTES] = {
#define SLOT(slot, name, lack) #name,
#include "front/slots.def"
#undef SLOT
};
#define SLOT(slot, name, lack) _Static_assert(sizeof #name <= NAME_BYTES, "too long: " #name);
#include "front/slots.def"
#undef SLOT

static const unsigned char lacks[] = {
#define SLOT(slot, name, lack) lack,
#include "front/slots.def"
#undef SLOT
};

const char *shunt_slot_name(unsigned slot)
{
    return names[slot];
}

enum shunt_lack shunt_slot_lack(unsigned slot)
{
    return (enum shunt_lack)lacks[slot];
}
