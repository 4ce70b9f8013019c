/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notes and data, as active messages of UCX. Data is matched by its sender and tag: a receive looks among what has come
 * early, and what comes looks among the receives. Small data is copied where it comes; of large data UCX brings a descriptor, and
 * it is fetched straight into the receiver's buffer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ucx/inner.h"

struct data_header {
    struct shunt_net_tag tag;
    uint64_t bytes;
    int32_t from;
};

struct note_header {
    int32_t from;
    uint32_t bytes;
    char note[SHUNT_NET_NOTE];
};

static void end_part(struct shunt_net_part *part, enum shunt_net_state state)
{
    /* Release: the data is there. From now on the part is the caller's again. */
    if (part->state == SHUNT_NET_UNDER_WAY)
        __atomic_store_n(&part->state, state, __ATOMIC_RELEASE);
}

static void list_part(struct shunt_net_part **list, struct shunt_net_part *part)
{
    part->next = *list;
    part->link = list;
    if (part->next != NULL)
        part->next->link = &part->next;
    *list = part;
}

static void unlist_part(struct shunt_net_part *part)
{
    if (part->link == NULL)
        return;
    *part->link = part->next;
    if (part->next != NULL)
        part->next->link = part->link;
    part->link = NULL;
}

/* ---- sending ---- */

static void finish_send(void *request, ucs_status_t status, void *context)
{
    struct shunt_net_part *part = context;

    part->request = NULL;
    unlist_part(part);
    shunt_ucp.ucp_request_free(request);
    if (status != UCS_OK && status != UCS_ERR_CANCELED)
        net_lose(part->peer, status);
    end_part(part, status == UCS_OK ? SHUNT_NET_DONE : SHUNT_NET_FAILED);
}

void shunt_net_send(struct shunt_net_part *part, int peer, struct shunt_net_tag tag, const void *buffer, size_t bytes)
{
    shunt_net_lock();
    ucp_ep_h ep = net_runs() ? net_connect(peer) : NULL;
    *part = (struct shunt_net_part){
        .tag = tag, .peer = peer, .buffer = (void *)buffer, .bytes = bytes, .sends = true, .state = SHUNT_NET_UNDER_WAY
    };
    part->header.tag = tag;
    part->header.bytes = bytes;
    part->header.from = net.self;
    if (ep == NULL) {
        end_part(part, SHUNT_NET_FAILED);
        shunt_net_unlock();
        return;
    }
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = finish_send,
        .user_data = part,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    void *request =
        shunt_ucp.ucp_am_send_nbx(ep, NET_AM_DATA, &part->header, sizeof part->header, buffer, bytes, &param);
    if (UCS_PTR_IS_ERR(request)) {
        net_lose(peer, UCS_PTR_STATUS(request));
        end_part(part, SHUNT_NET_FAILED);
    } else if (request == NULL) {
        end_part(part, SHUNT_NET_DONE);
    } else {
        part->request = request;
        list_part(&net.busy, part);
    }
    shunt_net_unlock();
}

struct note_on_its_way {
    int peer;
    struct note_header header;
};

static void finish_note(void *request, ucs_status_t status, void *context)
{
    struct note_on_its_way *way = context;

    shunt_ucp.ucp_request_free(request);
    if (status != UCS_OK)
        net_lose(way->peer, status);
    free(way);
}

static void send_note(int peer, enum shunt_net_subject subject, const void *note, size_t bytes)
{
    ucp_ep_h ep = net_connect(peer);
    struct note_on_its_way *way = ep != NULL ? malloc(sizeof *way) : NULL;

    if (way == NULL) {
        net_lose(peer, UCS_ERR_NO_MEMORY);
        return;
    }
    way->peer = peer;
    way->header.from = net.self;
    way->header.bytes = (uint32_t)bytes;
    memcpy(way->header.note, note, bytes);
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .cb.send = finish_note,
        .user_data = way,
        .flags = UCP_AM_SEND_FLAG_EAGER,
    };
    void *request = shunt_ucp.ucp_am_send_nbx(ep, NET_AM_NOTE + subject, &way->header,
                                              offsetof(struct note_header, note) + bytes, NULL, 0, &param);
    if (UCS_PTR_IS_PTR(request))
        return;
    if (request != NULL)
        net_lose(peer, UCS_PTR_STATUS(request));
    free(way);
}

