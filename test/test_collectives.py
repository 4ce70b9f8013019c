# SPDX-License-Identifier: BSD-3-Clause
"""Blocking collectives on device memory: on the GPUs where all ranks have it, else by way of host memory."""
import re

import pytest

from harness import REAL_GPUS, by_name, mpirun

PAIRS = ["D:D", "A:V", "H:D", "D:M", "D:H", "E:R", "DH:HD", "P:S", "HM:MD", "M:D", "DH:D", "H:H"]
CALLS = {"bcast", "reduce", "scan", "exscan", "reduce_scatter_block", "reduce_scatter", "gather", "scatter", "allgather",
         "alltoall"}
STAGED = {f"SHUNT_{call.upper()}": "staged" for call in CALLS}


def check(family, ranks, *words, **more):
    """Each call on device memory is counted, none on host memory is, and Allreduce between them runs on the GPUs."""
    result = mpirun(family, ranks, "check_collectives", *words, **more)
    summary, (staged, ran) = result.checked(), by_name(result)
    assert staged.total() + ran.total() == summary["device"] and set(staged) | set(ran) <= CALLS, str(result)
    assert result.stats.gpu == len(CALLS) * ranks and result.stats.paths["staged"] == 0, str(result)
    return staged, ran


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_call(family, ranks):
    pairs = PAIRS if family == "openmpi" else PAIRS[::2]  # ranks that spin take long where there are few cores
    staged, ran = check(family, ranks, *pairs)
    assert set(staged) == set(ran) == CALLS


def test_staged_by_setting(family):
    staged, ran = check(family, 2, "D:D", "A:V", "DH:HD", settings=STAGED)
    assert set(staged) == CALLS and not ran


@pytest.mark.parametrize("proto", ["ll", "ll128"])
def test_protocols(proto):
    """Each with so little scratch that long messages go by rings, and a burst that lingers."""
    settings = {"SHUNT_PROTO": proto, "SHUNT_LINGER": "on", "SHUNT_SCRATCH_SIZE": "7m"}
    staged, ran = check("openmpi", 2, "D:D", "A:V", settings=settings)
    assert set(ran) == CALLS


@pytest.mark.parametrize("ranks", [2, 4])
def test_copy_engines(family, ranks):
    """Once the receive buffers are open everywhere; in place Alltoall stays with the kernels."""
    if family == "mpich" and ranks > 2:
        pytest.skip("ranks of MPICH spin: more of them than processors take minutes")
    moves = ("bcast", "gather", "scatter", "allgather", "alltoall")
    result = mpirun(family, ranks, "check_collectives", "D:D", "A:V",
                    settings={f"SHUNT_{call.upper()}": "copy" for call in moves})
    result.checked()
    for call in moves:
        assert re.search(rf"  {call} +copy ", result.err), str(result)


@pytest.mark.parametrize("ranks", [2, 3])
def test_root_that_reads(ranks):
    """Once it has opened what the others send."""
    settings = {**STAGED, "SHUNT_ALLREDUCE": "staged", "SHUNT_REDUCE": "auto", "SHUNT_PROTO": "simple", "SHUNT_DEBUG": "info"}
    result = mpirun("openmpi", ranks, "check_collectives", "D:D", "A:V", settings=settings)
    result.checked()
    assert re.search(r"  reduce +oneshot ", result.err) and "opened block" in result.err, str(result)


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_from_rank_to_rank(ranks):
    """Bcast and Reduce along a line of ranks, whatever the root and the size, with rings that hold little."""
    for more in ({}, {"SHUNT_SCRATCH_SIZE": "16m" if ranks > 3 else "7m"}):
        result = mpirun("openmpi", ranks, "check_collectives", "D:D", "A:V",
                        settings={"SHUNT_BCAST": "ring", "SHUNT_REDUCE": "ring", **more})
        result.checked()
        for call in "bcast", "reduce":
            assert re.search(rf"  {call} +ring ", result.err), str(result)
            assert not re.search(rf"  {call} +oneshot ", result.err), str(result)


@pytest.mark.sanitize
def test_large_counts(family):
    """Where the host has the functions for them."""
    check(family, 2, "large", "D:D", "DH:HD")


def test_many_pieces(family):
    """Messages of several pieces, more than the pool has."""
    check(family, 2, "D:D", "M:H", settings={**STAGED, "SHUNT_STAGE_CHUNK": "4k", "SHUNT_STAGE_SIZE": "8k"})


def test_no_pinned_memory():
    check("openmpi", 2, "D:D", settings={**STAGED, "SHUNT_STAGE_SIZE": "0"})


def test_host_memory(family):
    """Counted by nobody: it is the host MPI's."""
    staged, ran = check(family, 2, "H:H", "P:P")
    assert not staged and not ran


def test_places_beyond_two_gigabytes(family):
    """Little is moved, to and from bytes that an int cannot count."""
    assert mpirun(family, 2, "check_huge", "gatherv", "scatterv").checked()["cases"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["allgather", "alltoall", "gather", "reduce-scatter", "message"])
def test_beyond_two_gigabytes(family, mode):
    """Each count is an int, and their sum in bytes is none. (Simulated kernels would take hours.)"""
    settings = {} if REAL_GPUS else {**STAGED, "SHUNT_SIM_MEAN": "0"}
    mpirun(family, 2, "check_huge", mode, settings=settings, limit=600).checked()
