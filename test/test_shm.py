# SPDX-License-Identifier: BSD-3-Clause
"""GPUs that do not reach each other meet in host memory: every collective, in mixed company too, and how it is refused."""
import re

import pytest

import harness
from harness import Block, by_name, mpirun
from test_collectives import CALLS, check

simulated = pytest.mark.skipif(harness.REAL_GPUS, reason="the simulated machines are needed")

OFF = {"SHUNT_P2P_DISABLE": "1"}
SUMS = ["check_allreduce", "--count", "1,17,5000,70000", "--place", "in,out", "--type", "INT,DOUBLE"]
FEW = ["check_allreduce", "--count", "1,5000", "--place", "in,out", "--type", "INT"]
REFUSED = "no peer access between the GPUs"
FAR = "SHUNT_P2P_LEVEL allows no peer access between GPUs so far apart"


def apart(settings, words=FEW, **more):
    """A rank for each of these settings."""
    return mpirun("openmpi", blocks=[Block(1, words, settings=one) for one in settings], **more)


def by_host_memory(result, calls=CALLS):
    """Each of these calls has run on the GPUs that way."""
    for call in calls:
        assert re.search(rf"\]   {call}: \d+ by host memory between GPUs", result.err), f"{call}\n{result}"


def test_switched_off(family):
    """Two ranks send as much in one hop as in two."""
    mpirun(family, 2, *SUMS, settings=OFF).ran("oneshot", hosted=True)


@simulated
@pytest.mark.parametrize("ranks", [3, 8])
def test_refused_by_the_driver(ranks):
    words = SUMS if ranks < 8 else FEW
    result = mpirun("openmpi", ranks, *words, preset="rtx4090x8").ran("gpu", hosted=True)
    assert ranks == 8 or result.stats.paths["twoshot"] > 0, str(result)


@pytest.mark.parametrize("ranks, settings", [(2, OFF), (3, {**OFF, "SHUNT_SHM_SIZE": "5m"})])
def test_every_call(family, ranks, settings):
    """Also with so little of it that messages go round in it many times."""
    result = mpirun(family, ranks, "check_collectives", "D:D", "A:V", settings=settings)
    result.checked()
    _, ran = by_name(result)
    assert set(ran) == CALLS, str(result)
    by_host_memory(result)


@simulated
def test_refused_by_the_driver_in_every_call():
    check("openmpi", 4, "D:D", "A:V", preset="rtx4090x8", limit=100)


@pytest.mark.parametrize("settings", [{"SHUNT_ALLREDUCE": "oneshot"}, {"SHUNT_ALLREDUCE": "twoshot"},
                                      {"SHUNT_PROTO": "ll128", "SHUNT_LINGER": "on"}, {"SHUNT_SCRATCH_SIZE": "8m"}])
def test_ways_that_are_asked_for(settings):
    """Lines do not go by host memory, and no kernel lingers for it."""
    result = mpirun("openmpi", 3, *SUMS, settings={**OFF, **settings}).ran("gpu", hosted=True)
    assert result.stats.lingered == 0, str(result)


def test_algorithms_that_are_asked_for():
    """From rank to rank; copy engines would need user memory that is open to peers."""
    moves = {f"SHUNT_{call.upper()}": "copy" for call in ("gather", "scatter", "allgather", "alltoall")}
    result = mpirun("openmpi", 3, "check_collectives", "D:D", "A:V",
                    settings={**OFF, **moves, "SHUNT_BCAST": "ring", "SHUNT_REDUCE": "ring"})
    result.checked()
    by_host_memory(result)
    assert re.search("  bcast +ring ", result.err) and not re.search(r"\]   \w+ +copy ", result.err), str(result)


@simulated
@pytest.mark.parametrize("level, preset", [("PIX", "rtx4090x8-p2p"), ("PXB", "rtx4090x8-p2p")])
def test_mixed_pairs(level, preset):
    """GPUs 0 and 1 reach each other, at PXB 2 and 3 too, and 4 does not reach them."""
    result = mpirun("openmpi", 5, *FEW, "--comm", "world,split", preset=preset, settings={"SHUNT_P2P_LEVEL": level})
    result.ran("gpu")
    assert result.stats.hosted > 0, str(result)


