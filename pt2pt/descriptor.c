/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of parcels; descriptor.h. */
#include "pt2pt/descriptor.h"

#include <stddef.h>
#include <string.h>

/* In the manner of FNV-1a, by words: the token tells descriptors from messages, this only what is whole. */
static uint64_t hash_of(const struct shunt_descriptor *descriptor)
{
    const unsigned char *at = (const unsigned char *)descriptor;
    const size_t end = offsetof(struct shunt_descriptor, hash);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < end; i += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, at + i, end - i < sizeof word ? end - i : sizeof word);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
        hash ^= hash >> 32;
    }
    return hash;
}

void shunt_descriptor_close(const uint64_t token[2], struct shunt_descriptor *descriptor)
{
    memcpy(descriptor->token, token, sizeof descriptor->token);
    descriptor->end = 0;
    descriptor->hash = hash_of(descriptor);
}

void shunt_descriptor_seal(struct shunt_arena *arena, struct shunt_descriptor *descriptor)
{
    uint64_t token[2];

    shunt_arena_token(arena, token);
    shunt_descriptor_close(token, descriptor);
}

bool shunt_descriptor_is(const uint64_t token[2], const void *at, struct shunt_descriptor *descriptor)
{
    if (memcmp(at, token, sizeof descriptor->token) != 0)
        return false;
    memcpy(descriptor, at, sizeof *descriptor);
    return descriptor->hash == hash_of(descriptor);
}

bool shunt_descriptor_read(struct shunt_arena *arena, const void *at, struct shunt_descriptor *descriptor)
{
    uint64_t token[2];

    shunt_arena_token(arena, token);
    return shunt_descriptor_is(token, at, descriptor) && descriptor->index < SHUNT_PARCELS &&
           descriptor->source.slot < (uint32_t)shunt_arena_local_size(arena);
}
