# SPDX-License-Identifier: BSD-3-Clause
"""What algorithms are chosen by: tables of `shunt-topo --tune`, and hints of communicators. All ranks always choose alike."""
import json
import pathlib
import re

import pytest

import harness
from harness import PREFIX, Block, command, mpirun, run

pytestmark = pytest.mark.skipif(harness.REAL_GPUS, reason="the simulated machines are needed")

TOPO = str(PREFIX / "bin/shunt-topo")
SUMS = ["check_allreduce", "--count", "1,3001,40000", "--place", "in,out", "--type", "INT"]
DIFFER = "ranks choose algorithms by different settings, hints or tables"


def hash_of(machine):
    """Of a described machine, as the library has it."""
    path = pathlib.Path(__file__).parent / "machines" / f"{machine}.topo"
    return json.loads(run([TOPO, "--from", path, "--json"], 30).good().out)["hash"]


def table(rows, machine, group=None):
    """A table with its end."""
    text = f"shunt-tune 1\nmachine {machine}\ngroup {group or machine} 2\n" + "".join(row + "\n" for row in rows)
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % (1 << 64)
    return text + f"end {value:016x}\n"


TREE = ["allreduce tree auto 64:1.00 1048576:2.00", "allreduce oneshot ll 64:3.00 1048576:400.00"]
RING = ["allreduce ring auto 64:1.00 1048576:2.00", "allreduce oneshot ll 64:3.00 1048576:400.00"]


@pytest.fixture(scope="module")
def here():
    return hash_of("h200x2")


@pytest.fixture
def tree(tmp_path, here):
    path = tmp_path / "tree"
    path.write_text(table(TREE, here))
    return path


def differing(*settings, words=SUMS, family="openmpi"):
    """A job whose ranks have these."""
    return mpirun(family, blocks=[Block(1, words, settings=one) for one in settings])


def test_measured_here(tmp_path):
    """A table is written under mpirun, and used by the next job without a word."""
    path = tmp_path / "table"
    line = command("openmpi", 2, TOPO, "--tune", path, "--tune-to", "65536", preload=False, settings={"SHUNT_TUNE_FILE": "x"})
    result = run(line, 100).good()
    assert f"{path}: 2 ranks" in result.out and path.read_text().startswith("shunt-tune 1\n"), str(result)
    rows = re.findall(r"^(\w+) (\w+) (\w+) 64:[0-9.]+ 1024:", path.read_text(), re.M)
    assert len(rows) == 23 and ("allreduce", "tree", "auto") in rows and ("bcast", "oneshot", "ll128") in rows, rows
    mpirun("openmpi", 2, *SUMS, settings={"SHUNT_TUNE_FILE": path}).silent().ran("gpu")


def test_no_launcher():
    assert "to be started by mpirun" in harness.run([TOPO, "--tune", "/dev/null"], 30).err


def test_what_it_says_is_done(family, tree):
    mpirun(family, 2, *SUMS, settings={"SHUNT_TUNE_FILE": tree}).silent().ran("tree")
    mpirun(family, 2, *SUMS, settings={"SHUNT_TUNE_FILE": tree, "SHUNT_ALLREDUCE": "twoshot"}).ran("twoshot")
    mpirun(family, 2, *SUMS, settings={"SHUNT_TUNE_FILE": tree, "SHUNT_REPRODUCIBLE": "1"}).ran("oneshot")


def test_groups(tmp_path):
    """All of four PCIe GPUs, which have a group, and two of them, which have none."""
    path, machine = tmp_path / "t", hash_of("rtx4090x8-p2p")
    text = run([TOPO, "--from", pathlib.Path(__file__).parent / "machines/rtx4090x8-p2p.topo", "--gpus", "0-3", "--json"], 30).out
    path.write_text(table(TREE, machine, json.loads(text)["hash"]))
    settings = {"SHUNT_TUNE_FILE": path}
    mpirun("openmpi", 4, *SUMS, settings=settings, preset="rtx4090x8-p2p", gpus=8).silent().ran("tree")
    result = mpirun("openmpi", 2, *SUMS, settings=settings, preset="rtx4090x8-p2p", gpus=8).silent().ran("gpu")
    assert result.stats.paths["tree"] == 0, str(result)


def test_different_tables(tmp_path, tree, here):
    """Named in one line, and nobody uses any: in no case are results wrong."""
    ring = tmp_path / "ring"
    ring.write_text(table(RING, here))
    for other in {"SHUNT_TUNE_FILE": ring}, {}:
        result = differing({"SHUNT_TUNE_FILE": tree}, other).ran("gpu")
        assert DIFFER in result.err and "ranks 0 and 1" in result.err, str(result)
        assert result.stats.paths["tree"] == result.stats.paths["ring"] == 0, str(result)


def test_another_machine(tmp_path):
    path = tmp_path / "table"
    path.write_text(table(TREE, hash_of("dgx-h100")))
    result = mpirun("openmpi", 2, *SUMS, settings={"SHUNT_TUNE_FILE": path}).ran("gpu")
    assert f"SHUNT_TUNE_FILE={path} is of another machine and is not used" in result.err, str(result)
    assert result.stats.paths["tree"] == 0 and DIFFER not in result.err, str(result)


@pytest.mark.parametrize("damage, why", [
    (lambda text: text.replace("2.00", "3.00"), "it has been changed since it was written"),
    (lambda text: text[:len(text) // 2], "it has no end"),
    (lambda text: "", "not a table of shunt-topo --tune"),
    (None, "No such file or directory")])
def test_damaged(tree, damage, why):
    """On one rank: that one says so, and then tables differ."""
    broken = tree.with_name("broken")
    if damage:
        broken.write_text(damage(tree.read_text()))
    result = differing({"SHUNT_TUNE_FILE": broken}, {"SHUNT_TUNE_FILE": tree}).ran("gpu")
    assert f"SHUNT_TUNE_FILE={broken} cannot be used: {why}" in result.err and DIFFER in result.err, str(result)
    assert result.stats.paths["tree"] == 0, str(result)


@pytest.mark.parametrize("one, other", [
    ({"SHUNT_ALLREDUCE": "ring"}, {"SHUNT_ALLREDUCE": "tree"}), ({"SHUNT_PROTO": "ll"}, {}),
    ({"SHUNT_ALLREDUCE": "ring:1k-,oneshot"}, {"SHUNT_ALLREDUCE": "ring:2k-,oneshot"})])
def test_different_settings(one, other):
    result = differing(one, other).ran("gpu")
    assert DIFFER in result.err and result.stats.paths["ring"] == result.stats.paths["tree"] == 0, str(result)


def test_hints(family):
    paths = mpirun(family, 2, *SUMS, "--algorithm", "tree:1k-100k,ring", settings={"SHUNT_ALLREDUCE": "twoshot"}).silent() \
        .ran("gpu").stats.paths
    assert paths["tree"] > 0 and paths["ring"] > 0 and paths["twoshot"] == 0, paths


def test_different_hints():
    result = mpirun("openmpi", blocks=[Block(1, [*SUMS, "--algorithm", hint]) for hint in ("ring", "tree")]).ran("gpu")
    assert DIFFER in result.err and result.stats.paths["ring"] == result.stats.paths["tree"] == 0, str(result)


def test_refused_hint():
    result = mpirun("openmpi", 2, *SUMS, "--algorithm", "fastest").ran("gpu")
    assert "the hint shunt_allreduce=fastest of a communicator is refused (allowed: auto, staged, oneshot" in result.err, str(result)
