/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of enum shunt_reason. */
#include "base/reasons.h"

static const char *const words_of[SHUNT_NREASONS] = {
#define REASON(id, words) [SHUNT_REASON_##id] = words,
#include "base/reasons.def"
#undef REASON
};

const char *shunt_reason_text(enum shunt_reason reason)
{
    return (unsigned)reason < SHUNT_NREASONS ? words_of[reason] : "unknown reason";
}
