# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of memory on every rank and side: right results, the path that each should take, nothing leaked."""
import collections
import itertools
import re

import pytest

import harness
from harness import REAL_GPUS, mpirun

ALL_KINDS = "D,B,S,M,A,V,X,H,P,E,R"


def check(family, ranks, *words, **more):
    return mpirun(family, ranks, "check_allreduce", *words, **more)


def test_kinds_that_run_on_the_gpus(family):
    """cudaMalloc at any place of a block; managed, pool and VMM memory through shunt's own scratch."""
    check(family, 2, "--send", "D,B,S,M,A,V,E,R", "--recv", "D,B,S,M,A,V,E,R", "--count", "17,30000", "--ordered",
          "--errno").ran("gpu")


@pytest.mark.parametrize("algorithm", ["twoshot", "staged"])
def test_kind_against_kind(algorithm):
    check("openmpi", 2, "--send", ALL_KINDS, "--recv", ALL_KINDS, "--count", "5000",
          settings={"SHUNT_ALLREDUCE": algorithm}, limit=120).ran("any")


def test_ranks_of_different_kinds():
    mixed = ["DMAV", "VDMA", "SBDM", "MMDD", "DPDH", "HHHD"]
    check("openmpi", 4, "--send", ",".join(mixed), "--recv", ",".join(mixed), "--count", "5,5000",
          limit=120).ran("any")


def test_device_kinds_of_different_ranks_run_on_the_gpus():
    check("openmpi", 4, "--send", "DMAV,VDMA,SBDM", "--recv", "MDVA,DDSB", "--count", "5,5000", limit=120).ran("gpu")


def test_host_and_device_ranks(family):
    """All assignments of host and device memory to two ranks and two sides."""
    kinds = ",".join("".join(pair) for pair in itertools.product("HD", repeat=2))
    result = check(family, 2, "--send", kinds, "--recv", kinds, "--count", "2,1024,70000", "--place", "in,out")
    result.ran("any")
    assert "a rank passed host memory" in result.stats.reasons, str(result)


@pytest.mark.parametrize("ranks", [2, 4])
def test_rank_that_never_touches_cuda(ranks):
    """The checker itself sees that no CUDA library was mapped into it."""
    kinds = "H" + "D" * (ranks - 1)
    result = check("openmpi", ranks, "--send", kinds, "--recv", kinds, "--count", "1,1000,100000", "--comm",
                   "world,dup,reverse").ran("staged")
    assert set(result.stats.reasons) == {"a rank passed host memory"}, str(result)


def test_program_on_host_memory_alone(family):
    """No GPU is touched, no call is anything but the host's, and no CUDA library is mapped."""
    result = check(family, 2, "--send", "H", "--recv", "H", "--count", "0,1,1000", "--place", "in,out")
    result.checked()
    assert set(result.stats.paths) <= {"host"}, str(result)


def test_pinned_memory_is_host_memory(family):
    result = check(family, 2, "--send", "P", "--recv", "P", "--count", "1,1000")
    result.checked()
    assert set(result.stats.paths) <= {"host"}, str(result)


@pytest.mark.parametrize("cuda", ["hidden", "driver"])
def test_ways_to_have_cuda(family, cuda):
    """The runtime hidden from the dynamic linker, as nvcc links it; and programs that use the driver alone."""
    way = {"CHECK_CUDA": cuda}
    mpirun(family, 2, "check_allreduce", "--send", "DM", "--recv", "D", "--count", "1,5000", "--place", "in,out", settings=way).ran("gpu")
    mpirun(family, 2, "check_requests", "D:D", settings=way).checked()


def test_memory_of_another_gpu(family):
    """A buffer on a GPU that is not current: right, and the current device stays."""
    check(family, 2, "--send", "X,D,X", "--recv", "X,X,D", "--count", "1,1000", "--place", "in,out").ran("any")


