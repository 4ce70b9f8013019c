/* SPDX-License-Identifier: BSD-3-Clause */
/* Calling back launches that find no room on the GPU; recall.h. */
#include "cuda/recall.h"

#include "base/conf.h"

/* A store of a kernel needs microseconds to arrive. */
#define ARRIVAL_SECONDS 0.2

enum step { WAITING, ASKED, RUNNING, CALLED, ASKED_AGAIN, MIXED, UNBEGUN };

/* Copies of our words go past the stream of the kernel. False: not now. */
static bool copy_words(struct shunt_gpu *gpu, CUdeviceptr to, CUdeviceptr from, unsigned n)
{
    return SHUNT_CUDA(cuMemcpyAsync(to, from, n * sizeof(uint64_t), gpu->copies)) == SHUNT_OK;
}

static bool have_passed(const struct shunt_gpu *gpu)
{
    return shunt_driver.cuStreamQuery(gpu->copies) == CUDA_SUCCESS;
}

static bool ask(struct shunt_gpu *gpu, const struct shunt_recall_words *words)
{
    return copy_words(gpu, (CUdeviceptr)words->pinned, words->begun, words->n);
}

static bool has_begun(const struct shunt_recall_words *words, uint64_t key)
{
    for (unsigned i = 0; i < words->n; i++)
        if (words->pinned[i] == key)
            return true;
    return false;
}

static bool call(struct shunt_gpu *gpu, const struct shunt_recall_words *words, uint64_t key)
{
    uint64_t *word = &words->pinned[words->n];

    *word = key;
    return copy_words(gpu, words->recalled, (CUdeviceptr)word, 1);
}

/* The step that follows, or the same. */
static enum step next_step(const struct shunt_recall *recall, struct shunt_gpu *gpu, const struct shunt_recall_words *words,
                           double waited)
{
    switch ((enum step)recall->step) {
    case WAITING:
        return waited * 1000 > (double)shunt_conf->room_ms && ask(gpu, words) ? ASKED : WAITING;
    case ASKED:
        if (!have_passed(gpu))
            return ASKED;
        return has_begun(words, recall->key) ? RUNNING : call(gpu, words, recall->key) ? CALLED : ASKED;
    case CALLED:
        return waited > ARRIVAL_SECONDS && ask(gpu, words) ? ASKED_AGAIN : CALLED;
    case ASKED_AGAIN:
        return !have_passed(gpu) ? ASKED_AGAIN : has_begun(words, recall->key) ? MIXED : UNBEGUN;
    default: return recall->step;
    }
}

enum shunt_recalled shunt_recall_look(struct shunt_recall *recall, struct shunt_gpu *gpu,
                                      const struct shunt_recall_words *words, uint64_t key, double now)
{
    static const enum shunt_recalled known[] = {
        [RUNNING] = SHUNT_RECALL_RUNS,
        [MIXED] = SHUNT_RECALL_MIXED,
        [UNBEGUN] = SHUNT_RECALL_UNBEGUN,
    };

    if (shunt_conf->room_ms == 0)
        return SHUNT_RECALL_WAITS;
    if (recall->key != key)
        *recall = (struct shunt_recall){ .key = key, .step = WAITING, .since = now };
    enum step step = next_step(recall, gpu, words, now - recall->since);
    /* The call is surely there, and the time in which words arrive begins, only when the copy has ended. */
    if (step != recall->step || (step == CALLED && !have_passed(gpu)))
        recall->since = now;
    recall->step = step;
    return known[step];
}

bool shunt_recall_called(const struct shunt_recall *recall, uint64_t key)
{
    return recall->key == key && recall->step >= CALLED;
}

bool shunt_recall_unbegun(const struct shunt_recall *recall, uint64_t key)
{
    return recall->key == key && recall->step == UNBEGUN;
}

void shunt_recall_restart(struct shunt_recall *recall, double now)
{
    if (recall->step == WAITING)
        recall->since = now;
}