void shunt_net_hear(enum shunt_net_subject subject, void (*note)(int from, const void *note, size_t bytes))
{
    shunt_net_lock();
    net.hear[subject] = note;
    shunt_net_unlock();
}

static void hear_note(enum shunt_net_subject subject, int from, const void *note, size_t bytes)
{
    if (net.hear[subject] != NULL)
        net.hear[subject](from, note, bytes);
}

void shunt_net_note(int peer, enum shunt_net_subject subject, const void *note, size_t bytes)
{
    shunt_net_lock();
    if (net_runs() && bytes <= SHUNT_NET_NOTE && peer >= 0 && peer < net.n) {
        if (peer == net.self)
            hear_note(subject, peer, note, bytes);
        else
            send_note(peer, subject, note, bytes);
    }
    shunt_net_unlock();
}

/* ---- receiving ---- */

static void finish_receive(void *request, ucs_status_t status, size_t bytes, void *context)
{
    struct shunt_net_part *part = context;

    part->request = NULL;
    unlist_part(part);
    shunt_ucp.ucp_request_free(request);
    end_part(part, status == UCS_OK && bytes == part->bytes ? SHUNT_NET_DONE : SHUNT_NET_FAILED);
}

static void fetch(struct shunt_net_part *part, void *descriptor)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv_am = finish_receive,
        .user_data = part,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    void *request = shunt_ucp.ucp_am_recv_data_nbx(net.worker, descriptor, part->buffer, part->bytes, &param);

    if (UCS_PTR_IS_PTR(request)) {
        part->request = request;
        list_part(&net.busy, part);
    } else {
        end_part(part, request == NULL ? SHUNT_NET_DONE : SHUNT_NET_FAILED);
    }
}

static bool equal_tags(const struct shunt_net_tag *a, const struct shunt_net_tag *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static struct shunt_net_part *take_expected(int from, const struct shunt_net_tag *tag)
{
    for (struct shunt_net_part *part = net.expected; part != NULL; part = part->next) {
        if (part->peer == from && equal_tags(&part->tag, tag)) {
            unlist_part(part);
            return part;
        }
    }
    return NULL;
}

/* It will not come. */
static void give_up(struct shunt_net_part *part)
{
    unlist_part(part);
    if (part->drops)
        free(part);
    else
        end_part(part, SHUNT_NET_FAILED);
}

static struct net_early *take_early(int from, const struct shunt_net_tag *tag)
{
    for (struct net_early **at = &net.early, *early; (early = *at) != NULL; at = &early->next) {
        if (early->from == from && equal_tags(&early->tag, tag)) {
            *at = early->next;
            return early;
        }
    }
    return NULL;
}

static ucs_status_t keep_early(const struct data_header *header, void *data, size_t bytes, bool descriptor)
{
    struct net_early *early = malloc(sizeof *early);
    void *copy = descriptor ? data : malloc(bytes + 1);

    if (early == NULL || copy == NULL) {
        /* Whoever waits for it must learn that it will not come. */
        net_lose(header->from, UCS_ERR_NO_MEMORY);
        if (!descriptor)
            free(copy);
        free(early);
        return UCS_OK;
    }
    if (!descriptor)
        memcpy(copy, data, bytes);
    *early = (struct net_early){ header->tag, header->from, header->bytes, copy, descriptor, net.early };
    net.early = early;
    return descriptor ? UCS_INPROGRESS : UCS_OK;
}

/* Called by UCX, from progress, under the lock. */
static ucs_status_t take_data(void *context, const void *head, size_t head_bytes, void *data, size_t bytes,
                              const ucp_am_recv_param_t *param)
{
    struct data_header header;
    bool descriptor = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;

    (void)context;
    if (head_bytes < sizeof header)
        return UCS_OK;
    memcpy(&header, head, sizeof header);
    struct shunt_net_part *part = take_expected(header.from, &header.tag);
    if (part == NULL)
        return keep_early(&header, data, bytes, descriptor);
    if (part->drops || header.bytes != part->bytes) {
        give_up(part);
        return UCS_OK;
    }
    if (descriptor) {
        fetch(part, data);
        return UCS_INPROGRESS;
    }
    memcpy(part->buffer, data, bytes);
    end_part(part, SHUNT_NET_DONE);
    return UCS_OK;
}

static ucs_status_t take_note(void *context, const void *head, size_t head_bytes, void *data, size_t bytes,
                              const ucp_am_recv_param_t *param)
{
    struct note_header header = { 0 };
    const size_t least = offsetof(struct note_header, note);

    (void)data, (void)bytes, (void)param;
    memcpy(&header, head, head_bytes < sizeof header ? head_bytes : sizeof header);
    if (head_bytes >= least && header.bytes == head_bytes - least && net.peers != NULL && header.from >= 0 && header.from < net.n)
        hear_note((enum shunt_net_subject)(intptr_t)context, header.from, header.note, header.bytes);
    return UCS_OK;
}

ucs_status_t net_listen(void)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .cb = take_note,
    };
    ucs_status_t status = UCS_OK;

    for (int subject = 0; subject < SHUNT_NET_SUBJECTS && status == UCS_OK; subject++) {
        param.id = (unsigned)(NET_AM_NOTE + subject);
        param.arg = (void *)(intptr_t)subject;
        status = shunt_ucp.ucp_worker_set_am_recv_handler(net.worker, &param);
    }
    param.id = NET_AM_DATA;
    param.cb = take_data;
    return status == UCS_OK ? shunt_ucp.ucp_worker_set_am_recv_handler(net.worker, &param) : status;
}

