/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until an operation is decided, for spin, as base/doze.c and coll/helper.c do it: a thread that drives operations,
 * and deciders that wake it. Checked in all interleavings: it does not sleep for ever while something is decided that it has not
 * launched.
 *
 * A sleep is a guard that opens when the thread has been woken, so that sleeping for ever is a deadlock, which spin reports.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   LOOK_FIRST   the look at the operations before the word says that the thread is about to sleep
 *   QUIET        who decides leaves the word as it is, it only wakes who sleeps already
 *   STALE        the thread sleeps on the word as it is then, not as it was before its look
 */
#define OPERATIONS 3

bit decided[OPERATIONS];
byte launched;
byte word;    /* 2 * how often woken, plus 1: the thread sleeps or is about to */
bit sleeping; /* in the system call */

#define DOZING 1

proctype Decider(byte s)
{
    byte found;
    decided[s] = 1;
    atomic {
        found = word;
#ifndef QUIET
        word = (word & 254) + 2
#endif
    }
    if
    :: found & DOZING -> sleeping = 0 /* the system call wakes whoever is in its own by now */
    :: else
    fi
}

active proctype Helper()
{
    byte seen, s;
    do
    :: launched == OPERATIONS -> break
    :: else ->
#ifndef LOOK_FIRST
        atomic { word = word | DOZING; seen = word };
#endif
        s = 0;
        do
        :: s < OPERATIONS ->
            if
            :: decided[s] == 1 -> decided[s] = 0; launched++
            :: else
            fi;
            s++
        :: else -> break
        od;
#ifdef LOOK_FIRST
        atomic { word = word | DOZING; seen = word };
#endif
#ifdef STALE
        seen = word;
#endif
        if
        :: launched == OPERATIONS -> break
        :: else
        fi;
        /* The kernel compares and goes to sleep in one. */
        atomic {
            if
            :: word == seen -> sleeping = 1
            :: else
            fi
        };
        !sleeping
    od
}

init {
    byte s;
    atomic {
        do
        :: s < OPERATIONS -> run Decider(s); s++
        :: else -> break
        od
    }
}
