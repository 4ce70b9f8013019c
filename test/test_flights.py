# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that go on on the GPUs while the program does something else."""
import re

import pytest

from harness import mpirun

STAGED = "not all ranks had begun it when one had to go on in the host MPI"


def fly(family, ranks, what, *words, kinds="D", **more):
    """What has to be right is checked by the program."""
    settings = {"KINDS": kinds, **more.pop("settings", {})}
    return mpirun(family, ranks, "check_flights", what, *words, settings=settings, **more).good()


def all_flew(result):
    assert result.stats.gpu > 0 and result.stats.paths["staged"] == 0, str(result)


@pytest.mark.sanitize
@pytest.mark.parametrize("what", ["many", "crossed", "late", "ways", "blocked"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_all_run_on_the_gpus(family, ranks, what):
    """Many at once, communicators in opposite order, every call that may wait for the device before the others have begun, every way to
    complete, a rank in a blocking host call: all run on the GPUs, and nothing hangs."""
    all_flew(fly(family, ranks, what, kinds="D" if ranks == 2 else "DDMD"))


@pytest.mark.parametrize("what", ["many", "crossed", "late", "ways", "blocked", "freed", "order"])
def test_a_rank_on_host_memory(what):
    """Then it is staged, in the order of calls, also by a rank that sits in a blocking call of the host."""
    result = fly("openmpi", 3, what, kinds="DHD")
    assert result.stats.gpu == 0 and result.stats.paths["staged"] > 0, str(result)


@pytest.mark.sanitize
@pytest.mark.parametrize("what", ["order", "freed"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_order_with_the_host(family, ranks, what):
    """What is undecided when a collective of the host comes is staged before it."""
    result = fly(family, ranks, what)
    assert STAGED in result.err, str(result)


def test_without_calls_of_mpi(family):
    """A rank that computes for long is part of it all the same, and its peer has the result long before."""
    all_flew(fly(family, 2, "alone"))


def test_ranks_that_have_not_met(family):
    """A call that does not wait does not wait for a rank's first use of a GPU either: it goes on when the ranks have met."""
    all_flew(fly(family, 2, "first"))


@pytest.mark.sanitize
@pytest.mark.parametrize("what", ["unmet", "lone"])
def test_going_on_when_they_have_met(family, what):
    """Without a call of MPI, and before a blocking collective that comes later."""
    all_flew(fly(family, 2, what))


@pytest.mark.parametrize("kinds", ["D", "DHD", "HD"])
def test_parted_before_they_have_met(kinds):
    """By a collective of the host, or since they never will."""
    for what in ("parted", "unmet", "first"):
        result = fly("openmpi", 3, what, kinds=kinds)
        assert result.stats.paths["staged"] > 0 or what != "parted", str(result)


@pytest.mark.sanitize
def test_threads(family):
    result = fly(family, 2, "threads", limit=100)
    assert result.stats.gpu > 100, str(result)


def test_orphans():
    """What the program frees while it is under way. (MPICH frees no requests of collectives.)"""
    fly("openmpi", 2, "orphans")


def test_memory_is_flat(family):
    all_flew(fly(family, 2, "flat", 800, limit=60))


@pytest.mark.slow
def test_memory_is_flat_for_long(family):
    all_flew(fly(family, 2, "flat", 10000, limit=300))


def test_end_with_some_under_way(family):
    """Which MPI does not allow; nothing hangs."""
    fly(family, 2, "left", limit=30)


def test_death_of_a_rank():
    result = mpirun("openmpi", 3, "check_flights", "death", launcher_words=["--enable-recovery"],
                    settings={"KINDS": "D"}, limit=40)
    for rank in range(2):
        assert f"rank {rank}: an error\n" in result.out, str(result)


def test_no_thread_without_need(family):
    """Blocking calls need none, also on device memory."""
    result = mpirun(family, 2, "check_flights", "meet", settings={"KINDS": "D", "SHUNT_DEBUG": "info"}).good()
    assert not re.search("a thread for operations", result.err), str(result)
    assert re.search("a thread for operations", fly(family, 2, "many", settings={"SHUNT_DEBUG": "info"}).err)


def test_reproducible(family):
    """Time decides whether all have begun when one has to go on, and time may not change bits."""
    result = fly(family, 2, "many", settings={"SHUNT_REPRODUCIBLE": "1"})
    assert result.stats.paths["staged"] == 144, str(result)
