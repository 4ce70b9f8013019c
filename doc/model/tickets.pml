/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tickets, for spin: two ranks have one operation under way on each of two boards, arrived at in opposite orders, and
 * launch what is decided, smallest ticket first (base/board.c decides, coll/run.c launches). Checked in all
 * interleavings: every rank launches in the order of the tickets, so their kernels never wait for each other in a ring.
 *
 * test/model.sh runs it, also with each of these rules broken, which must be found out:
 *   UNLOCKED   the change to RUN after the launch lock is given back
 *   ONE_LOOK   a rank launches the first decided operation it sees, without looking at its others again
 */
bit arrived[4];  /* rank * 2 + board */
byte ticket[2];  /* of the board's operation; 0: undecided. Its change is the change to RUN */
byte tickets;
bit launch_lock;

inline arrive(b)
{
    atomic {
        arrived[r * 2 + b] = 1;
        last = arrived[b] && arrived[2 + b]
    };
    if
    :: last ->
        atomic { !launch_lock -> launch_lock = 1 };
        atomic { tickets++; mine = tickets };
#ifdef UNLOCKED
        launch_lock = 0;
        ticket[b] = mine
#else
        ticket[b] = mine;
        launch_lock = 0
#endif
    :: else
    fi
}

/* Look at both, in any order. */
inline look()
{
    if
    :: see[0] = ticket[0]; see[1] = ticket[1]
    :: see[1] = ticket[1]; see[0] = ticket[0]
    fi
}

/* Once one is seen decided, those with smaller tickets can be seen: look again, launch the smallest. */
inline launch_one()
{
    look();
    if
    :: (!done[0] && see[0]) || (!done[1] && see[1]) ->
#ifndef ONE_LOOK
        look();
#endif
        if
        :: !done[0] && see[0] && (done[1] || !see[1] || see[0] < see[1]) -> b = 0
        :: else -> b = 1
        fi;
        assert(see[b] > launched);
        launched = see[b];
        done[b] = 1
    :: else -> (!done[0] && ticket[0]) || (!done[1] && ticket[1])
    fi
}

proctype Rank(byte r)
{
    byte see[2], launched, mine, b;
    bit done[2], last;
    if
    :: r == 0 -> arrive(0); arrive(1)
    :: else -> arrive(1); arrive(0)
    fi;
    do
    :: done[0] && done[1] -> break
    :: else -> launch_one()
    od
}

init {
    atomic {
        run Rank(0);
        run Rank(1)
    }
}
