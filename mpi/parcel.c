/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending parcels; parcel.h. */
#include "mpi/parcel.h"

#include "base/clock.h"
#include "base/conf.h"
#include "coll/run.h"
#include "cuda/pack.h"
#include "cuda/tray.h"
#include "mpi/comm.h"
#include "mpi/delivery.h"
#include "mpi/flatten.h"
#include "mpi/life.h"
#include "mpi/receipt.h"

#define ADVANCE_TURNS  16
#define FINISH_SECONDS 10 /* for what nobody takes and there is no memory for */

/* Buffered sends copy at once; what is received to the same buffer must not overwrite it before it is fetched. */
static bool may_send(unsigned id)
{
    switch (id) {
    case SHUNT_CALL_Send:
    case SHUNT_CALL_Ssend:
    case SHUNT_CALL_Rsend:
    case SHUNT_CALL_Isend:
    case SHUNT_CALL_Issend:
    case SHUNT_CALL_Irsend:
    case SHUNT_CALL_Sendrecv: return true;
    default: return false;
    }
}

/* What a call sends, in one piece. */
struct cargo {
    struct shunt_pattern *pattern; /* owned */
    char *base;                    /* address of element 0 */
    int64_t count;
    uint64_t bytes;
};

static bool find_cargo(const struct shunt_operand *send, struct cargo *cargo)
{
    const struct shunt_piece *piece = &send->read.first;

    if (!send->staged || send->mixed || send->read.n != 1 || send->read.list || piece->duplicate)
        return false;
    *cargo = (struct cargo){ .base = send->buffer + piece->offset, .count = piece->count };
    cargo->pattern = piece->pattern ? shunt_pattern_keep(piece->pattern) : shunt_pattern_of(piece->datatype);
    if (!cargo->pattern)
        return false;
    cargo->bytes = cargo->pattern->bytes * (uint64_t)piece->count;
    return true;
}

/* By slot: has been sent a message as long as a descriptor. */
static atomic_bool likeness[SHUNT_ARENA_PROCS];

/* The slot of a peer on this node, or -1. */
static int find_slot(const struct shunt_call *call, const struct shunt_comm *comm)
{
    return shunt_life_arena() && comm ? shunt_comm_slot(comm, call->root) : -1;
}

/* The slot of a receiver that takes descriptors, or -1. */
static int find_dest(const struct shunt_call *call, const struct shunt_comm *comm)
{
    int slot = find_slot(call, comm);

    if (slot < 0 || atomic_load_explicit(&likeness[slot], memory_order_relaxed))
        return -1;
    /* Acquire: with it comes the address of the mailbox. */
    return atomic_load_explicit(&shunt_arena_parcels(shunt_life_arena(), slot)->decodes, memory_order_acquire) ? slot : -1;
}

/* The world rank of a receiver on another node, or -1. */
static int find_distant(const struct shunt_call *call, const struct shunt_comm *comm)
{
    return shunt_life_arena() && comm && comm->hier ? shunt_hier_distant(comm->hier, call->root) : -1;
}

static bool sends_messages(unsigned id)
{
    switch (shunt_call_family(id)) {
    case SHUNT_CALL_Send:
    case SHUNT_CALL_Ssend:
    case SHUNT_CALL_Rsend:
    case SHUNT_CALL_Bsend:
    case SHUNT_CALL_Sendrecv:
    case SHUNT_CALL_Sendrecv_replace: return true;
    default: return false;
    }
}

void shunt_parcel_notice(const struct shunt_call *call)
{
    MPI_Count size = 0;

    /* Few calls come to the question of the datatype. */
    if (shunt_conf->message_size == SIZE_MAX || call->count <= 0 || SHUNT_DESCRIPTOR_BYTES % call->count != 0 ||
        !sends_messages(call->id) || shunt_host.Type_size_x(call->datatype, &size) != MPI_SUCCESS ||
        size * call->count != SHUNT_DESCRIPTOR_BYTES)
        return;
    const struct shunt_comm *comm = shunt_comm_get(call->comm);
    int slot = find_slot(call, comm), distant = find_distant(call, comm);
    if (slot >= 0)
        atomic_store_explicit(&likeness[slot], true, memory_order_relaxed);
    if (distant >= 0)
        shunt_distant_liken(distant);
}

/* What the application has begun on the legacy stream may still write the buffer. */
static void await_legacy(void)
{
    uint64_t ticket = shunt_pull_ticket();
    unsigned turns = 0;

    while (!shunt_pull_ready(ticket))
        shunt_receipt_relax(&turns);
}

/* Right where it is, if the receiver can read it there. */
static bool prepare_as_is(struct shunt_arena *arena, const struct cargo *cargo, int dest, struct shunt_sending *sending)
{
    char *at = cargo->base + shunt_pattern_first(cargo->pattern);
    struct shunt_mem mem;

    if (!shunt_pattern_is_dense(cargo->pattern, cargo->count))
        return false;
    shunt_gpu_classify(at, &mem);
    if (mem.kind != SHUNT_MEM_DEVICE || !shunt_send_prepare(arena, at, cargo->bytes, &mem, dest, sending))
        return false;
    await_legacy();
    return true;
}

