/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is asked for of a communicator's collectives: the settings, and over them the hints that its info gives. All ranks have to
 * ask for the same, since any of them may be the one that decides: so each post has a hash of it (select.c).
 */
#ifndef SHUNT_COLL_WISHES_H
#define SHUNT_COLL_WISHES_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/colls.h"

#define SHUNT_ALGO_AUTO   (-1)
#define SHUNT_ALGO_STAGED (-2)

enum { SHUNT_PROTO_AUTO, SHUNT_PROTO_LL, SHUNT_PROTO_LL128, SHUNT_PROTO_SIMPLE }; /* words of SHUNT_PROTO */

/* A setting like oneshot:0-256k,twoshot:256k- as ranges; the first that holds a size wins, else auto. */
#define SHUNT_RANGES 16

struct shunt_range {
    uint64_t from, to; /* to is the first size that is not meant */
    int algo;          /* enum shunt_algo_id, SHUNT_ALGO_AUTO or SHUNT_ALGO_STAGED */
};
struct shunt_ranges {
    unsigned n;
    struct shunt_range range[SHUNT_RANGES];
};

/* Parse such a setting for one collective. False: not understood, *ranges is empty. */
bool shunt_ranges_parse(unsigned coll, const char *text, struct shunt_ranges *ranges);
int shunt_ranges_find(const struct shunt_ranges *ranges, uint64_t bytes);

struct shunt_wishes {
    struct shunt_ranges ranges[SHUNT_NCOLLS];
    int proto;
    bool ordered; /* SHUNT_REPRODUCIBLE: only what adds in rank order */
    uint32_t hash;
};

/* A hint of a communicator: key "shunt_proto" or "shunt_" and a word of colls.def, value as the setting's. */
struct shunt_hint {
    const char *key, *value;
};
#define SHUNT_HINTS (SHUNT_NCOLLS + 1)
const char *shunt_hint_key(unsigned i); /* of those; NULL: a number that has none */

/*
 * The settings with these hints over them; one that is not understood is named in a line, and counts as not given. Equal ones are
 * the same object, which lives as long as the process, so that operations under way may have it whatever becomes of their
 * communicator. NULL: the settings themselves, also where there is no memory, or too many different ones.
 */
const struct shunt_wishes *shunt_wishes_make(const struct shunt_hint *hints, int n);

/* The settings, where `wishes` is NULL. */
const struct shunt_wishes *shunt_wishes_of(const struct shunt_wishes *wishes);

/* An algorithm, SHUNT_ALGO_AUTO or SHUNT_ALGO_STAGED. */
int shunt_wishes_algo(const struct shunt_wishes *wishes, unsigned coll, uint64_t bytes);

#endif
