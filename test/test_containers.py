# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that see little of their machine: one GPU or a slice of one, process numbers of their own, no NVML."""
import json
import re

import pytest

import harness
from harness import Block, mpirun, program_path

pytestmark = pytest.mark.skipif(harness.REAL_GPUS, reason="the simulated machines are needed")

WORDS = ["check_allreduce", "--count", "1,5000", "--place", "in,out", "--type", "INT"]
REFUSED = "no peer access between the GPUs"


def slices():
    """What CUDA_VISIBLE_DEVICES says for each: shunt-info knows the UUID of the GPU that a process sees."""
    found = []
    for number in "01":
        line = harness.simulation("h200-mig2", 2, ()) + ["env", f"CUDA_VISIBLE_DEVICES={number}",
                                                         harness.PREFIX / "bin/shunt-info"]
        found += re.findall(r"GPU-([0-9a-f-]{36})", harness.run(line, 30).good().out)[:1]
    return [f"MIG-{uuid}" for uuid in found]


def on_slices(visible, **settings):
    blocks = [Block(1, WORDS, settings={"CUDA_VISIBLE_DEVICES": one} if one else {}) for one in visible]
    return mpirun("openmpi", blocks=blocks, preset="h200-mig2", settings=settings)


def test_slices():
    """No peer access between them, nothing that NVML could tell: host memory, or staged."""
    one, other = slices()
    assert one != other
    result = on_slices([one, other], SHUNT_P2P_LEVEL="PIX").ran("gpu", hosted=True)
    assert result.stats.gpu > 0, str(result)
    on_slices([one, other], SHUNT_SHM_DISABLE="1").ran("staged", reason=REFUSED)


def test_the_same_slice():
    """Which is what ranks get that are not told otherwise: UUIDs tell it, where addresses would be the same for all slices."""
    on_slices([None, None]).ran("staged", reason="two ranks share a GPU")


def test_what_is_said_of_slices():
    said = json.loads(harness.run([*harness.simulation("h200-mig2", 2, ()), harness.PREFIX / "bin/shunt-topo", "--json"],
                                  30).good().out)
    assert len(said["gpus"]) == 1 and said["gpus"][0]["mig"], said


@pytest.mark.skipif(not harness.may_unshare(), reason="needs the right to make namespaces")
@pytest.mark.parametrize("apart", [["--uts", "--ipc"], ["--pid", "--fork", "--mount-proc"]])
def test_one_gpu_each_without_nvml(apart):
    """As a scheduler limits them: the other GPUs can be neither named nor asked about. The proof of the links decides."""
    words = ["/usr/bin/unshare", *apart, program_path("openmpi", WORDS[0]), *WORDS[1:]]
    result = mpirun("openmpi", preset="dgx-h100", gpus=8, faults=["nonvml"], settings={"OMPI_MCA_btl": "self,tcp"},
                    blocks=[Block(1, words, settings={"CUDA_VISIBLE_DEVICES": gpu}) for gpu in "36"])
    result.ran("gpu")
    assert result.seconds < 30, str(result)
