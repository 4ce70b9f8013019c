/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns written to peers, to see whether they arrive; see probe.h. */
#include "cuda/probe.h"

#include <string.h>

#include "cuda/kargs.h"

#define WORDS 16 /* of a pattern: 128 bytes */

/* The last lines before the data: one for each sender. Zero until it has written. */
#define PLACE(sender) (SHUNT_SCRATCH_DATA - (SHUNT_KRANKS - (sender)) * WORDS * sizeof(uint64_t))
_Static_assert(PLACE(0) >= SHUNT_SCRATCH_GATE + 16384, "the patterns lie behind the owner's own words");

/* Another one in each word, and for each pair and direction. */
static void make_pattern(uint64_t *pattern, uint32_t sender, uint32_t owner)
{
    for (uint32_t i = 0; i < WORDS; i++)
        pattern[i] = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15ull ^ (sender << 8 | owner);
}

static enum shunt_status copy_apart(void *to, const void *from)
{
    CUstream stream;
    enum shunt_status status = SHUNT_CUDA(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));

    if (status != SHUNT_OK)
        return status;
    status = SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, WORDS * sizeof(uint64_t), stream));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamSynchronize(stream));
    SHUNT_CUDA(cuStreamDestroy_v2(stream));
    return status;
}

enum shunt_status shunt_probe_write(char *scratch_of_owner, uint32_t sender, uint32_t owner)
{
    uint64_t pattern[WORDS];

    make_pattern(pattern, sender, owner);
    return copy_apart(scratch_of_owner + PLACE(sender), pattern);
}

bool shunt_probe_arrived(const char *own_scratch, uint32_t sender, uint32_t owner)
{
    uint64_t expected[WORDS], found[WORDS];

    make_pattern(expected, sender, owner);
    return copy_apart(found, own_scratch + PLACE(sender)) == SHUNT_OK && memcmp(found, expected, sizeof found) == 0;
}

enum shunt_status shunt_probe_write_host(char *segment_of_owner, char *own_scratch, uint32_t sender, uint32_t owner)
{
    uint64_t pattern[WORDS];
    char *place = own_scratch + PLACE(sender); /* nobody sends to itself */

    make_pattern(pattern, sender, owner);
    enum shunt_status status = copy_apart(place, pattern);
    return status == SHUNT_OK ? copy_apart(segment_of_owner + PLACE(sender), place) : status;
}

bool shunt_probe_arrived_host(const char *own_segment, uint32_t sender, uint32_t owner)
{
    uint64_t expected[WORDS];

    make_pattern(expected, sender, owner);
    return memcmp(own_segment + PLACE(sender), expected, sizeof expected) == 0;
}
