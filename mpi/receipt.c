/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that have come; receipt.h. */
#include "mpi/receipt.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "coll/run.h"
#include "mpi/comm.h"
#include "mpi/delivery.h"
#include "mpi/flatten.h"
#include "mpi/life.h"
#include "mpi/message.h"
#include "mpi/parcel.h"
#include "mpi/probe.h"
#include "pt2pt/spill.h"

#define POKE_TURNS    64
#define ADVANCE_TURNS 16
#define EARLY         4096 /* receives */

/* ---- whether ---- */

static enum { UNASKED, WANTED, STOPPED } wanted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * What begins before CUDA is in use may end with a descriptor after. It is recorded, too, but not for ever: a program that
 * has no use for GPUs shall not pay for it. With one receive that is not recorded a process never takes descriptors.
 */
static atomic_int early;

/* Several threads in calls that look at the same messages are more than can be told apart here. */
static bool is_alone(void)
{
    return shunt_life_arena() && shunt_conf->message_size != SIZE_MAX && !shunt_life_has_threads();
}

bool shunt_receipt_early(void)
{
    return wanted == UNASKED && atomic_load_explicit(&early, memory_order_relaxed) < EARLY;
}

bool shunt_receive_early(void)
{
    if (!shunt_receipt_early())
        return false;
    if (is_alone() && atomic_fetch_add_explicit(&early, 1, memory_order_relaxed) < EARLY - 1)
        return true;
    atomic_store_explicit(&early, EARLY, memory_order_relaxed);
    return false;
}

static bool is_possible(void)
{
    return atomic_load_explicit(&early, memory_order_relaxed) < EARLY && is_alone() &&
           shunt_receive_start(shunt_life_arena());
}

bool shunt_receipt_wanted(void)
{
    if (wanted == UNASKED && shunt_gpu_in_use()) {
        pthread_mutex_lock(&lock);
        if (wanted == UNASKED)
            wanted = is_possible() ? WANTED : STOPPED;
        pthread_mutex_unlock(&lock);
    }
    return wanted == WANTED;
}

void shunt_receipts_stop(void)
{
    wanted = STOPPED;
}

/* ---- the buffer ---- */

static bool is_two_sided(const struct shunt_call *call)
{
    unsigned family = shunt_call_family(call->id);

    return family == SHUNT_CALL_Sendrecv;
}

/* Where the elements' bytes begin, if they follow each other in order; NULL: they do not. */
static char *find_dense(void *buffer, MPI_Datatype datatype, MPI_Count count)
{
    struct shunt_pattern *pattern = shunt_pattern_of(datatype);
    char *at = NULL;

    if (pattern && pattern->bytes > 0 && shunt_pattern_is_dense(pattern, count))
        at = (char *)buffer + shunt_pattern_first(pattern);
    shunt_pattern_release(pattern);
    return at;
}

static MPI_Count size_of(MPI_Datatype datatype)
{
    MPI_Count size = 0;

    return shunt_host.Type_size_x(datatype, &size) == MPI_SUCCESS && size > 0 ? size : 0;
}

/* Elements i to i + n of the buffer. */
static void *element_at(const struct shunt_receipt *receipt, MPI_Count i)
{
    MPI_Count lb, extent = 0;

    shunt_host.Type_get_extent_x(receipt->datatype, &lb, &extent);
    return (char *)receipt->buffer + i * extent;
}

/* One element of which only some bytes have come; the others stay as they are. */
static bool scatter_part(const struct shunt_receipt *receipt, MPI_Count i, MPI_Count size, const char *from,
                         MPI_Count bytes)
{
    void *element = element_at(receipt, i);
    int in = 0, out = 0;
    char *packed = malloc((size_t)size);

    bool good = packed && shunt_host.Pack(element, 1, receipt->datatype, packed, (int)size, &out, MPI_COMM_SELF) ==
                              MPI_SUCCESS;
    if (good) {
        memcpy(packed, from, (size_t)bytes);
        good = shunt_host.Unpack(packed, out, &in, element, 1, receipt->datatype, MPI_COMM_SELF) == MPI_SUCCESS;
    }
    free(packed);
    return good;
}

