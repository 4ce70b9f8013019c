/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors for another process: each that waits for some has a mailbox, a datagram socket with a random name in the
 * abstract namespace. Needs no privilege (no ptrace), leaves no file behind, and never blocks sender or receiver: a
 * descriptor lies in the socket until its receiver looks.
 *
 * Whoever shares the network namespace may send something. The key, which is known from the arena alone, tells whose
 * letters count; and the name cannot be somebody else's, since nobody can guess it before.
 */
#ifndef SHUNT_CUDA_MAILBOX_H
#define SHUNT_CUDA_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct shunt_mailbox_address {
    uint64_t name[2], key[2]; /* all zero: there is none */
};

/* What comes with a descriptor. */
struct shunt_letter {
    uint64_t key[2];
    int32_t slot;    /* of the sender */
    uint32_t number; /* of its registration */
};

/* Open this process's mailbox: once; *fd is to be closed with close(). */
enum shunt_status shunt_mailbox_open(int *fd, struct shunt_mailbox_address *address);

/*
 * Send a descriptor, which stays the caller's. letter->key is filled in. SHUNT_ERR_LIMIT: the mailbox is full, try
 * again later; SHUNT_PASS: there is no such mailbox, or it cannot be reached from here.
 */
enum shunt_status shunt_mailbox_send(const struct shunt_mailbox_address *to, struct shunt_letter *letter, int descriptor);

/* The next letter with its descriptor, now the caller's. False: there is none. What has not the key is thrown away. */
bool shunt_mailbox_next(int fd, const struct shunt_mailbox_address *own, struct shunt_letter *letter, int *descriptor);

#endif
