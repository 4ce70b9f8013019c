/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of a kernel that stays for messages with its host, for spin: orders for one block or for two, leaving, and
 * the launch of the next kernel, as cuda/orders.c, cuda/fetcher.c and cuda/stay.cuh do them. Checked in all interleavings: each
 * block does its part of every fetch exactly once, and nobody waits for ever.
 *
 * Block 0 reads the host's orders and passes on to block 1 what concerns that. The GPU has room for one block or for both, and
 * begins with any. An order has two words that become visible in any order; so does what the kernel says of itself, which
 * waits in a buffer of one place until a fence, the kernel's end, or until it drains by itself.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   NO_HOST_FENCE    the host looks at the state without a fence after its order
 *   NO_KERNEL_FENCE  block 0 looks for an order without a fence after LEAVING
 *   NO_SECOND_LOOK   it leaves without looking again
 *   NO_NUMBER        the host takes GONE alone for "nobody has taken the order"
 *   NO_OWN           the host takes what the kernel before has said for the word of this one
 *   HEAD_ALONE       who finds the number in one word of an order does not look for it in the other
 *   UNLED            block 1 stays without having seen that block 0 has begun
 *   UNASKED          the host orders something from blocks without looking whether they have stayed
 *   UNSAID           block 0 leaves without passing that on
 *   UNREPEATED       the host waits for a fetch of which a kernel that has ended has left something undone: block 0 may pass
 *                    an order on, and then that it leaves, before block 1 looks
 */
#ifndef S
#define S 3 /* fetches */
#endif

#define ALIVE   1
#define LEAVING 2
#define GONE    3

/* A state: the last order taken, the number of the launch, a word. */
#define STATE(taken, launch, word) ((taken) << 6 | (launch) << 2 | (word))
#define WORD(state)                ((state) & 3)
#define LAUNCH(state)              ((state) >> 2 & 15)
#define TAKEN(state)               ((state) >> 6)

/* Pinned memory. */
byte head, body;  /* the numbers in the words of the order */
short state;
byte done[2];     /* of each block: the last launch or order of which it has done its part, ... */
bit stays[2];     /* ... and whether it waits for the next one */

/* Stores under way; 0: none. */
byte head_buffer, body_buffer;
short state_buffer;

/* What the data of an order say, which count if its numbers do: how many blocks do it; 0: leave. */
byte blocks;

/* Device memory. */
byte leads;       /* the last launch whose block 0 has begun, and stays */
byte relay;       /* the number of what block 0 has passed on, */
byte relay_blocks;

byte room;        /* blocks that the GPU can begin now */
byte ended;       /* blocks that have */

bit part[2];      /* of the fetch under way: who has done his */

/* What drains by itself, at any time. */
active proctype memory()
{
end:
    do
    :: atomic { body_buffer != 0 -> body = body_buffer; body_buffer = 0 }
    :: atomic { head_buffer != 0 -> head = head_buffer; head_buffer = 0 }
    :: atomic { state_buffer != 0 -> state = state_buffer; state_buffer = 0 }
    od
}

inline do_part(b, number, on)
{
    atomic { assert(!part[b]); part[b] = 1 }
    atomic { done[b] = number; stays[b] = on }
}

inline say(taken, word)
{
    atomic { state_buffer == 0 -> state_buffer = STATE(taken, launch, word) }
}

#ifndef HEAD_ALONE
#define IS_THERE(number) (head == (number) && body == (number))
#else
#define IS_THERE(number) (head == (number))
#endif

inline take(number)
{
    atomic { number++; assert(body == number); n = blocks }
}

/* The kernels of a stream begin one after the other. */
inline begin()
{
    atomic { ended >= 2 * before && room > 0 -> room-- }
}

