/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What processes publish of themselves, and registrations of user buffers: between peer.c and registry.c.
 *
 * A registration is an allocation that its owner has offered to its peers: by CUDA IPC (cudaMalloc), or as a file
 * descriptor (cuMemCreate with that handle type; it comes by the mailbox, once a peer has asked for it). Its number is
 * never given twice, and what a peer has opened it publishes under that number. So an entry of the table can be used
 * again for another allocation without ever being taken for the old one.
 */
#ifndef SHUNT_CUDA_REGISTRY_H
#define SHUNT_CUDA_REGISTRY_H

#include "cuda/mailbox.h"
#include "cuda/probe.h"
#include "cuda/peer.h"

#define SHUNT_REGISTRATIONS 40 /* blocks of user memory that a process has registered at a time */
#define SHUNT_ENTRY_BITS    6  /* number = count << 6 | entry, entry 1 to 40: never 0 */

static inline uint32_t shunt_entry_of(uint32_t number)
{
    return number & ((1u << SHUNT_ENTRY_BITS) - 1);
}

enum { SHUNT_REG_FREE, SHUNT_REG_LIVE, SHUNT_REG_DEAD };
enum { SHUNT_EXPORT_IPC, SHUNT_EXPORT_DESCRIPTOR };

/* One registered block of user memory on a card. Written by the owner; LIVE is stored last, with release. */
struct shunt_registration {
    _Atomic uint32_t state;
    uint32_t kind;            /* SHUNT_EXPORT_* */
    _Atomic uint32_t number;
    _Atomic uint32_t offers;  /* how often the owner has said that it should be opened */
    CUipcMemHandle handle;    /* of IPC */
    uint64_t base, size, id;
};

enum { SHUNT_HOST_UNUSED, SHUNT_HOST_OPEN, SHUNT_HOST_REFUSED };

enum { SHUNT_CARD_NONE, SHUNT_CARD_OPEN, SHUNT_CARD_REFUSED };

/* What a process publishes of itself (shunt_arena_card). `state` is stored last, with release. */
struct shunt_card {
    _Atomic uint32_t state;
    uint32_t channel;
    uint32_t reason; /* of REFUSED */
    unsigned char uuid[16];
    char pci[16]; /* the GPU's address, "": not known */
    uint64_t total; /* bytes of scratch: peers whose settings differ do not understand each other */
    _Atomic uint32_t version; /* grows with every change of a registration */
    _Atomic uint64_t done;    /* ticket of the last operation that has ended here */
    _Atomic uint64_t failed;  /* ticket of the last operation that this process could not launch or finish */
    _Atomic uint64_t missed;  /* bit per entry: a decision went without it, because not all have it open */
    _Atomic uint64_t wanted;  /* bit per entry: some peer asks for its descriptor */
    CUipcMemHandle scratch;
    /* Bit, by the peer's channel: our pattern is written, or has not been in time; its has arrived, has not. */
    _Atomic uint32_t probed, late, heard, deaf;
    _Atomic uint32_t whole_lines; /* bit: owner's channel; our stores to its GPU keep 128 bytes whole (LL128) */
    _Atomic uint32_t host_state; /* SHUNT_HOST_*: of the segment in host memory (shm.h) */
    _Atomic uint32_t hosted;     /* bit, by the peer's channel: we go by host memory, say I */
    _Atomic uint32_t host_probed, host_heard, host_deaf; /* as above, of segments */
    uint64_t host_total;         /* bytes of a segment */
    struct shunt_mailbox_address host_box; /* for descriptors of segments; written before OPEN */
    struct shunt_mailbox_address mailbox; /* written before the first `asked` */
    _Atomic uint64_t asked[SHUNT_KRANKS]; /* [owner's channel]: bit per entry: I wait for its descriptor */
    _Atomic uint32_t opened[SHUNT_KRANKS][SHUNT_REGISTRATIONS + 1]; /* [owner's channel][entry]: the number that I have open */
    struct shunt_registration registrations[SHUNT_REGISTRATIONS + 1]; /* [0] is never used: 0 means none */
};
_Static_assert(sizeof(struct shunt_card) <= SHUNT_CARD_BYTES, "a card must fit in its page of the arena");

static inline struct shunt_card *shunt_card(struct shunt_arena *arena, int slot)
{
    return shunt_arena_card(arena, slot);
}

/* A peer's block as this process has it. */
struct shunt_block {
    char *address; /* NULL: not open */
    uint64_t size;
    uint32_t number, kind;
    uint32_t tried;  /* the offer that was followed, with or without success; of `number` */
    uint32_t asked;  /* the offer for which its descriptor was asked for; of `number` */
    uint64_t used;   /* when an operation last counted on it; written under the process's launch lock */
    uint32_t channel; /* of the owner */
    struct shunt_block *next; /* of those that are open */
};

/* A piece of host memory that GPUs share (shm.h), as this process and as its GPU see it. */
struct shunt_segment {
    char *memory, *device; /* NULL: none */
};

struct shunt_transport;

/* This process's view of a peer. */
struct shunt_peer {
    enum shunt_peer_state state;
    enum shunt_reason reason;
    uint32_t channel;
    uint32_t version; /* of the peer's card when last followed */
    uint32_t ll_turn;
    struct shunt_probe probe; /* our pattern, on the way that is tried */
    bool heard;  /* its pattern has arrived here */
    uint64_t ll_sent[2]; /* ticket of the last operation in which we sent through the slot of this parity */
    uint64_t ll_before;  /* ll_heard, before the last operation */
    uint64_t ll_heard;   /* of the last in which something came from it: what it had to do before is done */
    bool untidy; /* something is to be closed, or to be opened once there is room */
    const struct shunt_transport *way; /* NULL: none has been tried yet */
    bool hosted;       /* the way's */
    char *to, *from;   /* where we write to it, and it to us; once it is OPEN */
    char *scratch;     /* the peer's, if it is open here */
    bool host_offered, host_failed; /* it has been sent our segment's descriptor; something has gone wrong with it */
    struct shunt_segment host; /* the peer's */
    struct shunt_block blocks[SHUNT_REGISTRATIONS + 1];
};

/* peer.c: the view of the process in `slot`. */
struct shunt_peer *shunt_peer_at(int slot);

/*
 * Follow what a peer has published since the last look: open what it offers. Only while no operation of this process is
 * under way (`idle`) is anything closed: what is dead, and what was used longest ago where room is needed. Called inside
 * the device's context, one caller at a time.
 */
void shunt_registry_follow(struct shunt_arena *arena, int slot, bool idle);

/* A round of closing begins: it closes nothing that was used, or opened, after this. */
void shunt_registry_begin_pass(void);

/* An operation counts on this block now. */
void shunt_block_use(struct shunt_block *block);

/*
 * A peer's block by its number, for copies that nothing on a board vouches for; NULL: it is not open. Until it is released,
 * by the same thread or another, nothing is closed.
 */
char *shunt_block_hold(int slot, uint32_t number);
void shunt_block_release(void);

/* Declare dead what the application has freed. */
void shunt_registry_sweep(void);

/* Close all blocks of all peers. Answers how many are open: without `idle`, nothing is closed. */
int shunt_registry_close_all(bool idle);

/* With the GPU that mappings are for, the own card, and how many bytes of peers' blocks may be open at a time. */
void shunt_registry_start(struct shunt_gpu *gpu, struct shunt_card *mine, uint64_t limit);
void shunt_registry_stop(void);

#endif
