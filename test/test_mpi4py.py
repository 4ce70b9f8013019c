# SPDX-License-Identifier: BSD-3-Clause
"""Some of mpi4py's own tests: on host memory they end as without shunt; and on arrays in device memory (device_arrays.py).
mpi4py_suite.py runs all of them, by hand."""
import pytest

import mpi4py_suite
from harness import SANITIZE

pytestmark = [pytest.mark.skipif(SANITIZE, reason="Python is not built with sanitizers")]
HOST = ["test_p2p_buf", "test_cco_buf", "test_cco_nb_buf", "test_request", "test_status", "test_pack", "test_op"]
DEVICE = ["test_cco_buf.py", "test_p2p_buf.py"]


@pytest.fixture(scope="module")
def tests():
    try:
        return mpi4py_suite.fetch()
    except mpi4py_suite.Absent as absent:
        pytest.skip(str(absent))


@pytest.fixture
def library(family, tmp_path):
    return mpi4py_suite.library_of(family, tmp_path)


@pytest.mark.parametrize("family", ["openmpi"])
def test_host_memory(family, tests, library):
    program = [tests / "main.py"]
    without, alone = mpi4py_suite.run_tests(family, library, program, HOST, preload=False)
    ends, result = mpi4py_suite.run_tests(family, library, program, HOST)
    assert ends and ends == without, f"{without} without shunt\n{alone if not without else ''}\n{result}"


@pytest.mark.parametrize("family", ["openmpi"])
def test_device_memory(family, tests, library):
    _, result, good = mpi4py_suite.on_device(family, library, tests, DEVICE)
    assert good and result.stats.gpu > 0, str(result)


@pytest.mark.parametrize("family", ["openmpi"])
@pytest.mark.parametrize("kind", ["dlpack", "cupy"])
def test_other_arrays(family, kind, tests, library):
    """CuPy is one that the tests bring, and as strict as it."""
    cupy = {"PYTHONPATH": f"{library['PYTHONPATH']}:{mpi4py_suite.HERE / 'fake_cupy'}"}
    _, result, good = mpi4py_suite.on_device(family, {**library, **cupy}, tests, ["test_p2p_buf_matched.py"], kind)
    assert good and sum(mpi4py_suite.calls_of(result)) > 0, str(result)