proctype leader(byte launch; byte before; bit window)
{
    byte number = launch, n;
    bit leaves;

    begin();
    if
    :: window -> leads = launch
    :: else
    fi;
    do_part(0, number, window);
    do
    :: !window -> break
    :: else ->
        if
        :: IS_THERE(number + 1) -> take(number)
        :: true -> /* the window is over */
            say(number, LEAVING);
#ifndef NO_KERNEL_FENCE
            state_buffer == 0;
#endif
            if
#ifndef NO_SECOND_LOOK
            :: IS_THERE(number + 1) -> take(number); say(number, ALIVE)
            :: !IS_THERE(number + 1) -> leaves = 1; n = 0
#else
            :: leaves = 1; n = 0
#endif
            fi
        fi;
        if
        :: n == 1
#ifdef UNSAID
        :: n == 0
        :: n == 2
#else
        :: n != 1
#endif
            -> atomic { relay = number + leaves; relay_blocks = n }
        fi;
        if
        :: n == 0 -> say(number, GONE); break
        :: else -> do_part(0, number, 1)
        fi
    od;
    atomic { state_buffer == 0; room++; ended++ }
}

proctype follower(byte launch; byte before; bit window; bit has_piece)
{
    byte number = launch, n;
    bit on;

    begin();
    if
    :: !window /* not at all */
#ifndef UNLED
    :: window && leads == launch -> on = 1
#else
    :: window -> on = 1
#endif
    :: window /* block 0 has not come for long */
    fi;
    if
    :: has_piece -> do_part(1, number, on)
    :: else -> atomic { done[1] = number; stays[1] = on }
    fi;
    do
    :: !on -> break
    :: else ->
        atomic { relay > number -> number = relay; n = relay_blocks }
        if
        :: n == 0 -> break
        :: else -> do_part(1, number, 1)
        fi
    od;
    atomic { room++; ended++ }
}

/* After an order: has the kernel taken it, or will it? */
#ifndef NO_OWN
#define SAID (LAUNCH(state) == launch -> WORD(state) : ALIVE)
#else
#define SAID (state != 0 -> WORD(state) : ALIVE)
#endif

inline order(n, quit)
{
    number++;
    atomic { head_buffer == 0 && body_buffer == 0 -> blocks = n; head_buffer = number; body_buffer = number }
#ifndef NO_HOST_FENCE
    head_buffer == 0 && body_buffer == 0;
#endif
    if
    :: SAID == ALIVE && !quit -> taken = 1
#ifndef NO_NUMBER
    :: atomic { SAID == GONE -> alive = 0; taken = (TAKEN(state) == number) }
#else
    :: atomic { SAID == GONE -> alive = 0; taken = 0 }
#endif
    fi /* LEAVING: it will be one of the two */
}

#define HAS_STAYED(b) (done[b] >= launch && stays[b])
#ifndef UNASKED
#define HAVE_STAYED   (HAS_STAYED(0) && (want == 1 || HAS_STAYED(1)))
#else
#define HAVE_STAYED   HAS_STAYED(0)
#endif

#define IS_DONE (done[0] >= number && (want == 1 || done[1] >= number))

active proctype host()
{
    byte number, launch, kernels, fetches, want;
    bit alive, taken, window;

    if
    :: room = 1
    :: room = 2
    fi;
    do
    :: fetches == S -> break
    :: else ->
        atomic { fetches++; part[0] = 0; part[1] = 0; taken = 0 }
        if
        :: want = 1
        :: want = 2
        fi;
        if
        :: alive && HAVE_STAYED -> order(want, 0)
        :: alive && !HAVE_STAYED -> order(0, 1); taken = 0
        :: !alive
        fi;
        if
        :: taken
        :: else ->
            if
            :: window = 0
            :: window = 1
            fi;
            atomic {
                number++;
                launch = number;
                alive = window;
                run leader(launch, kernels, window);
                run follower(launch, kernels, window, want == 2);
                kernels++
            }
        fi;
        if
        :: IS_DONE -> assert(part[0] && (want == 1 || part[1]))
#ifndef UNREPEATED
        :: atomic {
               ended == 2 * kernels && !IS_DONE ->
               assert(done[0] >= number && stays[1]); /* that is the one reason for it */
               alive = 0 /* and once more, by copies */
           }
#endif
        fi
    od;
    if
    :: alive -> order(0, 1)
    :: else
    fi;
    ended == 2 * kernels
}
