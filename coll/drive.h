/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of this process's operations: launched in ticket order, one at a time, and seen to their end. Whoever waits
 * does it for all threads.
 *
 * One kernel of this process is in flight at a time. A kernel that left its start barrier is launched again, and must
 * not be overtaken by a later ticket: the flags in scratch only grow, so a later operation would make its waits true.
 */
#ifndef SHUNT_COLL_DRIVE_H
#define SHUNT_COLL_DRIVE_H

#include "coll/task.h"
#include "cuda/launch.h"

enum shunt_work_state { SHUNT_WORK_ARRIVED, SHUNT_WORK_LAUNCHED, SHUNT_WORK_FINISHED };

/* An operation in which this process has arrived. */
struct shunt_work {
    struct shunt_round round;
    struct shunt_launch launch;
    struct shunt_plan plan;
    const struct shunt_post *posts[SHUNT_BOARD_RANKS];
    const struct shunt_row *rows[SHUNT_BOARD_RANKS]; /* of each rank, if blocks differ */
    const struct shunt_spans *spans;                 /* of this rank's blocks then, of `waves` waves, else NULL */
    uint32_t waves, wave; /* the one that is under way; a later one than this rank's last is one in which it has nothing */
    struct shunt_device *device;
    enum shunt_work_state state;
    uint64_t last; /* the ticket of the last wave: who says that this has ended, or failed, has said so of all */
    bool detached; /* nobody need wait for it: who finds its end takes it from the list, and leaves */
    bool planned;
    bool between; /* in flight, but no kernel is: a wave has ended, and the next one has not been launched */
    bool ended;    /* this rank's part of the wave is; it is not left, since those of others are not */
    uint64_t unheard; /* ranks of whose parts only they can tell */
    uint64_t writers; /* the same of those without whose parts this rank's result is not there */
    bool called_off; /* this rank's kernel has been told to end as it is */
    bool unordered; /* behind the legacy stream, yet: not to be launched, nor is anything later */
    bool yielded;  /* it has been asked to be staged after all, and nothing of it goes on here */
    unsigned code; /* SHUNT_DONE_*, of FINISHED */
    unsigned algo; /* enum shunt_algo_name, of FINISHED */
    enum shunt_status status;
    bool dropped;  /* held: to be taken out by who has the launch lock next; `drop` gives it back then */
    void (*drop)(struct shunt_work *work);
    struct shunt_work *next;
};

/* What a call waits with. */
struct shunt_waiter {
    struct shunt_arena *arena;
    struct shunt_board *board;
    const struct shunt_progress *progress;
    double patience; /* seconds that a member that neither publishes nor passes is waited for */
    unsigned spins, turns;
    double poked, looked;
};

/* One fruitless look: let others run, and now and then drive the host MPI, whose peers may be waiting for us in it. */
void shunt_wait_a_little(struct shunt_waiter *w);

/*
 * The process's launch lock. Who arrives holds it and lists what has arrived: it may have a ticket then, and nobody may
 * launch a later one without seeing it.
 */
void shunt_drive_lock(void);
void shunt_drive_unlock(void);
void shunt_drive_list(struct shunt_work *work);
void shunt_drive_unlist(struct shunt_work *work); /* takes the lock itself */

/* See that what has been marked as dropped is unlisted, left and given back; without waiting for the lock. */
void shunt_drive_drop(struct shunt_arena *arena);

/* Between these two no detached operation ends or is left, so that its round can be looked at. Never held for long. */
void shunt_drive_hold(void);
void shunt_drive_release(void);

/* Under the lock: is nothing under way? */
bool shunt_drive_idle(void);

/* Look at the running kernel, launch what comes next. */
void shunt_drive(struct shunt_arena *arena, struct shunt_device *device);

/* The same for the thread that does nothing else, which learns what detached operations need next. */
enum shunt_need {
    SHUNT_NEED_NOTHING,
    SHUNT_NEED_DECISION, /* of a peer */
    SHUNT_NEED_LOOKS,    /* at a kernel, or at what is launched before */
};
enum shunt_need shunt_drive_detached(struct shunt_arena *arena, bool check);

/*
 * The process ends, and the driver may be gone at any time: from now on shunt_drive_detached does nothing. The program's own
 * calls do, for what it has registered with atexit may come later and use MPI as ever.
 */
void shunt_drive_close(void);
bool shunt_drive_closed(void);

/* Of an operation that takes long: has a member died or failed, so that it cannot end by itself, or has our GPU? */
void shunt_drive_check(struct shunt_waiter *w, struct shunt_work *work);

static inline enum shunt_work_state shunt_work_state(const struct shunt_work *work)
{
    /* Acquire: what there is to read of one that is finished. */
    return __atomic_load_n(&work->state, __ATOMIC_ACQUIRE);
}

#endif
