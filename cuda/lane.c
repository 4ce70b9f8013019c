/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies under way; lane.h. */
#include "cuda/lane.h"

#include "cuda/peer.h"

enum {
    LANES = 2,
    WORD_BYTES = 64,         /* of pinned memory: a line for each lane */
    OWN_MARK_BYTES = 1 << 18, /* a copy of so many bytes takes longer than a mark costs */
    COMMON_MARK = 8,         /* small copies that share a mark at most */
    LOOKS = 4096,            /* at a word that does not change, between two questions to the driver */
};

struct lane {
    CUstream stream;
    CUevent event;           /* the mark, where streams cannot write words */
    _Atomic uint64_t *word;  /* the last copy that has ended */
    uint64_t issued, marked; /* the last copy that has begun; that the last mark stands behind */
    unsigned looks;
};

static struct {
    pthread_mutex_t lock;
    unsigned long long context; /* where they were made; 0: not yet */
    char *pinned;
    struct lane lane[LANES];
    unsigned next;
} lanes = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With the lock held. What belonged to a context that is gone is gone with it. */
static enum shunt_status make_lanes(const struct shunt_device *device)
{
    void *pinned = NULL;
    int low = 0, high = 0;

    SHUNT_CUDA(cuCtxGetStreamPriorityRange(&low, &high));
    enum shunt_status status =
        SHUNT_CUDA(cuMemHostAlloc(&pinned, LANES * WORD_BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    for (int i = 0; i < LANES && status == SHUNT_OK; i++) {
        struct lane *lane = &lanes.lane[i];
        *lane = (struct lane){ .word = (_Atomic uint64_t *)((char *)pinned + i * WORD_BYTES) };
        atomic_init(lane->word, 0);
        status = SHUNT_CUDA(cuStreamCreateWithPriority(&lane->stream, CU_STREAM_NON_BLOCKING, high));
        if (status == SHUNT_OK)
            status = SHUNT_CUDA(cuEventCreate(&lane->event, CU_EVENT_DISABLE_TIMING));
    }
    lanes.pinned = pinned;
    lanes.context = status == SHUNT_OK ? device->context : 0;
    return status;
}

/* With the lock held: the lane's word will tell of all that has been issued in it so far. */
static enum shunt_status mark(const struct shunt_device *device, struct lane *lane)
{
    enum shunt_status status = device->stream_words ? SHUNT_CUDA(cuStreamWriteValue64_v2(
                                                          lane->stream, (CUdeviceptr)lane->word, lane->issued, 0)) :
                                                      SHUNT_CUDA(cuEventRecord(lane->event, lane->stream));

    if (status == SHUNT_OK)
        lane->marked = lane->issued;
    return status;
}

enum shunt_status shunt_lane_begin(const struct shunt_device *device, void *to, const void *from, uint64_t bytes,
                                   struct shunt_lane_copy *copy)
{
    enum shunt_status status = SHUNT_OK;

    pthread_mutex_lock(&lanes.lock);
    if (lanes.context != device->context)
        status = make_lanes(device);
    struct lane *lane = &lanes.lane[lanes.next];
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, lane->stream));
    if (status == SHUNT_OK) {
        *copy = (struct shunt_lane_copy){ .number = ++lane->issued, .lane = lanes.next };
        lanes.next = (lanes.next + 1) % LANES;
        /* A mark that fails now is tried again by who waits. */
        if (bytes >= OWN_MARK_BYTES || lane->issued - lane->marked >= COMMON_MARK)
            mark(device, lane);
    }
    pthread_mutex_unlock(&lanes.lock);
    return status;
}

/* With the lock held: no word says yet that it has ended. */
static enum shunt_status look_closely(const struct shunt_device *device, struct lane *lane, uint64_t number)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    struct shunt_gpu_scope scope;
    enum shunt_status status;

    if (lane->marked >= number && device->stream_words && ++lane->looks % LOOKS != 0)
        return SHUNT_AGAIN;
    if ((status = shunt_gpu_enter(device->gpu, &scope)) != SHUNT_OK)
        return status;
    if (lane->marked < number)
        status = mark(device, lane);
    else
        result = device->stream_words ? shunt_driver.cuStreamQuery(lane->stream) :
                                        shunt_driver.cuEventQuery(lane->event);
    shunt_gpu_leave(&scope);
    if (result == CUDA_SUCCESS) /* the mark has been passed, so all before it has ended */
        atomic_store_explicit(lane->word, lane->marked, memory_order_relaxed);
    else if (result != CUDA_ERROR_NOT_READY)
        status = shunt_cuda_check(result, SHUNT_LOG_WARN, "a copy between GPUs");
    return status == SHUNT_OK ? result == CUDA_SUCCESS ? SHUNT_OK : SHUNT_AGAIN : status;
}

enum shunt_status shunt_lane_ended(const struct shunt_device *device, const struct shunt_lane_copy *copy)
{
    struct lane *lane = &lanes.lane[copy->lane];
    enum shunt_status status = SHUNT_OK;

    pthread_mutex_lock(&lanes.lock);
    if (lanes.context != device->context)
        status = SHUNT_ERR_CUDA;
    /* Acquire: who sees the word sees what was copied before it. */
    else if (atomic_load_explicit(lane->word, memory_order_acquire) < copy->number)
        status = look_closely(device, lane, copy->number);
    pthread_mutex_unlock(&lanes.lock);
    return status;
}

void shunt_lanes_close(void)
{
    pthread_mutex_lock(&lanes.lock);
    if (lanes.context != 0) {
        for (int i = 0; i < LANES; i++) {
            shunt_driver.cuStreamDestroy_v2(lanes.lane[i].stream);
            shunt_driver.cuEventDestroy_v2(lanes.lane[i].event);
        }
        shunt_driver.cuMemFreeHost(lanes.pinned);
    }
    lanes.context = 0;
    pthread_mutex_unlock(&lanes.lock);
}
