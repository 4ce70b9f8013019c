/* SPDX-License-Identifier: BSD-3-Clause */
/* Parcels of nonblocking and persistent calls; delivery.h. */
#include "mpi/delivery.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/conf.h"
#include "mpi/comm.h"
#include "mpi/life.h"
#include "mpi/message.h"
#include "mpi/operation.h"
#include "mpi/parcel.h"
#include "mpi/receipt.h"
#include "mpi/tally.h"
#include "mpi/types.h"

enum { FEW = 4, FULL_TURNS = 16 }; /* receives that are looked at in vain; turns after which all are */

struct delivery {
    struct shunt_request request;
    struct delivery *next;  /* of the receives that are under way, in the order in which they began */
    bool listed, looked;    /* the host has received, and what came has been looked at */
    bool duplicate;         /* receipt.datatype is owned */
    struct shunt_images images;
    struct shunt_receipt receipt; /* of a receive */
    struct shunt_parcel_sent sent; /* of a send */
};

/* Only of processes that take descriptors, in which one thread at a time is inside MPI. */
static struct delivery *receives, **receives_end = &receives;

static struct delivery *delivery_of(struct shunt_request *request)
{
    return (struct delivery *)((char *)request - offsetof(struct delivery, request));
}

/* ---- receives ---- */

static void list_receive(struct delivery *delivery)
{
    delivery->next = NULL;
    delivery->listed = true;
    __atomic_add_fetch(&shunt_requests_fetching, 1, __ATOMIC_RELAXED);
    *receives_end = delivery;
    receives_end = &delivery->next;
}

static void unlist_receive(struct delivery *delivery)
{
    struct delivery **at = &receives;

    if (!delivery->listed)
        return;
    while (*at != delivery)
        at = &(*at)->next;
    *at = delivery->next;
    if (!*at)
        receives_end = at;
    delivery->listed = false;
    __atomic_sub_fetch(&shunt_requests_fetching, 1, __ATOMIC_RELAXED);
}

static void release_delivery(struct shunt_request *request)
{
    struct delivery *delivery = delivery_of(request);

    unlist_receive(delivery);
    shunt_receipt_release(&delivery->receipt);
    shunt_images_release(&delivery->images);
    if (delivery->duplicate)
        shunt_host.Type_free(&delivery->receipt.datatype);
    free(delivery);
}

/* Has the host received? */
static bool look_early(struct delivery *delivery)
{
    MPI_Status status = { .MPI_ERROR = MPI_SUCCESS };
    int flag = 0, cancelled = 0;

    if (shunt_host.Request_get_status(delivery->request.handle, &flag, &status) != MPI_SUCCESS || !flag ||
        status.MPI_ERROR != MPI_SUCCESS || shunt_host.Test_cancelled(&status, &cancelled) != MPI_SUCCESS || cancelled)
        return false;
    shunt_receipt_look(&delivery->receipt, &status);
    return delivery->looked = true;
}

/* Messages mostly come in the order of the receives, so behind the first few for which nothing has come little will have. */
void shunt_deliveries_advance(void)
{
    static unsigned turn;

    if (!receives)
        return;
    int patience = ++turn % FULL_TURNS == 0 ? INT_MAX : FEW;
    for (struct delivery *delivery = receives; delivery && patience > 0; delivery = delivery->next) {
        if (delivery->looked || look_early(delivery))
            shunt_receipt_advance(&delivery->receipt);
        else
            patience--;
    }
}

void shunt_deliveries_drain(void)
{
    unsigned spins = 0;

    while (shunt_receives_busy() > 0) {
        for (struct delivery *delivery = receives; delivery; delivery = delivery->next)
            if (delivery->receipt.fetch.busy)
                shunt_receipt_advance(&delivery->receipt);
        shunt_board_relax(&spins);
    }
}

void shunt_deliveries_look(void)
{
    for (struct delivery *delivery = receives; delivery; delivery = delivery->next)
        if (!delivery->looked)
            look_early(delivery);
}

