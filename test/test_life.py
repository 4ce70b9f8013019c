# SPDX-License-Identifier: BSD-3-Clause
"""Threads, communicators that come and go, and the ways in which processes begin and end. harness.run sees to it that
nothing is left, neither processes nor files."""
import os
import random
import re
import shlex
import signal
import threading
import time
import uuid

import pytest

from harness import by_name, command, marked, mpirun, run


def life(family, ranks, mode, *words, **more):
    return mpirun(family, ranks, "check_life", mode, *words, **more)


@pytest.mark.parametrize("mode", ["early", "late", "slow-rank", "finalize-at-exit", "destructor", "reset-before-finalize",
                                  "reset-one", "first-to-finalize"])
def test_mode_is_good(family, mode):
    """In all of them the device path is taken, the program ends with 0, and shunt says nothing."""
    life(family, 2, mode).silent().ran("gpu")


@pytest.mark.parametrize("mode", ["without-finalize", "exit"])
def test_end_without_finalize(mode):
    """Open MPI's mpirun calls it an error; it ends soon all the same, as it does without shunt."""
    result = life("openmpi", 2, mode, limit=30)
    assert result.rc is not None, str(result)
    assert "failures 0 " in result.out, str(result)


def test_sessions():
    result = life("mpich", 2, "sessions", limit=30).good()
    assert result.out.count("sessions: good") == 2, str(result)


def test_sessions_around_the_world():
    """What they have in common with it on the GPUs has gone when they go on."""
    result = life("mpich", 2, "sessions-and-world", limit=30).silent().good()
    assert result.out.count("sessions: good") == 2 and result.stats.gpu > 0, str(result)


@pytest.mark.parametrize("ranks, number", [(2, 10000), (4, 50)])
def test_communicators_come_and_go(ranks, number):
    result = life("openmpi", ranks, "create-and-free", number, limit=200)
    result.ran("gpu")
    assert result.checked()["cases"] == number


def test_communicators_come_and_go_under_mpich():
    life("mpich", 2, "create-and-free", 50, limit=100).ran("gpu")


@pytest.mark.slow
def test_communicators_come_and_go_for_long():
    life("openmpi", 2, "create-and-free", 100000, limit=600).ran("gpu")


def test_many_communicators_at_once():
    """Two thousand need a larger arena; without it some stage."""
    life("openmpi", 2, "many-alive", 2000, limit=100).ran("any")
    life("openmpi", 2, "many-alive", 2000, limit=100, settings={"SHUNT_ARENA_SIZE": "96m"}).ran("gpu")


@pytest.mark.parametrize("kinds", ["D", "DH", "DM"])
def test_threads(family, kinds):
    """Communicators used in a different order on each rank, since each thread goes at its own pace."""
    result = mpirun(family, 2, "check_threads", 2 if family == "mpich" else 4, 10, 20000, kinds, limit=150)
    result.ran("gpu")


def test_threads_launch_in_the_order_of_tickets():
    """Small calls, one after the other: an operation that is decided while its thread has not looked yet counts too."""
    for _ in range(3):
        mpirun("openmpi", 2, "check_threads", 4, 30, 100, "D", limit=60).ran("gpu")


@pytest.mark.parametrize("kind, most", [("D", 100), ("D", 200000)], ids=["small", "lines"])
def test_threads_whose_root_is_ahead(kind, most):
    """A root has done its part when it has sent: what it sends next must not fall on what a peer has still to read."""
    result = mpirun("openmpi", 2, "check_threads", 6, 25, most, kind, "bcast", limit=90)
    staged, ran = by_name(result)
    assert ran["bcast"] == result.checked()["device"] and not staged, str(result)


def test_threads_of_many_ranks():
    mpirun("openmpi", 4, "check_threads", 3, 10, 5000, "D", limit=150).ran("gpu")


def stop_now_and_then(token, over, stops):
    """Until `over`: a process of a rank or of a GPU stands still for some milliseconds, as in a debugger, or while others have
    the processor or the GPU. `stops` gets the processes."""
    while not over.wait(random.random() * 0.02):
        pid = random.choice(list(marked(token, "CHECK_STOP")) or [None])
        try:
            if pid:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(random.random() * 0.04)
                os.kill(pid, signal.SIGCONT)
                stops.append(pid)
        except ProcessLookupError:
            pass


@pytest.mark.parametrize("program, words", [
    ("check_app", ["bursts"]),
    ("check_threads", [3, 10, 20000, "D"]),
    ("check_flights", ["many"]),
])
def test_processes_that_stand_still(program, words):
    """Takes longer, and that is all: no wait is ended by time."""
    token, over, stops = uuid.uuid4().hex, threading.Event(), []
    stopper = threading.Thread(target=stop_now_and_then, args=(token, over, stops))
    stopper.start()
    try:
        result = mpirun("openmpi", 2, program, *words, settings={"CHECK_STOP": token}, limit=100)
    finally:
        over.set()
        stopper.join()
    result.good().silent()
    assert len(stops) > 5 and result.stats.gpu > 0 and result.stats.paths["staged"] == 0, str(result)


@pytest.mark.parametrize("mode, words", [("abort", []), ("kill", [])])
@pytest.mark.parametrize("ranks", [2, 4])
def test_death_of_a_rank_ends_the_job(family, ranks, mode, words):
    result = life(family, ranks, mode, *words, limit=30, stats=False)
    assert result.rc not in (0, None), str(result)
    assert result.silent().seconds < 20, str(result)


