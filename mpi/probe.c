/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hook of Probe, Iprobe, Mprobe and Improbe: of a message that is the descriptor of a parcel they tell the true size.
 *
 * The host tells source, tag and the size of a descriptor, not what is in it. But parcels of one sender, communicator and
 * tag arrive in the order in which they were listed in the arena, each before its descriptor was sent. So it is the first
 * of those that this process does not hold already: in a receive that is complete, or as a matched message. Of parcels from another
 * node the sender has the list, and is asked for the next one of it.
 */
#include <errno.h>
#include <stdlib.h>

#include "mpi/comm.h"
#include "mpi/delivery.h"
#include "mpi/life.h"
#include "mpi/message.h"
#include "mpi/probe.h"
#include "mpi/receipt.h"
#include "pt2pt/distant.h"

/* A parcel whose descriptor the program holds as a matched message. One thread at a time is in here (receipt.c). */
struct claim {
    struct claim *next;
    bool distant;
    int slot;            /* of the sender; its world rank, if it is on another node */
    uint32_t index;
    uint64_t number;
};
static struct claim *claims;

static bool is_matched(enum shunt_call_id id)
{
    return id == SHUNT_CALL_Mprobe || id == SHUNT_CALL_Improbe;
}

/* Forget those that are being fetched. */
static void forget_fetched(struct shunt_arena *arena)
{
    for (struct claim **at = &claims; *at;) {
        struct claim *claim = *at;
        enum shunt_parcel_state state =
            claim->distant ? SHUNT_PARCEL_EXPOSED :
                             shunt_parcel_look(shunt_arena_parcels(arena, claim->slot), claim->index, claim->number);
        if (state == SHUNT_PARCEL_DONE || state == SHUNT_PARCEL_GONE) {
            *at = claim->next;
            free(claim);
        } else {
            at = &claim->next;
        }
    }
}

static bool is_claimed(bool distant, int slot, uint32_t index, uint64_t number)
{
    for (const struct claim *claim = claims; claim; claim = claim->next)
        if (claim->distant == distant && claim->slot == slot && claim->index == index && claim->number == number)
            return true;
    return false;
}

static bool is_held(void *context, uint32_t index, uint64_t number)
{
    int slot = *(const int *)context;

    return is_claimed(false, slot, index, number) || shunt_deliveries_hold(slot, index, number);
}

static void add_claim(bool distant, int slot, uint32_t index, uint64_t number)
{
    struct claim *claim = malloc(sizeof *claim);

    if (!claim)
        return;
    *claim = (struct claim){ claims, distant, slot, index, number };
    claims = claim;
}

/* A message as long as a descriptor waits. */
static void tell_true_size(const struct shunt_call *call, const struct shunt_comm *comm, int slot)
{
    struct shunt_arena *arena = shunt_life_arena();
    struct shunt_parcel_note note, like = {
        .comm = comm->key.word[0], .tag = call->status->MPI_TAG, .dest = (uint32_t)shunt_arena_self(arena)
    };
    uint64_t number;
    uint32_t index;

    shunt_deliveries_look();
    forget_fetched(arena);
    if (!shunt_parcel_find(shunt_arena_parcels(arena, slot), &like, is_held, &slot, &note, &index, &number))
        return;
    if (is_matched(call->id))
        add_claim(false, slot, index, number);
    shunt_host.Status_set_elements_x(call->status, MPI_BYTE, (MPI_Count)note.bytes);
}

void shunt_probe_received(int peer, uint64_t number)
{
    struct claim **at = &claims;

    while (*at && !((*at)->distant && (*at)->slot == peer && (*at)->number == number))
        at = &(*at)->next;
    if (*at) {
        struct claim *claim = *at;
        *at = claim->next;
        free(claim);
    }
}

/* The same from another node. */
static void ask_true_size(const struct shunt_call *call, const struct shunt_comm *comm, int peer)
{
    const struct shunt_distant_note kind = { .comm = comm->key.word[0], .tag = call->status->MPI_TAG, .peer = peer };
    uint64_t number = 0, bytes = 0;

    shunt_deliveries_look();
    do
        if (!shunt_distant_ask(&kind, number, &number, &bytes))
            return;
    while (is_claimed(true, peer, 0, number) || shunt_deliveries_hold_distant(peer, number));
    if (is_matched(call->id))
        add_claim(true, peer, 0, number);
    shunt_host.Status_set_elements_x(call->status, MPI_BYTE, (MPI_Count)bytes);
}

bool shunt_hook_probe_before(struct shunt_call *call, int *rc, void **kept)
{
    (void)rc;
    if (!shunt_life_forked() && shunt_receipt_wanted()) {
        call->status = shunt_message_status(call->status);
        *kept = call;
    }
    return false;
}

void shunt_hook_probe_after(const struct shunt_call *call, int rc)
{
    const struct shunt_comm *comm = rc == MPI_SUCCESS ? shunt_comm_find(call->comm) : NULL;
    const int *flag = call->sendbuf;
    MPI_Count bytes = 0;
    int saved = errno, slot, peer;

    if (!comm || (flag && !*flag))
        return;
    slot = shunt_comm_slot(comm, call->status->MPI_SOURCE);
    peer = comm->hier ? shunt_hier_distant(comm->hier, call->status->MPI_SOURCE) : -1;
    if ((slot >= 0 || peer >= 0) && shunt_host.Get_elements_x(call->status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
        bytes == SHUNT_DESCRIPTOR_BYTES) {
        if (slot >= 0)
            tell_true_size(call, comm, slot);
        else
            ask_true_size(call, comm, peer);
    }
    errno = saved;
}