bool shunt_deliveries_hold(int slot, uint32_t index, uint64_t number)
{
    for (struct delivery *delivery = receives; delivery; delivery = delivery->next) {
        const struct shunt_descriptor *descriptor = &delivery->receipt.fetch.descriptor;
        if (delivery->receipt.parcel && !delivery->receipt.fetch.distant && descriptor->source.slot == (uint32_t)slot &&
            descriptor->index == index && descriptor->number == number)
            return true;
    }
    return false;
}

bool shunt_deliveries_hold_distant(int peer, uint64_t number)
{
    for (struct delivery *delivery = receives; delivery; delivery = delivery->next) {
        const struct shunt_descriptor *descriptor = &delivery->receipt.fetch.descriptor;
        if (delivery->receipt.parcel && delivery->receipt.fetch.distant && descriptor->source.slot == (uint32_t)peer &&
            descriptor->number == number)
            return true;
    }
    return false;
}

static bool was_cancelled(const MPI_Status *status, int error)
{
    int cancelled = 0;

    if (error == MPI_SUCCESS)
        shunt_host.Test_cancelled(status, &cancelled);
    return cancelled;
}

/* The host may have freed the request, so it must not be asked any more. */
static void ended_receive(struct shunt_request *request, int error, const MPI_Status *status)
{
    struct delivery *delivery = delivery_of(request);

    if (!delivery->looked && (error != MPI_SUCCESS || was_cancelled(status, error))) {
        unlist_receive(delivery);
        return;
    }
    if (!delivery->looked)
        shunt_receipt_look(&delivery->receipt, status);
    delivery->looked = true;
    shunt_receipt_advance(&delivery->receipt);
}

static int end_receive(struct shunt_request *request, int error, const MPI_Status *status)
{
    struct delivery *delivery = delivery_of(request);
    struct shunt_receipt *receipt = &delivery->receipt;
    MPI_Status own = *status;

    unlist_receive(delivery);
    if (was_cancelled(status, error))
        return MPI_SUCCESS;
    if (!delivery->looked || error != MPI_SUCCESS)
        error = shunt_receipt_end(receipt, &own, error);
    else
        error = shunt_receipt_finish(receipt, &own);
    if (!receipt->images)
        return error;
    if (!receipt->parcel)
        shunt_tally_staged(&(struct shunt_call){ .id = SHUNT_CALL_Irecv }, &delivery->images, SHUNT_REASON_NO_ALGORITHM);
    delivery->images.recv_image.clean = receipt->direct && !receipt->blind && !request->persistent;
    int64_t received = receipt->blind && !receipt->parcel && error == MPI_SUCCESS ? SHUNT_RECEIVED_ALL :
                                                                                  shunt_message_received(&own, error);
    if (receipt->parcel && received == SHUNT_RECEIVED_CUT)
        received = 0; /* the host has written a descriptor */
    if (!receipt->direct && shunt_images_return(&delivery->images, received) != SHUNT_OK && error == MPI_SUCCESS)
        error = shunt_operation_fail(request->comm);
    return error;
}

static void amend_receive(struct shunt_request *request, MPI_Status *status)
{
    struct shunt_receipt *receipt = &delivery_of(request)->receipt;

    if (receipt->parcel)
        shunt_host.Status_set_elements_x(status, MPI_BYTE, (MPI_Count)receipt->fetch.descriptor.bytes);
}

static int start_receive(struct shunt_request *request)
{
    struct delivery *delivery = delivery_of(request);

    shunt_receipt_again(&delivery->receipt);
    shunt_images_mark(&delivery->images);
    delivery->looked = false;
    if (!delivery->listed)
        list_receive(delivery);
    return MPI_SUCCESS;
}

static const struct shunt_request_kind receive_kind = {
    .done = end_receive,
    .ended = ended_receive,
    .start = start_receive,
    .amend = amend_receive,
    .early = true,
    .lent = true,
    .release = release_delivery,
};

static bool is_two_way(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Isendrecv || call->id == SHUNT_CALL_Isendrecv_replace;
}

static bool is_receive(const struct shunt_call *call)
{
    return (is_two_way(call) && call->source != MPI_PROC_NULL) ||
           (call->id == SHUNT_CALL_Irecv && call->source != MPI_PROC_NULL) || call->id == SHUNT_CALL_Imrecv ||
           (call->id == SHUNT_CALL_Recv_init && call->source != MPI_PROC_NULL);
}