@simulated
def test_pair_that_needs_none():
    """Of two communicators only the one whose ranks do not reach each other goes that way."""
    mpirun("openmpi", 2, *FEW, preset="rtx4090x8-p2p", settings={"SHUNT_P2P_LEVEL": "PIX"}).ran("gpu", hosted=False)


@simulated
def test_mixed_pairs_in_every_call():
    result = mpirun("openmpi", 3, "check_collectives", "D:D", "A:V", preset="rtx4090x8-p2p",
                    settings={"SHUNT_P2P_LEVEL": "PIX"})
    result.checked()
    by_host_memory(result)


def test_one_side_wants_it():
    """Either of two decides for both."""
    apart([OFF, {}]).ran("gpu", hosted=True)
    apart([{}, {"SHUNT_P2P_LEVEL": "LOC"}, {}]).ran("gpu", hosted=True)


@simulated
@pytest.mark.parametrize("fault", ["noipc", "nop2p", "lost"])
def test_what_keeps_gpus_apart(fault):
    mpirun("openmpi", 3, *FEW, faults=[fault]).ran("gpu", hosted=True)
    apart([{"SHUNT_SIM_FAULT": fault}, {}]).ran("gpu", hosted=True)


@pytest.mark.parametrize("settings, reason", [({"SHUNT_P2P_DISABLE": "1"}, REFUSED), ({"SHUNT_P2P_LEVEL": "LOC"}, FAR)])
@pytest.mark.parametrize("without", [{"SHUNT_SHM_DISABLE": "1"}, {"SHUNT_SHM_SIZE": "1m"}])
def test_without_it(settings, reason, without):
    """Not wanted, or too little of it."""
    mpirun("openmpi", 2, *FEW, settings={**settings, **without}).ran("staged", reason=reason)


def test_one_side_does_not_want_it():
    result = apart([OFF, {**OFF, "SHUNT_SHM_DISABLE": "1"}, OFF]).ran("staged")
    assert REFUSED in result.stats.reasons and result.seconds < 20, str(result)


def test_sizes_that_differ():
    apart([OFF, {**OFF, "SHUNT_SHM_SIZE": "12m"}]).ran("staged")


@pytest.mark.skipif(not harness.may_unshare(), reason="needs the right to make namespaces")
def test_ranks_that_cannot_send_descriptors():
    """Each in a network of its own: they stage, and nobody waits."""
    words = ["/usr/bin/unshare", "-n", harness.program_path("mpich", FEW[0]), *FEW[1:]]
    result = mpirun("mpich", blocks=[Block(2, words)], settings=OFF).ran("staged", reason=REFUSED)
    assert result.seconds < 20, str(result)


def test_nonblocking(family):
    result = mpirun(family, 2, "check_flights", "many", settings={**OFF, "KINDS": "D"}).good()
    assert result.stats.gpu > 0 and result.stats.hosted > 0, str(result)


def test_killed():
    """A rank that is killed in the middle of it leaves nothing (which is looked for after each run); the others go on."""
    result = mpirun("openmpi", 3, "check_ends", 7, "errors-return", settings={**OFF, "SHUNT_DEBUG": "info"},
                    launcher_words=["--enable-recovery"], limit=30, stats=False)
    for rank in range(2):
        assert f"rank {rank}: an error\n" in result.out, str(result)
        assert f"rank {rank}: right sums among the survivors\n" in result.out, str(result)
    assert "of the node by host memory" in result.err, str(result)


@pytest.mark.parametrize("mode", ["reset-at-the-end", "reset-and-go-on", "children"])
def test_ends(mode):
    """The GPU is reset, or the process has children, with host memory in use."""
    assert mpirun("openmpi", 2, "check_ends", 0, mode, settings=OFF, limit=30).good().stats.hosted > 0
