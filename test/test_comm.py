# SPDX-License-Identifier: BSD-3-Clause
"""Communicators made and freed in every way: all calls on them meet on the right board, so that they run on the GPUs.
A board that were missed, mixed up or left would show as a staged call, a wrong sum, or a hang."""
import pytest

from harness import mpirun

NOT_REGISTERED = "a rank of the communicator runs without shunt or on another node"


def comms(family, ranks, mode, kinds="D", **more):
    return mpirun(family, ranks, "check_comms", mode, kinds, limit=more.pop("limit", 100), **more)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_way(family, ranks):
    comms(family, ranks, "every").ran("gpu" if ranks > 1 else "any", local=True)


@pytest.mark.parametrize("mode", ["idup", "idup-status", "open", "unseen"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_beginning_and_end(family, ranks, mode):
    comms(family, ranks, mode).ran("gpu")


def test_host_calls_are_counted(family):
    """Host calls on all these communicators are each counted once, and nothing else."""
    result = comms(family, 2, "every", "H")
    assert set(result.stats.paths) == {"host"}
    assert result.stats.paths["host"] == result.checked()["host"]


def test_one_rank_on_the_host(family):
    """It advances on every communicator as the others do: nobody waits for it."""
    result = comms(family, 2, "every", "HD")
    assert result.ran("any", local=True).stats.gpu == 0
    assert set(result.stats.reasons) == {"a rank passed host memory"}
    assert result.seconds < 25, str(result)


def test_rank_without_shunt(family):
    """It has no slot in the arena, so no communicator with it has a board, and those without it have theirs."""
    blocks = [(1, ["check_comms", "rest", "HD"], False), (2, ["check_comms", "rest", "HDD"], True)]
    if family == "openmpi":
        result = mpirun(family, 0, blocks=blocks, limit=60).good()
        assert result.stats.paths["staged"] == 0, str(result)
        assert result.stats.gpu == 2, str(result)
    blocks = [(1, ["check_comms", "world", "HD"], False), (1, ["check_comms", "world", "HD"], True)]
    result = mpirun(family, 0, blocks=blocks, limit=60)
    assert result.checked()["device"] == result.stats.paths["staged"] == 3, str(result)
    assert set(result.stats.reasons) == {NOT_REGISTERED}, str(result)
    assert result.seconds < 25, str(result)
