/* SPDX-License-Identifier: BSD-3-Clause */
/* Room for messages on their way; tray.h. What was made in a context that has ended went with it. */
#include "cuda/tray.h"

#include <string.h>

#include "base/conf.h"
#include "cuda/peer.h"

enum {
    BLOCKS = 8, /* each as large as all before it, or larger */
    TRAYS = 256, /* of a block */
    ALIGNMENT = 256,
    FIRST_BYTES = 8 << 20,
};

struct tray {
    uint64_t start, end; /* bytes into the block */
};

struct block {
    char *at;
    uint64_t bytes;
    unsigned n;
    struct tray trays[TRAYS]; /* that are taken, by their places */
};

static struct {
    pthread_mutex_t lock;
    unsigned long long context; /* where the blocks are */
    uint64_t bytes;             /* of all */
    bool full;                  /* the GPU had no memory for more */
    unsigned n;
    struct block blocks[BLOCKS];
} room = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void forget(unsigned long long context)
{
    room.context = context;
    room.bytes = 0;
    room.full = false;
    room.n = 0;
}

/* The first gap that is large enough. NULL: there is none. */
static char *take_from(struct block *block, uint64_t bytes)
{
    uint64_t start = 0;
    unsigned i = 0;

    if (block->n == TRAYS)
        return NULL;
    for (; i < block->n && block->trays[i].start - start < bytes; i++)
        start = block->trays[i].end;
    if (block->bytes - start < bytes)
        return NULL;
    memmove(&block->trays[i + 1], &block->trays[i], (block->n - i) * sizeof block->trays[0]);
    block->trays[i] = (struct tray){ start, start + bytes };
    block->n++;
    return block->at + start;
}

static struct block *make_block(struct shunt_device *device, uint64_t bytes)
{
    uint64_t most = shunt_conf->message_room > room.bytes ? shunt_conf->message_room - room.bytes : 0;
    uint64_t wanted = room.bytes > FIRST_BYTES ? room.bytes : FIRST_BYTES;
    struct shunt_gpu_scope scope;
    CUdeviceptr memory = 0;

    wanted = wanted < bytes ? bytes : wanted;
    wanted = wanted < most ? wanted : most;
    if (room.full || room.n == BLOCKS || wanted < bytes || shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return NULL;
    room.full = SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemAlloc_v2(&memory, wanted)) != SHUNT_OK;
    shunt_gpu_leave(&scope);
    if (room.full)
        return NULL;
    struct block *block = &room.blocks[room.n++];
    block->at = (char *)memory;
    block->bytes = wanted;
    block->n = 0;
    room.bytes += wanted;
    return block;
}

char *shunt_tray_take(uint64_t bytes)
{
    struct shunt_device *device = shunt_device_get();
    char *at = NULL;

    if (device == NULL || bytes == 0 || bytes > shunt_conf->message_room)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    pthread_mutex_lock(&room.lock);
    if (room.context != device->context)
        forget(device->context);
    for (unsigned i = 0; i < room.n && at == NULL; i++)
        at = take_from(&room.blocks[i], bytes);
    struct block *block = at == NULL ? make_block(device, bytes) : NULL;
    if (block != NULL)
        at = take_from(block, bytes);
    pthread_mutex_unlock(&room.lock);
    return at;
}

static void give_to(struct block *block, uint64_t start)
{
    for (unsigned i = 0; i < block->n; i++) {
        if (block->trays[i].start != start)
            continue;
        block->n--;
        memmove(&block->trays[i], &block->trays[i + 1], (block->n - i) * sizeof block->trays[0]);
        return;
    }
}

void shunt_tray_give(const char *at)
{
    if (at == NULL)
        return;
    pthread_mutex_lock(&room.lock);
    for (unsigned i = 0; i < room.n; i++)
        if (at >= room.blocks[i].at && at < room.blocks[i].at + room.blocks[i].bytes)
            give_to(&room.blocks[i], (uint64_t)(at - room.blocks[i].at));
    pthread_mutex_unlock(&room.lock);
}

void shunt_trays_close(void)
{
    pthread_mutex_lock(&room.lock);
    for (unsigned i = 0; i < room.n; i++)
        SHUNT_CUDA(cuMemFree_v2((CUdeviceptr)room.blocks[i].at));
    forget(0);
    pthread_mutex_unlock(&room.lock);
}