def test_fresh_allocations_in_each_call():
    """An address that comes back with other memory behind it: nothing may be remembered of the old."""
    mpirun("openmpi", 2, "check_life", "fresh-memory", "24", limit=120).ran("gpu")
    check("openmpi", 2, "--fresh", "--send", "D,B,S,D,B", "--recv", "B,S,D", "--count", "40000,80001",
          "--ordered", settings={"SHUNT_ALLREDUCE": "twoshot"}, limit=120).ran("twoshot")


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_fresh_allocations_of_four_ranks(blocking):
    check("openmpi", 4, "--fresh", "--send", "D,B", "--recv", "B,D", "--count", "1,40000,80001",
          settings={"SHUNT_ALLREDUCE": "twoshot", "CUDA_LAUNCH_BLOCKING": blocking}, limit=120).ran("twoshot")


@pytest.mark.parametrize("kinds", ["D", "DB"])
def test_fresh_allocations_of_ranks_on_one_gpu(kinds):
    check("openmpi", 2, "--fresh", "--send", kinds, "--recv", kinds, "--count", "1,256,40000", "--place", "in,out", gpus=1,
          preset="h200").ran("staged", reason="two ranks share a GPU")


def test_device_memory_stays_flat():
    mpirun("openmpi", 2, "check_life", "memory-flat", "40", limit=120).ran("gpu")


def test_user_operations_and_derived_types(family):
    result = mpirun(family, 2 if family == "mpich" else 3, "check_user", "D", "D")
    result.ran("staged")
    assert set(result.stats.reasons) <= {"a user-defined operation", "a derived datatype"}, str(result)


@pytest.mark.parametrize("kinds", [("DH", "HD"), ("M", "D"), ("V", "A")])
def test_user_operations_on_other_kinds(kinds):
    mpirun("openmpi", 4, "check_user", *kinds).ran("any")


# ---- what peers have open of each other ----

class Opened:
    """What the ranks have said of blocks: registered, opened, closed (how often), most (bytes open at a time on one rank)."""

    def __init__(self, result):
        self.registered, self.descriptors, self.opened, self.closed, self.most = 0, 0, 0, 0, 0
        now = collections.Counter()
        for line in result.err.splitlines():
            if found := re.search(r"cuda: registered a block of \d+ bytes as \d+(, a descriptor)?", line):
                self.registered += 1
                self.descriptors += bool(found[1])
            elif found := re.search(r"shunt \[(.*?)\] cuda: (opened|closed) block \d+ of channel \d+, (\d+) bytes", line):
                sign = 1 if found[2] == "opened" else -1
                self.opened += sign > 0
                self.closed += sign < 0
                now[found[1]] += sign * int(found[3])
                self.most = max(self.most, now[found[1]])
        self.left = sum(now.values())
        self.came_back = [int(n) for n in re.findall(r"^[DE]: (\d) came back$", result.out, re.M)]


def memory(family, ranks, mode, *words, settings=None, where="twoshot", freed=False, before=(), **more):
    """freed: a block may be gone before a peer opens it, which the driver then refuses. before: words to start it by."""
    settings = {"SHUNT_ALLREDUCE": "twoshot", "SHUNT_DEBUG": "info", "SHUNT_DEBUG_SUBSYS": "cuda", **(settings or {})}
    program = harness.program_path(family, "check_memory")
    result = mpirun(family, ranks, *before, program, mode, *words, settings=settings, **more)
    result.ran(where)
    opened = Opened(result)
    assert opened.left == 0 and opened.opened == opened.closed, f"left open at the end: {opened.left} bytes\n{result}"
    errors = re.findall(r"cuda: (\w+).*(CUDA_ERROR_\w+)", result.err)
    gone = ("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_NOT_PERMITTED")  # drivers differ
    assert not set(errors) - ({("cuIpcOpenMemHandle_v2", error) for error in gone} if freed else set()), str(result)
    return opened


def test_blocks_are_registered_in_threads_without_a_context():
    counts = ",".join(["150000"] * 5)
    result = check("openmpi", 2, "--thread", "--count", counts, "--blind",
                   settings={"SHUNT_ALLREDUCE": "twoshot", "SHUNT_DEBUG": "info", "SHUNT_DEBUG_SUBSYS": "cuda"})
    opened = Opened(result.ran("twoshot"))
    assert (opened.registered, opened.opened) == (2, 2), str(result)


def pairs(ranks):
    return ranks * (ranks - 1)


