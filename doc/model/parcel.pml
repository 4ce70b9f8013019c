/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parcels (base/parcel.h) for spin: a sender sends P messages from one buffer through one place of its table, a receiver
 * takes them when it likes, fetches each from the buffer or from where the sender has moved it, or not at all for long.
 * Pulling and moving may fail. Checked in all interleavings: every message arrives with its own data, the receiver never
 * reads the buffer while it is the sender's again, and the sender is never held up by a receiver that does not come.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   NO_SWAP  the sender begins to move without a look whether the receiver pulls
 *   EARLY    the receiver fetches what is still being moved
 *   KEEP     who cannot pull says nothing
 */
#ifndef P
#define P 2
#endif

mtype = { FREE, EXPOSED, PULLING, WANTED, MOVING, MOVED, DONE };
mtype word = FREE;
byte buffer;   /* what the sender's buffer holds: 0 is rubbish */
byte copy;     /* what it has moved */
bit mine;      /* the buffer is the sender's */
byte sent, got;
bit over;      /* nothing more will be sent */
bit absent;    /* the receiver is held up until all has been sent */
chan descriptors = [P] of { byte };

inline give_back()
{
    mine = 1;
    buffer = 0;
}

proctype Sender()
{
    byte i = 1;
    bit failed;

    do
    :: i > P -> break
    :: i <= P ->
        /* a place is free again when the receiver has done with it */
        (word == FREE || word == DONE || absent);
        if
        :: word != FREE && word != DONE -> break /* no place: such a message goes another way */
        :: else
        fi;
        d_step { mine = 0; buffer = i; word = EXPOSED };
        descriptors ! i;
        sent++;
        failed = 0;
        do
        :: word == DONE -> break
        :: word == EXPOSED || word == WANTED ->
#ifdef NO_SWAP
            word = MOVING;
#else
            if
            :: atomic { word == EXPOSED || word == WANTED -> word = MOVING }
            :: atomic { word != EXPOSED && word != WANTED -> goto again }
            fi;
#endif
            if
            :: !failed -> failed = 1; word = EXPOSED /* there was no memory: try again later */
            :: copy = buffer; word = MOVED; break
            fi;
again:
            skip
        od;
        give_back();
        i++
    od;
    over = 1;
    absent = 0
}

proctype Receiver()
{
    byte wanted, data;
    bit failed;

    if
    :: absent = 1
    :: skip
    fi;
    (!absent);
    do
    :: descriptors ? wanted ->
        data = 0;
        failed = 0;
        do
        :: atomic { word == EXPOSED && !failed -> word = PULLING };
            if
            :: assert(!mine); data = buffer; assert(!mine); word = DONE; break
            :: failed = 1;
#ifdef KEEP
                skip
#else
                word = WANTED
#endif
            fi
#ifdef EARLY
        :: word == MOVING -> data = copy; word = DONE; break
#endif
        :: word == MOVED -> data = copy; word = DONE; break
        :: atomic { word == EXPOSED && failed -> word = WANTED }
        od;
        assert(data == wanted);
        got++
    :: over && empty(descriptors) -> break
    od;
    assert(got == sent)
}

init
{
    atomic { run Sender(); run Receiver() }
}
