/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a program attaches for buffered sends, where the host puts messages by the CPU. For device memory it gets host
 * memory of the same size instead, until the program takes its buffer back.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "cuda/gpu.h"
#include "mpi/classify.h"
#include "mpi/comm.h"
#include "mpi/life.h"

/* What the host has been lent in place of what; its memory comes right behind. */
struct loan {
    struct loan *next;
    void *program;
    max_align_t memory[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct loan *loans;

bool shunt_hook_lend_before(struct shunt_call *call, int *rc, void **kept)
{
    int saved = errno;
    bool device = call->count > 0 && !shunt_life_forked() && shunt_classify_device(call->recvbuf, call->count, MPI_BYTE);
    struct loan *loan = device ? malloc(sizeof *loan + (size_t)call->count) : NULL;

    errno = saved;
    if (!device)
        return false;
    if (!loan) {
        *rc = shunt_comm_fail(MPI_COMM_WORLD);
        return true;
    }
    loan->program = call->recvbuf;
    call->recvbuf = loan->memory;
    *kept = loan;
    return false;
}

void shunt_hook_lend_after(void *kept, int rc)
{
    struct loan *loan = kept;

    if (rc != MPI_SUCCESS) {
        free(loan);
        return;
    }
    pthread_mutex_lock(&lock);
    loan->next = loans;
    loans = loan;
    pthread_mutex_unlock(&lock);
}

void shunt_hook_regain_after(const struct shunt_call *call, int rc)
{
    void **buffer = call->recvbuf;
    struct loan *found = NULL;

    if (rc != MPI_SUCCESS || !buffer)
        return;
    pthread_mutex_lock(&lock);
    for (struct loan **at = &loans; *at && !found; at = &(*at)->next) {
        if ((void *)(*at)->memory == *buffer) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        return;
    *buffer = found->program;
    free(found);
}
