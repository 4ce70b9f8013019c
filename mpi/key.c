/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of communicators; key.h says what they are made of. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "mpi/key.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* uthash's way to be told that memory is short: the entry is simply not added. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* How many communicators of one kind, parent, group and tag there have been. */
struct group_count {
    struct shunt_key key;
    uint32_t count;
    UT_hash_handle hh;
};

static struct group_count *group_counts;
static pthread_mutex_t group_lock = PTHREAD_MUTEX_INITIALIZER;

bool shunt_kind_by_group(enum shunt_kind kind)
{
    return kind == SHUNT_KIND_CREATE_GROUP || kind == SHUNT_KIND_INTER_CREATE || kind == SHUNT_KIND_FROM_GROUP;
}

/* How often `key` was asked for before. */
static uint32_t next_count(const struct shunt_key *key)
{
    struct group_count *entry;
    uint32_t count = 0;

    pthread_mutex_lock(&group_lock);
    HASH_FIND(hh, group_counts, key, sizeof *key, entry);
    if (!entry && (entry = calloc(1, sizeof *entry))) {
        entry->key = *key;
        HASH_ADD(hh, group_counts, key, sizeof entry->key, entry);
    }
    if (entry)
        count = entry->count++;
    pthread_mutex_unlock(&group_lock);
    return count;
}

static void hash_ranks(XXH3_state_t *state, const int *ranks, int n)
{
    int64_t length = n; /* so that two lists differ from one that is both together */

    XXH3_128bits_update(state, &length, sizeof length);
    if (n > 0)
        XXH3_128bits_update(state, ranks, n * sizeof *ranks);
}

static struct shunt_key digest_key(const XXH3_state_t *state)
{
    XXH128_hash_t hash = XXH3_128bits_digest(state);

    return (struct shunt_key){ { hash.low64, hash.high64 } };
}

/* Must both sides of an inter-communicator exchange the two groups to have the same order? They are disjoint. */
static bool must_swap(const int *ranks, int n, const int *ranks2, int n2)
{
    return n > 0 && n2 > 0 && ranks2[0] < ranks[0];
}

struct shunt_key shunt_key_make(const struct shunt_origin *origin, const int *ranks, int n, const int *ranks2, int n2)
{
    XXH3_state_t state;
    int64_t words[] = { origin->kind, origin->tag, origin->count };
    const char *string = origin->string ? origin->string : "";

    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, origin->parent.word, sizeof origin->parent.word);
    XXH3_128bits_update(&state, words, sizeof words);
    XXH3_128bits_update(&state, string, strlen(string) + 1);
    if (must_swap(ranks, n, ranks2, n2)) {
        hash_ranks(&state, ranks2, n2);
        hash_ranks(&state, ranks, n);
    } else {
        hash_ranks(&state, ranks, n);
        hash_ranks(&state, ranks2, n2);
    }
    struct shunt_key key = digest_key(&state);
    if (!shunt_kind_by_group(origin->kind))
        return key;
    uint32_t count = next_count(&key);
    XXH3_128bits_update(&state, &count, sizeof count);
    return digest_key(&state);
}

void shunt_key_reset(void)
{
    struct group_count *entry, *next;

    pthread_mutex_lock(&group_lock);
    HASH_ITER(hh, group_counts, entry, next) {
        HASH_DEL(group_counts, entry);
        free(entry);
    }
    pthread_mutex_unlock(&group_lock);
}