/* The program may free its datatype while the receive is under way. */
static bool keep_datatype(struct delivery *delivery)
{
    struct shunt_receipt *receipt = &delivery->receipt;
    MPI_Datatype own;

    if (!receipt->typed)
        return true;
    if (shunt_host.Type_dup(receipt->datatype, &own) != MPI_SUCCESS)
        return false;
    receipt->datatype = own;
    return delivery->duplicate = true;
}

/* What is sent, and what is there before something comes: how much that is the status will not tell. */
static enum shunt_status fill_both(const struct shunt_images *images)
{
    enum shunt_status status =
        images->recv.staged ? shunt_image_fill(&images->recv_image, &images->recv.written) : SHUNT_OK;

    return status == SHUNT_OK ? shunt_images_fill(images) : status;
}

static enum shunt_status make_receive(struct shunt_call *call, struct delivery *delivery)
{
    enum shunt_status status = SHUNT_PASS;

    if (!shunt_gpu_surely_host(call->recvbuf, is_two_way(call) && call->sendbuf ? call->sendbuf : call->recvbuf))
        status = shunt_images_make(call, &delivery->images);
    if (status == SHUNT_OK && is_two_way(call))
        status = fill_both(&delivery->images);
    else if (status == SHUNT_OK)
        shunt_images_mark(&delivery->images);
    if (status != SHUNT_OK && status != SHUNT_PASS)
        return status;
    delivery->request.kind = &receive_kind;
    delivery->request.comm = call->id == SHUNT_CALL_Imrecv ? MPI_COMM_NULL : call->comm;
    delivery->request.persistent = call->id == SHUNT_CALL_Recv_init;
    status = shunt_receipt_begin(call, status == SHUNT_OK ? &delivery->images : NULL, &delivery->receipt);
    return status == SHUNT_OK && !keep_datatype(delivery) ? SHUNT_ERR_MEMORY : status;
}

/* ---- sends ---- */

static void end_parcel(struct delivery *delivery, bool cancelled)
{
    shunt_parcel_wait(&delivery->sent, cancelled ? MPI_ERR_OTHER : MPI_SUCCESS);
}

static int end_send(struct shunt_request *request, int error, const MPI_Status *status)
{
    struct delivery *delivery = delivery_of(request);
    int cancelled = 0;

    if (error == MPI_SUCCESS)
        shunt_host.Test_cancelled(status, &cancelled);
    const bool unsent = cancelled || error != MPI_SUCCESS;
    /* What goes to another node is out of this process's hands before that is known. */
    if (!delivery->looked || (unsent && delivery->sent.shipment))
        end_parcel(delivery, unsent);
    delivery->looked = true;
    return delivery->sent.status == SHUNT_OK ? MPI_SUCCESS : shunt_operation_fail(request->comm);
}

/* Not before the buffer is the program's again. */
static bool send_ready(struct shunt_request *request)
{
    struct delivery *delivery = delivery_of(request);

    shunt_deliveries_advance();
    if (!delivery->looked && shunt_parcel_poll(&delivery->sent))
        delivery->looked = true;
    shunt_deliveries_drain();
    return delivery->looked;
}

static const struct shunt_request_kind send_kind = {
    .done = end_send,
    .ready = send_ready,
    .lent = true,
    .release = release_delivery,
};

static int send_init(const struct shunt_call *call, MPI_Request *request)
{
    const void *buffer = call->sendbuf;
    int count = (int)call->count;

    switch (call->id) {
    case SHUNT_CALL_Issend:
        return shunt_host.Ssend_init(buffer, count, MPI_BYTE, call->root, call->tag, call->comm, request);
    case SHUNT_CALL_Irsend:
        return shunt_host.Rsend_init(buffer, count, MPI_BYTE, call->root, call->tag, call->comm, request);
    default: return shunt_host.Send_init(buffer, count, MPI_BYTE, call->root, call->tag, call->comm, request);
    }
}

