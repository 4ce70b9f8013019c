# SPDX-License-Identifier: BSD-3-Clause
"""What does not run on the GPUs takes device memory by way of host memory, whatever the host MPI: each is compared
with the same call on host memory, byte by byte."""
import pytest

from harness import mpirun, staged

PAIRS = ["D:D", "A:V", "H:D", "E:R", "DH:HD"]
MORE = ["D:M", "D:H", "P:S", "HM:MD", "M:D", "DH:D", "H:H", "B:X"]
CALLS = {
    "check_rows": {"gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw", "reduce_scatter", "neighbor_allgather",
                   "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"},
    "check_packing": {"pack", "unpack"},
    "check_files": {"file_read", "file_write"},
    "check_messages": {"send", "recv", "sendrecv", "reduce_local"},
}


STAGED = {f"SHUNT_{name.upper()}": "staged" for name in CALLS["check_rows"]}


def check(family, ranks, program, *words, settings=None, **more):
    """Each call on device memory is staged, those of rows because the settings say so, and none on host memory is."""
    result = mpirun(family, ranks, program, *words, settings={**STAGED, **(settings or {})}, **more)
    summary, found = result.checked(), staged(result)
    assert found.total() == summary["device"] and set(found) <= CALLS[program], str(result)
    return set(found)


@pytest.mark.parametrize("program", CALLS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_every_call(family, ranks, program):
    pairs = PAIRS if ranks == 2 and family == "openmpi" else ["D:D", "HM:MD"]
    assert check(family, ranks, program, *pairs) == CALLS[program]


@pytest.mark.slow
@pytest.mark.parametrize("program", CALLS)
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_kind(family, ranks, program):
    check(family, ranks, program, *PAIRS, *MORE, limit=300)


@pytest.mark.sanitize
@pytest.mark.parametrize("program", CALLS)
def test_large_counts(family, program):
    """Where the host has the functions for them."""
    check(family, 2, program, "large", "D:HD")


@pytest.mark.parametrize("program", CALLS)
def test_many_pieces(family, program):
    """Messages of several pieces, more than the pool has; and no pinned memory at all."""
    check(family, 2, program, "D:D", settings={"SHUNT_STAGE_CHUNK": "4k", "SHUNT_STAGE_SIZE": "8k"})
    if program == "check_rows":
        check(family, 2, program, "D:D", settings={"SHUNT_STAGE_SIZE": "0"})


@pytest.mark.parametrize("program", CALLS)
def test_dirty_heap(family, program):
    """What the host never sets in a status is whatever its heap had there."""
    settings = {"MALLOC_PERTURB_": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    check(family, 2, program, "D:D", settings=settings)


@pytest.mark.parametrize("program", CALLS)
def test_host_memory(family, program):
    """Counted by nobody: it is the host MPI's."""
    assert not check(family, 2, program, "H:H", "P:P")


def test_windows_in_device_memory(family):
    """Refused on all ranks alike, in words; not those in managed memory."""
    mpirun(family, 2, "check_windows").checked()


def test_windows_in_managed_memory_of_old_kind(family):
    """Where the CPU must not touch it while a kernel runs, no host MPI may have it."""
    mpirun(family, 2, "check_windows", "turns", faults=["turns"]).checked()
