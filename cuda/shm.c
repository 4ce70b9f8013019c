/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned host memory between GPUs that do not reach each other; see shm.h. */
#include "cuda/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"
#include "cuda/probe.h"
#include "cuda/transport.h"

static struct {
    uint64_t bytes; /* of each segment */
    struct shunt_segment segment;
    int file, box; /* -1: none */
    struct shunt_mailbox_address address;
} own = { .file = -1, .box = -1 };

static enum shunt_reason offer_segment(const struct shunt_device *device, struct shunt_card *mine)
{
    bool may = !shunt_conf->shm_disable && device->layout.host_ring_bytes != 0;

    own.bytes = device->layout.host_total;
    mine->host_total = own.bytes;
    atomic_store(&mine->host_state, may ? SHUNT_HOST_UNUSED : SHUNT_HOST_REFUSED);
    return may ? SHUNT_REASON_NONE : SHUNT_REASON_NO_P2P;
}

/* May the process of this card have a segment? */
static bool is_possible(const struct shunt_card *card)
{
    return atomic_load_explicit(&card->host_state, memory_order_acquire) != SHUNT_HOST_REFUSED;
}

bool shunt_shm_chosen(const struct shunt_card *a, const struct shunt_card *b)
{
    return (atomic_load(&a->hosted) >> b->channel & 1) || (atomic_load(&b->hosted) >> a->channel & 1);
}

/* ---- segments ---- */

/* Where memory of ours is registered, its GPU address need not be ours. */
static enum shunt_status map_segment(int file, struct shunt_segment *segment)
{
    CUdeviceptr device = 0;
    void *memory = mmap(NULL, own.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (memory == MAP_FAILED)
        return SHUNT_ERR_MEMORY;
    enum shunt_status status = SHUNT_CUDA_AT(
        SHUNT_LOG_INFO,
        cuMemHostRegister_v2(memory, own.bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    if (status != SHUNT_OK)
        goto unmap;
    status = SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemHostGetDevicePointer_v2(&device, memory, 0));
    if (status != SHUNT_OK)
        goto unregister;
    *segment = (struct shunt_segment){ .memory = memory, .device = (char *)device };
    return SHUNT_OK;
unregister:
    shunt_driver.cuMemHostUnregister(memory);
unmap:
    munmap(memory, own.bytes);
    return status;
}

static void unmap_segment(struct shunt_segment *segment, bool context)
{
    if (segment->memory == NULL)
        return;
    if (context)
        shunt_driver.cuMemHostUnregister(segment->memory);
    munmap(segment->memory, own.bytes);
    *segment = (struct shunt_segment){ .memory = NULL };
}

/* With its pages: those that are not there when somebody touches them would be a signal, and so would be a limit on files. */
static int make_file(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < own.bytes)
        return -1;
    int file = memfd_create("shunt-host", MFD_CLOEXEC);
    if (file >= 0 && fallocate(file, 0, 0, (off_t)own.bytes) == 0)
        return file;
    shunt_info("cuda", "no host memory for GPUs that do not reach each other: %s", strerror(errno));
    if (file >= 0)
        close(file);
    return -1;
}

static bool make_own(void)
{
    own.file = make_file();
    if (own.file < 0)
        return false;
    if (map_segment(own.file, &own.segment) != SHUNT_OK)
        return false;
    return shunt_mailbox_open(&own.box, &own.address) == SHUNT_OK;
}

/* The own segment, made when it is first needed. */
static void open_own(struct shunt_card *mine)
{
    if (atomic_load(&mine->host_state) != SHUNT_HOST_UNUSED)
        return;
    bool made = make_own();
    mine->host_box = own.address;
    /* Release: with the state comes the address. */
    atomic_store_explicit(&mine->host_state, made ? SHUNT_HOST_OPEN : SHUNT_HOST_REFUSED, memory_order_release);
}

/* ---- meeting ---- */

/* Descriptors that have come, of whichever peer. */
static void collect(struct shunt_arena *arena)
{
    struct shunt_letter letter;
    int file;

    while (own.box >= 0 && shunt_mailbox_next(own.box, &own.address, &letter, &file)) {
        bool known = letter.slot >= 0 && letter.slot < shunt_arena_local_size(arena);
        struct shunt_peer *peer = known ? shunt_peer_at(letter.slot) : NULL;
        struct stat s;
        /* Mapped beyond its end it would be a signal. */
        if (known && peer->host.memory == NULL && fstat(file, &s) == 0 && (uint64_t)s.st_size == own.bytes &&
            map_segment(file, &peer->host) != SHUNT_OK)
            peer->host_failed = true;
        close(file);
    }
}

static void send_segment(struct shunt_arena *arena, const struct shunt_card *theirs, struct shunt_peer *peer)
{
    struct shunt_letter letter = { .slot = shunt_arena_self(arena) };

    if (peer->host_offered || atomic_load_explicit(&theirs->host_state, memory_order_acquire) != SHUNT_HOST_OPEN)
        return;
    enum shunt_status status = shunt_mailbox_send(&theirs->host_box, &letter, own.file);
    peer->host_offered = status == SHUNT_OK;
    peer->host_failed |= status == SHUNT_PASS;
}

/* The proof, in both directions. */
static void prove(struct shunt_card *mine, const struct shunt_card *theirs, struct shunt_peer *peer, char *scratch)
{
    const uint32_t me = 1u << mine->channel, them = 1u << theirs->channel;

    if (peer->host.memory != NULL && !peer->host_failed && !(atomic_load(&mine->host_probed) & them)) {
        enum shunt_status status =
            shunt_probe_send(&peer->probe, scratch, peer->host.memory, mine->channel, theirs->channel);
        if (status == SHUNT_OK)
            atomic_fetch_or(&mine->host_probed, them);
        peer->host_failed = status != SHUNT_OK && status != SHUNT_AGAIN;
    }
    /* Acquire: its copy was complete before it said so. */
    if (!((atomic_load(&mine->host_heard) | atomic_load(&mine->host_deaf)) & them) &&
        (atomic_load_explicit(&theirs->host_probed, memory_order_acquire) & me)) {
        bool heard = shunt_probe_arrived_host(own.segment.memory, theirs->channel, mine->channel);
        atomic_fetch_or(heard ? &mine->host_heard : &mine->host_deaf, them);
    }
    if (peer->host_failed)
        atomic_fetch_or(&mine->host_deaf, them);
}

static enum shunt_peer_state refuse(struct shunt_peer *peer)
{
    if (peer->reason == SHUNT_REASON_NONE)
        peer->reason = SHUNT_REASON_NO_P2P;
    return SHUNT_PEER_REFUSED;
}

/* Wherever there is nothing better. */
static bool fits(const struct shunt_meeting *meeting)
{
    (void)meeting;
    return true;
}

static enum shunt_peer_state meet(const struct shunt_meeting *meeting)
{
    struct shunt_card *mine = meeting->mine, *theirs = meeting->theirs;
    struct shunt_peer *peer = meeting->peer;
    const uint32_t me = 1u << mine->channel, them = 1u << theirs->channel;

