# SPDX-License-Identifier: BSD-3-Clause
"""What does not run on the GPUs takes device memory by way of host memory, whatever the host MPI: each is compared
with the same call on host memory, byte by byte."""
import re

import pytest

from harness import Block, mpirun, program_path, staged

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


@pytest.mark.parametrize("mpi, ranks, kinds", [("openmpi", 2, "D"), ("openmpi", 4, "DM"), ("openmpi", 3, "DDH"), ("mpich", 2, "D")])
def test_long_reductions_in_parts(mpi, ranks, kinds):
    """When the host begins with the first part, one more is on its way; when it begins with the last, those before are back."""
    result = mpirun(mpi, ranks, "check_parts", kinds, settings={"SHUNT_STAGE_CHUNK": "16k"})
    result.checked()
    first, last = map(int, re.search(r"before the first part: (\d+), before the last: (\d+)", result.out).groups())
    assert (first, last) == ((10, 10) if "H" in kinds else (2, 10 + 9)), str(result)


def test_parts_that_differ():
    """Of a rank with other pieces than the others': all stage it as a whole."""
    words = ["/bin/sh", "-c", '[ $OMPI_COMM_WORLD_RANK = 0 ] || export SHUNT_STAGE_CHUNK=32k; exec "$@"', "sh",
             program_path("openmpi", "check_parts"), "D"]
    result = mpirun("openmpi", blocks=[Block(2, words)], settings={"SHUNT_STAGE_CHUNK": "16k"})
    result.checked()
    assert "do not match" not in result.err and "before the last: 19" not in result.out, str(result)
