/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors for another process; see mailbox.h. */
#include "cuda/mailbox.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int))];
};

/* A name in the abstract namespace begins with a zero byte. */
static socklen_t name_of(const struct shunt_mailbox_address *address, struct sockaddr_un *name)
{
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "shunt-%016llx%016llx",
                     (unsigned long long)address->name[0], (unsigned long long)address->name[1]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int datagram_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

enum shunt_status shunt_mailbox_open(int *fd, struct shunt_mailbox_address *address)
{
    struct sockaddr_un name;

    if (getrandom(address, sizeof *address, GRND_NONBLOCK) != sizeof *address)
        return SHUNT_PASS;
    int box = datagram_socket();
    if (box >= 0 && bind(box, (struct sockaddr *)&name, name_of(address, &name)) == 0) {
        *fd = box;
        return SHUNT_OK;
    }
    shunt_info("cuda", "no mailbox for descriptors: %s", strerror(errno));
    if (box >= 0)
        close(box);
    return SHUNT_PASS;
}

enum shunt_status shunt_mailbox_send(const struct shunt_mailbox_address *to, struct shunt_letter *letter,
                                     int descriptor)
{
    union control control = {
        .align = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS }
    };
    struct iovec data = { letter, sizeof *letter };
    struct sockaddr_un name;
    struct msghdr message = { .msg_name = &name,
                              .msg_namelen = name_of(to, &name),
                              .msg_iov = &data,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof control };
    int box = datagram_socket();

    if (box < 0)
        return SHUNT_PASS;
    memcpy(letter->key, to->key, sizeof letter->key);
    memcpy(CMSG_DATA(&control.align), &descriptor, sizeof descriptor);
    enum shunt_status status = SHUNT_OK;
    if (sendmsg(box, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof *letter)
        status = errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS ? SHUNT_ERR_LIMIT : SHUNT_PASS;
    if (status == SHUNT_PASS)
        shunt_info("cuda", "a peer's mailbox cannot be reached: %s", strerror(errno));
    close(box);
    return status;
}

/* The one descriptor of a message, or -1. Others than the one that belongs there do not fit and are not received. */
static int descriptor_of(struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int descriptor = -1;

    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof descriptor))
        memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

bool shunt_mailbox_next(int fd, const struct shunt_mailbox_address *own, struct shunt_letter *letter, int *descriptor)
{
    for (;;) {
        union control control;
        struct iovec data = { letter, sizeof *letter };
        struct msghdr message = {
            .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
        };
        ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0)
            return false;
        *descriptor = descriptor_of(&message);
        if (got == sizeof *letter && memcmp(letter->key, own->key, sizeof letter->key) == 0 && *descriptor >= 0)
            return true;
        if (*descriptor >= 0)
            close(*descriptor);
    }
}
