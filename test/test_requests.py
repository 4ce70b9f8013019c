# SPDX-License-Identifier: BSD-3-Clause
"""Nonblocking and persistent operations on device memory: each case is compared with the same on host memory, byte by byte
and status by status, whatever way it is completed."""
import pytest

from harness import by_name, mpirun

PAIRS = ["D:D", "H:D", "DH:HD", "M:V", "E:R"]
FORMS = ["nonblocking", "persistent"]
POINT_TO_POINT = ["check_requests", "check_starts"]
COLLECTIVES = ["check_collectives", "check_rows"]


def check(family, ranks, program, *words, **more):
    result = mpirun(family, ranks, program, *words, **more)
    summary, (found, ran) = result.checked(), by_name(result)
    assert not set(ran) - {"alltoallw"}, str(result)  # which some begin beside messages, on communicators of one rank
    assert bool(found) == (summary["device"] > 0), str(result)
    return summary, found


@pytest.mark.sanitize
@pytest.mark.parametrize("program", POINT_TO_POINT)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_point_to_point(family, ranks, program):
    """Every way to begin and to complete an operation, with messages that are short, long, cut off, with gaps, to nobody
    and to oneself."""
    summary, found = check(family, ranks, program, *(PAIRS if family == "openmpi" else ["D:D", "HM:MD"]))
    assert {"send", "recv"} <= set(found) and summary["cases"] > 5


def test_cut_off_when_started_again(family):
    """With descriptors in what comes, too: those receives have records of their own."""
    mpirun(family, 2, "check_starts", "D:D", "HM:MD", "cut", settings={"SHUNT_MESSAGE_SIZE": "1"}).checked()


@pytest.mark.parametrize("program", [*POINT_TO_POINT, "check_accesses"])
def test_large_counts(family, program):
    check(family, 2, program, "large", "D:D")


def test_little_pinned_memory(family):
    """Four thousand operations under way at once, with room for two in the pool, and for none."""
    check(family, 2, "check_starts", "D:D", settings={"SHUNT_STAGE_CHUNK": "4k", "SHUNT_STAGE_SIZE": "8k"})
    check(family, 2, "check_starts", "D:D", settings={"SHUNT_STAGE_SIZE": "0"})


@pytest.mark.sanitize
def test_threads(family):
    """Four threads with requests of their own, on device memory of different kinds."""
    check(family, 2, "check_concurrent", 20, limit=100)


@pytest.mark.parametrize("mode", ["freed", "open", "sent"])
def test_under_way_at_the_end(family, mode):
    """MPI_Finalize waits for what the program has freed, and leaves memory of what it has not completed to the host."""
    result = mpirun(family, 2, "check_leftovers", mode, "D", limit=30)
    result.checked()
    assert result.seconds < 8, str(result)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_one_sided(family, ranks):
    """Every operation, ended by every kind of synchronisation, or by its request."""
    _, found = check(family, ranks, "check_accesses", *(PAIRS if family == "openmpi" else ["D:D", "HM:MD"]))
    assert set(found) == {"put", "get", "accumulate"}


@pytest.mark.parametrize("program", COLLECTIVES)
@pytest.mark.parametrize("form", FORMS)
def test_collectives(family, form, program):
    """As the blocking forms: each start on device memory runs on the GPUs or is staged, and none on host memory is."""
    result = mpirun(family, 2, program, form, "D:D", *(["DH:HD"] if family == "openmpi" else []))
    found, ran = by_name(result)
    starts = 2 if form == "persistent" and family == "openmpi" else 1
    blocking = 6 if program == "check_collectives" else 0  # wrong calls, and absolute addresses
    assert sum(found.values()) + sum(ran.values()) == starts * (result.checked()["device"] - blocking) + blocking, str(result)
    assert len(ran) == (10 if program == "check_collectives" else 9), str(result)


@pytest.mark.parametrize("ranks", [2, 3])
def test_what_is_legal_and_rare(family, ranks):
    """Layouts that differ between the ranks of one call, odd elements, requests that are not what they seem."""
    result = mpirun(family, ranks, "check_unusual", *(["D:D", "M:D", "D:M", "DH:HD"] if family == "openmpi" else ["D:D"]))
    found, ran = by_name(result)
    assert result.checked()["cases"] >= 10 and {"send", "recv", "put", "file_write"} <= set(found), str(result)


def test_windows_in_managed_memory(family):
    """The host MPI's own: it may touch such memory."""
    _, found = check(family, 2, "check_accesses", "window=M", "H:H", "D:D")
    assert set(found) == {"put", "get", "accumulate"}


@pytest.mark.slow
@pytest.mark.parametrize("program", COLLECTIVES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_more_collectives(family, ranks, form, program):
    if family == "openmpi" and ranks > 2 and (form, program) == ("persistent", "check_collectives"):
        pytest.skip("Open MPI 4.1.4 writes beyond its own memory in persistent Reduce, on host memory too")
    for words in ([], ["large"]):
        mpirun(family, ranks, program, form, *words, "D:D", "A:V", "H:D", "HM:MD", "E:R", "D:H", limit=300).checked()


def test_host_memory(family):
    """Counted by nobody: it is the host MPI's."""
    for program in [*POINT_TO_POINT, "check_accesses", *COLLECTIVES]:
        assert not check(family, 2, program, *(["nonblocking"] if program in COLLECTIVES else []), "H:H", "P:P")[1]
