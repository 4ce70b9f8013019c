/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until an operation is decided.
 *
 * Each process has a word in the arena: bit 0 says that its thread sleeps or is about to, the rest counts what it has been
 * woken for. The sleeper sets the bit, then looks at its operations, then sleeps as long as the word is the same. Who has
 * decided counts up, and makes a system call only if it finds the bit. Both changes are read-modify-writes of one word, so
 * either the sleeper's look comes after the decision, or the word is another one than it sleeps on (doc/model/doze.pml).
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/board_inner.h"

enum { DOZING = 1, WOKEN = 2 };

uint32_t shunt_arena_doze(struct shunt_arena *arena)
{
    /* Sequentially consistent, as below: what the sleeper looks at next is as new as this. */
    return atomic_fetch_or(&shared_proc(arena->shared, arena->self)->doze, DOZING) | DOZING;
}

void shunt_arena_sleep(struct shunt_arena *arena, uint32_t word, uint64_t ns)
{
    struct timespec most = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
    int saved = errno;

    /* Not a private one: other processes wake it. */
    syscall(SYS_futex, &shared_proc(arena->shared, arena->self)->doze, FUTEX_WAIT, word, ns != 0 ? &most : NULL, NULL, 0);
    errno = saved;
}

void shunt_arena_wake(struct shunt_arena *arena, int slot)
{
    _Atomic uint32_t *word = &shared_proc(arena->shared, slot)->doze;
    uint32_t found = atomic_load(word);
    int saved = errno;

    /* The bit goes, so that of many who decide only one makes the call. */
    while (!atomic_compare_exchange_weak(word, &found, (found + WOKEN) & ~(uint32_t)DOZING))
        ;
    if (found & DOZING)
        syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

void shunt_board_rouse(struct shunt_board *board, const uint16_t *post)
{
    for (int i = 0; i < board->n; i++) {
        if (i != board->me && (post_at(board, post, i)->post.flags & SHUNT_POST_WAKE))
            shunt_arena_wake(board->arena, board->slots[i]);
    }
}
