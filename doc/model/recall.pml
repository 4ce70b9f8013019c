/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation that runs, and of which some kernels may find no room on their GPU, for spin: called back, staged after all,
 * as base/board.c (rule 5a), cuda/room.c, cuda/start.cuh and coll/run.c do it. Kernels begin when they like or never; a kernel
 * that has begun touches user memory once the words of all have come, or leaves because they have not. Checked in all
 * interleavings: all members run the operation or all stage it, user memory of a staged one is never touched, also not by
 * a kernel that begins late, and nobody waits for ever.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   NO_KEY     a kernel does not look whether it has been called back
 *   NO_PAUSE   the host looks at once whether the kernel has begun
 *   EAGER      a member yields whose kernel has not left
 *   ENDED      who leaves an operation that it has ended does not take the question back
 *
 * With ROOTED rank 0 sends and the others only receive from it, all of which can be done twice. There the rule is:
 *   LEAVES     who has ended its part leaves, though there are ranks from which it hears nothing, and that have not ended theirs
 *
 * With WRITERS who has ended its part waits until all have, since they write to it, and refuses to stage meanwhile. There the rule is:
 *   PATIENT    it does not refuse
 */
#ifndef N
#define N 2 /* 3 takes a minute */
#endif

#define RUN   0
#define ASKED 1
#define STAGE 2
byte word;    /* of the operation */
byte left;    /* members that have ended and left it */
bit yielded[N], sent[N], key[N], begun[N], between[N], touched[N];
bit launched[N];
mtype = { NOTHING, OK, AGAIN };
mtype answer[N];
bit ran, staged; /* some member has seen */

#if N == 2
#define ALL(x) (x[0] && x[1])
#define ANY(x) (x[0] || x[1])
#else
#define ALL(x) (x[0] && x[1] && x[2])
#define ANY(x) (x[0] || x[1] || x[2])
#endif

#if defined ROOTED || defined WRITERS
bit done[N]; /* on the cards */
#endif
#ifndef ROOTED
#define HEARD(r)  ALL(sent)
#ifdef WRITERS
#define MAY_LEAVE ALL(done)
#else
#define MAY_LEAVE true
#endif
#define REPEATED  (!ANY(touched))
#else
#define HEARD(r) (r == 0 || sent[0])
#define REPEATED true
#ifdef LEAVES
#define MAY_LEAVE true
#elif N == 2
#define MAY_LEAVE (r == 1 || done[1])
#else
#define MAY_LEAVE ((r == 1 || done[1]) && (r == 2 || done[2]))
#endif
#endif

proctype Kernel(byte r)
{
    bit called;
end:
    do
    :: launched[r] && answer[r] == NOTHING ->
        /* between: it has begun, but its word has not arrived yet. That takes less time than the pause */
        between[r] = 1;
        called = key[r];
        atomic { begun[r] = 1; between[r] = 0 }
#ifdef NO_KEY
        called = 0;
#endif
        sent[r] = 1;
        if
        :: HEARD(r) && !called -> atomic { touched[r] = 1; assert(!staged) } answer[r] = OK
        :: HEARD(r) && called -> answer[r] = AGAIN
        :: !HEARD(r) -> answer[r] = AGAIN
        fi
    od
}

inline yield()
{
    yielded[r] = 1;
    atomic {
        if
        :: ALL(yielded) && word == ASKED -> word = STAGE
        :: else
        fi
    }
}

proctype Host(byte r)
{
    bit mine;
    launched[r] = 1;
    do
    :: word == STAGE -> atomic { staged = 1; assert(!ran && REPEATED) } break
#ifdef ROOTED
    :: !mine && answer[r] == OK && !done[r] -> done[r] = 1
    :: !mine && answer[r] == OK && done[r] && word == ASKED -> mine = 1
#endif
#ifdef WRITERS
    :: !mine && answer[r] == OK && !done[r] -> done[r] = 1
#ifndef PATIENT
    :: !mine && answer[r] == OK && done[r] && word == ASKED -> atomic {
            if
            :: word == ASKED -> word = RUN
            :: else
            fi
        }
#endif
#endif
#if defined ROOTED || defined WRITERS
    :: !mine && answer[r] == OK && done[r] && MAY_LEAVE -> atomic {
#else
    :: !mine && answer[r] == OK -> atomic {
#endif
            left++;
#ifndef ENDED
            if
            :: word == ASKED -> word = RUN
            :: else
            fi;
#endif
            ran = 1;
            assert(!staged)
        }
        break
    :: !mine && answer[r] == AGAIN && word == RUN -> atomic { begun[r] = 0; key[r] = 0; answer[r] = NOTHING } /* launched again */
    :: !mine && answer[r] == AGAIN && word == ASKED -> mine = 1
#ifdef EAGER
    :: !mine && word == ASKED -> mine = 1
#endif
    :: !mine && answer[r] == NOTHING && !key[r] ->
        key[r] = 1;
        if
#ifdef NO_PAUSE
        :: true
#else
        :: !between[r] /* the pause */
#endif
        fi;
        if
        :: begun[r]
        :: !begun[r] ->
            atomic {
                if
                :: word == RUN && left == 0 -> word = ASKED
                :: else
                fi;
                mine = (word == ASKED)
            }
        fi
    :: mine && word == ASKED && !yielded[r] -> yield()
    :: mine && word == ASKED && yielded[r] && ALL(yielded) -> yield()
    :: mine && word == RUN -> mine = 0
    od
}

init {
    byte i;
    atomic {
        do
        :: i < N ->
            answer[i] = NOTHING;
            if /* the last may never find room */
            :: run Kernel(i)
            :: i == N - 1
            fi;
            run Host(i);
            i++
        :: else -> break
        od
    }
}
