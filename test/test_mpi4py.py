# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own tests: on host memory they end as without shunt; and on arrays in device memory (device_arrays.py)."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import pytest

from harness import BUILDDIR, PROGRAMS, SANITIZE, mpirun, read_stats

HERE = pathlib.Path(__file__).parent
pytestmark = [pytest.mark.skipif(SANITIZE, reason="Python is not built with sanitizers")]
# The list for every run; --slow runs all of them. Not: what spawns processes, which one machine of few cores refuses
HOST = ["test_p2p_buf", "test_cco_buf", "test_cco_nb_buf", "test_request", "test_status", "test_pack", "test_op"]
DEVICE = ["test_cco_buf.py", "test_p2p_buf.py", "test_op"]
DEVICE_ALL = [f"{name}.py" for name in [  # all that use arrays
    "test_cco_buf", "test_cco_buf_inter", "test_cco_nb_buf", "test_cco_nb_vec", "test_cco_ngh_buf", "test_cco_pr_buf",
    "test_cco_pr_ngh_buf", "test_cco_pr_vec", "test_cco_vec", "test_cco_vec_inter", "test_io", "test_op", "test_p2p_buf",
    "test_p2p_buf_matched", "test_p2p_buf_part", "test_pack", "test_rma", "test_rma_nb"]]
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


@pytest.fixture
def library(family, tmp_path):
    """Settings with which mpi4py takes this MPI: its library by the name that mpi4py asks for."""
    ldd = subprocess.run(["ldd", PROGRAMS / family / "check_errors"], capture_output=True, text=True, check=True, timeout=30)
    name, path = re.search(r"(libmpi(?:ch)?\.so\.\d+) => (\S+)", ldd.stdout).groups()
    (tmp_path / name.replace("mpich", "mpi")).symlink_to(path)
    settings = {"PYTHONPATH": BUILDDIR / "mpi4py", "MPI4PY_MPIABI": family}
    return settings if family == "openmpi" else {**settings, "LD_LIBRARY_PATH": tmp_path}


def run_tests(family, library, program, names, preload=True, limit=170, mean=True):
    """What the tests of one rank have come to: words like "Ran 70 tests", "OK (skipped=3)"; all ranks alike."""
    words = ["-q", "--no-threads", *(word for name in names for word in ("-i", name)),
             *(word for name in NEVER for word in ("-e", name))]
    settings = {**library, **({} if mean else {"SHUNT_SIM_MEAN": "0"})}
    with tempfile.TemporaryDirectory() as folder:  # a launcher may mix what two ranks say in the middle of a line
        result = mpirun(family, 2, "/bin/sh", "-c", f'exec "$@" 2>{folder}/$$', "sh", sys.executable, *program, *words,
                        preload=preload, settings=settings, limit=limit)
        result.err += "".join(path.read_text() for path in sorted(pathlib.Path(folder).iterdir()))
    result.stats = read_stats(result.err + result.out)
    ends = re.findall(r"^(Ran \d+ tests?) in \S+\n\n((?:OK|FAILED).*)$", result.err, re.M)
    return set(ends), result


def compare(family, library, tests, names, limit=170):
    program = [tests / "main.py"]
    without, alone = run_tests(family, library, program, names, preload=False, limit=limit)
    ends, result = run_tests(family, library, program, names, limit=limit)
    assert ends and ends == without, f"{without} without shunt\n{alone if not without else ''}\n{result}"


def on_device(family, library, tests, names, **more):
    ends, result = run_tests(family, library, [HERE / "device_arrays.py", tests], names, **more)
    result.good()
    assert ends and all(end.startswith("OK") for _, end in ends), str(result)
    return ends, result


@pytest.mark.parametrize("family", ["openmpi"])
def test_host_memory(family, tests, library):
    compare(family, library, tests, HOST)


@pytest.mark.slow
def test_all_on_host_memory(family, tests, library):
    compare(family, library, tests, [], limit=900)


@pytest.mark.parametrize("family", ["openmpi"])
def test_device_memory(family, tests, library):
    assert on_device(family, library, tests, DEVICE)[1].stats.gpu > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", DEVICE_ALL)
def test_all_on_device_memory(family, tests, library, name):
    print(on_device(family, library, tests, [name], limit=900, mean=False)[0])