/* All elements, by the host, which takes no more than an int tells at a time. */
static bool gather(const struct shunt_receipt *receipt, char *to)
{
    MPI_Count size = size_of(receipt->datatype), most = (INT_MAX / 2) / size;
    bool good = most > 0;

    if (receipt->pattern) {
        shunt_pattern_gather(receipt->pattern, receipt->buffer, 0, (uint64_t)receipt->room, to);
        return true;
    }
    for (MPI_Count i = 0, n; good && i < receipt->count; i += n) {
        int position = 0;
        n = receipt->count - i < most ? receipt->count - i : most;
        good = shunt_host.Pack(element_at(receipt, i), (int)n, receipt->datatype, to + i * size, (int)(n * size),
                               &position, MPI_COMM_SELF) == MPI_SUCCESS;
    }
    return good;
}

/* The other way, as much as has come. */
static bool scatter(const struct shunt_receipt *receipt, const char *from, MPI_Count bytes)
{
    MPI_Count size = size_of(receipt->datatype), most = size > 0 ? (INT_MAX / 2) / size : 0, i = 0;
    bool good = most > 0;

    if (receipt->pattern) {
        shunt_pattern_scatter(receipt->pattern, receipt->buffer, 0, (uint64_t)bytes, from);
        return true;
    }

    for (MPI_Count n; good && i < bytes / size; i += n) {
        int position = 0;
        n = bytes / size - i < most ? bytes / size - i : most;
        good = shunt_host.Unpack(from + i * size, (int)(n * size), &position, element_at(receipt, i), (int)n,
                                 receipt->datatype, MPI_COMM_SELF) == MPI_SUCCESS;
    }
    if (good && bytes % size != 0)
        good = scatter_part(receipt, i, size, from + i * size, bytes % size);
    return good;
}

/*
 * The message may be shorter than its descriptor, so there is room for that in every receive. A call with one count for what it
 * sends and receives is made by others (shunt_receipt_replaces).
 */
static bool widen(struct shunt_call *call, struct shunt_receipt *receipt)
{
    bool two = is_two_sided(call);

    receipt->widened = true;
    receipt->diverted = receipt->small;
    if (receipt->blind && receipt->dense)
        memcpy(receipt->small, receipt->dense, (size_t)receipt->room);
    else if (receipt->blind && receipt->room > 0 && !gather(receipt, (char *)receipt->small))
        return false;
    if (shunt_call_family(call->id) == SHUNT_CALL_Sendrecv_replace)
        return true;
    call->recvbuf = receipt->small;
    *(two ? &call->recvcount : &call->count) = SHUNT_DESCRIPTOR_BYTES;
    *(two ? &call->recvtype : &call->datatype) = MPI_BYTE;
    return true;
}

/* A descriptor covers more of a longer buffer than a short message, and what is behind that stays as it was. */
static void save_head(struct shunt_receipt *receipt)
{
    if (!receipt->diverted && receipt->dense && receipt->room >= SHUNT_DESCRIPTOR_BYTES)
        memcpy(receipt->small, receipt->dense, SHUNT_DESCRIPTOR_BYTES);
}

static void restore_head(const struct shunt_receipt *receipt)
{
    uint64_t bytes = receipt->fetch.descriptor.bytes;

    if (!receipt->diverted && bytes < SHUNT_DESCRIPTOR_BYTES)
        memcpy(receipt->dense + bytes, receipt->small + bytes, SHUNT_DESCRIPTOR_BYTES - bytes);
}

/*
 * The host receives bytes: some of MPICH's family end the program where a message ends inside an element, as descriptors do. Of
 * more than an int counts it receives elements of bytes.
 */
static bool receive_bytes(struct shunt_call *call, struct shunt_receipt *receipt, void *buffer)
{
    bool two = is_two_sided(call), few = receipt->room <= INT_MAX;
    MPI_Count size = size_of(receipt->datatype);
    MPI_Datatype datatype = few ? MPI_BYTE : shunt_packed_type_of(receipt->datatype);

    if (datatype == MPI_DATATYPE_NULL && size <= INT_MAX &&
        shunt_host.Type_contiguous((int)size, MPI_BYTE, &receipt->packed) == MPI_SUCCESS) {
        shunt_host.Type_commit(&receipt->packed);
        receipt->made = true;
        datatype = receipt->packed;
    }
    if (datatype == MPI_DATATYPE_NULL)
        return false;
    call->recvbuf = buffer;
    *(two ? &call->recvtype : &call->datatype) = datatype;
    if (few)
        *(two ? &call->recvcount : &call->count) = receipt->room;
    return true;
}

