/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a call on device memory did not run on the GPUs: an enum and its words, both from reasons.def. */
#ifndef SHUNT_BASE_REASONS_H
#define SHUNT_BASE_REASONS_H

enum shunt_reason {
#define REASON(id, words) SHUNT_REASON_##id,
#include "base/reasons.def"
#undef REASON
    SHUNT_NREASONS
};

/* The reason in words, static storage. */
const char *shunt_reason_text(enum shunt_reason reason);

#endif
