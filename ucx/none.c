/* SPDX-License-Identifier: BSD-3-Clause */
/* The network of a shunt that was built without UCX: there is none. */
#include "ucx/net.h"

enum shunt_status shunt_net_start(const struct shunt_net_hooks *hooks)
{
    (void)hooks;
    return SHUNT_PASS;
}

const void *shunt_net_address(size_t *bytes)
{
    *bytes = 0;
    return NULL;
}

enum shunt_status shunt_net_peers(int n, int self, const void *addresses, const size_t *begins,
                                  const struct shunt_process *processes)
{
    (void)n, (void)self, (void)addresses, (void)begins, (void)processes;
    return SHUNT_PASS;
}

void shunt_net_stop(void) {}
void shunt_net_abandon(void) {}
void shunt_net_lock(void) {}
void shunt_net_unlock(void) {}

void shunt_net_hear(enum shunt_net_subject subject, void (*note)(int from, const void *note, size_t bytes))
{
    (void)subject, (void)note;
}

void shunt_net_note(int peer, enum shunt_net_subject subject, const void *note, size_t bytes)
{
    (void)peer, (void)subject, (void)note, (void)bytes;
}

bool shunt_net_lost(int peer)
{
    (void)peer;
    return true;
}

bool shunt_net_local(int peer)
{
    (void)peer;
    return false;
}

bool shunt_net_ended(int peer)
{
    (void)peer;
    return false;
}

void shunt_net_send(struct shunt_net_part *part, int peer, struct shunt_net_tag tag, const void *buffer, size_t bytes)
{
    (void)peer, (void)tag, (void)buffer, (void)bytes;
    part->state = SHUNT_NET_FAILED;
}

void shunt_net_receive(struct shunt_net_part *part, int peer, struct shunt_net_tag tag, void *buffer, size_t bytes)
{
    (void)peer, (void)tag, (void)buffer, (void)bytes;
    part->state = SHUNT_NET_FAILED;
}

void shunt_net_drop(int peer, struct shunt_net_tag tag)
{
    (void)peer, (void)tag;
}

void shunt_net_cancel(struct shunt_net_part *part)
{
    (void)part;
}

bool shunt_net_progress(void)
{
    return false;
}

void shunt_net_attend(bool parallel)
{
    (void)parallel;
}

void shunt_net_leave(bool parallel)
{
    (void)parallel;
}
