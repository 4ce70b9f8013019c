# SPDX-License-Identifier: BSD-3-Clause
"""Derived datatypes of device memory: one launch packs or unpacks a message, and nothing but their bytes is touched."""
import collections
import re

import pytest

from harness import mpirun

TRACE = {"SHUNT_DEBUG": "trace", "SHUNT_DEBUG_SUBSYS": "stage"}


def check(family, ranks, *words, settings=None, buffer=8 << 20):
    """Each message with gaps is packed or unpacked by one launch for each filling of the buffer, not block by block."""
    result = mpirun(family, ranks, "check_types", *words, settings={**TRACE, **(settings or {})}, limit=90)
    summary, found = result.checked(), collections.Counter()
    for line in result.err.splitlines():
        if words := re.search(r"stage: (packed|unpacked) (\d+) bytes(?: of an image)?, (launches|copies): (\d+)", line):
            found[words[1]] += 1
            assert "image" not in line and words[3] == "launches" and int(words[4]) == -(-int(words[2]) // buffer), line
    assert summary["device"] > 0 and found["packed"] == summary["packed"], str(result)
    assert found["unpacked"] == summary["unpacked"], str(result)


@pytest.mark.sanitize
def test_every_constructor(family):
    """In memory of each kind; one kind of memory on one rank, host memory on the other."""
    check(family, 2, *(["D", "M", "V", "A", "S", "DH", "HR"] if family == "openmpi" else ["D", "MH"]))


def test_three_ranks():
    check("openmpi", 3, "D", "DHM")


def test_unmapped_gaps(family):
    check(family, 2, "holes")


def test_one_array_on_both_sides(family):
    """Faces of a cube are packed each for itself, not with all that lies between them."""
    check(family, 2, "faces")


def test_blocks_in_different_memory(family):
    """Also the host's: no kernel goes there, nor the host to the others."""
    assert mpirun(family, 2, "check_types", "absolute").checked()["device"] == 8


def test_handles_come_again(family):
    check(family, 2, "reuse")


def test_large(family):
    """Several pieces; one filling of the buffer."""
    check(family, 2, "large", "D", "DH")


def test_many_fillings(family):
    """320000 bytes through a buffer of 64 KiB: five launches."""
    check(family, 2, "large", "D", settings={"SHUNT_STAGE_CHUNK": "16k", "SHUNT_STAGE_SIZE": "64k"}, buffer=65536)


def test_no_pinned_memory():
    check("openmpi", 2, "D", "DH", settings={"SHUNT_STAGE_SIZE": "0"})
