# SPDX-License-Identifier: BSD-3-Clause
"""MPI_Allreduce on device memory against the rank-ordered reference and the host MPI: what runs on the GPUs and how."""
import random

import pytest

from harness import mpirun

INTEGERS = "SIGNED_CHAR,UNSIGNED_CHAR,SHORT,UNSIGNED_SHORT,INT,UNSIGNED,LONG,UNSIGNED_LONG"
NAMES = ("LONG_LONG_INT,UNSIGNED_LONG_LONG,INT8_T,UINT8_T,INT16_T,UINT16_T,INT32_T,UINT32_T,INT64_T,UINT64_T,AINT,"
         "OFFSET,COUNT,INTEGER,REAL,DOUBLE_PRECISION")
ODD_COUNTS = "1,2,3,7,8,9,15,17,1023,1024,1025"
ALGORITHMS = ["oneshot", "twoshot"]
COMMS = "world,dup,idup,split,reverse,undefined,group,create,merge,cart,self"


def check(family, ranks, *words, **more):
    return mpirun(family, ranks, "check_allreduce", *words, **more)


@pytest.mark.sanitize
@pytest.mark.parametrize("types, ops", [
    (INTEGERS, "SUM,PROD,MIN,MAX,BAND,BOR,BXOR,LAND,LOR,LXOR"),
    ("FLOAT,DOUBLE", "SUM,PROD,MIN,MAX"),
    ("C_FLOAT_COMPLEX,C_DOUBLE_COMPLEX", "SUM,PROD"),
    (NAMES, "SUM,MAX"),
    ("BYTE", "BAND,BOR,BXOR"),
    ("SHORT_INT,2INT,LONG_INT,FLOAT_INT,DOUBLE_INT", "MINLOC,MAXLOC"),
], ids=["integers", "floats", "complex", "names", "bytes", "pairs"])
def test_types_and_operations(family, types, ops):
    check(family, 2, "--type", types, "--op", ops, "--count", "1,100", "--data", "exact,rough", "--ordered", "--errno",
          "--fresh").ran("gpu")


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_counts(family, algorithm, ranks):
    """Below and not divisible by the rank count, around the width of vectors and of chunks."""
    check(family, ranks, "--type", "SIGNED_CHAR,FLOAT,C_DOUBLE_COMPLEX", "--count", ODD_COUNTS, "--place",
          "in,out", "--data", "rough", "--ordered",
          settings={"SHUNT_ALLREDUCE": algorithm}).ran(algorithm)


@pytest.mark.parametrize("algorithm, ranks", [("oneshot", 2), ("twoshot", 2), ("twoshot", 3)])
def test_larger_counts(algorithm, ranks):
    check("openmpi", ranks, "--type", "SIGNED_CHAR,DOUBLE", "--count", "70001,262144", "--place", "in,out", "--ordered",
          settings={"SHUNT_ALLREDUCE": algorithm}, limit=120).ran(algorithm)


def test_million():
    check("openmpi", 2, "--type", "FLOAT", "--count", "1000003", "--ordered", "--data", "rough", limit=120).ran("gpu")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_alignment(algorithm):
    """Send and receive, own and peer's: each at its own distance from what a vector wants."""
    check("openmpi", 2, "--type", "SIGNED_CHAR,SHORT,INT,DOUBLE", "--op", "SUM", "--count", "9,1025", "--soff", "0,1e,3e",
          "--roff", "0,1e,2e", "--skew", "0,1e", "--ordered", settings={"SHUNT_ALLREDUCE": algorithm}).ran(algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_misaligned_elements(algorithm):
    """An odd address for elements of several bytes: legal on this processor, so it must work."""
    check("openmpi", 2, "--type", "SHORT,FLOAT,DOUBLE,C_DOUBLE_COMPLEX", "--count", "1,17,1025", "--soff", "0,1",
          "--roff", "0,3", "--place", "in,out", settings={"SHUNT_ALLREDUCE": algorithm}).ran("any")


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "staged"])
def test_communicators(family, algorithm):
    check(family, 2 if family == "mpich" else 5, "--comm", COMMS, "--count", "1,100", "--place", "in,out",
          settings={"SHUNT_ALLREDUCE": algorithm}).ran(algorithm, local=True)


def test_inter_communicator(family):
    check(family, 2 if family == "mpich" else 3, "--comm", "inter", "--count", "0,1,100").ran(
        "staged", reason="an inter-communicator")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_forced_staging(family, ranks):
    result = check(family, ranks, "--type", "FLOAT,INT", "--count", "1,1000,300000", "--place", "in,out", "--data",
                   "exact,rough", settings={"SHUNT_ALLREDUCE": "staged", "SHUNT_STAGE_CHUNK": "64k"})
    if ranks > 1:
        result.ran("staged", reason="SHUNT_ALLREDUCE says so")
    else:
        result.ran("any", local=True)