static void release_early(struct net_early *early)
{
    if (early->descriptor)
        shunt_ucp.ucp_am_data_release(net.worker, early->data);
    else
        free(early->data);
    free(early);
}

void shunt_net_receive(struct shunt_net_part *part, int peer, struct shunt_net_tag tag, void *buffer, size_t bytes)
{
    shunt_net_lock();
    *part = (struct shunt_net_part){
        .tag = tag, .peer = peer, .buffer = buffer, .bytes = bytes, .state = SHUNT_NET_UNDER_WAY
    };
    struct net_early *early = net_runs() ? take_early(peer, &tag) : NULL;
    if (early != NULL) {
        bool fits = early->bytes == bytes;
        if (early->descriptor && fits) {
            fetch(part, early->data);
            free(early);
        } else {
            if (fits)
                memcpy(buffer, early->data, bytes);
            end_part(part, fits ? SHUNT_NET_DONE : SHUNT_NET_FAILED);
            release_early(early);
        }
    } else if (!net_runs() || net_connect(peer) == NULL) { /* connected, so that its end is noticed */
        end_part(part, SHUNT_NET_FAILED);
    } else {
        list_part(&net.expected, part);
    }
    shunt_net_unlock();
}

void shunt_net_drop(int peer, struct shunt_net_tag tag)
{
    shunt_net_lock();
    struct net_early *early = net_runs() ? take_early(peer, &tag) : NULL;
    if (early != NULL) {
        release_early(early);
    } else if (net_runs() && net_connect(peer) != NULL) {
        struct shunt_net_part *part = calloc(1, sizeof *part);
        if (part != NULL) {
            *part = (struct shunt_net_part){ .tag = tag, .peer = peer, .drops = true };
            list_part(&net.expected, part);
        }
    }
    shunt_net_unlock();
}

void shunt_net_cancel(struct shunt_net_part *part)
{
    shunt_net_lock();
    if (part->state == SHUNT_NET_UNDER_WAY && part->request == NULL && !part->sends)
        give_up(part);
    shunt_net_unlock();
}

/* What UCX has it keeps: that may end much later, or never. */
void net_fail_parts(int peer)
{
    for (struct shunt_net_part *part = net.expected, *next; part != NULL; part = next) {
        next = part->next;
        if (part->peer == peer)
            give_up(part);
    }
    for (struct shunt_net_part *part = net.busy; part != NULL; part = part->next)
        if (part->peer == peer)
            end_part(part, SHUNT_NET_FAILED);
}

void net_forget_messages(void)
{
    while (net.expected != NULL)
        give_up(net.expected);
    while (net.early != NULL) {
        struct net_early *early = net.early;
        net.early = early->next;
        release_early(early);
    }
}
