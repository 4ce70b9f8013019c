# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of memory on every rank and side: right results, the path that each should take, nothing leaked."""
import itertools

import pytest

from harness import mpirun

ALL_KINDS = "D,B,S,M,A,V,X,H,P"


def check(family, ranks, *words, **more):
    return mpirun(family, ranks, "check_allreduce", *words, **more)


def test_kinds_that_run_on_the_gpus(family):
    """cudaMalloc at any place of a block; managed, pool and VMM memory through shunt's own scratch."""
    check(family, 2, "--send", "D,B,S,M,A,V", "--recv", "D,B,S,M,A,V", "--count", "17,30000", "--ordered",
          "--errno").ran("gpu")


@pytest.mark.parametrize("algorithm", ["twoshot", "staged"])
def test_kind_against_kind(algorithm):
    check("openmpi", 2, "--send", ALL_KINDS, "--recv", ALL_KINDS, "--count", "5000",
          settings={"SHUNT_ALLREDUCE": algorithm}, limit=120).ran("any")


def test_ranks_of_different_kinds():
    mixed = ["DMAV", "VDMA", "SBDM", "MMDD", "DPDH", "HHHD"]
    check("openmpi", 4, "--send", ",".join(mixed), "--recv", ",".join(mixed), "--count", "5,5000",
          limit=120).ran("any")


def test_device_kinds_of_different_ranks_run_on_the_gpus():
    check("openmpi", 4, "--send", "DMAV,VDMA,SBDM", "--recv", "MDVA,DDSB", "--count", "5,5000", limit=120).ran("gpu")


def test_host_and_device_ranks(family):
    """All assignments of host and device memory to two ranks and two sides."""
    kinds = ",".join("".join(pair) for pair in itertools.product("HD", repeat=2))
    result = check(family, 2, "--send", kinds, "--recv", kinds, "--count", "2,1024,70000", "--place", "in,out")
    result.ran("any")
    assert "a rank passed host memory" in result.stats.reasons, str(result)


@pytest.mark.parametrize("ranks", [2, 4])
def test_rank_that_never_touches_cuda(ranks):
    """The checker itself sees that no CUDA library was mapped into it."""
    kinds = "H" + "D" * (ranks - 1)
    result = check("openmpi", ranks, "--send", kinds, "--recv", kinds, "--count", "1,1000,100000", "--comm",
                   "world,dup,reverse").ran("staged")
    assert set(result.stats.reasons) == {"a rank passed host memory"}, str(result)


def test_program_on_host_memory_alone(family):
    """No GPU is touched, no call is anything but the host's, and no CUDA library is mapped."""
    result = check(family, 2, "--send", "H", "--recv", "H", "--count", "0,1,1000", "--place", "in,out")
    result.checked()
    assert set(result.stats.paths) <= {"host"}, str(result)


def test_pinned_memory_is_host_memory(family):
    result = check(family, 2, "--send", "P", "--recv", "P", "--count", "1,1000")
    result.checked()
    assert set(result.stats.paths) <= {"host"}, str(result)


def test_memory_of_another_gpu(family):
    """A buffer on a GPU that is not current: right, and the current device stays."""
    check(family, 2, "--send", "X,D,X", "--recv", "X,X,D", "--count", "1,1000", "--place", "in,out").ran("any")


def test_fresh_allocations_in_each_call():
    """An address that comes back with other memory behind it: nothing may be remembered of the old."""
    mpirun("openmpi", 2, "check_life", "fresh-memory", "24", limit=120).ran("gpu")
    check("openmpi", 2, "--fresh", "--send", "D,B,S,D,B", "--recv", "B,S,D", "--count", "40000,80001",
          "--ordered", settings={"SHUNT_ALLREDUCE": "twoshot"}, limit=120).ran("twoshot")


def test_device_memory_stays_flat():
    mpirun("openmpi", 2, "check_life", "memory-flat", "40", limit=120).ran("gpu")


def test_user_operations_and_derived_types(family):
    result = mpirun(family, 2 if family == "mpich" else 3, "check_user", "D", "D")
    result.ran("staged")
    assert set(result.stats.reasons) <= {"a user-defined operation", "a derived datatype"}, str(result)


@pytest.mark.parametrize("kinds", [("DH", "HD"), ("M", "D"), ("V", "A")])
def test_user_operations_on_other_kinds(kinds):
    mpirun("openmpi", 4, "check_user", *kinds).ran("any")
