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


@pytest.mark.parametrize("ranks", [2, 3])
def test_copies_of_staged_calls_that_wait(ranks):
    """Of nonblocking calls that are staged, while another thread sits in cudaFree: a third, in MPI_Recv, does not copy for the
    thread that has begun them."""
    result = mpirun("openmpi", ranks, "check_waits", KERNEL, "staged-circles")
    assert result.silent().checked()["failures"] == 0 and result.stats.paths["staged"] == (2 if ranks == 2 else 4), str(result)


def test_results_that_are_brought_to_their_place_later():
    """Nor does it copy there for that thread what the GPUs have made elsewhere in the buffer."""
    mpirun("openmpi", 2, "check_waits", KERNEL, "aside-circle").ran("gpu")


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
