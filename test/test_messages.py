# SPDX-License-Identifier: BSD-3-Clause
"""Messages between GPUs that are fetched out of the sender's buffer: random ones, and that each way is gone."""
import re

import pytest

from harness import MEAN, mpirun

PARCELS = {"SHUNT_MESSAGE_SIZE": "200"}


def parcels(result):
    """Messages that were fetched from the sender's buffer, and that were moved to host memory."""
    found = re.search(r"messages: (\d+) fetched from the sender's buffer, (\d+) moved to host memory", result.err)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def storm(family, ranks, rounds, *words, settings=(), limit=100):
    result = mpirun(family, ranks, "check_storm", rounds, MEAN["SHUNT_SIM_SEED"], *words,
                    settings={**PARCELS, **dict(settings)}, limit=limit)
    result.checked()
    return parcels(result)


@pytest.mark.parametrize("words", [(), ("fresh",)], ids=["kept", "fresh"])
def test_storm(family, words):
    pulled, moved = storm(family, 2, 300, *words)
    assert pulled > 20 and moved > 5


def test_probes(family):
    pulled, moved = storm(family, 2, 300, "probe")
    assert pulled > 20 and moved > 5


def test_probes_and_messages_like_descriptors(family):
    storm(family, 2, 300, "probe", "odd")


def test_every_call(family):
    result = mpirun(family, 2, "check_messages", "D:D", "H:D", "DH:HD", settings=PARCELS)
    result.checked()
    assert sum(parcels(result)) > 20


def test_four_ranks():
    pulled, moved = storm("openmpi", 4, 100, "probe")
    assert pulled > 0 and moved > 0


def test_off(family):
    assert storm(family, 2, 50, settings={"SHUNT_MESSAGE_SIZE": "inf"}) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_long_storm(family, ranks):
    storm(family, ranks, 4000, "fresh", "probe", limit=900)
