/* SPDX-License-Identifier: BSD-3-Clause */
/* Parcels for other nodes: start and end, and what is told by notes; distant.h. */
#include "pt2pt/distant.h"

#include <stdlib.h>
#include <string.h>

#include "pt2pt/distant_inner.h"

struct distant distant;

void distant_write(int peer, const struct distant_letter *letter)
{
    struct distant_letter sent = *letter;

    sent.token = distant.token[0];
    shunt_net_note(peer, SHUNT_NET_MESSAGES, &sent, sizeof sent);
}

static void drop_pieces(int peer, uint64_t number, uint32_t pieces)
{
    for (uint32_t i = 0; i < pieces; i++)
        shunt_net_drop(peer, distant_tag(number, i));
}

/* The network's hook: under its lock, in any thread. */
static void hear(int from, const void *note, size_t bytes)
{
    struct distant_letter letter;

    if (bytes != sizeof letter || distant.peers == NULL || from >= distant.n)
        return;
    memcpy(&letter, note, sizeof letter);
    if (letter.token != distant.token[0])
        return;
    switch (letter.kind) {
    case DISTANT_ASK:
        distant.peers[from].curious = !distant.accepts;
        if (distant.accepts)
            distant_write(from, &(struct distant_letter){ .kind = DISTANT_TAKES });
        break;
    case DISTANT_TAKES: distant.peers[from].takes = true; break;
    case DISTANT_OLDEST: distant_answer(from, &letter); break;
    case DISTANT_IS:
        if (letter.question == distant.oldest.question) {
            distant.oldest.number = letter.number;
            distant.oldest.bytes = letter.bytes;
            distant.oldest.answered = true;
        }
        break;
    case DISTANT_GOT: distant_end(from, letter.number); break;
    case DISTANT_GONE: drop_pieces(from, letter.number, letter.pieces); break;
    default: break;
    }
}

void shunt_distant_start(int n, int self, const uint64_t token[2])
{
    struct distant_peer *peers = calloc((size_t)n, sizeof *peers);

    shunt_net_lock();
    if (peers != NULL) {
        distant.n = n;
        distant.self = self;
        memcpy(distant.token, token, sizeof distant.token);
        distant.peers = peers;
    }
    shunt_net_unlock();
    shunt_net_hear(SHUNT_NET_MESSAGES, hear);
}

/* What is still under way is lost with the network; what it might look at stays. */
void shunt_distant_stop(void)
{
    if (distant.peers == NULL)
        return;
    shunt_net_hear(SHUNT_NET_MESSAGES, NULL);
    shunt_net_lock();
    free(distant.peers);
    distant.peers = NULL;
    distant.accepts = false;
    shunt_net_unlock();
}

void shunt_distant_accept(void)
{
    if (distant.peers == NULL)
        return;
    shunt_net_lock();
    distant.accepts = true;
    for (int i = 0; i < distant.n; i++) {
        if (distant.peers[i].curious)
            distant_write(i, &(struct distant_letter){ .kind = DISTANT_TAKES });
        distant.peers[i].curious = false;
    }
    shunt_net_unlock();
}
