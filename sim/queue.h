/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an application process and its executors share: one memfd with the queue of each stream.
 *
 * A stream is a ring of commands of one writer (the application, under its context's submit lock)
 * and one reader (the stream's thread in the executor). `submitted` counts commands put,
 * `completed` commands done; both only grow, also when a slot serves another stream later. So
 * "everything before this point of that stream is done" is one comparison of two numbers, and
 * events, waits between streams and synchronisation need nothing else.
 *
 * Sleeping: each side announces that it is about to sleep and looks once more; the other publishes
 * and then looks for the announcement. Sequentially consistent operations on both make it
 * impossible that both miss each other.
 */
#ifndef SHUNT_SIM_QUEUE_H
#define SHUNT_SIM_QUEUE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_STREAMS = 512,
    SIM_RING_BYTES = 1 << 16,
    SIM_EVENTS = 1 << 14,
    SIM_EXPORTS = 1 << 13,
    SIM_BOUNCES = 32,
    SIM_BOUNCE_BYTES = 1 << 19,
    SIM_MAX_ARGS = 64,
    SIM_MAX_ARG_BYTES = 1 << 13, /* of a launch, each argument rounded up to 16 */
};

enum sim_op {
    SIM_OP_SKIP, /* the rest of the ring is empty: go on at its start */
    SIM_OP_NOTHING,
    SIM_OP_EXIT,   /* the stream ends */
    SIM_OP_RECORD, /* write the time of an event */
    SIM_OP_WAIT,   /* until another stream has completed so much */
    SIM_OP_COPY,
    SIM_OP_SET,
    SIM_OP_WRITE_WORD,
    SIM_OP_WAIT_WORD,
    SIM_OP_HOST, /* a function of the application, in the application */
    SIM_OP_LAUNCH,
};

struct sim_cmd {
    uint32_t op;
    uint32_t bytes; /* of the command with what follows it, a multiple of 16 */
    union {
        uint32_t event;
        struct {
            uint64_t value;
            uint32_t stream;
        } wait;
        struct {
            uint64_t to, from, bytes;
        } copy;
        struct {
            uint64_t to, count;
            uint32_t value, width; /* width: bytes per element, 1, 2 or 4 */
        } set;
        struct {
            uint64_t address, value;
            uint32_t flags, width; /* width: 4 or 8 bytes */
        } word;
        struct {
            uint64_t function, data; /* addresses in the application */
        } host;
        struct {
            uint64_t kernel; /* address in the executor */
            uint32_t grid[3], block[3];
            uint32_t shared;    /* dynamic shared memory, bytes */
            uint32_t arg_bytes; /* that follow the command, each argument at a multiple of 16 */
        } launch;
    };
    _Alignas(16) unsigned char args[];
};

enum sim_slot_state { SIM_SLOT_FREE, SIM_SLOT_LIVE, SIM_SLOT_DONE /* its stream has ended */ };
enum sim_host_state { SIM_HOST_NONE, SIM_HOST_ASKED };

struct sim_queue {
    /* written by the application */
    _Alignas(128) _Atomic uint64_t
        tail; /* bytes ever put; a reader without work sleeps on its low half */
    _Atomic uint64_t submitted;
    _Atomic uint32_t state; /* enum sim_slot_state */
    /* written by the executor */
    _Alignas(128) _Atomic uint64_t completed; /* who waits for it sleeps on its low half */
    _Atomic uint64_t head;                    /* bytes ever taken */
    _Atomic uint32_t sleeping;                /* the reader sleeps, or is about to */
    /* both */
    _Alignas(128) _Atomic uint32_t waiters; /* how many sleep, or are about to, on `completed` */
    _Atomic uint32_t host;                  /* enum sim_host_state: a host function is asked for */
    uint64_t host_function, host_data;
    _Alignas(128) unsigned char ring[SIM_RING_BYTES];
};

/*
 * Memory of this process that others may have opened. The last of owner and users gives the pages
 * back.
 */
struct sim_export {
    _Atomic uint32_t uses;  /* processes that have it open */
    _Atomic uint32_t freed; /* by its owner */
    uint32_t device;        /* the owner's ordinal */
    uint64_t bytes;
};

struct sim_shared {
    _Atomic int error; /* a CUresult that stays: an executor has died of it */
    _Atomic uint32_t
        host_bell; /* counts host functions asked for; the application's host thread sleeps on it */
    uint64_t nonce;
    _Atomic uint64_t event_time[SIM_EVENTS]; /* ns */
    _Alignas(4096) struct sim_export exports[SIM_EXPORTS];
    _Alignas(4096) struct sim_queue queue[SIM_STREAMS];
    _Alignas(4096) unsigned char bounce[SIM_BOUNCES][SIM_BOUNCE_BYTES];
};

/*
 * Sleep while *word is `value`, at most `ms`; wake all sleepers. On the low half of a 64-bit
 * counter.
 */
void sim_sleep(_Atomic uint32_t *word, uint32_t value, int ms);
void sim_wake(_Atomic uint32_t *word);
static inline _Atomic uint32_t *sim_low_half(_Atomic uint64_t *counter)
{
    return (_Atomic uint32_t *)counter; /* both architectures are little-endian */
}

#endif
