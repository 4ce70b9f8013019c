/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hook of Probe, Iprobe, Mprobe and Improbe: of a message that is the descriptor of a parcel they tell the true size.
 *
 * The host tells source, tag and the size of a descriptor, not what is in it. But parcels of one sender, communicator and
 * tag arrive in the order in which they were listed in the arena, each before its descriptor was sent. So it is the first
 * of those that this process does not hold already: in a receive that is complete, or as a matched message.
 */
#include <errno.h>
#include <stdlib.h>

#include "mpi/comm.h"
#include "mpi/delivery.h"
#include "mpi/life.h"
#include "mpi/message.h"
#include "mpi/receipt.h"

/* A parcel whose descriptor the program holds as a matched message. One thread at a time is in here (receipt.c). */
struct claim {
    struct claim *next;
    int slot;            /* of the sender */
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
            shunt_parcel_look(shunt_arena_parcels(arena, claim->slot), claim->index, claim->number);
        if (state == SHUNT_PARCEL_DONE || state == SHUNT_PARCEL_GONE) {
            *at = claim->next;
            free(claim);
        } else {
            at = &claim->next;
        }
    }
}

static bool is_claimed(int slot, uint32_t index, uint64_t number)
{
    for (const struct claim *claim = claims; claim; claim = claim->next)
        if (claim->slot == slot && claim->index == index && claim->number == number)
            return true;
    return false;
}

static bool is_held(void *context, uint32_t index, uint64_t number)
{
    int slot = *(const int *)context;

    return is_claimed(slot, index, number) || shunt_deliveries_hold(slot, index, number);
}

static void add_claim(int slot, uint32_t index, uint64_t number)
{
    struct claim *claim = malloc(sizeof *claim);

    if (!claim)
        return;
    *claim = (struct claim){ claims, slot, index, number };
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
        add_claim(slot, index, number);
    shunt_host.Status_set_elements_x(call->status, MPI_BYTE, (MPI_Count)note.bytes);
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
    int saved = errno, slot;

    if (!comm || (flag && !*flag))
        return;
    slot = shunt_comm_slot(comm, call->status->MPI_SOURCE);
    if (slot >= 0 && shunt_host.Get_elements_x(call->status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
        bytes == SHUNT_DESCRIPTOR_BYTES)
        tell_true_size(call, comm, slot);
    errno = saved;
}
