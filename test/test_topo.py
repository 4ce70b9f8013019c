# SPDX-License-Identifier: BSD-3-Clause
"""shunt-topo on described machines, on simulated ones and on this one: what it prints, writes and draws."""
import collections
import json
import pathlib
import re
import xml.etree.ElementTree

import pytest

import harness

MACHINES = {path.stem: path for path in (pathlib.Path(__file__).parent / "machines").glob("*.topo")}
# GPUs, rings, and how the part on what would be used begins
EXPECTED = {
    "h200x2": (2, 1, "on the GPUs  collectives of all 2"), "dgx-h100": (8, 1, "on the GPUs  collectives of all 8"),
    "dgx-a100": (8, 1, "on the GPUs  collectives of all 8"), "hgx4": (4, 6, "on the GPUs  collectives of all 4"),
    "dgx-1v": (8, 3, "on the GPUs  collectives of all 8; those that do not reach each other meet in host memory (SHM)"),
    "rtx4090x8": (8, 1, "on the GPUs  collectives of all 8; those that do not reach each other meet in host memory (SHM)"),
    "rtx4090x8-p2p": (8, 1, "on the GPUs  collectives of all 8"), "pcie8": (8, 1, "on the GPUs  collectives of all 8"),
    "pairs4": (4, 1, "on the GPUs  collectives of all 4; those that do not reach each other meet in host memory (SHM)"),
    "nodes-8-8": (16, 1, "host memory  collectives of all 16, because between left:GPU0 and right:GPU0: they are on different"),
    "nodes-8x4": (32, 1, "host memory  collectives of all 32, because between n0:GPU0 and n1:GPU0: they are on different"),
    "nodes-7-8": (15, 1, "host memory  collectives of all 15, because between left:GPU0 and right:GPU0: they are on different"),
    "nodes-1-2": (3, 1, "host memory  collectives of all 3, because between left:GPU0 and right:GPU0: they are on different"),
    "mig2": (2, 1, "on the GPUs  collectives of all 2; those that do not reach each other meet in host memory (SHM)"),
    "one": (1, 0, "one GPU      nothing to do"), "smi-a40": (4, 1, "on the GPUs  collectives of all 4"),
}


def topo(*words, simulated=(), rc=0, **settings):
    changes = [f"{name}={value}" for name, value in settings.items()]
    result = harness.run([*simulated, "env", *changes, harness.PREFIX / "bin/shunt-topo", *words], 30)
    assert result.rc == rc, str(result)
    return result


def simulation(preset, gpus, *faults):
    if harness.REAL_GPUS or harness.BUILD["sim"] != "yes":
        pytest.skip("the simulated GPU is needed")
    return harness.simulation(preset, gpus, faults)


def outcome(text):
    return text.split("What would be used\n")[1]


def groups(text):
    return [line.split()[3:] for line in outcome(text).splitlines() if line.startswith("  on the GPUs:")]


def test_machines_are_all_expected():
    assert set(MACHINES) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_described_machine(name, tmp_path):
    gpus, rings, used = EXPECTED[name]
    text = topo("--from", MACHINES[name], "--svg", tmp_path / "picture.svg").out
    assert re.search(rf"^  GPUs +{gpus} on ", text, re.M)
    assert len(re.findall(r"^  \S*GPU\d+( - \S*GPU\d+)+: \d+ GB/s", text, re.M)) == rings, text
    assert text.count("\nTree ") == (2 if gpus > 1 else 0)
    assert outcome(text).strip().startswith(used), text

    picture = xml.etree.ElementTree.parse(tmp_path / "picture.svg").getroot()
    found = collections.Counter(element.tag.split("}")[1] for element in picture.iter())
    assert found["circle"] == 3 * gpus and found["marker"] == 2
    hops = rings * gpus if gpus > 1 else 0
    assert found["line"] >= hops + 2 * (gpus - 1)


@pytest.mark.parametrize("name", EXPECTED)
def test_as_json(name):
    gpus, rings, _ = EXPECTED[name]
    said = json.loads(topo("--from", MACHINES[name], "--json").out)
    assert len(said["gpus"]) == gpus and len(said["links"]) == gpus * (gpus - 1) // 2
    assert len(said["rings"]) == max(rings, 1) and all(sorted(ring["order"]) == list(range(gpus)) for ring in said["rings"])
    assert all(tree["parents"].count(-1) == 1 and tree["parents"][tree["root"]] == -1 for tree in said["trees"])
    assert (len(said["allreduce"]) > 10) == (gpus > 1)


def choices(name, **settings):
    """[(bytes, algorithm, flags, by)] of an Allreduce of all GPUs."""
    said = json.loads(topo("--from", MACHINES[name], "--json", **settings).out)["allreduce"]
    return [(one["bytes"], one["algorithm"], one["flags"], one["by"]) for one in said]


