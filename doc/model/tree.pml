/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A board whose members arrive by a tree, for spin: two groups, {0, 1} and {2}, and a root, as base/tree.c does it. Every
 * rank chooses freely between host and device memory, and in the first operation whether it vetoes. Checked in all
 * interleavings: as in board.pml, all come to the same decision, nobody reads another operation's post, an operation with
 * a host rank does not run, one that nobody doubted does, and nobody waits for ever.
 *
 * Each change of a word is one step, and stores become visible in order: what store buffers do to arrival, counter and
 * post is board.pml's matter.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   NO_FIRST     nobody looks at the counter of another group's first member
 *   UNMARKED     a veto before the group has entered is not taken to the root
 *   EARLY        a group gives back its posts when its own members have left
 *   OPEN         who leaves a staged operation lets others arrive in the group still
 */
#ifndef S
#define S 2 /* operations */
#endif

#define FREE      0
#define UNDECIDED 1
#define STAGE     2
#define RUN       3

/* A group's word: arrived (2 bits, by place in the group), left (2), state (2), by (1), staged (1), lap */
#define GWORD(lap, staged, by, state, left, arrived) \
    ((lap) << 8 | (staged) << 7 | (by) << 6 | (state) << 4 | (left) << 2 | (arrived))
#define ARRIVED(w) ((w) & 3)
#define LEFT(w)    ((w) >> 2 & 3)
#define STATE(w)   ((w) >> 4 & 3)
#define BY(w)      ((w) >> 6 & 1)
#define STAGED(w)  ((w) >> 7 & 1)
#define LAP(w)     ((w) >> 8)

/* The root's: entered (2 bits), complete (2), left (2), state (2), staged (1), lap */
#define RWORD(lap, staged, state, left, complete, entered) \
    ((lap) << 9 | (staged) << 8 | (state) << 6 | (left) << 4 | (complete) << 2 | (entered))
#define ENTERED(w)  ((w) & 3)
#define COMPLETE(w) ((w) >> 2 & 3)
#define RLEFT(w)    ((w) >> 4 & 3)
#define RSTATE(w)   ((w) >> 6 & 3)
#define RSTAGED(w)  ((w) >> 8 & 1)
#define RLAP(w)     ((w) >> 9)

#define COUNT(mask) (((mask) & 1) + ((mask) >> 1 & 1))

/* One entry, so that each operation is a lap of its own. */
short group[2], root;
byte passed[3];
byte post[3]; /* the operation, plus 1; 0: given back */
byte verdict;

bool ran[S], stayed[S], doubted[S];

#define GROUP(m) ((m) >> 1)
#define PLACE(m) ((m) & 1)
#define FULL(g)  ((g) == 0 -> 3 : 1)

#define NOT_RUN() atomic { stayed[s] = 1; assert(!ran[s]) }

/*
 * A loop around a compare-and-swap changes the word that is there, whatever was read before: one step. w: a group's word as
 * the caller has left it, v: the root's.
 */
inline stage_root()
{
    atomic {
        if
        :: RSTATE(root) == UNDECIDED ->
            root = RWORD(RLAP(root), 1, STAGE, RLEFT(root), COMPLETE(root), ENTERED(root))
        :: else
        fi
    }
}

inline veto()
{
    atomic {
        w = group[g];
        if
        :: !BY(w) && STATE(w) == UNDECIDED -> group[g] = GWORD(LAP(w), 1, 0, STAGE, LEFT(w), ARRIVED(w))
        :: else
        fi
    }
    if
    :: BY(w) -> stage_root()
    :: else
    fi
}

/* in: the group has entered. */
inline enter_root()
{
    atomic {
        v = root;
        if
        :: RSTATE(v) == FREE && !(RLAP(v) == lap && RSTAGED(v)) -> root = RWORD(lap, 0, UNDECIDED, 0, 0, 1 << g)
        :: RSTATE(v) == UNDECIDED && RLAP(v) == lap -> root = v | 1 << g
        :: else ->
            in = 0;
            doubted[s] = doubted[s] | (RLAP(v) != lap) /* somebody has not left the entry's last operation yet */
        fi;
        v = 0
    }
}

inline mark_entered()
{
    do
    :: atomic {
           w = group[g];
           if
#ifdef UNMARKED
           :: true -> group[g] = w | 1 << 6; w = group[g]; break
#else
           :: STATE(w) == UNDECIDED || v -> group[g] = w | 1 << 6; w = group[g]; v = 0; break
           :: else -> v = 1 /* first the root */
#endif
           fi
       }
       stage_root()
    od
}

inline complete()
{
    atomic {
        if
        :: RSTATE(root) == UNDECIDED -> root = root | 1 << (2 + g); last = (COMPLETE(root) == 3)
        :: else
        fi
    }
}

#define POSTS_GOOD (post[0] == s + 1 && post[1] == s + 1 && post[2] == s + 1)

/* A veto may come while the posts are read. */
inline decide()
{
    if
    :: RSTATE(root) == UNDECIDED ->
        assert(POSTS_GOOD);
        atomic { verdict = s + 1; assert(POSTS_GOOD) }
        atomic {
            if
            :: RSTATE(root) == UNDECIDED -> root = RWORD(RLAP(root), 0, RUN, 0, 3, 3)
            :: else
            fi
        }
    :: else
    fi
}