def lonely(ms, mode, form="blocking", settings=None):
    """A rank does `mode` in the middle of Allreduces, and the launcher leaves the others alone. (That of MPICH ends them.)"""
    result = mpirun("openmpi", 3, "check_ends", ms, mode, launcher_words=["--enable-recovery"],
                    settings={"FORM": form, **(settings or {})}, limit=30, stats=False)
    assert result.rc is not None and result.seconds < 20, str(result)
    return result.silent()


@pytest.mark.parametrize("mode, ms", [("kill", -1), ("kill", 7), ("exit", 15), ("abort", 3)])
def test_survivors_end_with_an_error(mode, ms):
    """Which is fatal by default. The launcher, which prints that for them, now and then loses it and says so."""
    for _ in range(10):
        result = lonely(ms, mode)
        if "MPI_ERRORS_ARE_FATAL" in result.err:
            break
        assert re.search(r"ORTE_ERROR_LOG: .* in file \S*show_help\.c", result.err), str(result)
    else:
        pytest.fail(f"no survivor has ended with an error: {result}")


def survive(ms, form="blocking", settings=None):
    result = lonely(ms, "errors-return", form, settings)
    for rank in range(2):
        assert result.out.count(f"rank {rank}: an error\n") == 2, str(result)
        assert f"rank {rank}: right sums among the survivors\n" in result.out, str(result)


@pytest.mark.parametrize("ms", [-1, 2, 15])
def test_survivors_may_go_on(ms):
    """Where errors return, each survivor gets one, and again when it calls again; without the dead one all is as before."""
    survive(ms)


@pytest.mark.parametrize("form", ["blocking", "nonblocking"])
def test_survivors_to_whom_the_dead_one_would_have_written(form):
    """All store into the receive buffers of all."""
    survive(15, form, {"SHUNT_ALLREDUCE": "twoshot"})


@pytest.mark.parametrize("ms", [-1, 2, 15])
@pytest.mark.parametrize("form", ["nonblocking", "persistent"])
def test_survivors_of_operations_that_go_on(form, ms):
    survive(ms, form)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"SHUNT_ALLREDUCE": "twoshot"}], ids=["", "twoshot"])
@pytest.mark.parametrize("form", ["blocking", "nonblocking", "persistent"])
def test_survivors_of_many_deaths(form, settings):
    for ms in range(60):
        survive(ms, form, settings)


@pytest.mark.sanitize
def test_children(family):
    """fork and exit, _exit or exec, system, popen, posix_spawn while another thread is in Allreduce."""
    result = mpirun(family, 2, "check_ends", 0, "children").silent().ran("gpu")
    assert result.stats.gpu >= 30, str(result)


def test_finalize_in_a_thread(family):
    mpirun(family, 2, "check_ends", 0, "finalize-in-thread").silent().ran("gpu")


@pytest.mark.parametrize("messages", ["inf", "200"], ids=["staged", "fetched"])
@pytest.mark.parametrize("mode", ["finalize-at-exit", "reset-at-the-end"])
def test_end_after_everything_was_used(family, mode, messages):
    """With blocks that peers have open, persistent requests, messages, and a thread of shunt's, when CUDA has ended or been
    reset."""
    mpirun(family, 2, "check_ends", 0, mode, settings={"SHUNT_MESSAGE_SIZE": messages}, limit=40).silent().ran("gpu")


def test_calls_at_exit(family):
    """What the program has registered with atexit may still reduce, wait for what it has begun, and finalize."""
    mpirun(family, 2, "check_ends", 0, "calls-at-exit", limit=40).silent().ran("gpu")


def test_exit_with_some_under_way():
    """Without MPI_Finalize, which Open MPI's mpirun calls an error."""
    result = mpirun("openmpi", 3, "check_ends", 0, "exit-under-way", launcher_words=["--enable-recovery"], limit=40,
                    stats=False)
    assert result.silent().rc is not None and result.out.count("right sums") == 3, str(result)


def test_gpu_is_reset_and_used_again(family):
    """What used the old context is staged from then on."""
    result = mpirun(family, 2, "check_ends", 0, "reset-and-go-on").silent().ran("any")
    assert result.stats.gpu == 4 and result.stats.paths["staged"] == 8, str(result)


def test_quick_exit():
    """Open MPI's mpirun calls it an error that nobody called MPI_Finalize."""
    result = mpirun("openmpi", 2, "check_ends", 0, "quick-exit", limit=30, stats=False)
    assert result.silent().rc is not None and result.out.count("right sums") == 2, str(result)


def test_death_before_init():
    """A job that is killed before its ranks have met leaves the file they meet in; the next one takes it away."""
    first, second = (command("openmpi", 2, "check_life", *words) for words in (["kill-before-init"], ["early"]))
    result = run(["sh", "-c", f"{shlex.join(first)}; {shlex.join(second)}"], 60)
    assert "check_life: ranks 2 " in result.out, str(result)


def test_next_job_after_a_killed_one():
    for _ in range(2):
        life("openmpi", 2, "kill", limit=30, stats=False)
        life("openmpi", 2, "early").ran("gpu")
