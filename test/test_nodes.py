# SPDX-License-Identifier: BSD-3-Clause
"""One machine as several nodes (SHUNT_NODE): what is inside of a node runs on the GPUs, what is across nodes is right."""
import pathlib
import random
import re

import pytest

from harness import MEAN, PREFIX, Block, by_name, lines_apart, mpirun, run

ACROSS = "a rank of the communicator runs without shunt or on another node"
# The node of each rank: by slot, by node
LAYOUTS = ["ab", "aabb", "abab", "abbb", "babb", "aaabcc", "abcaca"]
MIXED = LAYOUTS[1:]


def on_nodes(family, layout, *words, settings=None, **more):
    blocks = [Block(1, list(words), settings={"SHUNT_NODE": f"node {name}"}) for name in layout]
    return lines_apart(lambda apart: mpirun(family, blocks=blocks, settings=apart, **more), settings)


def pairs(layout):
    return [layout[i:i + 2] for i in range(0, len(layout), 2)]


def calls_of(layout, rounds):
    """Calls of check_nodes on GPUs, through host memory, and of one rank."""
    inside = {name: layout.count(name) for name in layout}
    groups = [layout, "".join(inside), *pairs(layout)] + [name * n for name, n in inside.items() for _ in range(2)]
    gpu = sum(len(group) for group in groups if len(group) > 1 and len(set(group)) == 1)
    alone = sum(1 for group in groups if len(group) == 1)
    return gpu * rounds, sum(map(len, groups)) * rounds - (gpu + alone) * rounds, alone * rounds


@pytest.mark.parametrize("layout", LAYOUTS)
def test_communicators(layout):
    """Each one runs where it can, exactly; what is across nodes says why it does not. Nobody waits for ranks of other nodes."""
    result = on_nodes("openmpi", layout, "check_nodes", layout, 10)
    result.checked()
    gpu, staged, alone = calls_of(layout, 10)
    stats = result.stats
    assert (stats.gpu, stats.paths["staged"], stats.paths["local"]) == (gpu, staged, alone), str(result)
    assert set(stats.reasons) == {ACROSS} and stats.processes == len(layout), str(result)
    assert "run with shunt" not in result.err, str(result)


def test_mpich():
    result = on_nodes("mpich", "ab", "check_nodes", "ab", 10)
    assert result.checked()["device"] == result.stats.paths["staged"] + result.stats.paths["local"], str(result)
    assert set(result.stats.reasons) == {ACROSS}, str(result)


def test_one_text_is_one_node(family):
    result = on_nodes(family, "bb", "check_nodes", "bb", 10)
    assert result.checked()["device"] == result.stats.gpu + result.stats.paths["local"], str(result)


def test_some_without_a_text():
    """They are a node, too."""
    blocks = [Block(1, ["check_nodes", "xxyy", 5], settings={"SHUNT_NODE": node} if node else {}) for node in ("", "", "y", "y")]
    result = mpirun("openmpi", blocks=blocks)
    result.checked()
    assert (result.stats.gpu, result.stats.paths["staged"]) == calls_of("xxyy", 5)[:2], str(result)


def test_rank_without_shunt_on_one_node():
    """The second that this costs is over for all nodes at once, and the other node runs as ever."""
    words = ["check_nodes", "aabb", 5, "HDDD"]
    blocks = [Block(1, words, False)] + [Block(1, words, settings={"SHUNT_NODE": node}) for node in "abb"]
    result = mpirun("openmpi", blocks=blocks)
    result.checked()
    assert result.stats.gpu == 5 * (2 * 2 + 2), str(result)  # of both on node b: twice their node, and the pair