def test_types_without_a_kernel_stage(family):
    check(family, 2, "--type", "LONG_DOUBLE,C_LONG_DOUBLE_COMPLEX,LONG_DOUBLE_INT", "--op", "SUM,MINLOC,MAXLOC",
          "--count", "1,33", "--place", "in,out").ran("staged", reason="an element type without a GPU kernel")


def test_every_pair_as_the_host_has_it(family):
    """Also those that the host MPI refuses: the same error class."""
    check(family, 2, "--type", "all", "--op", "all", "--count", "5", limit=120).ran("any")


def test_zero_counts(family):
    result = check(family, 2, "--type", "all", "--op", "SUM,LAND,MINLOC", "--count", "0", "--null", "--place", "in,out")
    assert result.checked()["neutral"] > 0
    assert result.stats.paths["staged"] == 0, str(result)


def test_zero_counts_between_others(family):
    check(family, 2, "--count", "0,5,0,0,7", "--null", "--place", "in,out").ran("gpu")


def test_names_with_p(family):
    check(family, 2, "--pmpi", "--count", "1,100").ran("gpu")


def test_large_count_form():
    check("mpich", 2, "--large", "--count", "0,1,1025", "--place", "in,out").ran("gpu")


def test_pending_error_stays(family):
    check(family, 2, "--pending", "--count", "1,1000", "--send", "D,M", "--recv", "D").ran("any")


def test_thread_without_context(family):
    check(family, 2, "--thread", "--count", "1,1000").ran("gpu")


@pytest.mark.parametrize("ranks", [2, 4])
def test_rough_sums_are_in_rank_order(ranks):
    """The same bits on all ranks and in every run, whatever the algorithm and the place of the buffers."""
    for algorithm in ALGORITHMS:
        check("openmpi", ranks, "--type", "FLOAT,DOUBLE,C_FLOAT_COMPLEX,C_DOUBLE_COMPLEX", "--op", "SUM,PROD", "--data",
              "rough", "--count", "7,2000", "--ordered", "--skew", "0,1e",
              settings={"SHUNT_ALLREDUCE": algorithm, "SHUNT_REPRODUCIBLE": "1"}).ran(algorithm)


def seed_of(config):
    seed = config.getoption("--seed") or random.randrange(1, 1 << 30)
    print(f"--seed {seed}")
    return seed


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_random(pytestconfig, family, ranks):
    """Random types, operations, counts, offsets, communicators, kinds of memory for each rank and buffer."""
    cases = pytestconfig.getoption("--cases")
    check(family, ranks, "--random", cases, "--seed", seed_of(pytestconfig), "--type", "all", "--op", "all", "--comm",
          COMMS, "--send", "HPDBSMAVXER,DDDDH,D", "--recv", "HPDBSMAVXER,DDDDH,D", "--most-count", "3000", "--null",
          limit=120 + cases).ran("any", local=True)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_random_on_gpus(pytestconfig, algorithm):
    cases = pytestconfig.getoption("--cases")
    check("openmpi", 3, "--random", cases, "--seed", seed_of(pytestconfig), "--type", "gpu", "--op",
          "SUM,PROD,MIN,MAX,MINLOC,MAXLOC", "--comm", "world,dup,reverse,cart,merge", "--send", "D", "--recv", "D", "--ordered", "--aligned",
          "--most-count", "20000", settings={"SHUNT_ALLREDUCE": algorithm}, limit=120 + cases).ran(algorithm)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS, "staged"])
def test_matrix(family, algorithm, ranks):
    check(family, ranks, "--type", "all", "--op", "all", "--count", "0," + ODD_COUNTS, "--place", "in,out", "--data",
          "exact,rough", "--soff", "0,1e", "--roff", "0,3e", settings={"SHUNT_ALLREDUCE": algorithm},
          limit=3600).ran("any")


@pytest.mark.slow
def test_beyond_two_gigabytes():
    """count x size above 2^31 bytes, on both sides of the number of elements that an int holds."""
    check("openmpi", 2, "--type", "DOUBLE", "--count", "268435459", "--blind", "--place", "in", limit=3600).ran("gpu")
    check("mpich", 2, "--type", "SIGNED_CHAR", "--count", "2147483651", "--large", "--blind", "--place", "in",
          limit=3600).ran("gpu")
