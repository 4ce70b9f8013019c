/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement across nodes, for spin, as coll/consent.c does it: three ranks on two nodes, {0, 1} and {2}, or with WIDE {0} and
 * {1, 2}. Every rank chooses freely between host and device memory for each operation; a thread of each process answers the
 * network. The host MPI's collective waits for all ranks, or (chosen freely) for none, so that ranks run ahead. Checked in all
 * interleavings: all ranks run an operation or all stage it, an operation with a host rank does not run, one without does, and
 * nobody waits for ever.
 *
 * How the ranks of a node meet is board.pml's matter; here a rank arrives or passes, and all see the same.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   UNSAID    a rank says that it is in an operation after it has advanced its counter
 *   SILENT    the coordinator does not ask those whose report is missing
 *   DEAF      who is ready for what the coordinator's rank has passed gets no answer
 *   LATER     a report of a later operation does not mean that the earlier ones were refused
 *   RETREAT   a rank may refuse after its node was reported ready
 */
#ifndef S
#define S 2 /* operations */
#endif
#define N 3
#ifdef WIDE
#define NODE(r)  ((r) > 0)
#define FIRST(r) ((r) < 2)
#define OTHER    1 /* the first rank of node 1 */
#define FULL(s, node) (node == 0 -> arrived[s] & 1 : (arrived[s] & 6) == 6)
#define HAS_HOST(s, node) (node == 0 -> passed(0, s) : passed(1, s) || passed(2, s))
#define MATES(r) ((r) == 1 -> 2 : N) /* whom a first rank tells; N: nobody */
#else
#define NODE(r)  ((r) > 1)
#define FIRST(r) ((r) != 1)
#define OTHER    2
#define FULL(s, node) (node == 0 -> (arrived[s] & 3) == 3 : arrived[s] & 4)
#define HAS_HOST(s, node) (node == 0 -> passed(0, s) || passed(1, s) : passed(2, s))
#define MATES(r) ((r) == 0 -> 1 : N)
#endif

mtype = { NONE, READY, REFUSED, ASK, COMMIT, ABORT };

byte steps[N];    /* the counters on the boards */
byte arrived[S];  /* by rank */
#define passed(r, s) (steps[r] > s && !(arrived[s] >> r & 1))

/* What the network's lock guards: each use is one step. */
bit pending[N];
byte sequence[N];
mtype decision[N];
byte asked[N];    /* sequence + 1 of a question that is not answered yet */
byte after;       /* the coordinator's latest report of the other node: sequence + 1 */
bit ready, answered;
chan inbox[N] = [5] of { mtype, byte };

bool waits;       /* the host MPI, for all */
byte hosted[S], running[S];
bool ran[S], staged[S], doubted[S];

/* In no operation that it has passed. */
#define HAS_PASSED(r, s) (steps[r] > s && !(pending[r] && sequence[r] == s))
#define MUST_ANSWER(r) (asked[r] != 0 && HAS_PASSED(r, asked[r] - 1))
#define MUST_ABORT(r)  (r == 0 && after != 0 && ready && !answered && HAS_PASSED(0, after - 1))

inline settle(r)
{
    if
    :: MUST_ANSWER(r) -> inbox[0]!REFUSED, asked[r] - 1; asked[r] = 0
    :: else
    fi;
#ifndef DEAF
    if
    :: MUST_ABORT(r) -> answered = 1; inbox[OTHER]!ABORT, after - 1
    :: else
    fi;
#endif
}

proctype Network(byte r)
{
    mtype kind;
    byte s;
end:
    do
    :: atomic {
        inbox[r]?kind, s ->
        if
        :: (kind == READY || kind == REFUSED) && s + 1 >= after -> after = s + 1; ready = (kind == READY); answered = 0
        :: kind == ASK -> asked[r] = s + 1
        :: (kind == COMMIT || kind == ABORT) && pending[r] && sequence[r] == s && decision[r] == NONE -> decision[r] = kind
        :: else
        fi;
        settle(r);
        kind = NONE;
        s = 0
       }
#ifdef DEAF
    :: atomic { MUST_ANSWER(r) -> settle(r) }
#else
    :: atomic { MUST_ANSWER(r) || MUST_ABORT(r) -> settle(r) }
#endif
    od
}

inline stage(s)
{
    atomic { staged[s] = 1; assert(!ran[s]); hosted[s]++ }
    if
    :: !waits
    :: hosted[s] == N
    fi
}

inline end_pending(r, s)
{
    atomic {
        pending[r] = 0;
        if
        :: asked[r] == s + 1 && decision[r] != NONE -> asked[r] = 0
        :: else
        fi;
        settle(r)
    }
}

#ifdef LATER
#define IS_REPORTED(s) (after == s + 1)
#else
#define IS_REPORTED(s) (after > s)
#endif

/* The coordinator, whose node is ready. */
inline coordinate(s)
{
    questions = 0;
    do
    :: decision[0] != NONE -> break
    :: atomic {
        decision[0] == NONE && IS_REPORTED(s) ->
        if
        :: after > s + 1 -> decision[0] = ABORT
        :: after == s + 1 && !ready -> decision[0] = ABORT
        :: after == s + 1 && ready -> decision[0] = COMMIT; answered = 1; inbox[OTHER]!COMMIT, s
        fi
       }
#ifndef SILENT
    :: atomic { after <= s && questions < 2 -> questions++; inbox[OTHER]!ASK, s }
#endif
    od
}

proctype Rank(byte r)
{
    byte s, questions;
    mtype what;
    do
    :: s == S -> break
    :: s < S -> /* on host memory */
        atomic { doubted[s] = 1; steps[r]++ }
        stage(s);
        s++
    :: s < S -> /* on device memory */
#ifdef UNSAID
        atomic { decision[r] = NONE; arrived[s] = arrived[s] | 1 << r }
        steps[r]++;
        atomic { sequence[r] = s; pending[r] = 1 }
#else
        atomic { sequence[r] = s; pending[r] = 1; decision[r] = NONE }
        atomic { arrived[s] = arrived[s] | 1 << r }
        steps[r]++;
#endif
        if
        :: HAS_HOST(s, NODE(r)) ->
            if
            :: FIRST(r) && r != 0 -> inbox[0]!REFUSED, s
            :: else
            fi;
            end_pending(r, s);
            what = ABORT
        :: FULL(s, NODE(r)) ->
            if
            :: r == 0 -> coordinate(s)
            :: r != 0 ->
                if
                :: r == OTHER -> inbox[0]!READY, s
                :: else
                fi;
                if
                :: decision[r] != NONE
#ifdef RETREAT
                :: atomic { decision[r] == NONE -> decision[r] = ABORT }
#endif
                fi
            fi;
            what = decision[r];
            if
            :: MATES(r) < N -> inbox[MATES(r)]!what, s
            :: else
            fi;
            end_pending(r, s)
        fi;
        if
        :: what == COMMIT ->
            atomic { ran[s] = 1; assert(!staged[s] && !doubted[s]); running[s]++ }
            running[s] == N
        :: else ->
            atomic { assert(doubted[s]) }
            stage(s)
        fi;
        s++;
        questions = 0
    od
}

init {
    byte i;
    atomic {
        if
        :: waits = true
        :: waits = false
        fi;
        do
        :: i < N -> decision[i] = NONE; run Network(i); run Rank(i); i++
        :: else -> break
        od
    }
}