def check_random(result, layout):
    """All was right; across nodes it was staged, and on communicators of the first ranks, if they are of one node, it was not."""
    result.checked()
    reasons = set(re.findall(r" staged: (.*)$", result.err, re.M))
    assert len(by_name(result)[0]) > 10 and reasons <= {ACROSS, "nothing to do"}, str(result)
    paths = re.findall(r"\]\s+(\w+)\s+(\w+)\s+\d+ calls", result.err)
    ran = {call for call, path in paths if path not in ("host", "staged", "local")}
    assert len(ran) > 4 if layout[0] == layout[1] else not ran, str(result)


@pytest.mark.parametrize("layout", MIXED)
def test_random(layout):
    """Every collective on communicators of the first 1, 2, ... ranks and on graphs of all."""
    seed = random.SystemRandom().randrange(1 << 30)
    check_random(on_nodes("openmpi", layout, "check_random", "pure", seed, 0, 150, limit=120), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_storm(layout):
    """Messages on a communicator of several nodes: those inside of a node are fetched, of the others none is a descriptor."""
    likely = layout in ("aabb", "abab", "abbb")  # a buffer must be used twice between two ranks
    result = on_nodes("openmpi", layout, "check_storm", 80 if likely else 20, MEAN["SHUNT_SIM_SEED"], "probe", limit=100,
                      settings={"SHUNT_MESSAGE_SIZE": "200"})
    result.checked()
    fetched = re.search(r"messages: [1-9]\d* fetched", result.err)
    assert fetched if likely else layout != "ab" or not fetched, str(result)


@pytest.mark.parametrize("layout", ["aab", "abca"])
def test_death_on_another_node(layout):
    """The sums inside of the others go on."""
    result = on_nodes("openmpi", layout, "check_nodes", layout, 5, "D", "die", launcher_words=["--enable-recovery"], limit=40,
                      stats=False)
    others = [rank for rank, node in enumerate(layout) if node != layout[-1]]
    assert sorted(re.findall(r"^world rank (\d): right$", result.out, re.M)) == list(map(str, others)), str(result)


@pytest.mark.parametrize("layout", ["aabb", "aaabcc"])
def test_death_ends_all_nodes(layout):
    result = on_nodes("openmpi", layout, "check_ends", 300, "kill", limit=40, stats=False)
    assert result.rc not in (0, None) and result.seconds < 20, str(result)


def test_model():
    """shunt-topo --nodes: ways, bounds, and a reason wherever the best way is far from them."""
    for name, words in (("dgx-h100", "8 GPUs, 342 GB/s to each other, with 8 NICs"), ("one", "1 GPU")):
        described = pathlib.Path(__file__).parent / f"machines/{name}.topo"
        text = run([PREFIX / "bin/shunt-topo", "--from", described, "--nodes", 64], 30).good().out
        part = text.split("\nAllreduce over 64 nodes of ")[1]
        assert part.startswith(words), text
        rows = [line.split() for line in part.splitlines() if re.match(r" +\d+[kmg ] ", line)]
        assert [row[0] for row in rows] == ["8", "64", "512", "4k", "32k", "256k", "2m", "16m", "128m", "1g"], text
        for row in rows:
            times, bound = list(map(int, row[1:8])), max(map(int, row[8:10]))
            assert min(times) >= bound - 1 and (float(row[11]) > 1.3) <= (len(row) == 13), row
        said = set(re.findall(r"\((\d)\)$", part, re.M))
        assert said and said == set(re.findall(r"^  \((\d)\) ", part, re.M)), text
    assert run([PREFIX / "bin/shunt-topo", "--nodes", 1], 30).rc == 1


@pytest.mark.slow
@pytest.mark.parametrize("layout", MIXED)
def test_more(layout):
    for _ in range(10):
        seed = random.SystemRandom().randrange(1 << 30)
        on_nodes("openmpi", layout, "check_random", seed, 0, 3000, limit=900).checked()
        on_nodes("openmpi", layout, "check_storm", 1000, seed % 1000, "probe", "fresh", limit=900,
                 settings={"SHUNT_MESSAGE_SIZE": "200"}).checked()
