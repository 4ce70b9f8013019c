/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: made when they are first used, and lost for good when UCX says that they have failed. UCX finds out by itself
 * that a peer has ended (the socket, or looks every second), as long as there is a connection. But its shared memory cannot, and is
 * not used by connections that ask for that. So of processes of this machine we do not ask, and look ourselves.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "ucx/inner.h"

#define LOOK_SECONDS 0.1

static void take_error(void *context, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    net_lose((int)(intptr_t)context, status);
}

ucp_ep_h net_connect(int peer)
{
    if (net.peers == NULL || peer < 0 || peer >= net.n || net.peers[peer].lost)
        return NULL;
    if (net.peers[peer].ep != NULL)
        return net.peers[peer].ep;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(net.addresses + net.begins[peer]),
        .err_mode = net.peers[peer].local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = { take_error, (void *)(intptr_t)peer },
    };
    ucs_status_t status = net.begins[peer + 1] == net.begins[peer] ?
                              UCS_ERR_UNREACHABLE :
                              shunt_ucp.ucp_ep_create(net.worker, &params, &net.peers[peer].ep);
    if (status == UCS_OK)
        return net.peers[peer].ep;
    net.peers[peer].ep = NULL;
    net_lose(peer, status);
    return NULL;
}

void net_lose(int peer, ucs_status_t why)
{
    if (net.peers == NULL || net.peers[peer].lost)
        return;
    net.peers[peer].lost = true;
    shunt_info("net", "process %d is lost: UCX error %d", peer, (int)why);
    net_fail_parts(peer);
}

void net_look_for_ended(void)
{
    double now = shunt_seconds();

    if (now - net.looked < LOOK_SECONDS)
        return;
    net.looked = now;
    for (int i = 0; net.peers != NULL && i < net.n; i++)
        if (net.peers[i].local && net.peers[i].ep != NULL && !net.peers[i].lost &&
            shunt_process_ended(&net.peers[i].process))
            net_lose(i, UCS_ERR_ENDPOINT_TIMEOUT);
}

bool shunt_net_lost(int peer)
{
    shunt_net_lock();
    bool lost = !net_runs() || net.peers == NULL || peer < 0 || peer >= net.n || net.peers[peer].lost;
    shunt_net_unlock();
    return lost;
}

bool shunt_net_local(int peer)
{
    shunt_net_lock();
    bool local = net_runs() && net.peers != NULL && peer >= 0 && peer < net.n && net.peers[peer].local;
    shunt_net_unlock();
    return local;
}

bool shunt_net_ended(int peer)
{
    shunt_net_lock();
    bool ended = net_runs() && net.peers != NULL && peer >= 0 && peer < net.n && net.peers[peer].local &&
                 shunt_process_ended(&net.peers[peer].process);
    shunt_net_unlock();
    return ended;
}

/* By force: what had to be sent has been, and who does not answer is not waited for. */
void net_disconnect_all(void)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE };

    for (int i = 0; net.peers != NULL && i < net.n; i++) {
        if (net.peers[i].ep == NULL)
            continue;
        net.peers[i].lost = true;
        if (net.peers[i].local) /* cannot be closed by force; it goes with the worker */
            continue;
        void *request = shunt_ucp.ucp_ep_close_nbx(net.peers[i].ep, &param);
        net.peers[i].ep = NULL;
        if (UCS_PTR_IS_PTR(request)) {
            net_await(request, 1);
            shunt_ucp.ucp_request_free(request);
        }
    }
}
