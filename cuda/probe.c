/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns written to peers, to see whether they arrive; see probe.h. */
#include "cuda/probe.h"

#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "cuda/kargs.h"

#define WORDS  16 /* of a pattern: 128 bytes */
#define PLACES (SHUNT_KRANKS * WORDS * sizeof(uint64_t))

/* The last lines before the data: one for each sender, zero until it has written; before these what we send to each owner. */
#define PLACE(sender) (SHUNT_SCRATCH_DATA - PLACES + (sender) * WORDS * sizeof(uint64_t))
#define SOURCE(owner) (PLACE(owner) - PLACES)
_Static_assert(SOURCE(0) >= SHUNT_SCRATCH_GATE + 16384, "the patterns lie behind the owner's own words");

static double slowest;

/* Another one in each word, and for each pair and direction. */
static void make_pattern(uint64_t *pattern, uint32_t sender, uint32_t owner)
{
    for (uint32_t i = 0; i < WORDS; i++)
        pattern[i] = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15ull ^ (sender << 8 | owner);
}

static enum shunt_status make_stream(CUstream *stream)
{
    return SHUNT_CUDA(cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, 0));
}

static enum shunt_status copy_pattern(void *to, const void *from, CUstream stream)
{
    return SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, WORDS * sizeof(uint64_t), stream));
}

/* Between host memory and our own GPU's, which does not take long. */
static enum shunt_status copy_and_wait(void *to, const void *from, CUstream stream)
{
    enum shunt_status status = copy_pattern(to, from, stream);

    return status == SHUNT_OK ? SHUNT_CUDA(cuStreamSynchronize(stream)) : status;
}

static enum shunt_status begin(struct shunt_probe *probe, char *own_scratch, char *to, uint32_t sender, uint32_t owner)
{
    uint64_t pattern[WORDS];

    make_pattern(pattern, sender, owner);
    enum shunt_status status = make_stream(&probe->stream);
    if (status != SHUNT_OK)
        return status;
    status = copy_and_wait(own_scratch + SOURCE(owner), pattern, probe->stream);
    probe->begun = shunt_seconds();
    if (status == SHUNT_OK)
        status = copy_pattern(to + PLACE(sender), own_scratch + SOURCE(owner), probe->stream);
    if (status != SHUNT_OK)
        shunt_probe_drop(probe);
    return status;
}

void shunt_probe_drop(struct shunt_probe *probe)
{
    if (probe->stream != NULL)
        SHUNT_CUDA(cuStreamDestroy_v2(probe->stream));
    *probe = (struct shunt_probe){ .stream = NULL };
}

enum shunt_status shunt_probe_send(struct shunt_probe *probe, char *own_scratch, char *to, uint32_t sender, uint32_t owner)
{
    enum shunt_status status = probe->begun == 0 ? begin(probe, own_scratch, to, sender, owner) : SHUNT_OK;

    if (status != SHUNT_OK)
        return status;
    CUresult result = shunt_driver.cuStreamQuery(probe->stream);
    double took = shunt_seconds() - probe->begun;
    if (result == CUDA_ERROR_NOT_READY && took * 1e3 < (double)shunt_conf->probe_ms)
        return SHUNT_AGAIN;
    slowest = took > slowest ? took : slowest;
    shunt_probe_drop(probe);
    return result == CUDA_SUCCESS ? SHUNT_OK : result == CUDA_ERROR_NOT_READY ? SHUNT_ERR_LIMIT : SHUNT_ERR_CUDA;
}

double shunt_probe_slowest(void)
{
    return slowest;
}

bool shunt_probe_arrived(const char *own_scratch, uint32_t sender, uint32_t owner)
{
    uint64_t expected[WORDS], found[WORDS];
    CUstream stream;

    make_pattern(expected, sender, owner);
    if (make_stream(&stream) != SHUNT_OK)
        return false;
    enum shunt_status status = copy_and_wait(found, own_scratch + PLACE(sender), stream);
    SHUNT_CUDA(cuStreamDestroy_v2(stream));
    return status == SHUNT_OK && memcmp(found, expected, sizeof found) == 0;
}

bool shunt_probe_arrived_host(const char *own_segment, uint32_t sender, uint32_t owner)
{
    uint64_t expected[WORDS];

    make_pattern(expected, sender, owner);
    return memcmp(own_segment + PLACE(sender), expected, sizeof expected) == 0;
}
