/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies under way; lane.h. */
#include "cuda/lane.h"

#include <string.h>

#include "cuda/fetcher.h"
#include "cuda/peer.h"

enum {
    ENGINES = 2,
    KERNELS = 2,
    LANES = ENGINES + KERNELS,
    WORD_BYTES = 64,        /* of pinned memory: a line for each lane */
    FETCHER_BYTES = SHUNT_FETCHER_WORDS * 8,
    PINNED_BYTES = LANES * WORD_BYTES + KERNELS * FETCHER_BYTES,
    BATCH_COPIES = 64,
    BATCH_BYTES = 16 << 20, /* larger copies are alone: the others would wait for their end */
    DEEP_BYTES = 256 << 10, /* one that takes so long that the next waits in the stream for its end, not in the host */
    BATCHES = 64,           /* that somebody has still to ask for */
    LOOKS = 4096,           /* at a word that does not change, between two questions to the driver */
};

struct lane {
    struct shunt_fetcher *fetcher; /* of kernels; NULL: of copy engines, for which is what follows */
    CUstream stream;
    CUevent event;           /* the mark, where streams cannot write words */
    _Atomic uint64_t *word;  /* the last that has ended, of what has been issued */
    uint64_t issued, marked; /* the last that has begun; that the last mark stands behind */
    uint64_t before;         /* the one that had begun before */
    _Atomic unsigned looks;
};

/* What can be seen of a batch without the lock: nothing, that it is being filled, that it ends with its lane's word. */
enum { UNSEEN, FILLING, BY_WORD };

struct batch {
    _Atomic int seen;
    uint32_t untold; /* copies that nobody has been told the end of */
    bool issued;
    bool unlaunched; /* a kernel did it that was there */
    enum shunt_status status; /* of that */
    struct lane *lane;
    uint64_t order; /* among all that has been issued */
};

static struct {
    pthread_mutex_t lock;
    unsigned long long context; /* where they were made; 0: not yet */
    enum shunt_status made;     /* in that */
    char *pinned;
    struct lane lane[LANES]; /* first those of engines */
    struct shunt_fetcher fetchers[KERNELS];
    struct batch batches[BATCHES]; /* by number, as far as they fit */
    uint64_t last;                 /* that has been opened */
    uint64_t orders;
    uint64_t forgotten;            /* all up to here were of a context before */
    _Atomic uint64_t tried; /* the engines' words when the last batch found none free; NEVER: it may go now */
    /* What the batch has that is being filled, the last. */
    CUdeviceptr to[BATCH_COPIES], from[BATCH_COPIES];
    size_t bytes[BATCH_COPIES], all_bytes;
    unsigned n, pieces; /* for a kernel, */
    bool small;         /* which can do it */
} lanes = { .lock = PTHREAD_MUTEX_INITIALIZER };

#define NEVER UINT64_MAX

/* They only grow. */
static uint64_t engines_words(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < ENGINES; i++)
        sum += atomic_load_explicit(lanes.lane[i].word, memory_order_relaxed);
    return sum;
}

static struct batch *batch_of(uint64_t number)
{
    return &lanes.batches[number % BATCHES];
}

/* With the lock held, inside the context. What a kernel still uses, which was called back and finds no room, stays. */
static void give_back(void)
{
    bool stuck = false;

    for (int i = 0; i < KERNELS; i++)
        stuck |= !shunt_fetcher_close(&lanes.fetchers[i]);
    for (int i = 0; i < ENGINES; i++) {
        if (lanes.lane[i].stream != NULL)
            shunt_driver.cuStreamDestroy_v2(lanes.lane[i].stream);
        if (lanes.lane[i].event != NULL)
            shunt_driver.cuEventDestroy_v2(lanes.lane[i].event);
    }
    if (lanes.pinned != NULL && !stuck)
        shunt_driver.cuMemFreeHost(lanes.pinned);
    lanes.pinned = NULL;
    memset(lanes.lane, 0, sizeof lanes.lane);
}

static enum shunt_status open_lane(const struct shunt_device *device, int i, int priority)
{
    struct lane *lane = &lanes.lane[i];

