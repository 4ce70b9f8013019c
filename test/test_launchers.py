# SPDX-License-Identifier: BSD-3-Clause
"""Ranks find each other's arena, and no other, by what each launcher tells them (base/identity.c)."""
import collections
import concurrent.futures
import os
import re
import subprocess

import pytest

import harness

PROGRAM = harness.BUILDDIR / "test/launched"
OUTER = ("OMPI_", "PMIX_", "PMI_", "MPI_", "SLURM_", "PRTE_")  # of a launcher that runs these tests


def launcher(family, ranks):
    if not harness.BUILD["mpi"][family]["mpirun"]:
        pytest.skip(f"{family} is not installed")
    return [*harness.launcher(family), "-n", str(ranks)]


def launch(*words):
    """What the ranks said, by the name of their arena: sorted (world_rank, local_rank, local_size, found)."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    done = subprocess.run([*words, PROGRAM], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = collections.defaultdict(list)
    for line in re.findall(r"^launched: (.*)$", done.stdout, re.M):
        words = line.split()
        jobs[words[0]].append(tuple(map(int, words[2::2])))
    assert jobs, done.stdout + done.stderr
    left = [name for name in os.listdir("/dev/shm") if name.startswith(tuple(jobs))]
    assert not left
    return {name: sorted(ranks) for name, ranks in jobs.items()}


def expected(ranks):
    return [(rank, rank, ranks, ranks) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("family", harness.FAMILIES)
def test_ranks_find_each_other(family, ranks):
    assert list(launch(*launcher(family, ranks)).values()) == [expected(ranks)]


@pytest.mark.parametrize("family", harness.FAMILIES)
def test_jobs_at_the_same_time_are_apart(family):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        jobs = [pool.submit(launch, *launcher(family, 2)) for _ in range(4)]
        found = [job.result() for job in jobs]
    assert len({name for job in found for name in job}) == 4
    assert all(list(job.values()) == [expected(2)] for job in found)


@pytest.mark.parametrize("outer, inner", [("openmpi", "mpich"), ("mpich", "mpich")])
def test_job_in_a_job(outer, inner):
    """A rank starts a job of its own, which inherits the outer launcher's variables."""
    jobs = launch(*launcher(outer, 2), *launcher(inner, 3))
    assert list(jobs.values()) == [expected(3)] * 2


def test_without_a_launcher():
    assert launch() == {"alone": [()]}
