# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that wait for the next call."""
import re

import pytest

from harness import Block, mpirun


# Ten microseconds of the kernels' time are ten milliseconds here: processes take turns on few cores
SLOW = {"SHUNT_SIM_SLOW": "1000"}


def bursts(family, ranks, **settings):
    return mpirun(family, ranks, "check_app", "bursts", settings={**SLOW, **settings})


@pytest.mark.parametrize("ranks", [2, 3])
def test_kernels_that_linger(family, ranks):
    """They do most of the calls of a burst, right, also when sizes and communicators change and a rank is late."""
    result = bursts(family, ranks, SHUNT_LINGER="on").ran("gpu")
    assert result.stats.lingered > result.stats.gpu // 10, str(result)


@pytest.mark.parametrize("ranks", [2, 3])
def test_blocks_that_differ(family, ranks):
    """A kernel lingers for calls with the same counts and displacements; another layout is launched."""
    result = mpirun(family, ranks, "check_app", "row-bursts", settings={**SLOW, "SHUNT_LINGER": "on"}).ran("gpu")
    found = re.search(r"alltoallv: (\d+) without a launch", result.err)
    assert found and int(found[1]) > 60 * ranks // 2, str(result)


def test_no_kernel_lingers(family):
    result = bursts(family, 2, SHUNT_LINGER="off").ran("gpu")
    assert result.stats.lingered == 0, str(result)


def test_kernels_linger_as_they_like(family):
    """By themselves, whether or not they do."""
    bursts(family, 2).ran("gpu")


def test_some_linger(family):
    """A kernel that lingers and one that is launched speak the same protocol."""
    words = ["check_app", "bursts"]
    blocks = [Block(1, words, settings={**SLOW, "SHUNT_LINGER": how}) for how in ("on", "off", "auto")[:2 if family == "mpich" else 3]]
    result = mpirun(family, blocks=blocks).ran("gpu")
    assert result.stats.lingered > 0, str(result)


def test_more_blocks_than_have_room():
    """Those that have nothing to do leave, so that the others, block 0 perhaps, find room."""
    mpirun("openmpi", 2, "check_app", "bursts",
           settings={"SHUNT_LINGER": "on", "SHUNT_SIM_RESIDENT": "3", "SHUNT_PROTO": "ll"}, limit=100).ran("gpu")


def test_captures_behind_a_burst(family):
    """The legacy stream is left alone while a blocking stream is captured, also by who asks whether it is idle."""
    result = mpirun(family, 2, "check_app", "bursts", "captures", settings={**SLOW, "SHUNT_LINGER": "on"}).ran("any")
    assert result.stats.lingered > 0, str(result)


def test_others_get_the_gpu_in_a_burst():
    """A thread that waits for the GPU in cudaFree while another goes on calling."""
    mpirun("openmpi", 2, "check_app", "burst-and-free", settings={**SLOW, "SHUNT_LINGER": "on"}).ran("gpu")
