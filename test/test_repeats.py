# SPDX-License-Identifier: BSD-3-Clause
"""Persistent collectives on the GPUs: started in any order, completed in every way, mixed with what the host has."""
import pytest

from harness import by_name, mpirun

OVERTAKEN = "not all ranks had begun it when one had to go on in the host MPI"


def repeat(family, ranks, what, kinds="D", **more):
    """What has to be right is checked by the program. Answers (staged, on the GPUs) of all collectives."""
    result = mpirun(family, ranks, "check_repeats", what, settings={"KINDS": kinds, **more.pop("settings", {})}, **more).good()
    others, ran = by_name(result)
    return result, sum(others.values()) + result.stats.paths["staged"], sum(ran.values()) + result.stats.gpu


@pytest.mark.sanitize
@pytest.mark.parametrize("what", ["ways", "many", "partly", "blocked", "types"])
def test_all_run_on_the_gpus(family, what):
    """Inactive ones among others, a rank that waits in the host or the driver, datatypes that are gone: every start runs."""
    result, staged, ran = repeat(family, 2, what)
    assert ran > 0 and staged == 0, str(result)


@pytest.mark.parametrize("what", ["ways", "many", "blocked"])
def test_four_ranks(what):
    result, staged, ran = repeat("openmpi", 4, what, kinds="DDMD")
    assert ran > 0 and staged == 0, str(result)


@pytest.mark.parametrize("what", ["ways", "many", "partly", "between", "blocked", "types"])
def test_a_rank_on_host_memory(what):
    """It knows nothing of the others, and each of them stages every start."""
    result, staged, ran = repeat("openmpi", 3, what, kinds="DHD")
    assert ran == 0 and staged > 0, str(result)


@pytest.mark.parametrize("what, kinds", [("ways", "D"), ("partly", "D"), ("between", "D"), ("blocked", "HD")])
def test_staged_with_mpich(what, kinds):
    """MPICH 4.0 waits for inactive ones, and takes no array of active ones: shunt hands it neither."""
    result, staged, ran = repeat("mpich", 2, what, kinds=kinds, settings={"SHUNT_ALLREDUCE": "staged"})
    assert ran == 0 and staged > 0, str(result)


def test_nothing_in_them(family):
    """Zero counts, with buffers and without: requests that stay, as those that they are started with."""
    _, _, ran = repeat(family, 2, "nothing")
    assert ran > 0
    repeat(family, 2, "nothing", kinds="DH")


@pytest.mark.sanitize
def test_order_with_the_host(family):
    """What is undecided when a collective of the host comes is staged; nothing is lost, whatever the order."""
    result, staged, ran = repeat(family, 2, "between")
    assert staged + ran == 160 and (staged == 0 or set(result.stats.reasons) == {OVERTAKEN}), str(result)


def test_what_they_hold_is_given_back(family):
    """More than there is room for at a time."""
    result, staged, ran = repeat(family, 2, "remade", settings={"SHUNT_ARENA_SIZE": "1m"}, limit=60)
    assert ran == 268 and staged == 0, str(result)


def test_thousands_at_a_time():
    """All run on the GPUs."""
    result, staged, ran = repeat("openmpi", 2, "alive", limit=100)
    assert ran == 4000 and staged == 0, str(result)


def test_no_room_for_thousands():
    """Those that find none are staged, and say why."""
    result, staged, ran = repeat("openmpi", 2, "alive", limit=100, settings={"SHUNT_ARENA_SIZE": "1m"})
    assert ran > 0 and staged > 0 and staged + ran == 4000, str(result)
    assert set(result.stats.reasons) == {"the board or one of its pools was full"}, str(result)


def test_straight_into_receive_buffers(family):
    """They are open on all ranks when the operation has been made: the first start needs no scratch, and none registers anything."""
    result, staged, ran = repeat(family, 2, "large", settings={"SHUNT_SIM_SLOW": "1000"})
    assert ran == 12 and len(result.err.split("bcast     copy                   6 calls")) == 2, str(result)


def test_ranks_that_have_not_met(family):
    """They meet when the first operation is made, so no start is staged."""
    result, staged, ran = repeat(family, 2, "first")
    assert ran == 4 and staged == 0, str(result)


def test_end_with_some_under_way(family):
    """And with some that nobody has freed."""
    repeat(family, 2, "left", limit=30)


@pytest.mark.sanitize
def test_threads(family):
    result, staged, ran = repeat(family, 2, "threads", limit=100)
    assert ran > 100, str(result)


def test_first_calls_of_several_threads(family):
    """Of which one finds out that the program uses CUDA while the others ask."""
    for _ in range(8):
        repeat(family, 2, "threads", limit=60)


def test_one_rank(family):
    """A copy on its GPU."""
    result = mpirun(family, 1, "check_repeats", "ways", settings={"KINDS": "D"}).good()
    assert result.stats.paths["local"] == 80 and result.stats.paths["staged"] == 0, str(result)


def test_reproducible(family):
    """Time decides whether all have begun when one has to go on, and time may not change bits."""
    result, staged, ran = repeat(family, 2, "ways", settings={"SHUNT_REPRODUCIBLE": "1"})
    assert staged == 160 and ran == 0, str(result)
