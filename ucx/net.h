/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network between the processes of a job, by UCX: short notes, and data that is sent and received by tags.
 *
 * Processes are known by their number in a table of addresses that the caller brings. A connection is made when it is first
 * used. A thread answers what comes, asleep while nothing does; threads that wait drive the network themselves. A peer that
 * has ended, or cannot be reached, is lost for ever: all that goes to it or is expected of it fails.
 */
#ifndef SHUNT_UCX_NET_H
#define SHUNT_UCX_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/identity.h"
#include "base/status.h"

#define SHUNT_NET_NOTE 128 /* bytes of a note at most */

/* What is told by the network. All of it is called with the network's lock held, by any thread. */
struct shunt_net_hooks {
    void (*note)(int from, const void *note, size_t bytes); /* those about SHUNT_NET_CONSENT */
    bool (*look)(void); /* now and then; true: there is something that has to be looked at again soon */
};

/*
 * Open UCX, make this process's address, start the thread. SHUNT_PASS: there is no UCX, or shunt was built without. Once per
 * process.
 */
enum shunt_status shunt_net_start(const struct shunt_net_hooks *hooks);

/* This process's address; valid until stop. NULL if there is none. */
const void *shunt_net_address(size_t *bytes);

/*
 * The addresses of all `n` processes, one behind the other, and where each begins ([n]: the end). Which process each is, if it
 * is one of this machine, else all zero. All is copied.
 */
enum shunt_status shunt_net_peers(int n, int self, const void *addresses, const size_t *begins,
                                  const struct shunt_process *processes);

/* Send what is under way, at most for a second, and end. Peers may still be sending to us. */
void shunt_net_stop(void);

/* In the child after fork: the network is the parent's. */
void shunt_net_abandon(void);

/* The network's lock; recursive. */
void shunt_net_lock(void);
void shunt_net_unlock(void);

/* Notes are about different things, each of which has its hearer; what nobody hears is dropped. */
enum shunt_net_subject { SHUNT_NET_CONSENT, SHUNT_NET_MESSAGES, SHUNT_NET_SUBJECTS };
void shunt_net_hear(enum shunt_net_subject subject, void (*note)(int from, const void *note, size_t bytes));

/* Send a note; it is copied. What cannot be delivered makes the peer lost. To itself is allowed: the hook is called at once. */
void shunt_net_note(int peer, enum shunt_net_subject subject, const void *note, size_t bytes);

/* Is this peer lost? Is it a process of this machine; and one that has ended? */
bool shunt_net_lost(int peer);
bool shunt_net_local(int peer);
bool shunt_net_ended(int peer);

/* Of all data under way between two processes no two parts may have the same tag. */
struct shunt_net_tag {
    uint64_t word[4];
};

enum shunt_net_state { SHUNT_NET_IDLE, SHUNT_NET_UNDER_WAY, SHUNT_NET_DONE, SHUNT_NET_FAILED };

/*
 * A part of the data on its way, and its buffer, in host memory. Both are the caller's again when it is DONE. When it has
 * FAILED they must stay until the network has been stopped: UCX may still look there.
 */
struct shunt_net_part {
    struct shunt_net_tag tag;
    int peer;
    void *buffer;
    size_t bytes;
    enum shunt_net_state state;
    bool sends, drops;
    void *request; /* UCX's */
    struct shunt_net_part *next, **link; /* in a list: what is expected, or what UCX has */
    struct {
        struct shunt_net_tag tag;
        uint64_t bytes;
        int32_t from;
    } header; /* as it is sent */
};

static inline enum shunt_net_state shunt_net_state(const struct shunt_net_part *part)
{
    /* Acquire: what has been received can be read. */
    return __atomic_load_n(&part->state, __ATOMIC_ACQUIRE);
}

/* Begin. Never wait. A part that was received before may be used again. */
void shunt_net_send(struct shunt_net_part *part, int peer, struct shunt_net_tag tag, const void *buffer, size_t bytes);
void shunt_net_receive(struct shunt_net_part *part, int peer, struct shunt_net_tag tag, void *buffer, size_t bytes);

/* Nobody wants what has come, or will come, with this tag. */
void shunt_net_drop(int peer, struct shunt_net_tag tag);

/* Of a receive that nothing has come for: FAILED at once. Without effect on others. */
void shunt_net_cancel(struct shunt_net_part *part);

/* Look after the network, for threads that wait; true if there was something to do. */
bool shunt_net_progress(void);

/*
 * Between `attend` and `leave` this thread does so, and the network's own thread sleeps; or, with `parallel`, helps with all it
 * has.
 */
void shunt_net_attend(bool parallel);
void shunt_net_leave(bool parallel);

#endif
