# SPDX-License-Identifier: BSD-3-Clause
"""shunt-info on simulated GPUs: what it finds, and what it says will be done."""
import re

import pytest

import harness

SERVED = "only MPI_Allreduce is served"


def info(preset="h200x2", gpus=2, faults=(), **settings):
    """What shunt-info prints, and the part of it on what will be done."""
    if harness.REAL_GPUS or harness.BUILD["sim"] != "yes":
        pytest.skip("the simulated GPU is needed")
    changes = [f"{name}={value}" for name, value in settings.items()]
    command = harness.simulation(preset, gpus, faults) + ["env", *changes, harness.PREFIX / "bin/shunt-info"]
    text = harness.run(command, 30).good().out
    return text, text.split("What will be done")[1]


def matrix(text, name):
    rows = re.search(rf"^  {name} .*\n((?: +GPU\d+ .*\n)+)", text, re.M)[1].splitlines()
    return [row.split()[1:] for row in rows]


def test_two_gpus():
    text, outcome = info()
    assert len(re.findall(r"^  GPU \d +NVIDIA H200, .* GiB, compute capability 9\.0$", text, re.M)) == 2
    assert len(set(re.findall(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text))) == 2
    assert matrix(text, "peer access") == [["-", "yes"], ["yes", "-"]]
    assert SERVED in outcome and "because" not in outcome and "except" not in outcome


def test_eight_gpus():
    text, outcome = info("dgx-h100", 8)
    assert matrix(text, "peer access") == [["-" if i == j else "yes" for j in range(8)] for i in range(8)]
    assert SERVED in outcome and "except" not in outcome


def test_links():
    if not list(harness.PREFIX.glob("lib/shunt/sim/libnvidia-ml.so.1")):
        pytest.skip("the simulated GPU has no NVML")
    assert matrix(info()[0], "links") == [["-", "NV18"], ["NV18", "-"]]


def test_level():
    text, outcome = info("rtx4090x8-p2p", 8, SHUNT_P2P_LEVEL="PIX", CUDA_VISIBLE_DEVICES="7,6,1")
    assert matrix(text, "links") == [["-", "PIX", "NODE"], ["PIX", "-", "NODE"], ["NODE", "NODE", "-"]]
    assert re.findall(r"so far apart \((.*)\)", outcome) == ["GPU 0 and GPU 2", "GPU 1 and GPU 2"]


def test_no_peer_access():
    text, outcome = info(faults=["nop2p"])
    assert matrix(text, "peer access") == [["-", "no"], ["no", "-"]]
    assert SERVED in outcome and "by host memory (SHM): no peer access between the GPUs (GPU 0 and GPU 1)" in outcome
    outcome = info(faults=["nop2p"], SHUNT_SHM_DISABLE="1")[1]
    assert SERVED in outcome and "except: no peer access between the GPUs (GPU 0 and GPU 1)" in outcome
    outcome = info(SHUNT_P2P_DISABLE="1")[1]
    assert outcome.count("by host memory (SHM): no peer access between the GPUs (SHUNT_P2P_DISABLE=1)") == 1


def test_gpus_for_games():
    text, outcome = info("rtx4090x8", 8)
    assert len(re.findall(r"^  GPU \d +NVIDIA GeForce RTX 4090, .* GiB, compute capability 8\.9$", text, re.M)) == 8
    assert matrix(text, "peer access") == [["-" if i == j else "no" for j in range(8)] for i in range(8)]
    assert SERVED in outcome and "by host memory (SHM): no peer access between the GPUs" in outcome


@pytest.mark.parametrize("case, cause", [
    ({"gpus": 1}, "two ranks share a GPU (there is one)"),
    ({"SHUNT_ALLREDUCE": "staged"}, "SHUNT_ALLREDUCE says so (staged)"),
    ({"SHUNT_P2P_DISABLE": "1", "SHUNT_SHM_DISABLE": "1"},
     "no peer access between the GPUs (SHUNT_P2P_DISABLE=1 and SHUNT_SHM_DISABLE=1)"),
    ({"SHUNT_ARENA_SIZE": "1000t"}, "no shared memory between the ranks of this node (too little in /dev/shm)"),
])
def test_all_through_host_memory(case, cause):
    outcome = info(**case)[1]
    assert f"because: {cause}" in outcome and "all of it goes through host memory" in outcome


def test_disabled():
    outcome = info(SHUNT_DISABLE="1")[1]
    assert "goes to the MPI untouched, because: SHUNT_DISABLE=1" in outcome and SERVED not in outcome
