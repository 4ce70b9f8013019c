/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arena (one shared memory of a node's ranks) and the boards in it (one per communicator): how ranks agree,
 * without a message, whether an operation runs on the GPUs.
 *
 * A rank on host memory only advances its counter. A rank on device memory does all its fallible work first, posts
 * what it brings and arrives. The last to arrive decides under the node's launch lock, for all. Everything doubtful
 * ends in STAGE. doc/design.md has the rules and why each is there.
 */
#ifndef SHUNT_BASE_BOARD_H
#define SHUNT_BASE_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reasons.h"
#include "base/status.h"

#define SHUNT_BOARD_RANKS 16   /* members of a board whose operations can run: they arrive in one word */
#define SHUNT_TREE_RANKS  64   /* members of a board that can arrive on device memory: by a tree */
#define SHUNT_ARENA_PROCS 256  /* processes of one job on one node */
#define SHUNT_CARD_BYTES  8192 /* of each process, readable by all: its layout belongs to cuda/ */
#define SHUNT_STATS_BYTES 11392 /* of each process, readable by all: its layout belongs to base/stats.c */

struct shunt_arena; /* this process's view of the node's shared memory */
struct shunt_board; /* this process's view of one communicator's board */

/* ---- arena ---- */

/*
 * Register this process in the arena of its job on this node, creating it if this is the first. To be called before
 * the host's MPI_Init. Without a launcher that tells who belongs together: SHUNT_PASS, *arena_p = NULL.
 * Never blocks for a peer. The arena must be left by shunt_arena_leave.
 */
enum shunt_status shunt_arena_join(struct shunt_arena **arena_p);

/* After the host's MPI_Init: this process's rank in MPI_COMM_WORLD and how many there are on all nodes. */
void shunt_arena_set_world(struct shunt_arena *arena, int world_rank, int world_size);

/*
 * Fix, once for all, who takes part: at once if all local ranks that the launcher announced are registered, else
 * after a bounded wait (at most 1 s). Idempotent; everybody obeys the sealed set. Unlinks the file.
 */
void shunt_arena_seal(struct shunt_arena *arena);

/* The slot (0 ...) of this process; of a world rank, or -1 if that rank is not in the sealed set. */
int shunt_arena_self(const struct shunt_arena *arena);
int shunt_arena_slot(const struct shunt_arena *arena, int world_rank);

/*
 * Sticky on the node: some rank has used device memory (rule 8: neutral ranks arrive only then). Answers the number of
 * this process among those that did (0, 1, ... in order of their first call; the same on every call of a process): its
 * channel in everybody's scratch.
 */
int shunt_arena_set_device_used(struct shunt_arena *arena);
bool shunt_arena_device_used(const struct shunt_arena *arena);

/* Processes of this job on this node, once sealed: no slot is as high; equal on all of them. */
int shunt_arena_local_size(const struct shunt_arena *arena);

/*
 * Once sealed: do the settings of some rank of this machine ask for the network between nodes; *apart: are its ranks on several? Equal
 * on all of the machine, whatever each one's settings.
 */
bool shunt_arena_net(const struct shunt_arena *arena, bool *apart);

/* A random number: the same on the ranks of one node, and on no others, whatever their hosts are called. */
void shunt_arena_node(const struct shunt_arena *arena, uint64_t number[2]);

/* The public page of the process in `slot`, SHUNT_CARD_BYTES, zeroed at registration, 128-byte aligned. */
void *shunt_arena_card(const struct shunt_arena *arena, int slot);

/*
 * The counters of the process in `slot`, SHUNT_STATS_BYTES, zeroed at registration, 128-byte aligned. Stay readable after
 * that process has left or ended, until the caller leaves. NULL if no process ever registered in `slot`.
 */
void *shunt_arena_stats(const struct shunt_arena *arena, int slot);

/*
 * False once the process of `slot` is proven to have ended (pidfd, not a pid number). A process that has left in order
 * stays alive in this sense: its end is no failure, whoever still waits for the last of its data gets it. Cheap, but
 * not for hot loops.
 */
bool shunt_arena_alive(struct shunt_arena *arena, int slot);

/*
 * A thread of this process sleeps until an operation is decided whose post asked for it. `doze` first, then a look at what
 * it waits for, then `sleep` with the word that `doze` answered, for at most `ns` (0: without limit); it may return early.
 * One thread of each process. `wake`: of this process or another.
 */
uint32_t shunt_arena_doze(struct shunt_arena *arena);
void shunt_arena_sleep(struct shunt_arena *arena, uint32_t word, uint64_t ns);
void shunt_arena_wake(struct shunt_arena *arena, int slot);

/* Unmap and forget; safe when the file was never sealed (then the last one out unlinks it). arena may be NULL. */
void shunt_arena_leave(struct shunt_arena *arena);

/* ---- boards ---- */

struct shunt_key {
    uint64_t word[2]; /* a 128-bit hash: equal on all members, different for different communicators */
};

/*
 * Find or create the board of a communicator. slots[i] is the arena slot of the communicator's rank i, `me` the
 * caller's rank. n may exceed SHUNT_TREE_RANKS: such a board only counts. Each member opens once and closes once.
 * SHUNT_ERR_LIMIT if the arena is full (then no member may use a board: shunt_board_open records that in the arena
 * under the same key, so that a member that opened it before sees every arrival end in STAGE).
 */
enum shunt_status shunt_board_open(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, int me,
                                   struct shunt_board **board_p);
/* The same for a board of which only few operations are under way at a time: it takes little of the arena. */
enum shunt_status shunt_board_open_narrow(struct shunt_arena *arena, struct shunt_key key, int n, const int *slots, int me,
                                          struct shunt_board **board_p);
void shunt_board_close(struct shunt_board *board);

/* Rule 1: a rank on host memory passes its next operation. 1-2 ns, never waits. board may be NULL. */
void shunt_board_pass(struct shunt_board *board);

/*
 * Take the last step back: the host MPI has refused the call on this rank, so it was no operation here, and the next one is
 * what the peers have, or will have, at that place. Who has seen this rank pass has staged it, and so will this rank.
 */
void shunt_board_retract(struct shunt_board *board);

enum {
    SHUNT_POST_NEUTRAL = 1,
    SHUNT_POST_IN_PLACE = 2,
    SHUNT_POST_READY = 4, /* both buffers are ready now, not only once this rank's stream has come so far */
    SHUNT_POST_WAKE = 8,  /* this rank does not wait for the decision: wake it (shunt_arena_doze) */
    SHUNT_POST_ASKS = 16, /* it begins nothing yet, but makes a persistent operation */
    SHUNT_POST_PARTS = 32, /* it will stage the operation, in parts if all do so */
};

/* Where a buffer is, as a peer can use it. reg = 0: not exported, to be reached only through scratch. */
struct shunt_place {
    uint32_t reg;     /* number of the owner's registration, see cuda/registry.h */
    uint32_t align;   /* address modulo 256 */
    uint64_t offset;  /* bytes into the registered block */
    uint64_t id;      /* the driver's BUFFER_ID */
};

/* What a rank brings to an operation: everything the decider must know. */
struct shunt_post {
    uint16_t coll;   /* enum shunt_coll */
    uint16_t flags;  /* SHUNT_POST_* */
    uint16_t row;    /* 1 + number of the poster's row; 0: it has none */
    uint16_t op;     /* enum shunt_op */
    uint64_t count;  /* elements */
    uint32_t type;   /* enum shunt_type */
    uint32_t wishes; /* a hash of all by which this rank would choose: settings, hints, tables */
    int32_t root;
    uint16_t max_blocks; /* largest grid that is resident at once on this rank's GPU */
    uint16_t gpu;        /* which of the node's GPUs, an index that means the same to all ranks */
    struct shunt_place send, recv;
};

/*
 * What only one rank knows of an operation whose blocks differ: a side buffer of its post, one for each wave of the
 * operation in which this rank has something. In bytes; [q]: what goes to, and what comes from rank q. Readable as long as
 * the post.
 */
struct shunt_row {
    uint64_t sent[SHUNT_BOARD_RANKS], received[SHUNT_BOARD_RANKS];
    uint64_t place[SHUNT_BOARD_RANKS]; /* where that which comes is to lie, from the place of the post's recv on */
    uint8_t align[SHUNT_BOARD_RANKS];  /* address modulo 16 of what goes */
    uint16_t next; /* the poster's row of the wave after this one, in the way of the post's */
};

/* What the last to arrive decides for all. */
struct shunt_verdict {
    uint64_t ticket; /* filled by the board: launch order on the node, from 1; each further wave has the next one */
    uint32_t chunk;  /* bytes */
    uint16_t flags;  /* SHUNT_PLAN_* */
    uint8_t blocks;
    uint8_t algo; /* enum shunt_algo_id */
    union {
        uint64_t bytes;    /* of the largest block of an operation with rows */
        uint64_t order[2]; /* without rows: the ranks as they come in each ring, four bits each, ring after ring */
    };
    enum shunt_reason reason; /* of STAGE */
    uint8_t ways; /* rings that it uses side by side; 0: one, in the order of ranks */
    uint8_t waves; /* of an operation with rows; 0: one */
};

/*
 * Decides on n posts (posts[i] of member i; never NULL). Answers true to run, having filled *verdict but the ticket;
 * false to stage, with verdict->reason. Called by one member, under the node's launch lock: must be short, pure.
 */
typedef bool (*shunt_decide)(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict);

enum shunt_round_state { SHUNT_ROUND_UNDECIDED, SHUNT_ROUND_STAGE, SHUNT_ROUND_RUN };

/* One operation in which this process has arrived. Owned by the caller, valid from arrive to leave. */
struct shunt_round {
    struct shunt_board *board;
    uint64_t sequence;
    void *entry;
    double since; /* seconds, monotonic: when it arrived */
};

/*
 * Has member `rank` passed the caller's next operation already? A member that did and has not published what a device
 * rank publishes before it arrives is a host rank: the caller then passes too, and stages.
 */
bool shunt_board_ahead(const struct shunt_board *board, int rank);

/*
 * Has a member ended without leaving the arena? Then no collective of its communicator can be completed any more,
 * neither here nor by a host MPI, and most of these would wait for it for ever.
 */
bool shunt_board_bereft(const struct shunt_board *board);

/*
 * Rule 2: arrive in the board's next operation. SHUNT_OK: arrived, `round` is filled and must be left.
 * SHUNT_PASS: did not arrive, has passed as a host rank instead; *reason says why; stage.
 */
enum shunt_status shunt_board_arrive(struct shunt_board *board, const struct shunt_post *post, shunt_decide decide,
                                     void *context, struct shunt_round *round, enum shunt_reason *reason);

/*
 * A row for a post that is about to arrive, whatever comes of that: arriving takes it over, also where it answers
 * SHUNT_PASS. It is that of the first wave; those which the post has already become the rows of later ones, so they are
 * taken from the last wave on. `next` is set. NULL: there is none left, and the post has none any more.
 */
struct shunt_row *shunt_row_take(struct shunt_arena *arena, struct shunt_post *post);

/* The row of somebody's post for a wave, NULL if it has none. */
const struct shunt_row *shunt_row_of(const struct shunt_arena *arena, const struct shunt_post *post, uint32_t wave);

/* Look once: also turns UNDECIDED to STAGE if a member has passed on the host (rule 4) or after 30 s. */
enum shunt_round_state shunt_round_poll(struct shunt_round *round);

/*
 * Between two polls of a wait loop; *spins is 0 at its start. Yields the processor at once if there are more ranks than
 * processors, else pauses, and yields after about 1 ms.
 */
void shunt_board_relax(unsigned *spins);

/* Rule 4: veto while undecided. Without effect once decided; poll tells. */
void shunt_round_veto(struct shunt_round *round, enum shunt_reason reason);

/*
 * Rule 5a: RUN -> STAGE, as long as nobody has ended the operation. Any member may ask for it; it happens when all have
 * yielded, of which each promises that its user's memory is untouched and that it will not go on, as long as `recalled`
 * says that it is asked for. To leave is to refuse: then nobody can ask any more. Who can neither leave yet nor yield any
 * more refuses each time, so that those who have yielded go on.
 */
void shunt_round_recall(struct shunt_round *round, enum shunt_reason reason);
bool shunt_round_recalled(const struct shunt_round *round);
void shunt_round_refuse(struct shunt_round *round);
enum shunt_round_state shunt_round_yield(struct shunt_round *round); /* to be called again until one of them changes */

/* The decision, once poll says STAGE (only `reason` is set) or RUN. Valid until leave. */
const struct shunt_verdict *shunt_round_verdict(const struct shunt_round *round);

/*
 * The post of member i, once poll says RUN, or STAGE for a reason that `decide` gave (then all have arrived). Valid
 * until leave.
 */
const struct shunt_post *shunt_round_post(const struct shunt_round *round, int i);

/* Done with it: the entry is free for sequence + 256 when all who arrived have left. */
void shunt_round_leave(struct shunt_round *round);

/* How many operations the caller has passed on it; to be asked by any of its threads. */
uint64_t shunt_board_steps(const struct shunt_board *board);

/* Members and the caller's rank. */
int shunt_board_size(const struct shunt_board *board);
int shunt_board_rank(const struct shunt_board *board);
int shunt_board_slot(const struct shunt_board *board, int rank);

#endif
