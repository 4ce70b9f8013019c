# SPDX-License-Identifier: BSD-3-Clause
"""Every algorithm, asked for, on machines of every kind: the results, and that it is what ran; rings in the machine's order."""
import pathlib
import re

import pytest

import harness
from harness import by_name, mpirun

pytestmark = pytest.mark.skipif(harness.REAL_GPUS, reason="the simulated machines are needed")

MACHINES = pathlib.Path(__file__).parent / "machines"
SUMS = ["check_allreduce", "--count", "1,3001,40000", "--place", "in,out", "--type", "INT"]
AROUND = {"SHUNT_ALLREDUCE": "ring", "SHUNT_REDUCE_SCATTER": "ring", "SHUNT_REDUCE_SCATTER_BLOCK": "ring",
          "SHUNT_ALLGATHER": "ring", "SHUNT_BCAST": "ring", "SHUNT_REDUCE": "ring"}
TREES = {"SHUNT_ALLREDUCE": "tree", "SHUNT_BCAST": "tree", "SHUNT_REDUCE": "tree"}
HAVE = {"ring": ("bcast", "reduce", "reduce_scatter", "reduce_scatter_block", "allgather"), "tree": ("bcast", "reduce")}
COLLECTIVES = {"bcast", "reduce", "scan", "exscan", "reduce_scatter", "reduce_scatter_block", "gather", "scatter", "allgather",
               "alltoall"}
VECTORS = {"gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw", "reduce_scatter", "neighbor_allgather",
           "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"}
# ranks, what is simulated, and what is said of it: pairs that SHUNT_P2P_LEVEL does not allow meet in host memory
KINDS = {
    "h200x2": (2, "h200x2", {}),
    "dgx-h100": (8, "dgx-h100", {}),
    "hgx4": (4, "dgx-h100", {"SHUNT_TOPO_FILE": "hgx4"}),
    "dgx-a100": (8, "dgx-h100", {"SHUNT_TOPO_FILE": "dgx-a100"}),
    "dgx-1v": (8, "dgx-h100", {"SHUNT_TOPO_FILE": "dgx-1v", "SHUNT_P2P_LEVEL": "NVL"}),
    "pairs4": (4, "dgx-h100", {"SHUNT_TOPO_FILE": "pairs4", "SHUNT_P2P_LEVEL": "NVL"}),
    "pcie8": (8, "rtx4090x8-p2p", {"SHUNT_TOPO_FILE": "pcie8"}),
    "rtx4090x8": (8, "rtx4090x8", {}),
    "rtx4090x8-p2p": (8, "rtx4090x8-p2p", {}),
    "rtx4090x8-p2p at PIX": (8, "rtx4090x8-p2p", {"SHUNT_P2P_LEVEL": "PIX"}),
}

def run(kind, words, asked, ranks=None, **more):
    most, preset, said = KINDS[kind]
    settings = {**said, **asked}
    if "SHUNT_TOPO_FILE" in settings:
        settings["SHUNT_TOPO_FILE"] = str(MACHINES / (settings["SHUNT_TOPO_FILE"] + ".topo"))
    return mpirun("openmpi", ranks or most, *words, preset=preset, gpus=most, settings=settings, limit=120, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_every_algorithm(kind):
    """Each asked for by a hint of a communicator of its own, all in one job."""
    names = ("oneshot", "twoshot", "ring", "tree")
    result = run(kind, [*SUMS, "--algorithm", ",".join(names)], {}).ran("any")
    paths = result.stats.paths
    assert paths["staged"] == 0 and len({paths[name] for name in names}) == 1 and paths["ring"] > 0, str(result)


@pytest.mark.parametrize("kind", KINDS)
def test_every_collective(kind):
    """In the same way, of each collective those that it has; copies are made where receive buffers can be opened."""
    result = run(kind, ["check_collectives", "by=oneshot,ring,tree,copy", "D:D"], {})
    result.checked()
    staged, ran = by_name(result)
    assert not staged and set(ran) == COLLECTIVES, str(result)
    for algorithm, names in HAVE.items():
        for name in names:
            assert re.search(rf"  {name} +{algorithm} ", result.err), f"{name} {algorithm}\n{result}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_vector(kind):
    """The same of those whose blocks differ, and of neighbours."""
    result = run(kind, ["check_rows", "by=oneshot,copy", "D:D"], {})
    result.checked()
    staged, ran = by_name(result)
    assert not staged and set(ran) == VECTORS, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("kind, ranks, asked", [("h200x2", 2, AROUND), ("h200x2", 2, TREES), ("dgx-1v", 5, AROUND),
                                                ("rtx4090x8", 3, TREES), ("rtx4090x8-p2p at PIX", 4, AROUND)])
def test_every_case(kind, ranks, asked):
    """All counts, types and roots."""
    result = run(kind, ["check_collectives", "D:D", "A:V"], asked, ranks)
    result.checked()
    for name in asked:
        word = name.removeprefix("SHUNT_").lower()
        assert re.search(rf"  {word} +{asked[name]} ", result.err), f"{word}\n{result}"


def test_rings_by_size():
    """A size from which on, and one below it."""
    result = mpirun("openmpi", 3, *SUMS, settings={"SHUNT_ALLREDUCE": "ring:64k-,oneshot"}, preset="dgx-h100")
    assert result.stats.paths["ring"] > 0 and result.stats.paths["oneshot"] > 0, str(result)


def test_by_itself_where_links_are_narrow():
    """Between two sockets the model prefers rings; on NVSwitch nobody does, nor where sums have to come out in one order."""
    large = ["check_allreduce", "--count", "400000", "--place", "out", "--type", "INT"]
    run("pcie8", large, {}, 6).ran("ring")
    run("pcie8", large, {"SHUNT_REPRODUCIBLE": "1"}, 6).ran("twoshot")
    run("dgx-h100", large, {}, 4).ran("twoshot")


def times(ranks, **more):
    """{init, host, device} in ms."""
    words = ["check_init"] + ([] if more.get("preload", True) else ["host"])
    result = mpirun("openmpi", ranks, *words, preset="dgx-h100", gpus=8, **more)
    assert result.rc == 0, str(result)
    found = re.search(r"^check_init: ranks \d+ init (\S+) host (\S+) device (\S+)$", result.out, re.M)
    return dict(zip(("init", "host", "device"), map(float, found.groups()))), result


def test_start_up_cost():
    """MPI_Init of 8 ranks takes no more than 300 ms longer; on a machine that does other work the best of some tries counts."""
    extra = []
    for _ in range(5):
        without, _ = times(8, preload=False)
        with_it, result = times(8, settings={"SHUNT_DEBUG": "info"})
        extra.append(with_it["init"] - without["init"])
        if extra[-1] < 300:
            break
    assert min(extra) < 300, extra
    assert re.search(r"GPU \d was set up in \d+\.\d ms", result.err), str(result)
    assert re.search(r"8 ranks had met after \d+\.\d ms", result.err), str(result)


def test_sums_that_round_once():
    """16-bit floats are not added hop by hop."""
    result = mpirun("openmpi", 3, "check_allreduce", "--type", "FLOAT16", "--count", "40000", "--place", "out",
                    settings={"SHUNT_ALLREDUCE": "ring"}, preset="dgx-h100").ran("gpu")
    assert result.stats.paths["ring"] == 0, str(result)
