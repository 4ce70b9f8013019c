# SPDX-License-Identifier: BSD-3-Clause
"""Jobs over machines made of namespaces, with the host MPI over TCP between them: all calls are right, start and death
take no longer than elsewhere. With --slow also over networks that lose, delay, or stand still."""
import random
import re
import shutil
import threading
import time

import pytest

import machines
from harness import BUILD, MEAN
from test_hier import SHIPPED
from test_nodes import ACROSS, calls_of, check_random

pytestmark = pytest.mark.skipif(not machines.permitted(), reason="needs the right to make namespaces and interfaces")
# Ranks of each machine, how they are given out, and the machine of each rank that comes of it
LAYOUTS = [((1, 1), "slot", "ab"), ((2, 2), "slot", "aabb"), ((2, 2), "node", "abab"), ((1, 3), "node", "abbb"),
           ((3, 1, 2), "slot", "aaabcc"), ((3, 1, 2), "node", "abcaca")]
FEW = [LAYOUTS[2], LAYOUTS[4]]
UCX = {"SHUNT_NET": "ucx", "SHUNT_NET_SIZE": "0"}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with machines.Machines(2, tmp_path_factory.mktemp("two")) as made:
        yield made


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with machines.Machines(3, tmp_path_factory.mktemp("three")) as made:
        yield made


@pytest.fixture
def job(two, three):
    """Runs a program on as many machines as a layout has."""
    def start(layout, *words, **more):
        sizes, order, _ = layout
        return (two if len(sizes) == 2 else three).mpirun(sizes, order, *words, **more)
    return start


@pytest.fixture
def broken(tmp_path):
    """Two machines that a test may do something to."""
    with machines.Machines(2, tmp_path) as made:
        yield made


def layouts(which):
    return pytest.mark.parametrize("layout", which, ids=lambda layout: layout[2])


def run_random(job, layout, cases, limit=100, **more):
    seed = random.SystemRandom().randrange(1 << 30)
    check_random(job(layout, "check_random", "pure", seed, 0, cases, limit=limit, **more), layout[2])


def run_storm(job, layout, rounds, limit=100, **more):
    result = job(layout, "check_storm", rounds, MEAN["SHUNT_SIM_SEED"], "probe", limit=limit,
                 settings={"SHUNT_MESSAGE_SIZE": "200"}, **more)
    result.checked()


@layouts(LAYOUTS)
def test_communicators(job, layout):
    result = job(layout, "check_nodes", layout[2], 6)
    result.checked()
    stats = result.stats
    assert (stats.gpu, stats.paths["staged"], stats.paths["local"]) == calls_of(layout[2], 6), str(result)
    assert set(stats.reasons) == {ACROSS} and stats.processes == len(layout[2]), str(result)


@layouts(FEW)
def test_every_collective(job, layout):
    run_random(job, layout, 150)


@layouts(FEW)
def test_storm(job, layout):
    run_storm(job, layout, 30)


@layouts(FEW)
def test_death_of_one(job, layout):
    """A process of the last machine, in the middle of an operation of all: the job ends on all of them, with an error."""
    result = job(layout, "check_ends", 500, "kill", stats=False, limit=40)
    assert result.rc not in (0, None), str(result)
    assert result.seconds < 10 + 5, str(result)  # with the start


def burden(machine):
    """256 interfaces, some with addresses that lead nowhere, such as container bridges have, some that are down."""
    machine.do("sh", "-c", "for i in $(seq 128); do echo link add x$i type veth peer name y$i; done | ip -batch -; "
               "ip link add docker0 type bridge; ip address add 172.17.0.1/16 dev docker0; ip link set docker0 up; "
               "ip address add 192.168.7.1/24 dev x1; ip link set x1 up; ip address add 192.168.8.1/24 dev x2")


def test_many_interfaces(broken):
    """They take next to no time; over UCX neither. (What does not hang takes seconds only on a machine that does other work.)"""
    ways = [{}, UCX] if BUILD["ucx"] == "yes" else [{}]
    before = [broken.mpirun((1, 1), "slot", "check_nodes", "ab", 1, settings=settings).good().seconds for settings in ways]
    for machine in broken.all:
        burden(machine)
    for settings, start in zip(ways, before):
        result = broken.mpirun((1, 1), "slot", "check_nodes", "ab", 1, settings=settings)
        assert result.checked()["cases"] > 0 and result.seconds < start + 3, f"{start}\n{result}"
        assert (result.stats.paths["hier"] > 0) == bool(settings), str(result)


