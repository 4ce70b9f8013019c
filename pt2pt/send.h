/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender's side of parcels: exposing a buffer, and getting it back.
 *
 * A buffer that nobody pulls from for a while is moved to host memory, because the receiver may sit in a call of the host
 * MPI that has swallowed the descriptor and waits for something that comes after the sender's call. As long as the
 * receiver fetches other parcels, it is given time.
 */
#ifndef SHUNT_PT2PT_SEND_H
#define SHUNT_PT2PT_SEND_H

#include "pt2pt/descriptor.h"

/* A parcel of ours. It stays where it is until it is over. */
struct shunt_sending {
    uint32_t index;
    uint64_t number;
    int dest; /* slot */
    const void *buffer;
    const char *tray; /* owned: what was packed there is the buffer; NULL: it is the program's */
    uint64_t bytes;
    struct shunt_source source;
    double since;     /* when the receiver was last seen to fetch something; 0: nobody has waited yet */
    uint64_t fetched; /* its counter then */
};

/* Can a buffer be exposed to the process in `dest`? Then it is to be, or shunt_send_undo to be called. */
bool shunt_send_prepare(struct shunt_arena *arena, const void *buffer, uint64_t bytes, const struct shunt_mem *mem, int dest,
                        struct shunt_sending *sending);

/* Do so; the descriptor is to be sent then. What the application has put on the legacy stream must have passed. */
void shunt_send_expose(struct shunt_arena *arena, const struct shunt_parcel_note *note, struct shunt_sending *sending,
                       struct shunt_descriptor *descriptor);

/* Is the buffer the program's again? Moves it when it is time for that, so this may take as long as staging. */
bool shunt_send_poll(struct shunt_arena *arena, struct shunt_sending *sending);

/* Polls all that this process has exposed, as their senders do: is none left? */
bool shunt_sends_over(struct shunt_arena *arena);

/* The host has not sent it. */
void shunt_send_undo(struct shunt_arena *arena, struct shunt_sending *sending);

#endif
