# SPDX-License-Identifier: BSD-3-Clause
"""What applications do to their GPU around MPI_Allreduce and in other threads: right results, no hang, nothing spoilt."""
import pathlib

import pytest

from harness import BUILDDIR, mpirun, preload_words, run, simulation

BOTH = {"SHUNT_ALLREDUCE": "oneshot:0-4k,twoshot:4k-"}  # the small and the large sums of sum.h
STAGED = {"SHUNT_ALLREDUCE": "staged"}
GOING = {**BOTH, "SUM_NONBLOCKING": "1"}
KERNEL = "shunt_ll_U32_SUM"


def ran_mostly(result, settings):
    """A nonblocking call is staged if the ranks meet for the first time and one of them comes late."""
    if settings is not GOING:
        return result if settings is STAGED else result.ran("gpu")
    early = {"the ranks had not met on the GPUs yet", "a rank passed host memory"}
    assert set(result.ran("any").stats.reasons) <= early and result.stats.gpu > result.stats.paths["staged"], str(result)
    return result


@pytest.mark.sanitize
@pytest.mark.parametrize("settings", [BOTH, GOING], ids=["blocking", "nonblocking"])
def test_calls_that_wait_for_kernels(family, settings):
    """cudaFree and its like, the first launch of a kernel, in other threads of ranks in Allreduce: with a peer that comes
    only when they are through, and in a circle that opens only when a kernel gives up waiting for its peer. In a third thread
    MPI_Recv goes on meanwhile."""
    result = mpirun(family, 2, "check_waits", KERNEL, "late-peer", "circles", settings=settings)
    assert ran_mostly(result.silent(), settings).checked()["cases"] == 2


@pytest.mark.sanitize
@pytest.mark.parametrize("settings", [BOTH, GOING, STAGED], ids=["gpu", "nonblocking", "staged"])
def test_order_captures_and_threads(family, settings):
    """Unfinished work of the null stream and of blocking streams before the call and a reader right after it; graphs
    captured in each mode, also during set-up; threads without a context."""
    result = mpirun(family, 2, "check_app", "captures", "unsynchronized", "bare-threads", settings=settings)
    result.silent()
    if settings is STAGED:
        result.ran("staged")
    assert ran_mostly(result, settings).checked()["cases"] == 3


@pytest.mark.parametrize("settings", [BOTH, GOING], ids=["blocking", "nonblocking"])
def test_several_contexts_and_gpus(settings):
    """Buffers of one context or GPU while another is current: what cannot run on the GPUs is staged."""
    result = mpirun("openmpi", 2, "check_app", "contexts", "gpus", gpus=4, settings=settings)
    assert "a buffer of another GPU or context than the one in use" in result.silent().ran("any").stats.reasons
    assert result.stats.gpu >= 30, str(result)


def test_kernels_that_own_the_gpu(family):
    """Until the call returns: it is staged after a while, on all ranks, and so is the next; then the GPUs are used again."""
    for settings in ({"SHUNT_LINGER": "off"}, {"SHUNT_LINGER": "on"}):
        result = mpirun(family, 2, "check_waits", KERNEL, "hogs", settings={**BOTH, **settings, "SHUNT_ROOM_MS": "200"})
        result.silent().ran("any")
        # of six calls for each of four buffers two are made meanwhile
        assert result.stats.reasons["a kernel of the application leaves no room on a GPU"] >= 8, str(result)
        assert result.stats.gpu >= 2 * 4 * 3 and result.seconds < 40, str(result)


def test_types_while_kernels_own_the_gpu(family):
    """Kernels that pack are called back, and the blocks copied one by one; what was called back writes nothing later."""
    for limits in ({}, {"SHUNT_STAGE_SIZE": "64k", "SHUNT_STAGE_CHUNK": "64k"}):
        result = mpirun(family, 2, "check_waits", KERNEL, "hogs-and-types", limit=60,
                        settings={**BOTH, **limits, "SHUNT_ROOM_MS": "200", "SHUNT_DEBUG": "trace", "SHUNT_DEBUG_SUBSYS": "stage"})
        assert result.checked()["cases"] > 21, str(result)
        assert "copies: 600" in result.err and "launches: 1" in result.err, str(result)


def test_messages_while_kernels_own_the_gpu(family):
    """Kernels that fetch are called back, a copy engine does their work, and what was called back writes nothing later."""
    result = mpirun(family, 2, "check_waits", KERNEL, "hogs-and-messages", limit=60,
                    settings={"SUM_SINGLE": "1", "SHUNT_MESSAGE_SIZE": "200", "SHUNT_ROOM_MS": "200", "SHUNT_DEBUG": "info"})
    assert result.checked()["cases"] == 3 * 8 + 1, str(result)
    assert result.err.count("no room on the GPU for a kernel that fetches") >= 6, str(result)


def test_death_while_kernels_have_no_room():
    result = mpirun("openmpi", 3, "check_waits", KERNEL, "hog-and-death", settings={"SHUNT_ROOM_MS": "1000"},
                    launcher_words=["--enable-recovery"], limit=30, stats=False)
    assert result.rc is not None and result.seconds < 20, str(result)
    assert result.out.count(": an error\n") == 2 and "a sum" not in result.out, str(result)


def test_launches_that_block():
    """With CUDA_LAUNCH_BLOCKING=1 a rank sits in the launch while its peer has yet to launch."""
    blocking = {**BOTH, "CUDA_LAUNCH_BLOCKING": "1"}
    mpirun("openmpi", 2, "check_waits", KERNEL, "circles", "late-peer", settings=blocking).ran("gpu")
    mpirun("openmpi", 3, "check_app", "bare-threads", settings=blocking).ran("gpu")


@pytest.mark.parametrize("settings", [BOTH, STAGED], ids=["gpu", "staged"])
def test_managed_memory_that_the_cpu_uses(family, settings):
    """Filled and read by the CPU without a call of CUDA, right before and after the call; and by a GPU."""
    mpirun(family, 2, "check_app", "managed", settings=settings).ran("staged" if settings is STAGED else "gpu")


def test_memory_of_any_size(family):
    mpirun(family, 2, "check_app", "many-sizes").ran("gpu")


def test_registered_host_memory(family):
    mpirun(family, 2, "check_app", "registered-memory").ran(
        "staged", reason="send and receive buffer lie in different kinds of memory")


def test_cuda_program_without_mpi():
    """What CUDA answers to a program that does not use MPI is the same with shunt preloaded."""
    program = BUILDDIR / "test/conformance/runtime"
    if not program.exists():
        pytest.skip("the conformance programs are not built")
    result = run([*simulation("h200x2", None, ()), "env", f"LD_PRELOAD={preload_words()}", program], 60).good()
    expected = pathlib.Path(__file__).parent / "conformance/runtime.h200"
    assert result.out == expected.read_text() and not result.err, str(result)