def test_what_is_chosen():
    small, large = choices("dgx-h100")[0], choices("dgx-h100")[-1]
    assert small == (8, "oneshot", "LL", "NVLink P2P") and large[1:] == ("twoshot", "simple", "NVLink P2P")
    assert ("oneshot", "LL128") in {one[1:3] for one in choices("dgx-h100")}
    assert choices("pcie8")[-1][1:] == ("ring", "simple", "P2P")
    assert choices("dgx-1v")[-1][1:] == ("ring", "simple", "P2P along the ring")
    assert {one[3] for one in choices("rtx4090x8")} == {"SHM"}
    assert {one[1] for one in choices("rtx4090x8", SHUNT_SHM_DISABLE="1")} == {"staged"}
    assert {one[1] for one in choices("nodes-8-8")} == {"staged"}
    assert {one[1] for one in choices("hgx4", SHUNT_ALLREDUCE="tree")} == {"tree"}
    sizes = {one[0]: one[1] for one in choices("hgx4", SHUNT_ALLREDUCE="ring:1m-,twoshot")}
    assert sizes[256 << 10] == "twoshot" and sizes[1 << 20] == "ring"
    assert {one[2] for one in choices("h200x2", SHUNT_PROTO="simple")} == {"simple"}
    assert "ring" not in {one[1] for one in choices("pcie8", SHUNT_REPRODUCIBLE="1")}


def test_levels():
    here = MACHINES["rtx4090x8-p2p"]
    for level, expected in {"LOC": [], "PIX": ["01", "67"], "PXB": ["0123", "4567"]}.items():
        text = topo("--from", here, SHUNT_P2P_LEVEL=level, SHUNT_SHM_DISABLE="1").out
        assert groups(text) == [[f"GPU{gpu}" for gpu in group] for group in expected], text
        assert "SHUNT_P2P_LEVEL does not go so far" in outcome(text)
        text = topo("--from", here, SHUNT_P2P_LEVEL=level).out
        assert not groups(text) and "meet in host memory (SHM)" in outcome(text) and "does not go so far)" in outcome(text)
    assert not groups(topo("--from", here, SHUNT_P2P_LEVEL="PHB").out)
    assert "collectives of all 8, since" in topo("--from", here, SHUNT_P2P_LEVEL="PHB").out
    assert "SHUNT_P2P_DISABLE=1" in outcome(topo("--from", here, SHUNT_P2P_DISABLE="1").out)


def test_some_gpus():
    text = topo("--from", MACHINES["rtx4090x8-p2p"], "--gpus", "6,7,0-1").out
    assert re.search(r"^  GPU0 +X +PIX +NODE +NODE ", text, re.M), text
    assert topo("--from", MACHINES["one"], "--gpus", "0").out
    for gpus in "8", "0,0", "3-1", "x", "1-", "":
        assert "shunt-topo: " in topo("--from", MACHINES["dgx-h100"], "--gpus", gpus, rc=1).err


def test_text_is_read_again(tmp_path):
    written = tmp_path / "written"
    for name, path in MACHINES.items():
        written.write_text(topo("--from", path, "--text").out)
        assert topo("--from", written, "--text").out == written.read_text(), name


def test_estimates():
    """Of each size what is done, and of some what each algorithm would take."""
    def rows(text):
        return re.findall(r"^  \d+ (?:B|[KMG]iB) +(.*)$", text.split("The same by each algorithm")[1], re.M)
    text = topo("--from", MACHINES["dgx-h100"]).out
    assert len(rows(text)) == 10 and "-" not in "".join(rows(text))
    assert re.search(r"^  8 B +oneshot +LL +NVLink P2P +\d+\.\d ", text, re.M), text
    text = topo("--from", MACHINES["rtx4090x8"], SHUNT_SHM_DISABLE="1").out
    assert all(row.split()[:2] == ["-", "-"] for row in rows(text))
    assert re.search(r"^  1 GiB +staged +- +host MPI .* some do not reach each other$", text, re.M), text


def test_simulated_machines():
    text = topo(simulated=simulation("dgx-h100", 8), CUDA_VISIBLE_DEVICES="3").out
    assert re.search(r"^  GPUs +8 on 1 node$", text, re.M) and text.count("NV18") > 56
    assert len(set(re.findall(r"uuid (GPU-[0-9a-f-]{36})", text))) == 8
    assert "on the GPUs  collectives of all 8" in text
    text = topo(simulated=simulation("rtx4090x8", 8)).out
    assert re.search(r"^  GPU2 +PXB +PXB +X +PXB +NODE ", text, re.M) and "the driver refuses peer access" in outcome(text)
    assert "NVML tells of no GPU here" in topo(simulated=simulation("h200x2", 2, "nonvml")).out


def test_topo_file(tmp_path):
    matrix = tmp_path / "matrix"
    matrix.write_text("GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n")
    text = topo("--text", simulated=simulation("h200x2", 2), SHUNT_TOPO_FILE=matrix).out
    assert "SYS" in text and "NV18" not in text and "pci 0000:44:00.0" in text  # the address is the one found


def test_this_machine():
    text = topo().out
    assert "from         this machine" in text and re.search(r"^  GPUs +\d+ on 1 node$", text, re.M)


def test_mistakes(tmp_path):
    assert "No such file or directory" in topo("--from", tmp_path / "none", rc=1).err
    (tmp_path / "broken").write_text("GPU0 GPU1\nGPU0 X PIX\n")
    assert 'no row has come for GPU number "1"' in topo("--from", tmp_path / "broken", rc=1).err
    assert "No such file or directory" in topo("--from", MACHINES["one"], "--svg", tmp_path / "no/such/folder", rc=1).err
    assert topo("--wrong", rc=64).err


def test_help():
    text = topo("--help").out
    for word in "--from", "--gpus", "--svg", "--text", "nvidia-smi topo -m", "SHUNT_P2P_LEVEL", "SHUNT_TOPO_FILE":
        assert word in text
    assert topo("--from", MACHINES["h200x2"], "--svg", "-").out.startswith("<?xml")
