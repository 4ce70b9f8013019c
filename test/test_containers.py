# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that see little of their machine: one GPU, process numbers of their own, no NVML."""
import pytest

import harness
from harness import Block, mpirun, program_path

pytestmark = pytest.mark.skipif(harness.REAL_GPUS, reason="the simulated machines are needed")

WORDS = ["check_allreduce", "--count", "1,5000", "--place", "in,out", "--type", "INT"]


@pytest.mark.skipif(not harness.may_unshare(), reason="needs the right to make namespaces")
@pytest.mark.parametrize("apart", [["--uts", "--ipc"], ["--pid", "--fork", "--mount-proc"]])
def test_one_gpu_each_without_nvml(apart):
    """As a scheduler limits them: the other GPUs can be neither named nor asked about. The proof of the links decides."""
    words = ["/usr/bin/unshare", *apart, program_path("openmpi", WORDS[0]), *WORDS[1:]]
    result = mpirun("openmpi", preset="dgx-h100", gpus=8, faults=["nonvml"], settings={"OMPI_MCA_btl": "self,tcp"},
                    blocks=[Block(1, words, settings={"CUDA_VISIBLE_DEVICES": gpu}) for gpu in "36"])
    result.ran("gpu")
    assert result.seconds < 30, str(result)
