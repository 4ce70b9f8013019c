/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's own GPU as its peers use it, and the peers' GPUs as this one uses them: scratch memory, registrations
 * of user buffers, both published on the process's card in the arena and opened by CUDA IPC.
 *
 * A process has one such GPU: the one its first device buffer lies on. All set-up (context, kernels, scratch, card) is
 * done by shunt_device_open before the process first arrives on a board; opening a peer's scratch is done before
 * arriving too. So nothing that can fail is left for the time after the decision.
 */
#ifndef SHUNT_CUDA_PEER_H
#define SHUNT_CUDA_PEER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/board.h"
#include "cuda/context.h"
#include "cuda/gpu.h"
#include "cuda/kargs.h"
#include "cuda/types.h"

/* Where things lie in scratch; equal on all processes, because it follows from what they all know. */
struct shunt_layout {
    uint64_t ll_bytes;   /* of one channel and parity */
    uint64_t lines;      /* offset of the LL128 lines */
    uint64_t line_bytes; /* of one channel and parity */
    uint64_t rings;      /* offset of the rings */
    uint64_t ring_bytes; /* of one channel and area */
    uint64_t total;
    uint64_t host_rings, host_ring_bytes, host_total; /* the same of a segment in host memory, which has no lines */
    uint32_t channels;
};

/* Everything follows from the number of local ranks and some settings, which peers compare. */
struct shunt_layout shunt_layout_make(int local_size);

struct shunt_device {
    struct shunt_gpu *gpu;
    unsigned long long context; /* gpu->id at set-up */
    struct shunt_layout layout;
    uint32_t channel;
    bool stream_words;     /* streams can write words of 64 bits */
    uint16_t max_blocks;   /* thread blocks of any of our kernels that are resident at once */
    char *scratch;         /* device pointer */
    uint64_t *done;        /* pinned: a word per thread block of the one kernel in flight */
    uint32_t *abort;       /* pinned */
    uint64_t *room;        /* pinned, SHUNT_ROOM_BYTES of room.c */
};

/*
 * The device path of this process, set up on first use for the GPU where `buffer` (classified as *mem) lies. NULL: there
 * is none for this buffer, *reason says why. The answer for a GPU that failed once is remembered.
 */
struct shunt_device *shunt_device_open(struct shunt_arena *arena, const void *buffer, const struct shunt_mem *mem,
                                       enum shunt_reason *reason);

/* The same without a set-up: NULL where none has been, or its context has gone. */
struct shunt_device *shunt_device_get(void);

/* What the application has put on the legacy default stream. */
enum shunt_legacy {
    SHUNT_LEGACY_UNKNOWN, /* it cannot be asked, a graph is being captured */
    SHUNT_LEGACY_LATER,   /* not asked yet */
    SHUNT_LEGACY_AWAITED, /* our stream waits for it */
    SHUNT_LEGACY_IDLE,    /* nothing, so a kernel that runs already will do, too */
};

/*
 * Order what we launch next behind it. Done before arriving where a kernel will be launched, so that the GPU has it behind
 * it when the kernel comes.
 * `ask`: whether there is anything is worth knowing; else that is asked only if a kernel may be lingering.
 * False: the context is gone. Then: has it ended?
 */
bool shunt_device_order(struct shunt_device *device, bool ask, enum shunt_legacy *legacy);
bool shunt_device_passed(struct shunt_device *device);

enum shunt_peer_state { SHUNT_PEER_MISSING, SHUNT_PEER_MET, SHUNT_PEER_OPEN, SHUNT_PEER_REFUSED };

/*
 * The scratch of the process in `slot`: not published yet; open, but not yet proven to be reached from here and from there
 * (MET); open; or not to be had (*reason). Opens it on first use (20 ms) and from then on keeps up with its registrations.
 * The proof (probe.h) is the work of both sides: who waits for one peer must go on asking for all.
 */
enum shunt_peer_state shunt_peer_open(struct shunt_arena *arena, int slot, enum shunt_reason *reason);

/*
 * The channel of an open peer; where we write to it and where it writes to us: scratch in the GPU's memory, or `hosted`, in
 * host memory; and a buffer of its user, which is to be used now: only for an operation whose decision counts on it. NULL: it
 * is not registered.
 */
uint32_t shunt_peer_channel(int slot);
char *shunt_peer_to(int slot);
char *shunt_peer_from(int slot);
bool shunt_peer_hosted(int slot);
char *shunt_peer_buffer(int slot, const struct shunt_place *place);

/*
 * Decider's question: has the process in slot `user` opened registration `registration` of the one in `owner`? If not,
 * the owner is told that it was missed, and offers it again.
 */
bool shunt_peer_opened(struct shunt_arena *arena, int user, int owner, uint32_t registration);

/* Decider's question: does anything between these n processes go by host memory? */
bool shunt_peers_hosted(struct shunt_arena *arena, const int *slots, int n);

/* Decider's question: do the stores of the process in slot `user` reach the GPU of the one in `owner` in whole lines? */
bool shunt_peer_whole_lines(struct shunt_arena *arena, int user, int owner);

/*
 * Where the `bytes` at `p` are, for the post. A large buffer that comes again is registered on its second use; until
 * then, and for memory that cannot be exported, place->reg is 0. `large`: this operation would profit.
 */
void shunt_place_of(struct shunt_arena *arena, const void *p, uint64_t bytes, const struct shunt_mem *mem, bool large,
                    struct shunt_place *place);

/* Say that operation `ticket` has failed here, so that the peers' kernels do not wait for it; ask about a peer. */
void shunt_peer_fail(struct shunt_arena *arena, uint64_t ticket);
bool shunt_peer_failed(struct shunt_arena *arena, int slot, uint64_t ticket);

/*
 * LL slots come in pairs, used in turns: our parity with a peer, which toggles with each LL operation that both take part
 * in. For operation `ticket`, in which we send to it, receive from it.
 *
 * The slot of this turn must have been read by the peer. It has been if we have received something from the peer in a
 * later operation than the one that used the slot last, or if the peer has ended that one: shunt_peer_ll_free asks.
 */
uint32_t shunt_peer_ll_turn(int slot, uint64_t ticket, bool sends, bool receives);
void shunt_peer_ll_undo(int slot, uint32_t turns); /* so many, the last ones, did not take place, for either side */
bool shunt_peer_ll_free(struct shunt_arena *arena, int slot);

/* Say that all our operations up to `ticket` have ended; ask up to which those of a peer have. */
void shunt_peer_done(struct shunt_arena *arena, uint64_t ticket);
uint64_t shunt_peer_ended(struct shunt_arena *arena, int slot);

/*
 * Is something open here that peers have declared dead, or something wanted for which there is no room? Then close and
 * open, while no operation of this process is under way.
 */
bool shunt_peers_untidy(void);
void shunt_peers_tidy(struct shunt_arena *arena);

/*
 * Publish what of ours is dead; close all blocks of peers if no operation of this process is under way (`idle`).
 * Answers how many are open then.
 */
int shunt_peers_flush(bool idle);

/* At Finalize: close what is open, give back scratch. */
void shunt_peers_close(void);

#endif
