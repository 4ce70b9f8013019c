# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of the application that own the GPU until a call of MPI returns: ours are called back, and no call hangs."""
import pytest

from harness import by_name, mpirun

BOTH = {"SHUNT_ALLREDUCE": "oneshot:0-4k,twoshot:4k-"}  # the small and the large sums of sum.h


def test_kernels_that_own_the_gpu(family):
    """Until the call returns: it is staged after a while, on all ranks, and so is the next; then the GPUs are used again."""
    for settings in ({"SHUNT_LINGER": "off"}, {"SHUNT_LINGER": "on"}):
        result = mpirun(family, 2, "check_room", "sums", settings={**BOTH, **settings, "SHUNT_ROOM_MS": "200"})
        result.silent().ran("any")
        # of six calls for each of four buffers two are made meanwhile
        assert result.stats.reasons["a kernel of the application leaves no room on a GPU"] >= 8, str(result)
        assert result.stats.gpu >= 2 * 4 * 3 and result.seconds < 40, str(result)


def test_a_kernel_that_comes_back_late():
    """Who has ended its part, and waits for a rank that is to write to it, refuses to stage; that rank waits for room, then."""
    result = mpirun("openmpi", 2, "check_room", "late", limit=40,
                    settings={**BOTH, "SHUNT_ROOM_MS": "2000", "SHUNT_LINGER": "off"})
    assert result.silent().ran("any").stats.paths["twoshot"] >= 8, str(result)


def test_types_while_kernels_own_the_gpu(family):
    """Kernels that pack are called back, and the blocks copied one by one; what was called back writes nothing later."""
    for limits in ({}, {"SHUNT_STAGE_SIZE": "64k", "SHUNT_STAGE_CHUNK": "64k"}):
        result = mpirun(family, 2, "check_room", "types", limit=60,
                        settings={**BOTH, **limits, "SHUNT_ROOM_MS": "200", "SHUNT_DEBUG": "trace", "SHUNT_DEBUG_SUBSYS": "stage"})
        assert result.checked()["cases"] > 21, str(result)
        assert "copies: 600" in result.err and "launches: 1" in result.err, str(result)


def test_messages_while_kernels_own_the_gpu(family):
    """Kernels that fetch are called back, a copy engine does their work, and what was called back writes nothing later."""
    result = mpirun(family, 2, "check_room", "messages", limit=60,
                    settings={"SUM_SINGLE": "1", "SHUNT_MESSAGE_SIZE": "200", "SHUNT_ROOM_MS": "200", "SHUNT_DEBUG": "info"})
    assert result.checked()["cases"] == 3 * 8 + 1, str(result)
    assert result.err.count("no room on the GPU for a kernel that fetches") >= 6, str(result)


def test_death_while_kernels_have_no_room():
    result = mpirun("openmpi", 3, "check_room", "death", settings={"SHUNT_ROOM_MS": "1000"},
                    launcher_words=["--enable-recovery"], limit=30, stats=False)
    assert result.rc is not None and result.seconds < 20, str(result)
    assert result.out.count(": an error\n") == 2 and "a sum" not in result.out, str(result)


def test_death_of_a_leaf_that_has_no_room():
    """Who has done all of its part does not wait for a rank that will never do its own."""
    result = mpirun("openmpi", 3, "check_room", "death-of-a-leaf", preset="dgx-h100", settings={"SHUNT_ROOM_MS": "5000"},
                    launcher_words=["--enable-recovery"], limit=30, stats=False)
    assert result.rc is not None and result.seconds < 20, str(result)
    assert result.out.count(": a message\n") == 2 and "an error" not in result.out, str(result)


def taken_back(result, ranks, counts):
    """Of three calls of each kind the second finds no room, and perhaps the third, too, as the kernel is still there."""
    result.silent().ran("any")
    assert result.checked()["failures"] == 0, str(result)
    staged, ran = by_name(result)
    for name in "bcast", "scatter", "reduce", "gather", "gatherv", "neighbor_alltoallv", "scan", "exscan", "alltoallv":
        assert staged[name] >= counts * ranks <= ran[name], str(result)
    assert result.err.count("a kernel of the application leaves no room on a GPU") == 9, str(result)


@pytest.mark.parametrize("preset", ["dgx-h100", "rtx4090x8"])
def test_collectives_with_a_root(preset):
    """Who has done all of its part waits for those that have not begun, and takes it back if one of these finds no room. Where it
    could not, since in place it has overwritten what it has sent, nobody begins before all have."""
    settings = {"SHUNT_ROOM_MS": "100"}
    taken_back(mpirun("openmpi", 3, "check_room", "rooted", "large-rooted", preset=preset, settings=settings, limit=90), 3, 2)


def test_collectives_with_a_root_of_two():
    taken_back(mpirun("mpich", 2, "check_room", "rooted", settings={"SHUNT_ROOM_MS": "100"}), 2, 1)