/*
 * Where the bytes of a descriptor lie among elements with gaps is hard to tell. So such elements come to memory of ours, and
 * from there to the buffer.
 */
static enum shunt_status divert(struct shunt_call *call, struct shunt_receipt *receipt)
{
    receipt->room = receipt->count > 0 ? size_of(receipt->datatype) * receipt->count : 0;
    receipt->dense = receipt->room > 0 ? find_dense(receipt->buffer, receipt->datatype, receipt->count) : NULL;
    if (receipt->room > 0 && !receipt->dense) {
        receipt->pattern = shunt_pattern_of(receipt->datatype);
        receipt->typed = !receipt->pattern;
    }
    if (receipt->room < SHUNT_DESCRIPTOR_BYTES)
        return widen(call, receipt) ? SHUNT_OK : SHUNT_ERR_INVALID;
    if (receipt->dense)
        return receive_bytes(call, receipt, receipt->dense) ? SHUNT_OK : SHUNT_ERR_MEMORY;
    receipt->diverted = shunt_bounce_get((size_t)receipt->room);
    if (!receipt->diverted || !receive_bytes(call, receipt, receipt->diverted))
        return SHUNT_ERR_MEMORY;
    /* What is received there is sent from there before, or all of it goes back. */
    if ((receipt->blind || shunt_call_family(call->id) == SHUNT_CALL_Sendrecv_replace) &&
        !gather(receipt, receipt->diverted))
        return SHUNT_ERR_INVALID;
    return SHUNT_OK;
}

enum shunt_status shunt_receipt_begin(struct shunt_call *call, const struct shunt_images *images,
                                      struct shunt_receipt *receipt)
{
    bool two = is_two_sided(call);

    *receipt = (struct shunt_receipt){
        .comm = shunt_call_family(call->id) == SHUNT_CALL_Mrecv ? MPI_COMM_NULL : call->comm,
        .buffer = call->recvbuf,
        .count = two ? call->recvcount : call->count,
        .datatype = two ? call->recvtype : call->datatype,
        .images = images && images->recv.staged ? images : NULL,
        .blind = call->id == SHUNT_CALL_Isendrecv || call->id == SHUNT_CALL_Isendrecv_replace,
    };
    if (receipt->images)
        receipt->fetch.ticket = shunt_pull_ticket();
    enum shunt_status status = divert(call, receipt);
    if (status != SHUNT_OK)
        shunt_receipt_release(receipt);
    else
        save_head(receipt);
    return status;
}

bool shunt_receipt_replaces(const struct shunt_call *call, const struct shunt_receipt *receipt)
{
    return receipt->widened && shunt_call_family(call->id) == SHUNT_CALL_Sendrecv_replace;
}

/* A call has ended in another way than by fetching. What is on its way goes to the program's buffer, and only we see its end. */
static void give_up(struct shunt_receipt *receipt)
{
    while (receipt->fetch.busy || receipt->fetch.arrival)
        shunt_receipt_advance(receipt);
    if (receipt->parcel && !receipt->fetched && shunt_life_arena())
        shunt_receive_discard(shunt_life_arena(), &receipt->fetch);
    receipt->fetched = true;
}

void shunt_receipt_release(struct shunt_receipt *receipt)
{
    give_up(receipt);
    shunt_pattern_release(receipt->pattern);
    receipt->pattern = NULL;
    if (receipt->diverted && !receipt->widened)
        shunt_bounce_put(receipt->diverted, (size_t)receipt->room);
    if (receipt->made)
        shunt_host.Type_free(&receipt->packed);
    receipt->made = false;
    receipt->diverted = NULL;
}

/* ---- the target ---- */

