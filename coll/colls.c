/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of collectives; colls.h. */
#include "coll/colls.h"

/* The traits by the words of the table. */
enum {
    COMBINES = SHUNT_TRAIT_COMBINES,
    PREFIX = SHUNT_TRAIT_PREFIX,
    ONE_BUFFER = SHUNT_TRAIT_ONE_BUFFER,
    TWO_TYPES = SHUNT_TRAIT_TWO_TYPES,
    SEND_ROWS = SHUNT_TRAIT_SEND_ROWS,
    RECV_ROWS = SHUNT_TRAIT_RECV_ROWS,
};

const struct shunt_collective shunt_collectives[SHUNT_NCOLLS] = {
#define COLLECTIVE(ID, word, call, sends, blocks, receives, its_blocks, place, its_traits)         \
    [SHUNT_COLL_##ID] = { { SHUNT_WHO_##sends, SHUNT_BLOCKS_##blocks },                            \
                          { SHUNT_WHO_##receives, SHUNT_BLOCKS_##its_blocks },                     \
                          SHUNT_IN_PLACE_##place,                                                  \
                          its_traits },
#include "coll/colls.def"
#undef COLLECTIVE
};

const char *shunt_coll_name(unsigned coll)
{
    static const char *const names[] = {
#define COLLECTIVE(ID, word, ...) [SHUNT_COLL_##ID] = #word,
#include "coll/colls.def"
#undef COLLECTIVE
#define X(ID, word) [SHUNT_COLL_##ID] = #word,
        SHUNT_OTHERS(X)
#undef X
    };
    return coll < SHUNT_NCOLLS ? names[coll] : "?";
}

static bool does_count(enum shunt_who who, int me, int root)
{
    switch (who) {
    case SHUNT_WHO_NOBODY: return false;
    case SHUNT_WHO_ROOT: return me == root;
    case SHUNT_WHO_OTHERS: return me != root;
    case SHUNT_WHO_LATER: return me > 0;
    default: return true;
    }
}

bool shunt_coll_receives(unsigned coll, int me, int root)
{
    return does_count(shunt_collectives[coll].recv.who, me, root);
}

bool shunt_coll_sends(unsigned coll, int q, int me, int root)
{
    return q != me && shunt_coll_receives(coll, me, root) && does_count(shunt_collectives[coll].send.who, q, root);
}

uint64_t shunt_coll_blocks(unsigned coll, int n, int me, int root)
{
    bool many = shunt_collectives[coll].recv.blocks == SHUNT_BLOCKS_OPPOSITE_GROUP;

    return many && shunt_coll_receives(coll, me, root) ? (uint64_t)n : 1;
}

bool shunt_coll_rooted(unsigned coll)
{
    const struct shunt_collective *c = &shunt_collectives[coll];

    return c->send.who == SHUNT_WHO_ROOT || c->recv.who == SHUNT_WHO_ROOT;
}

bool shunt_coll_mutual(unsigned coll)
{
    const struct shunt_collective *c = &shunt_collectives[coll];

    return c->send.who == SHUNT_WHO_ALL && c->recv.who == SHUNT_WHO_ALL && !(c->traits & SHUNT_TRAIT_PREFIX);
}
