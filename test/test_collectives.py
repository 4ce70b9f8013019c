# SPDX-License-Identifier: BSD-3-Clause
"""Blocking collectives without a device algorithm take device memory by way of host memory, whatever the host MPI."""
import pytest

from harness import mpirun, staged

PAIRS = ["D:D", "A:V", "H:D", "D:M", "D:H", "E:R", "DH:HD", "P:S", "HM:MD", "M:D", "DH:D", "H:H"]
CALLS = {"bcast", "reduce", "scan", "exscan", "reduce_scatter_block", "gather", "scatter", "allgather", "alltoall"}


def check(family, ranks, *words, **more):
    """Each call on device memory is staged, none on host memory is, and Allreduce between them runs on the GPUs."""
    result = mpirun(family, ranks, "check_collectives", *words, **more)
    summary, found = result.checked(), staged(result)
    assert found.total() == summary["device"] and set(found) <= CALLS, str(result)
    assert result.stats.gpu == len(CALLS) * ranks and result.stats.paths["staged"] == 0, str(result)
    return found


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_call(family, ranks):
    pairs = PAIRS if family == "openmpi" else PAIRS[::2]  # ranks that spin take long where there are few cores
    assert set(check(family, ranks, *pairs)) == CALLS


@pytest.mark.sanitize
def test_large_counts(family):
    """Where the host has the functions for them."""
    check(family, 2, "large", "D:D", "DH:HD")


def test_many_pieces(family):
    """Messages of several pieces, more than the pool has."""
    check(family, 2, "D:D", "M:H", settings={"SHUNT_STAGE_CHUNK": "4k", "SHUNT_STAGE_SIZE": "8k"})


def test_no_pinned_memory():
    check("openmpi", 2, "D:D", settings={"SHUNT_STAGE_SIZE": "0"})


def test_host_memory(family):
    """Counted by nobody: it is the host MPI's."""
    assert not check(family, 2, "H:H", "P:P")
