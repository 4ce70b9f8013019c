/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this folder share: the one network of the process. All of it is under the lock but where it says so. */
#ifndef SHUNT_UCX_INNER_H
#define SHUNT_UCX_INNER_H

#include <pthread.h>

#include "ucx/library.h"
#include "ucx/net.h"

enum { NET_AM_NOTE = 11, NET_AM_DATA = NET_AM_NOTE + SHUNT_NET_SUBJECTS }; /* of notes one for each subject */

struct net_peer {
    ucp_ep_h ep; /* NULL: no connection yet */
    bool lost;
    bool local; /* a process of this machine, whose end we look for ourselves */
    struct shunt_process process;
};

/* Data that has come before it was expected. */
struct net_early {
    struct shunt_net_tag tag;
    int from;
    size_t bytes;
    void *data;      /* a copy of it, owned; or, if that is not NULL, UCX's descriptor of it */
    bool descriptor; /* it has still to be fetched */
    struct net_early *next;
};

struct net {
    pthread_mutex_t lock;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    bool (*look)(void);
    void (*hear[SHUNT_NET_SUBJECTS])(int from, const void *note, size_t bytes);
    int n, self;
    struct net_peer *peers;
    char *addresses;
    size_t *begins;
    struct shunt_net_part *expected; /* receives that nothing has come for yet */
    struct shunt_net_part *busy;     /* what UCX has */
    double looked;                   /* when we last looked which local peers live */
    struct net_early *early;
};

extern struct net net;

/* Whether there is a network, without the lock. */
bool net_runs(void);

/* connections.c: the connection to a peer, made if need be; NULL: it is lost. And why it is. */
ucp_ep_h net_connect(int peer);
void net_lose(int peer, ucs_status_t why);
void net_disconnect_all(void);

/* messages.c: who receives. */
ucs_status_t net_listen(void);
void net_forget_messages(void);

/* What follows of a lost peer: nothing is expected of it any more. */
void net_fail_parts(int peer);

/* Now and then: which of the local peers have ended? */
void net_look_for_ended(void);

/* See that a request of UCX ends, at most for some seconds; without the lock. */
bool net_await(void *request, double seconds);

#endif
