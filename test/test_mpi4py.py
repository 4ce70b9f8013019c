# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own tests: on host memory they end as without shunt; and on arrays in device memory (device_arrays.py)."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

from harness import BUILDDIR, SANITIZE, mpirun

HERE = pathlib.Path(__file__).parent
pytestmark = [pytest.mark.skipif(SANITIZE, reason="Python is not built with sanitizers")]
# The list for every run; --slow runs all of them. Not: what spawns processes, which one machine of few cores refuses
HOST = ["test_p2p_buf", "test_cco_buf", "test_cco_nb_buf", "test_request", "test_status", "test_pack", "test_op"]
DEVICE = ["test_cco_buf.py", "test_p2p_buf.py", "test_op"]
DEVICE_ALL = ["test_cco_buf", "test_cco_nb_buf", "test_cco_vec", "test_p2p_buf", "test_pack", "test_op", "test_io"]
NEVER = ["test_spawn", "test_dynproc", "test_util_pool", "test_doc"]


def pip(*words):
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        pytest.skip("absent archive: mpi4py cannot be fetched: " + done.stderr.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def tests():
    """The folder of the tests, of the release that is installed in build/mpi4py, which comes without them."""
    wheel, source = BUILDDIR / "mpi4py", BUILDDIR / "mpi4py-source"
    if not (wheel / "mpi4py").is_dir():
        pip("install", "-q", "--only-binary", ":all:", "--target", wheel, "mpi4py>=4.1")
    version = re.search(r"mpi4py-([\d.]+)\.dist-info", " ".join(os.listdir(wheel)))[1]
    folder = source / f"mpi4py-{version}/test"
    if not folder.is_dir():
        shutil.rmtree(source, ignore_errors=True)
        pip("download", "-q", "--no-deps", "--no-binary", "mpi4py", "-d", source, f"mpi4py=={version}")
        with tarfile.open(next(source.glob("*.tar.gz"))) as archive:
            archive.extractall(source)
    return folder


def run_tests(program, names, preload=True, limit=170):
    """What the tests of one rank have come to: words like "Ran 70 tests", "OK (skipped=3)"; all ranks alike."""
    words = ["-q", "--no-threads", *(word for name in names for word in ("-i", name)),
             *(word for name in NEVER for word in ("-e", name))]
    settings = {"PYTHONPATH": BUILDDIR / "mpi4py", "MPI4PY_MPIABI": "openmpi"}
    result = mpirun("openmpi", 2, sys.executable, *program, *words, preload=preload, settings=settings, limit=limit)
    ends = re.findall(r"^(Ran \d+ tests?) in \S+\n\n((?:OK|FAILED).*)$", result.err, re.M)
    return set(ends), result


def compare(tests, names, limit=170):
    program = [tests / "main.py"]
    without, _ = run_tests(program, names, preload=False, limit=limit)
    ends, result = run_tests(program, names, limit=limit)
    assert ends and ends == without, f"{without} without shunt\n{result}"


def on_device(tests, names, limit=170):
    ends, result = run_tests([HERE / "device_arrays.py", tests], names, limit=limit)
    result.good()
    assert ends and all(end.startswith("OK") for _, end in ends), str(result)
    assert result.stats.gpu > 0, str(result)


def test_host_memory(tests):
    compare(tests, HOST)


@pytest.mark.slow
def test_all_on_host_memory(tests):
    compare(tests, [], limit=600)


def test_device_memory(tests):
    on_device(tests, DEVICE)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEVICE_ALL)
def test_all_on_device_memory(tests, name):
    on_device(tests, [name], limit=600)
