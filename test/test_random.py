# SPDX-License-Identifier: BSD-3-Clause
"""Random collectives on device memory against the host MPI on host memory, thousands of them; a failure names its seed."""
import random
import re

import pytest

from harness import by_name, mpirun

CALLS = {"bcast", "reduce", "scan", "exscan", "reduce_scatter_block", "reduce_scatter", "gather", "scatter", "allgather",
         "alltoall", "gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw", "neighbor_allgather",
         "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"}

FORMS = ["nonblocking", "persistent"]


def check(family, ranks, cases, *words, **more):
    """On communicators of 1 to `ranks` ranks."""
    result = mpirun(family, ranks, "check_random", *words, random.SystemRandom().randrange(1 << 30), 0, cases, **more)
    result.checked()
    staged, ran = by_name(result)
    if "pure" in words:  # what a rank without neighbours sends is staged, if nobody gets anything else either
        reasons = set(re.findall(r" staged: (.*)$", result.err, re.M))
        assert set(staged) <= {"neighbor_allgather", "neighbor_allgatherv"} and reasons <= {"nothing to do"}, str(result)
    return result, set(ran)


@pytest.mark.parametrize("ranks, cases", [(5, 700), (2, 1200)])
def test_on_the_gpus(ranks, cases):
    """All buffers in device memory, no neighbour twice."""
    assert check("openmpi", ranks, cases, "pure", limit=120)[1] == CALLS


def test_nine_ranks():
    """On eight GPUs: what has both ranks of one GPU is staged, smaller communicators run."""
    result, ran = check("openmpi", 9, 150, gpus=8, limit=120)
    assert len(ran) > 10 and by_name(result)[0], str(result)


def test_mpich():
    assert check("mpich", 2, 600, "pure", limit=120)[1] == CALLS


@pytest.mark.parametrize("settings", [{}, {"SHUNT_PROTO": "ll128"}, {"SHUNT_SCRATCH_SIZE": "7m"}],
                         ids=["auto", "ll128", "rings"])
def test_all_kinds(settings):
    """Of memory, mixed between ranks and sides: what all have runs, the rest is staged."""
    result, ran = check("openmpi", 3, 400, settings=settings, limit=120)
    assert len(ran) > 10 and by_name(result)[0], str(result)


def test_copy_engines():
    """From the first byte on, once the receive buffers are open everywhere."""
    moves = CALLS - {"reduce", "scan", "exscan", "reduce_scatter_block", "reduce_scatter"}
    result, _ = check("openmpi", 3, 500, "pure", settings={f"SHUNT_{call.upper()}": "copy" for call in moves}, limit=120)
    copied = {call for call in moves if re.search(rf"\]\s+{call} +copy ", result.err)}
    assert len(copied) > 10, str(result)


def test_by_host_memory():
    """GPUs that do not reach each other."""
    result, ran = check("openmpi", 3, 700, "pure", settings={"SHUNT_P2P_DISABLE": "1"}, limit=120)
    assert ran == CALLS and "by host memory between GPUs" in result.err, str(result)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family, ranks, cases", [("openmpi", 3, 500), ("mpich", 2, 300)])
def test_forms(form, family, ranks, cases):
    """What goes on after its call, and what is started several times."""
    result, ran = check(family, ranks, cases, form, "pure", limit=120)
    assert ran == CALLS, str(result)


def test_a_start_is_a_launch(family):
    """What is persistent is registered when it is made. (The kernels' clock is slow, so none gives up waiting for a late peer.)"""
    result, ran = check(family, 2, 200, "persistent", "pure", settings={"SHUNT_SIM_SLOW": "1000", "SHUNT_LINGER": "off"}, limit=120)
    assert len(ran) > 15 and "a start took 1 launches at most, and all 0 registrations" in result.out, str(result)


@pytest.mark.parametrize("form", FORMS)
def test_forms_on_all_kinds(form):
    result, ran = check("openmpi", 3, 300, form, limit=120)
    assert len(ran) > 10 and by_name(result)[0], str(result)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["blocking", *FORMS])
@pytest.mark.parametrize("ranks", range(1, 10))
def test_more(ranks, form):
    check("openmpi", ranks, 20000, *([form] if form in FORMS else []), limit=3600)
