/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One board, for spin: arrival, veto, decision and reuse of entries, as base/board.c does them. Every rank chooses
 * freely between host and device memory, and whether it vetoes. Checked in all interleavings: all members come to the
 * same decision, nobody reads another operation's post, an operation with a host rank does not run, one that nobody
 * doubted does, and nobody waits for ever.
 *
 * A wait is a guard that opens when what it waits for can have changed, so that waiting for ever is a deadlock, which
 * spin reports. Plain and releasing stores wait in a buffer of one place for each rank, and become visible at any time
 * after, but before the rank's next store or compare-and-swap: so later loads of the rank may come before them.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   CARELESS     a compare-and-swap that does not wait for the rank's earlier stores
 *   PASS_FIRST   the counter before the arrival
 *   RELOAD       staged from another word than the one read before the counters
 *   FREE_EARLY   the first to leave frees the entry
 *   LATE_VETO    a veto counts after the decision too
 */
#ifndef N
#define N 3 /* ranks */
#endif
#ifndef S
#define S 3 /* operations */
#endif
#ifndef E
#define E 2 /* entries of the ring */
#endif

#define FREE      0
#define UNDECIDED 1
#define STAGE     2
#define RUN       3

#define WORD(lap, staged, state, left, arrived) ((lap) << 8 | (staged) << 7 | (state) << 5 | (left) << 3 | (arrived))
#define ARRIVED(w) ((w) & 7)
#define LEFT(w)    ((w) >> 3 & 3)
#define STATE(w)   ((w) >> 5 & 3)
#define STAGED(w)  ((w) >> 7 & 1)
#define LAP(w)     ((w) >> 8)
#define ALL        ((1 << N) - 1)

short word[E];
byte passed[N];
byte post[E * N];  /* the operation, plus 1, that the rank's place in the entry is for */
bit launch_lock;
byte tickets;
byte verdict[E];   /* the ticket */

/* The store of each rank that is under way. */
mtype = { POST, PASSED, FREED };
mtype kind[N];
byte at[N];
short value[N];

/* What was seen, for the assertions. */
bit ran[S], stayed[S], doubted[S];
byte ticket_of[S];

#define MISSING(w, m) (!(ARRIVED(w) >> (m) & 1))
#define HOST(w, m)    (MISSING(w, m) && passed[m] > s)
#if N == 2
#define ANY_HOST(w) (HOST(w, 0) || HOST(w, 1))
#else
#define ANY_HOST(w) (HOST(w, 0) || HOST(w, 1) || HOST(w, 2))
#endif

#define STORE(what, where, number) atomic { kind[r] == 0 -> kind[r] = what; at[r] = where; value[r] = number }
#ifdef CARELESS
#define DRAINED true
#else
#define DRAINED (kind[r] == 0)
#endif

/* Compare and swap: ok, or w is the word now. */
#define SWAP(to)                                                                                   \
    atomic {                                                                                       \
        DRAINED;                                                                                   \
        if                                                                                         \
        :: word[e] == w -> word[e] = to; w = to; ok = 1                                            \
        :: else -> w = word[e]; ok = 0                                                             \
        fi                                                                                         \
    }

#define NOT_RUN() atomic { stayed[s] = 1; assert(!ran[s]) }

inline check_posts()
{
    atomic {
        m = 0;
        do
        :: m < N -> assert(post[e * N + m] == s + 1); m++
        :: else -> break
        od
    }
}

inline arrive()
{
    w = word[e];
    do
    :: (STATE(w) == FREE && !(LAP(w) == lap && STAGED(w))) || (STATE(w) == UNDECIDED && LAP(w) == lap) ->
        STORE(POST, e * N + r, s + 1);
        if
        :: STATE(w) == FREE -> to = WORD(lap, 0, UNDECIDED, 0, 1 << r)
        :: else -> to = w | 1 << r
        fi;
        SWAP(to);
        if
        :: ok -> in = 1; break
        :: else
        fi
    :: else ->
        in = 0;
        if
        :: LAP(w) != lap -> doubted[s] = 1 /* somebody has not left the entry's last operation yet */
        :: else
        fi;
        break
    od
}

