/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking point to point and Reduce_local on device memory: by way of host memory, as the collectives (collective.c).
 *
 * The host is called where the program calls it and matches messages as ever, so neither the order of messages nor what
 * may wait for what changes. Of what a call receives as much is copied back as has come; the status tells. Large messages
 * to a GPU of the same node go as parcels (parcel.h, receipt.h), which is seen here only before and after the host's call.
 */
#include <errno.h>

#include "base/conf.h"
#include "cuda/gpu.h"
#include "mpi/comm.h"
#include "mpi/image.h"
#include "mpi/life.h"
#include "mpi/message.h"
#include "mpi/parcel.h"
#include "mpi/receipt.h"
#include "mpi/tally.h"

/* Whose error handler is for failures of ours. */
static MPI_Comm find_comm(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Mrecv || call->id == SHUNT_CALL_Reduce_local ? MPI_COMM_WORLD : call->comm;
}

static bool has_status(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Recv || call->id == SHUNT_CALL_Mrecv || call->id == SHUNT_CALL_Sendrecv ||
           call->id == SHUNT_CALL_Sendrecv_replace;
}

static bool may_receive(const struct shunt_call *call)
{
    return has_status(call) && (call->id == SHUNT_CALL_Mrecv || call->source != MPI_PROC_NULL);
}

MPI_Status *shunt_message_status(MPI_Status *status)
{
    static _Thread_local MPI_Status own;

    return status == MPI_STATUS_IGNORE ? &own : status;
}