over_ucx = pytest.mark.skipif(BUILD["ucx"] != "yes", reason="shunt was built without UCX")


@over_ucx
@layouts([LAYOUTS[3]])
def test_collectives_over_ucx(job, layout):
    result = job(layout, "check_across", 1, 9001, settings=UCX)
    result.checked()
    assert result.stats.gpu == result.stats.paths["hier"] > 0 and not re.search(r" staged: ", result.err), str(result)


@over_ucx
@layouts([LAYOUTS[4]])
def test_allreduce_over_ucx(job, layout):
    """What is across nodes meets over UCX, on all layouts, and nothing is staged."""
    result = job(layout, "check_nodes", layout[2], 3, settings=UCX)
    result.checked()
    gpu, across, alone = calls_of(layout[2], 3)
    stats = result.stats
    assert (stats.gpu, stats.paths["hier"], stats.paths["local"]) == (gpu + across, across, alone), str(result)
    assert not stats.reasons, str(result)


@over_ucx
@layouts([LAYOUTS[2]])
def test_storm_over_ucx(job, layout):
    result = job(layout, "check_storm", 60, MEAN["SHUNT_SIM_SEED"], "probe", settings={
        **UCX, "SHUNT_MESSAGE_SIZE": "200", "SHUNT_STAGE_CHUNK": "64k"})
    result.checked()
    assert re.search(SHIPPED, result.err), str(result)


# ---- by hand ----

@pytest.mark.slow
@over_ucx
@layouts(FEW)
@pytest.mark.parametrize("ms", [-1, 500])
def test_survivors_on_other_machines(job, layout, ms):
    """A process of the last machine ends in the middle of Allreduces, and the launcher leaves the others alone: each gets an error within
    10 s, and again at once, and goes on with the others. (The launcher then hangs often.)"""
    result = job(layout, "check_ends", ms, "errors-return", stats=False, limit=40, launcher_words=["--enable-recovery"], settings=UCX)
    for rank in range(len(layout[2]) - 1):
        assert result.out.count(f"rank {rank}: an error\n") == 2, str(result)
        assert f"rank {rank}: right sums among the survivors\n" in result.out, str(result)


@pytest.mark.slow
@over_ucx
@layouts(LAYOUTS)
def test_over_ucx_long(job, layout):
    job(layout, "check_across", 1, 36000, 100001, settings=UCX, limit=300).checked()
    job(layout, "check_nodes", layout[2], 40, settings=UCX, limit=300).checked()


def some_over_ucx(made):
    """Of a network that is not as it should be."""
    made.mpirun((2, 2), "node", "check_across", 1, 36000, limit=300, settings=UCX).checked()
    made.mpirun((2, 2), "node", "check_nodes", "abab", 20, limit=300, settings=UCX).checked()


@pytest.mark.slow
@layouts(LAYOUTS)
def test_long(job, layout):
    run_random(job, layout, 3000, limit=900)
    run_storm(job, layout, 500, limit=900)


def some(made, limit=300):
    made.mpirun((2, 2), "node", "check_nodes", "abab", 20, limit=limit).checked()
    run_storm(lambda layout, *words, **more: made.mpirun(*layout[:2], *words, **more), LAYOUTS[2], 20, limit=limit)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nft"), reason="needs nftables")
def test_loss(broken):
    broken.loss(2)
    some(broken)
    if BUILD["ucx"] == "yes":
        some_over_ucx(broken)


@pytest.mark.slow
def test_slow_network(broken):
    broken.rate(50)
    some(broken)
    if BUILD["ucx"] == "yes":
        some_over_ucx(broken)


@pytest.mark.slow
def test_delay(broken):
    broken.delay("b", 5)
    some(broken)
    if BUILD["ucx"] == "yes":
        some_over_ucx(broken)


@pytest.mark.slow
@pytest.mark.parametrize("net", ["mpi", pytest.param("ucx", marks=over_ucx)])
def test_outage(broken, net):
    """For three seconds, in the middle."""
    done = []
    words = ["check_random", 1, 0, 1500] if net == "mpi" else ["check_nodes", "abab", 120]
    settings = {} if net == "mpi" else UCX
    job = threading.Thread(target=lambda: done.append(broken.mpirun((2, 2), "node", *words, limit=300, settings=settings)))
    job.start()
    time.sleep(5)
    broken.cut("b")
    time.sleep(3)
    assert job.is_alive(), "it is over before the network is"
    broken.mend("b")
    job.join()
    done[0].checked()