@pytest.mark.parametrize("ranks", [2, 4])
def test_buffers_in_one_block(family, ranks):
    """At its end, at offsets that differ between ranks: one mapping serves all. cudaMalloc and descriptors alike."""
    opened = memory(family, ranks, "offsets")
    assert (opened.opened, opened.registered, opened.descriptors) == (2 * pairs(ranks), 2 * ranks, ranks)


@pytest.mark.skipif(not harness.may_unshare(), reason="needs the right to make namespaces")
def test_ranks_that_cannot_send_descriptors():
    """Each rank in a network of its own, as in a container: what goes by descriptors goes through scratch."""
    opened = memory("mpich", 2, "offsets", before=["/usr/bin/unshare", "-n"])
    assert (opened.opened, opened.registered, opened.descriptors) == (pairs(2), 4, 2)


def test_range_of_several_pieces():
    """Each piece is opened by itself; what spans two, or comes from one and goes to the other, is right too."""
    opened = memory("openmpi", 2, "pieces")
    assert (opened.opened, opened.descriptors) == (2 * pairs(2), 4)


# What two H200 do with memory that is freed while a peer has it open, and what a stricter driver would.
drivers = pytest.mark.parametrize("faults", [(), ("kept",)], ids=["h200", "strict"])


@drivers
def test_address_that_comes_back(family, faults):
    """Freed, allocated again at the same address, opened by the peers: each has its own mapping, closed in time."""
    opened = memory(family, 2, "again", faults=faults)
    assert opened.opened == 6 * pairs(2)
    assert len(opened.came_back) == 4 and (REAL_GPUS or min(opened.came_back) > 0)
    assert opened.most <= 4 << 20


def test_other_memory_mapped_at_the_same_address():
    assert memory("openmpi", 2, "remap").opened == 6 * pairs(2)


def test_blocks_that_the_application_shares_itself():
    assert memory("openmpi", 2, "own-ipc").opened == 2 * pairs(2)


def test_buffers_in_memory_of_another_process():
    """Opened by the application by CUDA IPC: never exported again, only its own block is."""
    opened = memory("openmpi", 2, "imported", where="any" if REAL_GPUS else "twoshot")
    assert (opened.registered, opened.opened) == (2, pairs(2))


def test_buffers_in_memory_that_counts_as_on_another_gpu():
    """Staged, if the driver says so; and what is its own still runs on the rank's own GPU, which is no other's."""
    opened = memory("openmpi", 2, "imported", where="any", faults=["far"])
    assert (opened.registered, opened.opened) == (2, pairs(2))


def test_buffers_in_an_imported_mapping():
    memory("openmpi", 2, "imported-mapping", where="any")


def test_bound_of_what_is_open():
    """Four buffers of 5 MiB in all, of which peers may have 3 MiB open: each gets its turn, without opening all the time."""
    bound = 3 << 20
    opened = memory("openmpi", 2, "turns", "4", settings={"SHUNT_PEER_SIZE": str(bound)})
    assert 2 << 20 < opened.most <= bound
    assert 4 * pairs(2) <= opened.opened <= 16 * pairs(2)


def test_nothing_is_open_beyond_the_bound():
    opened = memory("openmpi", 2, "turns", "1", settings={"SHUNT_PEER_SIZE": "4k"})
    assert (opened.registered, opened.opened) == (2, 0)


@drivers
def test_flush(family, faults):
    """Freed memory is free once all ranks have flushed, and what is used again is opened again."""
    opened = memory(family, 2, "flush", faults=faults)
    assert opened.opened == 5 * pairs(2)


def test_flush_while_another_thread_reduces():
    """Freed, flushed and pushed out by a small bound, while another thread's operations count on what is open."""
    opened = memory("openmpi", 2, "threads", "12", settings={"SHUNT_PEER_SIZE": "3m"}, freed=True)
    assert opened.opened > 2 * pairs(2)


@pytest.mark.parametrize("rounds", [150, pytest.param(5000, marks=pytest.mark.slow)])
def test_memory_that_comes_and_goes(rounds):
    """Device memory, descriptors, mappings and resident memory stay as they are."""
    opened = memory("openmpi", 2, "rounds", rounds, freed=True, limit=60 + rounds, faults=() if REAL_GPUS else ["kept"])
    assert opened.opened >= rounds / 4