/* The device buffer that the image stands for, if the parcel can go right there. */
static char *find_device(const struct shunt_receipt *receipt)
{
    const struct shunt_operand *recv = receipt->images ? &receipt->images->recv : NULL;
    struct shunt_mem mem;

    if (!recv || recv->mixed || recv->written.n != 1)
        return NULL;
    const struct shunt_piece *piece = shunt_piece_get(&recv->written, 0);
    char *at = piece->pattern ? shunt_pattern_is_dense(piece->pattern, piece->count)
                                    ? recv->buffer + piece->offset + shunt_pattern_first(piece->pattern)
                                    : NULL
               : piece->duplicate ? NULL
                                  : find_dense(recv->buffer + piece->offset, piece->datatype, piece->count);
    if (!at)
        return NULL;
    shunt_gpu_classify(at, &mem);
    return shunt_pull_reaches(shunt_life_arena(), at, &mem) ? at : NULL;
}

/* Or the elements with gaps that it stands for, if it can go there by a tray. */
static bool find_elements(const struct shunt_receipt *receipt, struct shunt_passage *passage)
{
    const struct shunt_operand *recv = receipt->images ? &receipt->images->recv : NULL;
    const struct shunt_piece *piece = recv && !recv->mixed && recv->written.n == 1 ? shunt_piece_get(&recv->written, 0) : NULL;
    struct shunt_mem mem;

    *passage = (struct shunt_passage){ .pattern = NULL };
    if (!piece || !piece->pattern || piece->pattern->bytes == 0 || (uint64_t)receipt->room < shunt_conf->message_gaps)
        return false;
    char *base = recv->buffer + piece->offset;
    shunt_gpu_classify(base + shunt_pattern_first(piece->pattern), &mem);
    if (!shunt_pull_reaches(shunt_life_arena(), base + shunt_pattern_first(piece->pattern), &mem))
        return false;
    passage->pattern = piece->pattern;
    passage->base = base;
    return true;
}

/* What the host has written to: in order and without gaps. */
static char *find_written(const struct shunt_receipt *receipt)
{
    return receipt->diverted ? receipt->diverted : receipt->dense;
}

static void aim(struct shunt_receipt *receipt)
{
    struct shunt_fetch *fetch = &receipt->fetch;
    uint64_t room = (uint64_t)receipt->room;

    fetch->room = room < fetch->descriptor.bytes ? room : fetch->descriptor.bytes;
#ifndef OPEN_MPI
    /* Of a message that is longer than the buffer nothing is written. */
    if (room < fetch->descriptor.bytes)
        fetch->room = 0;
#endif
    fetch->to = find_device(receipt);
    fetch->to_device = fetch->to || (fetch->room >= shunt_conf->message_gaps && find_elements(receipt, &fetch->passage));
    if (!fetch->to)
        fetch->to = find_written(receipt);
}

void shunt_receipt_look(struct shunt_receipt *receipt, const MPI_Status *status)
{
    MPI_Count bytes = 0;
    const char *at;

    if (!receipt->blind && (shunt_host.Get_elements_x(status, MPI_BYTE, &bytes) != MPI_SUCCESS ||
                            bytes != SHUNT_DESCRIPTOR_BYTES))
        return;
    if (receipt->room < SHUNT_DESCRIPTOR_BYTES && !receipt->widened)
        return;
    at = find_written(receipt);
    if (at && shunt_receive_reads(shunt_life_arena(), at, &receipt->fetch)) {
        receipt->parcel = true;
        if (receipt->fetch.distant && receipt->comm == MPI_COMM_NULL)
            shunt_probe_received((int)receipt->fetch.descriptor.source.slot, receipt->fetch.descriptor.number);
        restore_head(receipt);
        aim(receipt);
    }
}

bool shunt_receipt_advance(struct shunt_receipt *receipt)
{
    if (!receipt->parcel || receipt->fetched)
        return true;
    enum shunt_status status = shunt_receive_fetch(shunt_life_arena(), &receipt->fetch);
    if (status == SHUNT_AGAIN)
        return false;
    receipt->status = status;
    receipt->direct = receipt->fetch.to_device;
    receipt->fetched = true;
    return true;
}

/* ---- afterwards ---- */