inline arrive()
{
    atomic {
        w = group[g];
        in = 1;
        if
        :: STATE(w) == FREE && !(LAP(w) == lap && STAGED(w)) ->
            first = 1;
            group[g] = GWORD(lap, 0, 0, UNDECIDED, 0, 1 << PLACE(r));
            post[r] = s + 1
        :: STATE(w) == UNDECIDED && LAP(w) == lap -> group[g] = w | 1 << PLACE(r); post[r] = s + 1
        :: else -> in = 0; doubted[s] = doubted[s] | (LAP(w) != lap)
        fi;
        w = group[g]
    }
    if
    :: first ->
        first = 0;
        enter_root();
        if
        :: in -> mark_entered()
        :: else -> in = 1; veto() /* arrived all the same */
        fi
    :: else
    fi;
    if
    :: in && STATE(w) == UNDECIDED && BY(w) && ARRIVED(w) == FULL(g) -> complete()
    :: else
    fi;
    w = 0
}

/* Member m has passed. If it has not arrived by now, it is on the host. */
#define CAME(m) (STATE(group[GROUP(m)]) != FREE && LAP(group[GROUP(m)]) == lap && (ARRIVED(group[GROUP(m)]) >> PLACE(m) & 1))
#define MISSING(m) (!CAME(m) && passed[m] > s)
#define OWN_MISSING (g == 0 && MISSING(1 - r))
#ifdef NO_FIRST
#define OTHER_MISSING false
#else
#define OTHER_MISSING (BY(group[g]) && !(COMPLETE(root) >> (1 - g) & 1) && (g == 0 -> MISSING(2) : MISSING(0)))
#endif

#define RULING (BY(group[g]) -> RSTATE(root) : STATE(group[g]))

inline wait_decision()
{
    do
    :: RULING != UNDECIDED -> break
    :: RULING == UNDECIDED && (mind || OWN_MISSING || OTHER_MISSING) -> veto()
    od
}

inline free_group(h)
{
    atomic {
        w = ARRIVED(group[h]);
        if
        :: w & 1 -> assert(post[h * 2] == s + 1); post[h * 2] = 0
        :: else
        fi;
        if
        :: w & 2 -> assert(post[h * 2 + 1] == s + 1); post[h * 2 + 1] = 0
        :: else
        fi;
        w = 0
    }
    group[h] = GWORD(LAP(group[h]), STAGED(group[h]) | staged, FREE, 0, 0, 0)
}

inline leave()
{
    veto();
    staged = (RULING == STAGE);
    atomic {
        w = group[g];
#ifndef OPEN
        if
        :: staged && STATE(w) == UNDECIDED -> w = GWORD(LAP(w), 1, BY(w), STAGE, LEFT(w), ARRIVED(w))
        :: else
        fi;
#endif
        w = w + (1 << 2);
        group[g] = w
    }
    if
    :: LEFT(w) != COUNT(ARRIVED(w))
    :: LEFT(w) == COUNT(ARRIVED(w)) && !BY(w) -> free_group(g)
    :: LEFT(w) == COUNT(ARRIVED(w)) && BY(w) ->
#ifdef EARLY
        atomic { post[r] = 0 }
#endif
        atomic { root = root + (1 << 4); v = root }
        if
        :: RLEFT(v) == COUNT(ENTERED(v)) ->
            if
            :: ENTERED(v) & 1 -> free_group(0)
            :: else
            fi;
            if
            :: ENTERED(v) & 2 -> free_group(1)
            :: else
            fi;
            root = RWORD(RLAP(v), RSTAGED(v), FREE, 0, 0, 0)
        :: else
        fi
    fi;
    atomic { w = 0; v = 0; staged = 0 }
}

proctype Rank(byte r)
{
    short w, v;
    byte s, lap, g;
    bit host, mind, in, first, last, staged;
    g = GROUP(r);
    do
    :: s < S ->
        atomic {
            lap = s;
            in = 0;
            last = 0;
            mind = 0;
            if
            :: host = 1; doubted[s] = 1
            :: s == 0 -> host = 0; mind = 1; doubted[s] = 1
            :: host = 0
            fi
        }
        if
        :: !host -> arrive()
        :: else
        fi;
        passed[r] = s + 1;
        if
        :: !in -> NOT_RUN()
        :: else ->
            if
            :: last -> last = 0; decide()
            :: else
            fi;
            wait_decision();
            if
            :: RULING == RUN ->
                atomic {
                    ran[s] = 1;
                    assert(!stayed[s] && verdict == s + 1 && POSTS_GOOD)
                }
            :: else -> NOT_RUN()
            fi;
            leave()
        fi;
        s++
    :: else -> break
    od
}

init {
    byte i;
    atomic {
        run Rank(0);
        run Rank(1);
        run Rank(2)
    }
    _nr_pr == 1;
    /* all have ended: what nobody doubted has run, and the entry is free */
    do
    :: i < S -> assert(doubted[i] || ran[i]); i++
    :: else -> break
    od;
    assert(STATE(group[0]) == FREE && STATE(group[1]) == FREE && RSTATE(root) == FREE);
    assert(post[0] == 0 && post[1] == 0 && post[2] == 0)
}
