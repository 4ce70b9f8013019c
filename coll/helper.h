/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that drives operations that go on after the call that began them. It makes no call of MPI. A process that
 * begins none has no such thread.
 *
 * With nothing under way, and while an operation is undecided, it sleeps until it is woken: by the call that begins one, or by
 * the rank that decides one. While a kernel is in flight it looks at its end in pauses of an eighth of the time that it has
 * taken so far, 10 to 500 us, and so it does while ranks have not met: so it finds the end late by an eighth at most, and takes a few percent of a processor.
 */
#ifndef SHUNT_COLL_HELPER_H
#define SHUNT_COLL_HELPER_H

#include <stdbool.h>

#include "base/board.h"

/* Is there the thread? Makes it if not. */
bool shunt_helper_ensure(struct shunt_arena *arena);

/* There is something new for it. */
void shunt_helper_nudge(struct shunt_arena *arena);

/*
 * Something else for it to do, which may wait in the driver: `run` is called by it, in order. The errand stays the sender's. False:
 * nobody would do it, as there is no such thread, or the process ends.
 */
struct shunt_errand {
    void (*run)(struct shunt_errand *errand);
    struct shunt_errand *next;
};
bool shunt_helper_send(struct shunt_arena *arena, struct shunt_errand *errand);

/* The thread is no more, or the process ends, and it has not begun this one: true, and it is not sent any more. */
bool shunt_helper_take_back(struct shunt_errand *errand);

/* At Finalize, while the arena is still there: end it. Nothing may be under way any more. */
void shunt_helper_stop(struct shunt_arena *arena);

#endif
