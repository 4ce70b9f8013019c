# SPDX-License-Identifier: BSD-3-Clause
"""SHUNT_P2P_LEVEL and SHUNT_TOPO_FILE on simulated machines: which GPUs use peer access, and that all ranks agree on it."""
import pytest

import harness
from harness import Block, mpirun

pytestmark = pytest.mark.skipif(harness.REAL_GPUS, reason="the simulated machines are needed")

FAR = "SHUNT_P2P_LEVEL allows no peer access between GPUs so far apart"
ALONE = {"SHUNT_SHM_DISABLE": "1"}  # not by host memory
WORDS = ["check_allreduce", "--count", "1,5000", "--place", "in,out", "--type", "INT"]


def at(level, ranks=2, preset="rtx4090x8-p2p", family="openmpi", faults=(), gpus=None, **settings):
    return mpirun(family, ranks, *WORDS, preset=preset, faults=faults, gpus=gpus,
                  settings={"SHUNT_P2P_LEVEL": level, **ALONE, **settings})


def apart(level, gpus, **more):
    """One rank for each of these GPUs, which is all that it sees, as its number 0."""
    return mpirun("openmpi", blocks=[Block(1, WORDS, settings={"CUDA_VISIBLE_DEVICES": gpu, "SHUNT_P2P_LEVEL": level, **ALONE})
                                     for gpu in gpus], gpus=8, **more)


def test_one_switch(family):
    at("PIX", family=family).ran("gpu")
    at("NVL", family=family).ran("staged", reason=FAR)


def test_more_switches():
    at("PXB", 4).ran("gpu")
    result = at("PIX", 4, SHUNT_DEBUG="warn").ran("staged", reason=FAR)
    assert "is PXB (several PCIe switches, but no host bridge), SHUNT_P2P_LEVEL is PIX" in result.err, str(result)


def test_near_and_far_pairs():
    """GPUs 1 and 2 are behind several switches, 6 and 7 behind one, 3 and 4 below different host bridges."""
    for gpus, level, there in [("67", "PIX", True), ("12", "PIX", False), ("12", "PXB", True), ("34", "PXB", False),
                               ("34", "PHB", True)]:
        apart(level, gpus, preset="rtx4090x8-p2p").ran("gpu" if there else "staged", reason=None if there else FAR)


def test_nvlink():
    at("NVL", 2, "h200x2").ran("gpu")
    at("LOC", 2, "h200x2").ran("staged", reason=FAR)
    apart("NVL", "37", preset="dgx-h100").ran("gpu")


def test_without_nvml():
    """The driver tells of NVLink between GPUs that a process sees; of those that it does not see nobody tells anything."""
    at("NVL", 2, "h200x2", faults=["nonvml"]).ran("gpu")
    at("NODE", faults=["nonvml"]).ran("staged", reason=FAR)
    at("SYS", faults=["nonvml"]).ran("gpu")
    apart("NODE", "37", preset="dgx-h100", faults=["nonvml"]).ran("staged", reason=FAR)
    apart("SYS", "37", preset="dgx-h100", faults=["nonvml"]).ran("gpu")


def test_ranks_that_want_different_things():
    """One refuses: all stage."""
    result = mpirun("openmpi", blocks=[Block(1, WORDS, settings={"SHUNT_P2P_LEVEL": "LOC" if rank == 1 else "SYS", **ALONE})
                                       for rank in range(3)]).ran("staged")
    assert FAR in result.stats.reasons, str(result)


def test_described_machine(tmp_path):
    """As nvidia-smi prints it, by number; by address; a file that cannot be used is named and counts as none."""
    matrix = "GPU0 GPU1\nGPU0 X PHB\nGPU1 PHB X\n"
    plain, addressed, broken = (tmp_path / name for name in ("plain", "addressed", "broken"))
    plain.write_text(matrix)
    addressed.write_text(matrix + "GPU0: pci 0000:5d:00.0\nGPU1: pci 0000:44:00.0\n")
    broken.write_text("GPU0 GPU1\nGPU0 X NEAR\n")
    for path in plain, addressed:
        at("PXB", 2, "h200x2", SHUNT_TOPO_FILE=path).ran("staged", reason=FAR)
        at("PHB", 2, "h200x2", SHUNT_TOPO_FILE=path).ran("gpu")
    result = at("NVL", 2, "h200x2", SHUNT_TOPO_FILE=broken).ran("gpu")
    assert f'SHUNT_TOPO_FILE={broken} cannot be used: line 2: not a link: "NEAR"' in result.err, str(result)


def test_no_peer_access_at_all(family):
    at("SYS", 2, "h200x2", family, SHUNT_P2P_DISABLE="1").ran("staged", reason="no peer access between the GPUs")