inline decide()
{
    atomic { !launch_lock -> launch_lock = 1 };
    w = word[e];
    if
    :: STATE(w) == UNDECIDED ->
        check_posts();
        atomic { tickets++; verdict[e] = tickets };
        SWAP(WORD(lap, 0, RUN, 0, ALL))
    :: else
    fi;
    launch_lock = 0
}

/* One change to STAGE, from the word in w. */
inline stage()
{
    to = WORD(lap, 1, STAGE, LEFT(w), ARRIVED(w));
    SWAP(to)
}

inline wait_decision()
{
    do
    :: w = word[e];
        if
#ifdef LATE_VETO
        :: veto && STATE(w) == RUN -> stage(); break
#endif
        :: STATE(w) != UNDECIDED -> break
        :: else
        fi;
        if
        :: veto -> stage()
        :: !veto && ANY_HOST(w) ->
#ifdef RELOAD
            w = word[e];
            if
            :: STATE(w) == UNDECIDED -> stage()
            :: else
            fi
#else
            stage()
#endif
        :: !veto && !ANY_HOST(w) -> (word[e] != w || ANY_HOST(w))
        fi
    od
}

inline leave()
{
    do
    :: to = w + (1 << 3); /* left + 1 */
        SWAP(to);
        if
        :: ok -> break
        :: else
        fi
    od;
    m = LEFT(w);
    in = ARRIVED(w);
    /* how many arrived */
    m = m - (in & 1) - (in >> 1 & 1) - (in >> 2 & 1);
#ifdef FREE_EARLY
    m = 0;
#endif
    if
    :: m == 0 -> STORE(FREED, e, WORD(LAP(w), STAGED(w), FREE, 0, 0))
    :: else
    fi
}

proctype Rank(byte r)
{
    short w, to;
    byte s, e, lap, m, in;
    bit ok, host, veto;
    do
    :: s < S ->
        atomic {
            e = s % E;
            lap = s / E;
            in = 0;
            if
            :: host = 1; doubted[s] = 1
            :: host = 0; veto = 1; doubted[s] = 1 /* something will go wrong on the device */
            :: host = 0; veto = 0
            fi
        }
        if
        :: !host ->
#ifdef PASS_FIRST
            STORE(PASSED, r, s + 1);
#endif
            arrive()
        :: else
        fi;
        STORE(PASSED, r, s + 1);
        if
        :: !in -> NOT_RUN()
        :: else ->
            if
            :: ARRIVED(w) == ALL && STATE(w) == UNDECIDED -> decide()
            :: else
            fi;
            wait_decision();
            if
            :: STATE(w) == RUN ->
                check_posts();
                atomic {
                    ran[s] = 1;
                    assert(!stayed[s]);
                    assert(ticket_of[s] == 0 || ticket_of[s] == verdict[e]);
                    ticket_of[s] = verdict[e];
                    assert(s == 0 || ticket_of[s] > ticket_of[s - 1])
                }
            :: else -> NOT_RUN()
            fi;
            leave()
        fi;
        s++
    :: else -> break
    od
}

#define DRAIN(m)                                                                                   \
    atomic {                                                                                       \
        kind[m] != 0 ->                                                                            \
        if                                                                                         \
        :: kind[m] == POST -> post[at[m]] = value[m]                                               \
        :: kind[m] == PASSED -> passed[at[m]] = value[m]                                           \
        :: kind[m] == FREED -> word[at[m]] = value[m]                                              \
        fi;                                                                                        \
        kind[m] = 0; at[m] = 0; value[m] = 0                                                       \
    }

active proctype memory()
{
end:
    do
    :: DRAIN(0)
    :: DRAIN(1)
#if N > 2
    :: DRAIN(2)
#endif
    od
}

init {
    byte i;
    atomic {
        do
        :: i < N -> run Rank(i); i++
        :: else -> break
        od
    }
    /* all have ended: what nobody doubted has run, and the ring is free */
#if N == 2
    (_nr_pr == 2 && kind[0] == 0 && kind[1] == 0);
#else
    (_nr_pr == 2 && kind[0] == 0 && kind[1] == 0 && kind[2] == 0);
#endif
    i = 0;
    do
    :: i < S -> assert(doubted[i] || ran[i]); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < E -> assert(STATE(word[i]) == FREE); i++
    :: else -> break
    od
}
