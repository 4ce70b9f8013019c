# SPDX-License-Identifier: BSD-3-Clause
"""Collectives over several nodes (SHUNT_NODE), inside each on the GPUs and between them by UCX."""
import re

import pytest

import harness
from harness import MEAN, REAL_GPUS, Block, by_name, mpirun
from test_allreduce import seed_of

pytestmark = pytest.mark.skipif(harness.BUILD["ucx"] != "yes", reason="shunt was built without UCX")

# The node of each rank: by slot, by node, of one rank and of several
LAYOUTS = ["ab", "aabb", "abab", "abbb", "bbab", "abc", "aaabcc"]
COUNTS = ["--count", "1,17,5000"]
NET = {"SHUNT_NET": "ucx", "SHUNT_NET_SIZE": "0"}


def on_nodes(layout, *words, family="openmpi", settings=None, per_rank=None, **more):
    blocks = [Block(1, list(words), settings={"SHUNT_NODE": name, **(per_rank or {}).get(rank, {})})
              for rank, name in enumerate(layout)]
    return mpirun(family, blocks=blocks, settings={**NET, **(settings or {})}, **more)


def check(layout, *words, **more):
    return on_nodes(layout, "check_allreduce", *words, **more)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    result = check(layout, *COUNTS, "--type", "FLOAT", "--op", "SUM", "--place", "in,out", "--comm", "world")
    result.ran("hier").silent()


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_long(layout):
    check(layout, "--count", "1,17,5000,100001,300001", "--type", "FLOAT,INT", "--op", "SUM,MAX", "--place", "in,out", "--comm",
          "world", limit=400).ran("hier")


def test_root_that_has_gone():
    """Who waits in MPI_Finalize still says that it has not taken part on the GPUs."""
    result = on_nodes("ab", "check_ends", 0, "finalize-before-others-call", limit=30)
    assert result.rc == 0 and result.stats.paths["hier"] > 0, str(result)


CALLS = {"bcast", "reduce", "reduce_scatter_block", "gather", "scatter", "allgather", "alltoall"}


def check_across(layout, *counts, **more):
    result = on_nodes(layout, "check_across", *counts, **more)
    result.checked()
    staged, ran = by_name(result)
    assert not staged and set(ran) == CALLS and result.stats.gpu == result.stats.paths["hier"] > 0, str(result)


@pytest.mark.parametrize("layout, counts", [("ab", (1, 180001)), ("abba", (36000,)), ("aabbc", (9001,))])
def test_other_collectives(layout, counts):
    """Slices of vectors and whole ones, the last chunk shorter, more chunks than are under way at a time."""
    check_across(layout, *counts, settings={"SHUNT_STAGE_CHUNK": "128k"})


def test_many_nodes():
    """Trees of more than two levels."""
    check_across("abcdefgh", 9001)
    check("abcdefgh", "--count", "1,5000", "--type", "INT", "--op", "SUM", "--place", "in,out", "--comm", "world").ran("hier")


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_collectives_long(layout):
    check_across(layout, 1, 5, 4096, 36000, 300000, 300001, limit=400)
    check_across(layout, 4096, 36000, gpus=1, limit=400)
    on_nodes(layout, "check_collectives", "D:D", "DH:HD", "DDH:DHD", limit=400).checked()


@pytest.mark.parametrize("layout", ["aabb", pytest.param("abcaca", marks=pytest.mark.slow)])
def test_random_collectives(layout, pytestconfig):
    """On communicators of the first 1, 2, ... ranks, and on memory of all kinds."""
    result = on_nodes(layout, "check_random", seed_of(pytestconfig), 0, 50 if layout == "aabb" else 1000, limit=200)
    result.checked()
    assert re.search(r" hier ", result.err), str(result)


@pytest.mark.slow
def test_every_call():
    """With arguments that do not count, gaps, and wrong calls."""
    result = on_nodes("aba", "check_collectives", "D:D", limit=100)
    result.checked()
    ran = by_name(result)[1]
    assert set(ran) == CALLS | {"reduce_scatter"}, str(result)


def test_other_collectives_of_one_gpu():
    """What a node's GPUs cannot do together its processes do over UCX."""
    check_across("abab", 1, 20000, gpus=1)


@pytest.mark.parametrize("layout", ["aabb", pytest.param("abb", marks=pytest.mark.slow)])
def test_types_and_operations(layout):
    """All that the kernels can do but MINLOC and MAXLOC, which are staged."""
    result = check(layout, "--type", "gpu", "--op", "all", "--count", "1,1029", "--comm", "world", "--place", "out")
    result.checked()
    assert result.stats.paths["hier"] > 300 and result.stats.gpu == result.stats.paths["hier"], str(result)


def test_mpich():
    check("ab", *COUNTS, "--place", "in,out", "--comm", "world", family="mpich").ran("hier")