static bool is_send(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Isend || call->id == SHUNT_CALL_Issend || call->id == SHUNT_CALL_Irsend;
}

/* The descriptor stands in the call: send it. Answers what the host does. */
static int begin_send(const struct shunt_call *call, struct delivery *delivery)
{
    MPI_Request handle = MPI_REQUEST_NULL;
    int rc = send_init(call, &handle);

    if (rc == MPI_SUCCESS)
        rc = shunt_host.Start(&handle);
    if (rc != MPI_SUCCESS) {
        end_parcel(delivery, true);
        release_delivery(&delivery->request);
        return rc;
    }
    delivery->request.kind = &send_kind;
    delivery->request.comm = call->comm;
    delivery->request.wrapped = true;
    delivery->request.handle = handle;
    shunt_parcel_follow(&delivery->sent);
    *call->requests = handle;
    return shunt_request_track(&delivery->request);
}

/* Can it go as a parcel? */
static bool make_send(struct shunt_call *call, struct delivery *delivery)
{
    struct shunt_operand *send = &delivery->images.send, *recv = &delivery->images.recv;
    bool sent = false;

    if (shunt_operands_find(call, send, recv) != SHUNT_OK)
        return false;
    sent = shunt_operand_hold(send) == SHUNT_OK && shunt_parcel_send(call, send, &delivery->sent);
    shunt_operand_release(send);
    shunt_operand_release(recv);
    delivery->images = (struct shunt_images){ 0 };
    return sent;
}

/* ---- hooks ---- */

static _Thread_local struct delivery *under_way;

static bool begin_receive(struct shunt_call *call, struct delivery *delivery, int *rc, void **kept, bool *done)
{
    enum shunt_status status = make_receive(call, delivery);

    *done = status != SHUNT_OK && status != SHUNT_PASS;
    if (status != SHUNT_OK) {
        release_delivery(&delivery->request);
        *rc = *done ? shunt_operation_fail(call->comm) : MPI_SUCCESS;
        return *done;
    }
    *kept = under_way = delivery;
    return true;
}

/* In place of one whose count is too small for a descriptor. */
static int send_and_receive(const struct shunt_call *call, struct delivery *delivery)
{
    int rc = shunt_host.Isendrecv(call->recvbuf, (int)call->count, call->datatype, call->root, call->sendtag,
                                  delivery->receipt.small, SHUNT_DESCRIPTOR_BYTES, MPI_BYTE, call->source, call->tag,
                                  call->comm, call->requests);

    shunt_delivery_after(call, delivery, &rc);
    return rc;
}

bool shunt_delivery_before(struct shunt_call *call, int *rc, void **kept, bool *done)
{
    bool in_use = shunt_gpu_in_use(), sends = in_use && is_send(call) && shunt_conf->message_size != SIZE_MAX;
    struct delivery *delivery;
    int saved = errno;

    *done = false;
    shunt_parcel_notice(call);
    if ((!sends && !(is_receive(call) && (in_use ? shunt_receipt_wanted() : shunt_receipt_early()))) || shunt_life_forked() ||
        !(delivery = calloc(1, sizeof *delivery)))
        return false;
    bool ours;
    if (!sends) {
        ours = begin_receive(call, delivery, rc, kept, done);
        if (ours && !*done && shunt_receipt_replaces(call, &delivery->receipt)) {
            *rc = send_and_receive(call, delivery);
            *done = true;
        }
    } else if ((ours = make_send(call, delivery))) {
        *rc = begin_send(call, delivery);
        *done = true;
    } else {
        free(delivery);
    }
    errno = saved;
    return ours;
}

bool shunt_delivery_after(const struct shunt_call *call, void *kept, int *rc)
{
    struct delivery *delivery = under_way;
    int saved = errno;

    if (!kept || kept != delivery)
        return false;
    under_way = NULL;
    if (*rc != MPI_SUCCESS) {
        release_delivery(&delivery->request);
    } else {
        delivery->request.handle = *call->requests;
        if (!delivery->request.persistent)
            list_receive(delivery);
        *rc = shunt_request_track(&delivery->request);
    }
    errno = saved;
    return true;
}
