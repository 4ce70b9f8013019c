/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that call different things: said to the user, once. */
#ifndef SHUNT_COLL_MISMATCH_H
#define SHUNT_COLL_MISMATCH_H

#include "base/board.h"

/* Of an operation that is staged because its posts do not match: the first rank that differs from rank 0 says how. */
void shunt_mismatch_say(const struct shunt_arena *arena, const struct shunt_round *round);

#endif