int64_t shunt_message_received(const MPI_Status *status, int error)
{
    int class = MPI_SUCCESS;
    MPI_Count bytes;

    if (error != MPI_SUCCESS)
        shunt_host.Error_class(error, &class);
    if (class == MPI_ERR_TRUNCATE)
#ifdef OPEN_MPI
        class = MPI_SUCCESS; /* what fits is written, and the status has the length of the message */
#else
        return SHUNT_RECEIVED_CUT;
#endif
    if (class != MPI_SUCCESS || shunt_host.Get_elements_x(status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0)
        return 0;
    return bytes;
}

/* A call of this thread under way. It has one at a time, as inside of it no hook runs. */
struct message {
    struct shunt_images *images;
    bool staged;  /* there are images */
    bool parcel;  /* a descriptor is sent */
    bool watched; /* what is received may be one */
    struct shunt_parcel_sent sent;
    struct shunt_receipt receipt;
};

static struct message *own_message(void)
{
    static _Thread_local struct message own;

    own.images = shunt_images_own();
    shunt_receipt_release(&own.receipt);
    own.staged = own.parcel = own.watched = false;
    return &own;
}

/* Images of what is staged. A message that is sent as a parcel is not. */
static enum shunt_status make_images(struct shunt_call *call, struct message *message)
{
    struct shunt_images *images = message->images;

    *images = (struct shunt_images){ .send_image = { 0 } };
    enum shunt_status status = shunt_operands_find(call, &images->send, &images->recv);
    if (status == SHUNT_OK && shunt_conf->message_size != SIZE_MAX)
        status = shunt_operand_hold(&images->send);
    if (status != SHUNT_OK)
        return status;
    if (shunt_conf->message_size != SIZE_MAX && shunt_parcel_send(call, &images->send, &message->sent)) {
        message->parcel = true;
        shunt_operand_release(&images->send);
        images->send = (struct shunt_operand){ 0 };
        if (!images->recv.staged)
            return SHUNT_OK;
    }
    return shunt_images_place(call, images);
}

/* A buffer may be in device memory. */
static enum shunt_status stage_message(struct shunt_call *call, struct message *message)
{
    enum shunt_status status = make_images(call, message);

    if (status != SHUNT_OK)
        return status;
    message->staged = message->images->send.staged || message->images->recv.staged;
    if (message->staged)
        status = shunt_images_fill(message->images);
    if (message->staged && status == SHUNT_OK)
        shunt_images_mark(message->images);
    return status;
}

/* While the host waits for the message the legacy stream passes, and the time to ask for it is not missed. */
static void ask_ahead(const struct message *message)
{
    if (message->watched && message->receipt.images &&
        message->images->recv_image.bytes >= shunt_conf->message_size)
        shunt_pull_ready(message->receipt.fetch.ticket);
}

/* In place of one whose count is too small for a descriptor. */
static int send_and_receive(const struct shunt_call *call, struct message *message)
{
    int rc = shunt_host.Sendrecv(call->recvbuf, (int)call->count, call->datatype, call->root, call->sendtag,
                                 message->receipt.small, SHUNT_DESCRIPTOR_BYTES, MPI_BYTE, call->source, call->tag,
                                 call->comm, call->status);

    return shunt_hook_move_after(call, message, rc);
}

static __attribute__((noinline)) bool begin_message(struct shunt_call *call, bool surely_host, int *rc, void **kept)
{
    int saved = errno;

    if (shunt_life_forked())
        return false;
    struct message *message = own_message();
    enum shunt_status status = surely_host ? SHUNT_PASS : stage_message(call, message);
    message->watched = may_receive(call) && shunt_receipt_wanted();
    if (status == SHUNT_OK || (status == SHUNT_PASS && message->watched)) {
        if (has_status(call))
            call->status = shunt_message_status(call->status);
        if (message->watched &&
            shunt_receipt_begin(call, message->staged ? message->images : NULL, &message->receipt) != SHUNT_OK)
            status = SHUNT_ERR_MEMORY;
        else
            *kept = message;
        ask_ahead(message);
    }
    errno = saved;
    if (*kept && message->watched && shunt_receipt_replaces(call, &message->receipt)) {
        *rc = send_and_receive(call, message);
        return true;
    }
    if (status == SHUNT_OK || status == SHUNT_PASS)
        return false;
    if (message->parcel)
        shunt_parcel_wait(&message->sent, MPI_ERR_OTHER);
    shunt_images_release(message->images);
    *rc = shunt_comm_fail(find_comm(call));
    return true;
}

bool shunt_hook_move_before(struct shunt_call *call, int *rc, void **kept)
{
    const void *send = call->sendbuf ? call->sendbuf : call->recvbuf, *recv = call->recvbuf ? call->recvbuf : send;
    bool surely_host = shunt_gpu_surely_host(send, recv);

    shunt_parcel_notice(call);
    if (surely_host && !(may_receive(call) && shunt_receipt_wanted()))
        return false;
    return begin_message(call, surely_host, rc, kept);
}

/* What has come is copied back; what came as a parcel may be there already. */
static enum shunt_status return_images(const struct shunt_call *call, struct message *message, int rc)
{
    int64_t received = rc == MPI_SUCCESS ? SHUNT_RECEIVED_ALL : 0;

    if (message->watched && message->receipt.direct) {
        message->images->recv_image.clean = shunt_call_family(call->id) != SHUNT_CALL_Sendrecv_replace;
        return SHUNT_OK;
    }
    if (has_status(call))
        received = shunt_message_received(call->status, rc);
    if (message->watched && message->receipt.parcel && received == SHUNT_RECEIVED_CUT)
        received = 0; /* the host has written a descriptor */
    return received == 0 ? SHUNT_OK : shunt_images_return(message->images, received);
}

int shunt_hook_move_after(const struct shunt_call *call, void *kept, int rc)
{
    struct message *message = kept;
    enum shunt_status status = SHUNT_OK;
    int saved = errno, host = rc;

    if (message->watched) {
        rc = shunt_receipt_end(&message->receipt, call->status, rc);
        shunt_receipt_release(&message->receipt);
    }
    if (message->staged) {
        if (message->images->send.staged || !message->watched || !message->receipt.parcel)
            shunt_tally_staged(call, message->images, SHUNT_REASON_NO_ALGORITHM);
        status = return_images(call, message, rc);
        shunt_images_release(message->images);
    }
    if (message->parcel && !shunt_parcel_wait(&message->sent, host))
        status = SHUNT_ERR_INVALID;
    errno = saved;
    return status == SHUNT_OK ? rc : shunt_comm_fail(find_comm(call));
}
