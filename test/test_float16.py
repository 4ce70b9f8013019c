# SPDX-License-Identifier: BSD-3-Clause
"""shunt's 16-bit floats and MPI's pairs of value and location: on the GPUs, staged, on host memory, in mixed company."""
import pathlib
import subprocess

import pytest

from harness import BUILD, PREFIX, REAL_GPUS, mpirun

FLOATS = ["--type", "FLOAT16,BFLOAT16", "--op", "SUM,PROD,MIN,MAX"]
PAIRS = ["--type", "SHORT_INT,2INT,LONG_INT,FLOAT_INT,DOUBLE_INT,2INTEGER,2REAL,2DOUBLE_PRECISION", "--op", "MINLOC,MAXLOC"]
ODD = ["--count", "1,3,17,1025", "--place", "in,out", "--soff", "0,1e", "--roff", "3e", "--data", "rough"]


def check(family, ranks, *words, **more):
    return mpirun(family, ranks, "check_allreduce", *words, **more)


@pytest.mark.parametrize("algorithm", ["oneshot", "twoshot"])
@pytest.mark.parametrize("what", [FLOATS, PAIRS], ids=["floats", "pairs"])
def test_on_gpus(family, algorithm, what):
    """Bit by bit in rank order; sums of 16-bit floats rounded once."""
    check(family, 2, *what, *ODD, "--ordered", settings={"SHUNT_ALLREDUCE": algorithm}).ran(algorithm)


@pytest.mark.parametrize("algorithm", ["oneshot", "twoshot"])
def test_order_of_four(algorithm):
    for what in (FLOATS, PAIRS):
        check("openmpi", 4, *what, "--count", "5,2000", "--data", "rough", "--ordered", "--skew", "1e",
              settings={"SHUNT_ALLREDUCE": algorithm}).ran(algorithm)


@pytest.mark.sanitize
@pytest.mark.parametrize("what", [FLOATS, PAIRS], ids=["floats", "pairs"])
def test_staged(family, what):
    check(family, 2, *what, *ODD, "--errno", settings={"SHUNT_ALLREDUCE": "staged"}).ran(
        "staged", reason="SHUNT_ALLREDUCE says so")


@pytest.mark.parametrize("kinds", ["H", "HD", "DDH", "DM"])
@pytest.mark.parametrize("what", [FLOATS, PAIRS], ids=["floats", "pairs"])
def test_mixed_ranks(what, kinds):
    check("openmpi", 3, *what, "--count", "0,1,1025", "--place", "in,out", "--data", "rough", "--send", kinds, "--recv",
          kinds).ran("any")


def test_mixed_ranks_of_mpich():
    check("mpich", 2, *FLOATS, "--count", "0,1,1025", "--place", "in,out", "--send", "HD,H", "--recv", "HD,H").ran("any")


def test_large_count_form():
    check("mpich", 2, "--large", *FLOATS, "--count", "1,1025", "--send", "D,H", "--recv", "D,H").ran("any")


def test_odd_addresses(family):
    """Of elements of 2 bytes: legal on this processor, so it must work, in host memory too."""
    check(family, 2, *FLOATS, "--count", "17,1025", "--send", "D,H", "--recv", "D,H", "--soff", "1", "--roff", "3").ran("any")


def test_zero_counts():
    check("openmpi", 2, "--type", "FLOAT16,DOUBLE_INT", "--op", "SUM,MINLOC", "--count", "0,5,0", "--null").ran("any")


# ---- the program of test/check_float16.c ----

@pytest.mark.sanitize
@pytest.mark.parametrize("kinds", ["D", "H", "HD"])
def test_as_a_program_sees_them(family, kinds):
    result = mpirun(family, 2, "check_float16", kinds)
    assert result.checked()["device"] == result.stats.gpu + result.stats.paths["staged"], str(result)
    assert (result.stats.gpu > 0) == (kinds == "D"), str(result)


@pytest.mark.parametrize("kinds", ["D", "H", "HDDD"])
def test_known_sums_of_four(kinds):
    mpirun("openmpi", 4, "check_float16", kinds).checked()


@pytest.mark.parametrize("shape", ["oneshot", "twoshot", "staged"])
def test_known_sums_by_algorithm(shape):
    kinds = "HDDD" if shape == "staged" else "DDDD"
    mpirun("openmpi", 4, "check_float16", kinds, settings={"SHUNT_ALLREDUCE": shape}).checked()


def test_linked(family, tmp_path):
    """A program made with mpicc and -lshunt alone, with the installed header."""
    if not BUILD["mpi"][family]["mpicc"]:
        pytest.skip("no compiler for this MPI")
    top, program = pathlib.Path(BUILD["srcdir"]), tmp_path / "check_float16"
    (tmp_path / "include").mkdir()
    (tmp_path / "include/shunt.h").symlink_to(PREFIX / "include/shunt.h")
    subprocess.run([BUILD["mpi"][family]["mpicc"], "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{tmp_path}",
                    f"-I{top}", top / "test/check_float16.c", top / "test/by_driver.c", top / "test/gpu.c", "-o", program, f"-L{PREFIX}/lib",
                    "-Wl,--no-as-needed", "-lshunt", f"-Wl,-rpath,{PREFIX}/lib", "-ldl", "-lm"], check=True, timeout=60)
    result = mpirun(family, 2, program, "D", preload=False)
    assert result.checked()["device"] > 0 and result.stats.gpu > 0, str(result)


@pytest.mark.skipif(REAL_GPUS, reason="this node has GPUs")
def test_node_without_a_gpu(family):
    """shunt takes part as soon as the program asks for the types."""
    mpirun(family, 2, "check_float16", "H", simulate=False).checked()


def test_in_a_session():
    mpirun("mpich", 1, "check_float16", "session").checked()


def test_where_shunt_is_off(family):
    mpirun(family, 2, "check_float16", "none", settings={"SHUNT_DISABLE": "1"}).checked()