@pytest.mark.parametrize("layout", ["abab", "aab"])
def test_random(layout, pytestconfig):
    """Also on communicators that are on one node, on some, or on all."""
    result = check(layout, "--random", pytestconfig.getoption("--cases") // 3, "--seed", seed_of(pytestconfig))
    result.checked()
    assert result.stats.paths["hier"] > 0, str(result)


@pytest.mark.parametrize("layout", ["abba", "abc"])
def test_ranks_on_host_memory(layout):
    """Any of them: then all are staged, and with those that have device memory nobody goes wrong."""
    n = len(layout)
    one = [("D" * n)[:i] + "H" + ("D" * n)[i + 1:] for i in range(n)]
    kinds = ",".join(["D" * n, *one, "H" * n, "D" * n])
    result = check(layout, "--send", kinds, "--recv", kinds, "--count", "0,9000", "--comm", "world", "--place", "in", "--type", "FLOAT", "--op", "SUM")
    result.checked()
    assert result.stats.paths["hier"] > 0 and result.stats.paths["staged"] > 0, str(result)
    assert "a rank passed host memory" in result.stats.reasons, str(result)


def test_nodes_of_one_gpu():
    """The ranks of a node share a GPU, so what the GPUs would do inside goes by UCX, too."""
    check("abba", *COUNTS, "--place", "in,out", "--comm", "world", gpus=1).ran("hier")


def test_many_chunks():
    check("abab", "--count", "140001", "--type", "FLOAT", "--comm", "world", "--place", "in,out",
          settings={"SHUNT_STAGE_CHUNK": "128k"}).ran("hier")


def test_by_tcp():
    """As between machines; and without shared memory."""
    check("aab", *COUNTS, "--comm", "world", settings={"SHUNT_UCX_TLS": "tcp,self"}).ran("hier")


def test_rank_order():
    """Nodes of one rank each keep it, others are staged."""
    words = ["--count", "5000", "--type", "FLOAT", "--data", "rough", "--comm", "world"]
    check("abc", *words, settings={"SHUNT_REPRODUCIBLE": "1"}).ran("hier")
    check("aab", *words, settings={"SHUNT_REPRODUCIBLE": "1"}).ran(
        "staged", reason="SHUNT_REPRODUCIBLE wants rank order, which nodes of several ranks do not keep")


def test_only_where_asked_for():
    check("ab", "--count", "5000", "--comm", "world", settings={"SHUNT_NET": "mpi"}).ran("staged")


@pytest.mark.parametrize("layout, most", [("ab", 300), ("aabb", 150)])
def test_small_ones(layout, most):
    """What is small goes through the host MPI; ranks of a node count."""
    result = check(layout, "--count", f"{most - 1},{most}", "--type", "INT", "--op", "SUM", "--place", "out", "--comm", "world",
                   settings={"SHUNT_NET_SIZE": "1200"})
    result.checked()
    assert result.stats.paths["hier"] == result.stats.paths["staged"] > 0, str(result)
    assert set(result.stats.reasons) == {"less between nodes than SHUNT_NET_SIZE"}, str(result)


SHIPPED = r"messages: ([1-9]\d*) to other nodes over UCX"


@pytest.mark.parametrize("layout", ["ab", "abb", pytest.param("abcaca", marks=pytest.mark.slow)])
def test_storm(layout):
    """Messages of all kinds, in pieces and in one, on this node and across: whole, in order, and with their true sizes to who probes."""
    result = on_nodes(layout, "check_storm", 60, MEAN["SHUNT_SIM_SEED"], "probe", limit=100,
                      settings={"SHUNT_MESSAGE_SIZE": "200", "SHUNT_STAGE_CHUNK": "64k"})
    result.checked()
    assert re.search(SHIPPED, result.err), str(result)


def test_a_node_without_ucx():
    """All ranks learn of it at the start."""
    result = check("ab", "--count", "5000", "--comm", "world", settings={"SHUNT_NET": "auto"},
                   per_rank={1: {"SHUNT_UCX_TLS": "nonsense"}})
    result.ran("staged")


def test_ranks_of_other_settings():
    """Those of a machine start alike, whatever is set for each: here one without a network, and one without a name of its node."""
    result = check("abb", "--count", "5000", "--comm", "world", per_rank={1: {"SHUNT_NET": "mpi"}})
    result.ran("staged")
    check("abb", "--count", "5000", "--comm", "world", per_rank={0: {"SHUNT_NODE": ""}}).ran("hier")


@pytest.mark.skipif(REAL_GPUS, reason="as many GPUs are simulated")
@pytest.mark.parametrize("layout", [8 * "a" + 8 * "b", 7 * "a" + 8 * "b", "".join(8 * name for name in "abcd")])
def test_nodes_of_eight(layout):
    check(layout, "--count", "5000", "--type", "INT", "--place", "out", "--comm", "world", gpus=8, limit=120).ran("hier")


@pytest.mark.parametrize("name, value", [("SHUNT_NET_SIZE", "4k"), ("SHUNT_STAGE_CHUNK", "128k"), ("SHUNT_REPRODUCIBLE", "1")])
def test_nodes_of_other_settings(name, value):
    """What nodes do together they would choose differently: that is found out at the start, by all."""
    result = check("ab", "--count", "70000", "--comm", "world", per_rank={1: {name: value}}).ran("staged")
    line = f"{name} is not the same on ranks 0 and 1: calls on device memory of several nodes are staged"
    assert result.err.count(line) == 1, str(result)


def test_nodes_that_do_their_part_differently():
    """Which is their affair: sums of rings here, in two steps there; all ranks get the same bits."""
    result = check("aaabbb", "--count", "70000", "--type", "FLOAT", "--place", "out", "--comm", "world",
                   per_rank={rank: {"SHUNT_REDUCE_SCATTER_BLOCK": "ring", "SHUNT_ALLGATHER": "ring"} for rank in range(3)})
    result.ran("hier").silent()


@pytest.mark.slow
@pytest.mark.skipif(REAL_GPUS, reason="as above, and slower")
@pytest.mark.parametrize("layout", ["aab", "abb", "aba", "abc"])
@pytest.mark.parametrize("ms", [-1, 7, 60])
def test_survivors_of_a_rank(layout, ms):
    """The last rank is killed, in two layouts a whole node with it. The others get errors, at once."""
    result = on_nodes(layout, "check_ends", ms, "errors-return", launcher_words=["--enable-recovery"], limit=30, stats=False)
    assert result.rc is not None and result.seconds < 15, str(result)
    for rank in range(2):
        assert result.out.count(f"rank {rank}: an error\n") == 2, str(result)
        assert f"rank {rank}: right sums among the survivors\n" in result.out, str(result)
