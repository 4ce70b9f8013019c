/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files distant*.c share. All of it is under the network's lock. */
#ifndef SHUNT_PT2PT_DISTANT_INNER_H
#define SHUNT_PT2PT_DISTANT_INNER_H

#include "pt2pt/distant.h"
#include "ucx/net.h"

struct distant_peer {
    bool asked, takes; /* whether it takes descriptors */
    bool curious;      /* it has asked us, who do not yet */
    bool likened;
};

struct shunt_shipment {
    struct shunt_shipment *next; /* in the order of their numbers */
    struct shunt_distant_note note;
    uint64_t number;
    char *memory; /* NULL: all is sent */
    bool posted;
    bool over; /* the receiver has it, or will never */
    int pieces;
    struct shunt_net_part piece[];
};

struct distant {
    int n, self;
    uint64_t token[2];
    struct distant_peer *peers; /* NULL: there is no network */
    bool accepts;
    struct shunt_shipment *shipments;
    uint64_t last;  /* number given out */
    uint64_t bytes; /* of the shipments' memory */
    struct {
        uint64_t question; /* the number of the last one */
        bool answered;
        uint64_t number, bytes;
    } oldest;
};

extern struct distant distant;

enum distant_kind {
    DISTANT_ASK,    /* do you take descriptors? */
    DISTANT_TAKES,  /* I do */
    DISTANT_OLDEST, /* which parcel of this kind is the oldest, above this number? */
    DISTANT_IS,     /* that one; 0: none */
    DISTANT_GOT,    /* I have received this one, or do not want it */
    DISTANT_GONE,   /* you will never receive this one: its pieces are to be dropped */
};

struct distant_letter {
    uint64_t token;
    uint32_t kind;
    int32_t tag;
    uint64_t comm, number, bytes, question;
    uint32_t pieces;
};

void distant_write(int peer, const struct distant_letter *letter);

/* The sender's answers. */
void distant_answer(int peer, const struct distant_letter *letter);
void distant_end(int peer, uint64_t number);

static inline struct shunt_net_tag distant_tag(uint64_t number, uint32_t piece)
{
    return (struct shunt_net_tag){ { distant.token[0], distant.token[1], number, piece } };
}

static inline uint32_t distant_pieces(uint64_t bytes, uint64_t piece)
{
    return (uint32_t)((bytes + piece - 1) / piece);
}

#endif
