/* SPDX-License-Identifier: BSD-3-Clause */
/* Orders to kernels that wait for them; orders.h. */
#include "cuda/orders.h"

#include <string.h>

#include "base/board.h"
#include "cuda/fetch_args.h"
#include "cuda/kargs.h"

/* Looks at a state that does not change, between two questions to the driver. */
#define LOST_LOOKS 4096

enum { ALIVE = 1, GONE = 3 }; /* words of a state; the other is LEAVING */
_Static_assert((int)SHUNT_LINGER_ALIVE == ALIVE && (int)SHUNT_LINGER_GONE == GONE, "one set of words");
_Static_assert((int)SHUNT_STAY_ALIVE == ALIVE && (int)SHUNT_STAY_GONE == GONE, "one set of words");
_Static_assert(sizeof(struct shunt_order_word) == 16 && sizeof(struct shunt_fetch_word) == 16, "one form of words");

void shunt_orders_launched(struct shunt_orders *orders, uint32_t generation)
{
    orders->generation = generation & 0x3fffffff;
    orders->given = 0;
    atomic_store_explicit(&orders->alive, true, memory_order_relaxed);
}

static void write_words(const struct shunt_orders *orders, const void *data, unsigned n, uint32_t sequence)
{
    /* The first comes last, since who finds it looks for the others. */
    for (unsigned i = n; i-- > 0;) {
        uint32_t *word = orders->words + 4 * i;
        memcpy(word, (const char *)data + 12 * i, 12);
        /* Release: who sees the number sees the word's data; one read fetches both. */
        __atomic_store_n(&word[3], sequence, __ATOMIC_RELEASE);
    }
    /* Before the look at the state: see above. */
    atomic_thread_fence(memory_order_seq_cst);
}

/* What the kernel has said last; ALIVE: nothing yet. */
static unsigned word_of(const struct shunt_orders *orders, uint64_t state)
{
    return (uint32_t)state >> 2 == orders->generation ? state & 3 : ALIVE;
}

/* After an order: has the kernel taken it, or will it? `quit`: it was to leave, which is waited for. */
static bool was_taken(struct shunt_orders *orders, uint32_t sequence, bool quit, CUstream stream)
{
    unsigned spins = 0;

    for (uint32_t looks = 1;; looks++) {
        /*
         * A kernel that has ended without a word, with its context or by a fault, will not say any more. Asked before
         * the look, which then sees what one that has ended in order said last.
         */
        bool ended = looks % LOST_LOOKS == 0 && shunt_driver.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
        uint64_t state = atomic_load_explicit(orders->state, memory_order_acquire);
        unsigned word = word_of(orders, state);
        if (word == ALIVE && !quit && !ended)
            return true;
        if (word == GONE || ended) {
            atomic_store_explicit(&orders->alive, false, memory_order_relaxed);
            return word == GONE && state >> 32 == sequence;
        }
        shunt_board_relax(&spins);
    }
}

bool shunt_orders_give(struct shunt_orders *orders, const void *data, unsigned n, uint32_t sequence, CUstream stream)
{
    orders->given++;
    write_words(orders, data, n, sequence);
    return was_taken(orders, sequence, false, stream);
}

void shunt_orders_quit(struct shunt_orders *orders, const void *data, unsigned n, uint32_t sequence, CUstream stream)
{
    write_words(orders, data, n, sequence);
    was_taken(orders, sequence, true, stream);
}
