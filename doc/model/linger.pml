/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of a kernel that lingers with its host, for spin: orders, leaving, and the launch of the next kernel, as
 * cuda/orders.c and cuda/linger.cuh do them. Checked in all interleavings: every operation is done exactly once, in order,
 * and nobody waits for ever.
 *
 * Each side's store waits in a buffer of one place until a fence, or until it drains by itself: so a store may become
 * visible after a later load of the same side, which is what this handshake must bear.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   NO_HOST_FENCE    the host looks at the state without a fence after its order
 *   NO_KERNEL_FENCE  the kernel looks for an order without a fence after LEAVING
 *   NO_SECOND_LOOK   the kernel leaves without looking again
 *   NO_NUMBER        the host takes GONE alone for "nobody has taken the order"
 */
#ifndef S
#define S 4 /* operations */
#endif

#define ALIVE   1
#define LEAVING 2
#define GONE    3

/* A state with the number of the last order that the kernel has taken. */
#define STATE(taken, word) ((taken) << 2 | (word))
#define WORD(state)        ((state) & 3)
#define TAKEN(state)       ((state) >> 2)

byte order;           /* number of the last order */
byte state;
byte done;            /* operations done */
bit running;          /* a kernel is */

byte order_buffer;    /* the host's store under way; 0: none */
byte state_buffer;    /* the kernel's */

/* What drains by itself, at any time. */
active proctype memory()
{
end:
    do
    :: atomic { order_buffer != 0 -> order = order_buffer; order_buffer = 0 }
    :: atomic { state_buffer != 0 -> state = state_buffer; state_buffer = 0 }
    od
}

inline say(s)
{
    atomic { state_buffer == 0 -> state_buffer = STATE(number, s) }
}

/* A kernel, launched for operation `number`. */
proctype kernel(byte number)
{
    bit leaves = 0;

    assert(done == number - 1);
    done = number;
    do
    :: order == number + 1 -> number++; assert(done == number - 1); done = number
    :: true -> /* the window is over */
        say(LEAVING);
#ifndef NO_KERNEL_FENCE
        state_buffer == 0;
#endif
        if
#ifndef NO_SECOND_LOOK
        :: order == number + 1 ->
            number++;
            say(ALIVE);
            assert(done == number - 1);
            done = number
#endif
        :: order != number + 1 -> leaves = 1
#ifdef NO_SECOND_LOOK
        :: order == number + 1 -> leaves = 1
#endif
        fi;
        if
        :: leaves -> say(GONE); break
        :: else
        fi
    od;
    atomic { state_buffer == 0; running = 0 } /* the next kernel of the stream may begin */
}

inline launch(number)
{
    atomic { !running; state = STATE(0, ALIVE); running = 1; run kernel(number) }
}

active proctype host()
{
    byte next = 1;

    launch(next);
    done == next;
    do
    :: next == S -> break
    :: else ->
        next++;
        atomic { order_buffer == 0 -> order_buffer = next }
#ifndef NO_HOST_FENCE
        order_buffer == 0;
#endif
        if
        :: WORD(state) == ALIVE
#ifndef NO_NUMBER
        :: atomic { WORD(state) == GONE && TAKEN(state) != next -> launch(next) }
        :: WORD(state) == GONE && TAKEN(state) == next
#else
        :: WORD(state) == GONE -> launch(next)
#endif
        fi; /* LEAVING: it will be one of the two */
        done == next
    od
}
