/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operation needs before this rank arrives: everything that can fail. */
#ifndef SHUNT_COLL_PREPARE_H
#define SHUNT_COLL_PREPARE_H

#include "coll/drive.h"

struct shunt_prepared {
    struct shunt_device *device;
    enum shunt_legacy legacy;
    bool copies; /* copy engines will do it, if all can */
    int slots[SHUNT_BOARD_RANKS]; /* of each rank */
};

/*
 * Device, the peers' scratch, order behind the application's work. NONE or why this rank cannot take part. `later`: the
 * caller will see to that order after it has arrived, if a lingering kernel may do the operation; then legacy is LATER.
 */
enum shunt_reason shunt_prepare(struct shunt_waiter *w, const struct shunt_task *task, bool later,
                                struct shunt_prepared *prepared);

/* The same for a call that does not wait: all but the peers (meet.h). */
enum shunt_reason shunt_prepare_own(struct shunt_arena *arena, const struct shunt_board *board, const struct shunt_task *task,
                                    struct shunt_prepared *prepared);

/* The same without the row of a task whose blocks differ: only so that a large buffer is offered to the peers. */
void shunt_prepare_offer(struct shunt_arena *arena, const struct shunt_board *board, const struct shunt_device *device,
                         const struct shunt_task *task, struct shunt_post *post);

/* What this rank posts, for a post that will arrive. NONE, or why there is none. */
enum shunt_reason shunt_prepare_post(struct shunt_arena *arena, const struct shunt_board *board, const struct shunt_device *device,
                                     const struct shunt_task *task, struct shunt_post *post);

/* The operation that is to be listed once its post has arrived. */
void shunt_prepare_work(const struct shunt_task *task, const struct shunt_prepared *prepared, struct shunt_work *work);

#endif
