/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement across nodes: do all ranks of a communicator have an operation on device memory?
 *
 * Each node's ranks meet on a board of their own. When all have arrived the node is READY, and its first rank says so to the
 * coordinator, the first rank of the communicator. When all nodes are ready, it says COMMIT to the first ranks and they to
 * their nodes, and everybody runs the operation; any host rank makes it ABORT, and everybody stages. Ranks on host memory only count
 * the call, as ever. That some rank has done so the network's thread of its process finds out, once it is asked.
 */
#ifndef SHUNT_COLL_CONSENT_H
#define SHUNT_COLL_CONSENT_H

#include "coll/drive.h"
#include "coll/nodes.h"
#include "ucx/net.h"

extern const struct shunt_net_hooks shunt_consent_hooks;

/* In a job of n ranks; and the end of all of it. */
enum shunt_status shunt_consent_start(int n);
void shunt_consent_stop(void);

/* What the ranks of an operation must have in common. */
struct shunt_brief {
    uint32_t coll, type, op;
    int32_t root;
    uint64_t count;
    uint32_t piece; /* bytes of the pieces in which it goes over the network: the coordinator's counts */
    uint32_t unused;
};

struct shunt_consent; /* one communicator's */

/* Both outlive it. `key` is the communicator's. */
enum shunt_status shunt_consent_open(const struct shunt_team *team, struct shunt_key key, struct shunt_board *board,
                                     struct shunt_consent **consent_p);
void shunt_consent_close(struct shunt_consent *consent);

/*
 * See that this rank and each of `ranks` hear each other. SHUNT_PASS: some do not. SHUNT_ERR_DEAD: one has ended. Waits for their
 * networks' threads only.
 */
enum shunt_status shunt_consent_meet(struct shunt_consent *consent, const int *ranks, int n, struct shunt_waiter *w);

/*
 * Take the step on the board, and agree. SHUNT_OK: everybody runs it; *brief is the coordinator's, *sequence the same number on
 * all ranks. SHUNT_PASS: everybody stages, *reason. SHUNT_ERR_DEAD: a rank is lost.
 */
enum shunt_status shunt_consent_reach(struct shunt_consent *consent, struct shunt_waiter *w, const struct shunt_post *post,
                                      struct shunt_brief *brief, uint64_t *sequence, enum shunt_reason *reason);

/* An operation has failed here after all: no rank of the communicator may wait for this one any more. */
void shunt_consent_fail(struct shunt_consent *consent);

/* Has it failed on some rank; or is a rank lost, in reach or not? Cheap. */
bool shunt_consent_told(const struct shunt_consent *consent);
bool shunt_consent_failed(struct shunt_consent *consent);

#endif