    lane->word = (_Atomic uint64_t *)(lanes.pinned + i * WORD_BYTES);
    atomic_init(lane->word, 0);
    if (i >= ENGINES) {
        lane->fetcher = &lanes.fetchers[i - ENGINES];
        shunt_fetcher_open(lane->fetcher, device->gpu,
                           lanes.pinned + LANES * WORD_BYTES + (i - ENGINES) * FETCHER_BYTES);
        return SHUNT_OK;
    }
    enum shunt_status status = SHUNT_CUDA(cuStreamCreateWithPriority(&lane->stream, CU_STREAM_NON_BLOCKING, priority));
    return status == SHUNT_OK ? SHUNT_CUDA(cuEventCreate(&lane->event, CU_EVENT_DISABLE_TIMING)) : status;
}

/* With the lock held, inside the context; once for each. What belonged to one that is gone is gone with it. */
static enum shunt_status make_lanes(const struct shunt_device *device)
{
    void *pinned = NULL;
    int low = 0, high = 0;

    memset(lanes.batches, 0, sizeof lanes.batches);
    memset(lanes.lane, 0, sizeof lanes.lane);
    memset(lanes.fetchers, 0, sizeof lanes.fetchers);
    lanes.n = 0;
    lanes.forgotten = lanes.last;
    lanes.context = device->context;
    SHUNT_CUDA(cuCtxGetStreamPriorityRange(&low, &high));
    lanes.made =
        SHUNT_CUDA(cuMemHostAlloc(&pinned, PINNED_BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    lanes.pinned = pinned;
    for (int i = 0; i < LANES && lanes.made == SHUNT_OK; i++)
        lanes.made = open_lane(device, i, high);
    if (lanes.made != SHUNT_OK)
        give_back();
    return lanes.made;
}

/* The same. */
static enum shunt_status ensure_lanes(const struct shunt_device *device)
{
    return lanes.context != device->context ? make_lanes(device) : lanes.made;
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

/* All copies of the open batch in one call of the driver, if it has that. */
static bool copy_together(struct lane *lane)
{
#ifdef SHUNT_DRIVER_BATCHES
    CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
    size_t first = 0;

    return lanes.n > 1 && shunt_driver.cuMemcpyBatchAsync_v2 != NULL &&
           SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemcpyBatchAsync_v2(lanes.to, lanes.from, lanes.bytes, lanes.n, &attributes,
                                                               &first, 1, lane->stream)) == SHUNT_OK;
#else
    (void)lane;
    return false;
#endif
}

/* With the lock held, inside the context. What fails has ended. */
static enum shunt_status copy_by_engine(struct lane *lane)
{
    enum shunt_status status = SHUNT_OK;

    if (copy_together(lane))
        return status;
    for (unsigned i = 0; i < lanes.n && status == SHUNT_OK; i++)
        status = SHUNT_CUDA(cuMemcpyAsync(lanes.to[i], lanes.from[i], lanes.bytes[i], lane->stream));
    if (status != SHUNT_OK)
        SHUNT_CUDA(cuStreamSynchronize(lane->stream));
    return status;
}

/* The same. What a kernel cannot do an engine does. */
static void issue(const struct shunt_device *device, struct lane *lane)
{
    struct batch *batch = batch_of(lanes.last);

    if (lane->fetcher && shunt_fetcher_launch(lane->fetcher, lanes.to, lanes.from, lanes.bytes, lanes.n) != SHUNT_OK)
        lane = &lanes.lane[0];
    batch->status = lane->fetcher ? SHUNT_OK : copy_by_engine(lane);
    batch->issued = true;
    atomic_store_explicit(&batch->seen, UNSEEN, memory_order_relaxed);
    batch->unlaunched = lane->fetcher && lane->fetcher->ordered;
    batch->lane = lane;
    lanes.n = 0;
    if (batch->status != SHUNT_OK)
        return;
    lane->before = lane->issued;
    lane->issued = batch->order = ++lanes.orders;
    /* If it fails now, it is tried again by who waits. */
    if (!lane->fetcher && mark(device, lane) == SHUNT_OK && device->stream_words)
        atomic_store_explicit(&batch->seen, BY_WORD, memory_order_release); /* with it, lane and order are seen */
}

/* With the lock held: has a lane come so far, as far as can be seen? */
static bool has_passed(struct lane *lane, uint64_t order)
{
    /* Acquire: who sees the word sees what was copied before it. */
    if (atomic_load_explicit(lane->word, memory_order_acquire) >= order)
        return true;
    if (!lane->fetcher || lane->issued < order || !shunt_fetcher_done(lane->fetcher))
        return false;
    atomic_store_explicit(lane->word, lane->issued, memory_order_relaxed);
    return true;
}

/* With the lock held, inside the context: has it nothing to do? */
static bool is_idle(const struct shunt_device *device, struct lane *lane)
{
    if (lane->fetcher)
        return has_passed(lane, lane->issued) && shunt_fetcher_free(lane->fetcher);
    if (has_passed(lane, lane->issued))
        return true;
    if (device->stream_words || lane->marked < lane->issued ||
        shunt_driver.cuEventQuery(lane->event) != CUDA_SUCCESS)
        return false;
    atomic_store_explicit(lane->word, lane->marked, memory_order_relaxed);
    return true;
}

/* Of lanes first to end - 1 the one that is free, or that has been given something less lately. */
static struct lane *find_lane(const struct shunt_device *device, int first, int end, bool *idle)
{
    struct lane *best = &lanes.lane[first];

    *idle = false;
    for (int i = first; i < end && !*idle; i++) {
        struct lane *lane = &lanes.lane[i];
        *idle = is_idle(device, lane);
        if (*idle || lane->issued < best->issued)
            best = lane;
    }
    return best;
}

/*
 * A kernel is the faster way for few copies that come alone; of many that come after each other an engine makes more in the
 * same time (H200, 256 bytes: 233,000 a second, kernels 100,000 to 150,000), since a batch costs the host less.
 */
static bool is_lone(const struct shunt_device *device)
{
    const struct shunt_fetcher *first = lanes.lane[ENGINES].fetcher;
    bool idle = lanes.small && lanes.n <= shunt_fetcher_most(first) && lanes.pieces <= SHUNT_FETCH_PIECES;

    for (int i = 0; i < LANES && idle; i++)
        idle = is_idle(device, &lanes.lane[i]);
    return idle;
}

/* With the lock held, inside the context. What goes not now goes when a lane is free. */
static void push(const struct shunt_device *device, bool now)
{
    const uint64_t words = engines_words(); /* before the looks: who waits must not sleep through what changes after them */
    bool lone = is_lone(device), idle;

    if (lanes.n == 0)
        return;
    struct lane *lane = find_lane(device, lone ? ENGINES : 0, lone ? LANES : ENGINES, &idle);
    bool deep = !lane->fetcher && lanes.all_bytes >= DEEP_BYTES && has_passed(lane, lane->before);
    if (idle || deep || now)
        issue(device, lane);
    else if (device->stream_words)
        atomic_store_explicit(&lanes.tried, words, memory_order_relaxed);
}

/* With the lock held: is there still room in the batch that is being filled? */
static bool fits(uint64_t bytes)
{
    return lanes.n < BATCH_COPIES && lanes.all_bytes + bytes <= BATCH_BYTES;
}

static enum shunt_status open_batch(void)
{
    if (batch_of(lanes.last + 1)->untold > 0)
        return SHUNT_ERR_LIMIT;
    *batch_of(++lanes.last) = (struct batch){ .seen = FILLING };
    lanes.all_bytes = 0;
    lanes.pieces = 0;
    lanes.small = true;
    return SHUNT_OK;
}

enum shunt_status shunt_lane_begin(const struct shunt_device *device, void *to, const void *from, uint64_t bytes,
                                   struct shunt_lane_copy *copy)
{
    unsigned pieces = shunt_fetcher_pieces(to, from, bytes);

    pthread_mutex_lock(&lanes.lock);
    enum shunt_status status = ensure_lanes(device);
    if (status == SHUNT_OK && !fits(bytes))
        push(device, true);
    if (status == SHUNT_OK && lanes.n == 0)
        status = open_batch();
    if (status == SHUNT_OK) {
        lanes.to[lanes.n] = (CUdeviceptr)to;
        lanes.from[lanes.n] = (CUdeviceptr)from;
        lanes.bytes[lanes.n++] = bytes;
        lanes.all_bytes += bytes;
        lanes.pieces += pieces;
        lanes.small &= pieces > 0;
        batch_of(lanes.last)->untold++;
        copy->batch = lanes.last;
        atomic_store_explicit(&lanes.tried, NEVER, memory_order_relaxed); /* what is fuller may go now */
    }
    pthread_mutex_unlock(&lanes.lock);
    return status;
}

/* With the lock held, inside the context: its kernel finds no room. */
static enum shunt_status copy_instead(const struct shunt_device *device, struct batch *batch)
{
    bool idle;
    struct lane *lane = find_lane(device, 0, ENGINES, &idle);
    enum shunt_status status = shunt_fetcher_copy(batch->lane->fetcher, lane->stream);

    if (status != SHUNT_OK)
        return status;
    batch->lane = lane;
    lane->issued = batch->order = ++lanes.orders;
    mark(device, lane);
    return SHUNT_AGAIN;
}

/* With the lock held, inside the context: no word says yet that it has ended. */
static enum shunt_status ask_driver(const struct shunt_device *device, struct batch *batch)
{
    struct lane *lane = batch->lane;

    if (lane->fetcher) {
        enum shunt_status status = shunt_fetcher_hurry(lane->fetcher, device->gpu);
        return status == SHUNT_PASS ? copy_instead(device, batch) : status;
    }
    if (lane->marked < batch->order)
        return mark(device, lane) == SHUNT_OK ? SHUNT_AGAIN : SHUNT_ERR_CUDA;
    CUresult result = device->stream_words ? shunt_driver.cuStreamQuery(lane->stream) :
                                             shunt_driver.cuEventQuery(lane->event);
    if (result == CUDA_ERROR_NOT_READY)
        return SHUNT_AGAIN;
    enum shunt_status status = shunt_cuda_check(result, SHUNT_LOG_WARN, "a copy between GPUs");
    if (status == SHUNT_OK) /* the mark has been passed, so all before it has ended */
        atomic_store_explicit(lane->word, lane->marked, memory_order_relaxed);
    return status;
}

/* With the lock held. */
static enum shunt_status look(const struct shunt_device *device, uint64_t number)
{
    struct batch *batch = batch_of(number);
    struct lane *lane = batch->lane;
    struct shunt_gpu_scope scope;
    enum shunt_status status = SHUNT_AGAIN;

    if (batch->issued) {
        if (batch->status != SHUNT_OK)
            return batch->status;
        if (has_passed(lane, batch->order))
            return SHUNT_OK;
        if (lane->fetcher && !shunt_fetcher_due(lane->fetcher))
            return SHUNT_AGAIN;
    }
    if (shunt_gpu_enter(device->gpu, &scope) != SHUNT_OK)
        return SHUNT_ERR_CUDA;
    if (!batch->issued)
        push(device, false);
    else if ((status = ask_driver(device, batch)) != SHUNT_AGAIN)
        batch->status = status;
    shunt_gpu_leave(&scope);
    return status;
}

bool shunt_lane_waits(const struct shunt_lane_copy *copy)
{
    struct batch *batch = batch_of(copy->batch);
    struct lane *lane;

    switch (atomic_load_explicit(&batch->seen, memory_order_acquire)) {
    case FILLING: return engines_words() == atomic_load_explicit(&lanes.tried, memory_order_relaxed);
    case BY_WORD:
        lane = batch->lane;
        return atomic_load_explicit(lane->word, memory_order_relaxed) < batch->order &&
               (atomic_fetch_add_explicit(&lane->looks, 1, memory_order_relaxed) + 1) % LOOKS != 0;
    default: return false;
    }
}

enum shunt_status shunt_lane_ended(const struct shunt_device *device, struct shunt_lane_copy *copy)
{
    enum shunt_status status = SHUNT_ERR_CUDA;

    pthread_mutex_lock(&lanes.lock);
    if (lanes.context == device->context && copy->batch > lanes.forgotten) {
        status = look(device, copy->batch);
        copy->unlaunched = batch_of(copy->batch)->unlaunched;
        if (status != SHUNT_AGAIN)
            batch_of(copy->batch)->untold--;
    }
    pthread_mutex_unlock(&lanes.lock);
    return status;
}

void shunt_lanes_load(const struct shunt_device *device)
{
    pthread_mutex_lock(&lanes.lock);
    ensure_lanes(device);
    pthread_mutex_unlock(&lanes.lock);
}

void shunt_lanes_close(void)
{
    pthread_mutex_lock(&lanes.lock);
    if (lanes.context != 0)
        give_back();
    lanes.context = 0;
    pthread_mutex_unlock(&lanes.lock);
}