    if (theirs->host_total != mine->host_total || !is_possible(theirs))
        return refuse(peer);
    open_own(mine);
    if (!is_possible(mine))
        return refuse(peer);
    if (!(atomic_load(&mine->hosted) & them))
        atomic_fetch_or(&mine->hosted, them);
    send_segment(meeting->arena, theirs, peer);
    collect(meeting->arena);
    prove(mine, theirs, peer, meeting->device->scratch);
    if ((atomic_load(&mine->host_deaf) & them) || (atomic_load(&theirs->host_deaf) & me))
        return refuse(peer);
    peer->to = peer->host.device;
    peer->from = own.segment.device;
    bool both = (atomic_load(&mine->host_heard) & them) &&
                (atomic_load_explicit(&theirs->host_heard, memory_order_acquire) & me);
    return both ? SHUNT_PEER_OPEN : SHUNT_PEER_MET;
}

const struct shunt_transport shunt_host_memory = {
    .name = "host memory", .hosted = true, .offer = offer_segment, .fits = fits, .meet = meet
};

/* ---- the end ---- */

void shunt_shm_stop(bool context)
{
    for (int slot = 0; slot < SHUNT_ARENA_PROCS; slot++)
        unmap_segment(&shunt_peer_at(slot)->host, context);
    unmap_segment(&own.segment, context);
    if (own.file >= 0)
        close(own.file);
    if (own.box >= 0)
        close(own.box);
    own.file = own.box = -1;
}