/* A large message has come to a device buffer: get ready for parcels from there, and keep up with what is offered. */
static void follow_source(const struct shunt_receipt *receipt, const MPI_Status *status, MPI_Count bytes)
{
    struct shunt_arena *arena = shunt_life_arena();
    const struct shunt_comm *comm = receipt->comm != MPI_COMM_NULL ? shunt_comm_find(receipt->comm) : NULL;
    int slot = comm ? shunt_comm_slot(comm, status->MPI_SOURCE) : -1;
    struct shunt_passage passage;

    if (bytes < (MPI_Count)shunt_conf->message_size || (receipt->parcel && receipt->fetch.distant))
        return;
    if (!receipt->parcel) {
        shunt_spill_collect(arena);
        if (!receipt->images || slot < 0 || !(find_device(receipt) || find_elements(receipt, &passage)))
            return;
    }
    shunt_coll_tidy(arena);
    shunt_source_follow(arena, receipt->parcel ? (int)receipt->fetch.descriptor.source.slot : slot);
}

static int raise_error(const struct shunt_receipt *receipt, int class)
{
    MPI_Comm comm = receipt->comm != MPI_COMM_NULL && shunt_comm_find(receipt->comm) ? receipt->comm : MPI_COMM_WORLD;

    shunt_host.Comm_call_errhandler(comm, class);
    return class;
}

/* What has come to memory of ours goes to the buffer. */
static bool put_in_place(const struct shunt_receipt *receipt, MPI_Count bytes)
{
    MPI_Count some = bytes < receipt->room ? bytes : receipt->room;

    if (!receipt->diverted || receipt->direct || some <= 0)
        return true;
    if (!receipt->dense)
        return scatter(receipt, receipt->diverted, some);
    memcpy(receipt->dense, receipt->diverted, (size_t)some);
    return true;
}

int shunt_receipt_settle(struct shunt_receipt *receipt, MPI_Status *status, int rc)
{
    MPI_Count bytes = 0;

    if (rc != MPI_SUCCESS) {
        put_in_place(receipt, shunt_message_received(status, rc));
        return rc;
    }
    if (receipt->parcel)
        shunt_host.Status_set_elements_x(status, MPI_BYTE, (MPI_Count)receipt->fetch.descriptor.bytes);
    if (shunt_host.Get_elements_x(status, MPI_BYTE, &bytes) == MPI_SUCCESS) {
        if (!receipt->blind)
            follow_source(receipt, status, bytes);
        if (receipt->widened && !receipt->blind && !receipt->parcel && bytes > receipt->room) {
#ifdef OPEN_MPI
            put_in_place(receipt, receipt->room);
#endif
            return raise_error(receipt, MPI_ERR_TRUNCATE);
        }
        if (!put_in_place(receipt, receipt->blind && !receipt->parcel ? receipt->room : bytes))
            return raise_error(receipt, MPI_ERR_OTHER);
    }
    if (receipt->status != SHUNT_OK)
        return raise_error(receipt, MPI_ERR_OTHER);
    if (receipt->parcel && receipt->fetch.room < receipt->fetch.descriptor.bytes)
        return raise_error(receipt, MPI_ERR_TRUNCATE);
    return MPI_SUCCESS;
}

void shunt_receipt_relax(unsigned *turns)
{
    static _Thread_local unsigned spins;
    int flag;

    if (*turns == 0)
        spins = 0;
    shunt_board_relax(&spins);
    if (++*turns % POKE_TURNS == 0)
        shunt_host.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

void shunt_receipt_again(struct shunt_receipt *receipt)
{
    receipt->parcel = receipt->fetched = receipt->direct = false;
    receipt->status = SHUNT_OK;
    receipt->fetch = (struct shunt_fetch){ .ticket = receipt->images ? shunt_pull_ticket() : 0 };
    save_head(receipt);
}

int shunt_receipt_finish(struct shunt_receipt *receipt, MPI_Status *status)
{
    unsigned turns = 0;

    while (!shunt_receipt_advance(receipt)) {
        if (turns % ADVANCE_TURNS == 0)
            shunt_deliveries_advance();
        shunt_receipt_relax(&turns);
    }
    shunt_deliveries_drain();
    return shunt_receipt_settle(receipt, status, MPI_SUCCESS);
}

int shunt_receipt_end(struct shunt_receipt *receipt, MPI_Status *status, int rc)
{
    if (rc != MPI_SUCCESS)
        return shunt_receipt_settle(receipt, status, rc);
    shunt_receipt_look(receipt, status);
    return shunt_receipt_finish(receipt, status);
}