/* From a tray, in order and without gaps. */
static bool prepare_packed(struct shunt_arena *arena, const struct cargo *cargo, int dest, struct shunt_sending *sending)
{
    char *first = cargo->base + shunt_pattern_first(cargo->pattern);
    struct shunt_mem mem;

    shunt_gpu_classify(first, &mem);
    if (cargo->bytes < shunt_conf->message_gaps || !shunt_pull_reaches(arena, first, &mem))
        return false;
    char *tray = shunt_tray_take(cargo->bytes);
    if (!tray)
        return false;
    shunt_gpu_classify(tray, &mem);
    if (!shunt_send_prepare(arena, tray, cargo->bytes, &mem, dest, sending)) {
        shunt_tray_give(tray);
        return false;
    }
    sending->tray = tray;
    await_legacy();
    if (shunt_pack_between(cargo->pattern, cargo->base, 0, cargo->bytes, tray, true) == SHUNT_OK)
        return true;
    shunt_send_undo(arena, sending);
    return false;
}

/*
 * To another node, what lies in one piece. In a call that receives, too, the data goes first: what is received may depend on it.
 */
static bool ship(const struct shunt_call *call, const struct cargo *cargo, const struct shunt_distant_note *note,
                 struct shunt_parcel_sent *sent)
{
    char *at = cargo->base + shunt_pattern_first(cargo->pattern);
    struct shunt_mem mem;

    if (cargo->bytes < shunt_conf->net_size || !shunt_pattern_is_dense(cargo->pattern, cargo->count) ||
        !shunt_distant_takes(note->peer))
        return false;
    shunt_gpu_classify(at, &mem);
    sent->shipment = mem.kind == SHUNT_MEM_DEVICE ? shunt_distant_expose(note, &sent->descriptor) : NULL;
    sent->buffer = at;
    if (sent->shipment && call->id == SHUNT_CALL_Sendrecv)
        shunt_parcel_follow(sent);
    return sent->shipment;
}

/* To this node. */
static bool offer(const struct cargo *cargo, const struct shunt_parcel_note *note, struct shunt_parcel_sent *sent)
{
    struct shunt_arena *arena = shunt_life_arena();
    const int dest = (int)note->dest;

    shunt_coll_tidy(arena);
    if (!prepare_as_is(arena, cargo, dest, &sent->sending) && !prepare_packed(arena, cargo, dest, &sent->sending))
        return false;
    shunt_send_expose(arena, note, &sent->sending, &sent->descriptor);
    return true;
}

bool shunt_parcel_send(struct shunt_call *call, const struct shunt_operand *send, struct shunt_parcel_sent *sent)
{
    const struct shunt_comm *comm = may_send(call->id) ? shunt_comm_get(call->comm) : NULL;
    const int32_t tag = call->id == SHUNT_CALL_Sendrecv ? call->sendtag : call->tag;
    int dest = find_dest(call, comm), distant = dest < 0 ? find_distant(call, comm) : -1;
    struct cargo cargo;
    bool sends = false;

    if ((dest < 0 && distant < 0) || !find_cargo(send, &cargo))
        return false;
    sent->shipment = NULL;
    sent->status = SHUNT_OK;
    if (cargo.bytes > 0 && cargo.bytes >= shunt_conf->message_size) {
        const struct shunt_parcel_note note = { comm->key.word[0], cargo.bytes, 0, tag, (uint32_t)dest };
        const struct shunt_distant_note distant_note = { comm->key.word[0], cargo.bytes, tag, distant };
        sends = dest >= 0 ? offer(&cargo, &note, sent) : ship(call, &cargo, &distant_note, sent);
    }
    shunt_pattern_release(cargo.pattern);
    if (!sends)
        return false;
    call->sendbuf = &sent->descriptor;
    call->count = SHUNT_DESCRIPTOR_BYTES;
    call->datatype = MPI_BYTE;
    return true;
}

void shunt_parcel_follow(struct shunt_parcel_sent *sent)
{
    if (sent->shipment && sent->buffer)
        sent->status = shunt_distant_post(shunt_life_arena(), sent->shipment, sent->buffer);
    sent->buffer = NULL;
}

bool shunt_parcel_poll(struct shunt_parcel_sent *sent)
{
    return sent->shipment ? !sent->buffer : shunt_send_poll(shunt_life_arena(), &sent->sending);
}

bool shunt_parcel_wait(struct shunt_parcel_sent *sent, int rc)
{
    struct shunt_arena *arena = shunt_life_arena();
    int class = MPI_SUCCESS;
    unsigned turns = 0;

    if (rc != MPI_SUCCESS)
        shunt_host.Error_class(rc, &class);
    /* The other half of a Sendrecv may have been too long. */
    if (class != MPI_SUCCESS && class != MPI_ERR_TRUNCATE) {
        if (sent->shipment)
            shunt_distant_withdraw(sent->descriptor.number);
        else
            shunt_send_undo(arena, &sent->sending);
        return true;
    }
    shunt_parcel_follow(sent);
    while (!shunt_parcel_poll(sent)) {
        /* The receiver may be in a call like this one, and wait for what it has sent here. */
        if (turns % ADVANCE_TURNS == 0)
            shunt_deliveries_advance();
        shunt_receipt_relax(&turns);
    }
    shunt_deliveries_drain();
    return sent->status == SHUNT_OK;
}

void shunt_parcels_finish(void)
{
    struct shunt_arena *arena = shunt_life_arena();
    double end = shunt_seconds() + FINISH_SECONDS;
    unsigned turns = 0;

    while (arena && !shunt_sends_over(arena) && shunt_seconds() < end)
        shunt_receipt_relax(&turns);
}
