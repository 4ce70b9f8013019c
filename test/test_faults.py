# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong around shunt: right results all the same, and the reason in words."""
import re

import pytest

from harness import LIBRARY, REAL_GPUS, Block, may_unshare, mpirun, program_path

ALONE = {"SHUNT_SHM_DISABLE": "1"}  # not by host memory
COLLECTIVES = ["allreduce", "bcast", "reduce", "scan", "exscan", "reduce_scatter_block", "reduce_scatter", "gather", "scatter",
               "allgather", "alltoall", "gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw", "neighbor_allgather",
               "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"]
SMALL = ["--count", "1,17,5000", "--place", "in,out", "--type", "FLOAT,INT"]


def check(family, ranks, *words, **more):
    return mpirun(family, ranks, "check_allreduce", *words, **more)


@pytest.mark.parametrize("fault, reason", [
    ("noipc", "the driver refused CUDA IPC"),
    ("nop2p", "no peer access between the GPUs"),
    ("nomem", "no device memory for the scratch space"),
])
@pytest.mark.parametrize("ranks", [2, 4])
def test_driver_refuses(family, fault, reason, ranks):
    check(family, ranks, *SMALL, faults=[fault], settings=ALONE).ran("staged", reason=reason)


@pytest.mark.parametrize("ranks", [2, 4])
def test_writes_that_are_lost(family, ranks):
    """Who has not heard of it yet when another goes on takes that one for a rank on host memory, at the first call."""
    reasons = check(family, ranks, *SMALL, faults=["lost"], settings=ALONE).ran("staged").stats.reasons
    assert reasons["what one GPU writes does not arrive at another"] > reasons["a rank passed host memory"], reasons
    assert sum(reasons.values()) == reasons["what one GPU writes does not arrive at another"] + reasons["a rank passed host memory"], reasons


@pytest.mark.parametrize("fault, reasons", [
    ("noipc", {"the driver refused CUDA IPC"}),
    ("nop2p", {"no peer access between the GPUs", "a rank passed host memory"}),
    ("nomem", {"no device memory for the scratch space"}),
    ("lost", {"what one GPU writes does not arrive at another", "a rank passed host memory"}),
])
@pytest.mark.parametrize("bad", [0, 2])
def test_driver_refuses_one_rank(fault, reasons, bad):
    """The others learn of it, and nobody waits."""
    words = ["check_allreduce", *SMALL, "--comm", "world,dup"]
    result = mpirun("openmpi", blocks=[Block(1, words, settings={"SHUNT_SIM_FAULT": fault if rank == bad else ""})
                                       for rank in range(3)], settings=ALONE)
    assert set(result.ran("staged").stats.reasons) <= reasons and result.seconds < 20, str(result)


@pytest.mark.skipif(REAL_GPUS, reason="faults are injected by the simulated GPU alone")
def test_others_run_without_the_pair_whose_writes_are_lost():
    """Nobody hears rank 3; what ranks 0 and 2 do without it runs on the GPUs."""
    words = ["check_allreduce", "--count", "5000", "--place", "in", "--comm", "world,split"]
    result = mpirun("openmpi", blocks=[Block(1, words, settings={"SHUNT_SIM_FAULT": "lost" if rank == 3 else ""})
                                       for rank in range(4)], settings=ALONE)
    result.checked()
    assert result.stats.gpu > 0 and result.stats.paths["staged"] > 0, str(result)


@pytest.mark.skipif(REAL_GPUS, reason="faults are injected by the simulated GPU alone")
def test_first_copy_that_does_not_end():
    """It is not waited for: both sides give up their direct path for the same reason, and meet in host memory if they may."""
    def run(**more):
        words = ["check_allreduce", "--count", "1,5000", "--place", "in", "--type", "INT"]
        return mpirun("openmpi", settings={"SHUNT_PROBE_MS": "1000", **more}, blocks=[
            Block(1, words, settings={"SHUNT_SIM_FAULT": "slow" if rank == 1 else ""}) for rank in range(2)])
    result = run(SHUNT_DEBUG="warn").ran("gpu", hosted=True)
    assert re.search(r"what process \d writes to process \d of the node has not ended after 1000 ms", result.err), str(result)
    took = re.search(r"links: 2 proven in (\S+) ms of each process at most, the slowest copy took (\S+) of 1000 ms", result.err)
    assert took and float(took[2]) >= 1000, str(result)
    result = run(**ALONE).ran("staged")
    assert "what one GPU writes to another takes longer than SHUNT_PROBE_MS" in result.stats.reasons, str(result)


@pytest.mark.skipif(REAL_GPUS, reason="the simulated GPU has such a small memory")
def test_no_memory_left_on_one_gpu():
    """The application of one rank has taken it all before shunt asks for any."""
    words = ["check_app", "full-gpu"]
    result = mpirun("openmpi", blocks=[Block(1, words, settings={"SHUNT_SIM_MEMORY": "64" if rank == 1 else "8192"})
                                       for rank in range(3)])
    result.ran("staged", reason="no device memory for the scratch space")


def test_machine_without_peer_access(family):
    check(family, 2, *SMALL, preset="rtx4090x8", settings=ALONE).ran("staged", reason="no peer access between the GPUs")


def test_machine_with_one_gpu(family):
    check(family, 1, *SMALL, "--comm", "world,self", gpus=1, preset="h200").ran("any", local=True)
    check(family, 2, *SMALL, gpus=1, preset="h200").ran("staged", reason="two ranks share a GPU")


@pytest.mark.parametrize("options", ["size=1m", "size=64k", "ro"])
def test_little_shared_memory(options):
    """No room for the arena: the host path with its reason, no signal. The host MPI has its files elsewhere."""
    check("openmpi", 2, *SMALL, shm=options, settings={"OMPI_MCA_btl_vader_backing_directory": "/tmp"}).ran(
        "staged", reason="no shared memory between the ranks of this node")


@pytest.mark.skipif(not may_unshare(), reason="needs the right to make namespaces")
@pytest.mark.parametrize("apart", ["shm", "pid", "ipc", "uts"])
def test_ranks_in_containers_of_their_own(apart):
    """What each rank has for itself: a /dev/shm (then there is no common arena, and each finds itself alone),
    process numbers (each is 1), System V's memory, a host name."""
    own = {"shm": ["-m", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"],
           "pid": ["--pid", "--fork", "--mount-proc"], "ipc": ["--ipc"],
           "uts": ["--uts", "sh", "-c", 'hostname "box$OMPI_COMM_WORLD_RANK" && exec "$@"', "sh"]}[apart]
    words = ["/usr/bin/unshare", *own, program_path("openmpi", "check_allreduce"), *SMALL, "--comm", "world,dup"]
    result = mpirun("openmpi", blocks=[Block(2, words)],
                    settings={"OMPI_MCA_btl": "self,tcp"})
    if apart == "shm":
        result.ran("staged", reason="a rank of the communicator runs without shunt or on another node")
    else:
        result.ran("gpu" if apart in ("ipc", "uts") else "any")
    assert result.seconds < 30, str(result)


@pytest.mark.parametrize("kinds", ["D", "DM", "HD"])
def test_driver_refuses_in_mixed_company(kinds):
    check("openmpi", 3, *SMALL, "--send", kinds, "--recv", kinds, faults=["noipc"], settings=ALONE).ran("staged")


def test_setting_without_peer_access(family):
    check(family, 2, *SMALL, settings={"SHUNT_P2P_DISABLE": "1", **ALONE}).ran(
        "staged", reason="no peer access between the GPUs")


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_share_a_gpu(family, ranks):
    result = check(family, ranks, *SMALL, gpus=2 if ranks == 4 else 1)
    result.ran("staged", reason="two ranks share a GPU")


def test_ranks_that_share_a_gpu_apart():
    """Two ranks on each of two GPUs: communicators of ranks on different GPUs may run there, the others not."""
    check("openmpi", 4, *SMALL, "--comm", "world,split,group,self", gpus=2).ran("any", local=True)


def test_switched_off(family):
    result = check(family, 1, "--send", "H", "--recv", "H", settings={"SHUNT_DISABLE": "1"})
    result.checked()
    assert result.stats.processes == 0 and "shunt" not in result.err, str(result)


@pytest.mark.parametrize("name, value, words", [
    ("SHUNT_ALLREDUCE", "fastest", ["fastest", "oneshot", "twoshot", "staged"]),
    ("SHUNT_ALLREDUCE", "oneshot:64k-4k", ["oneshot:64k-4k"]),
    ("SHUNT_STATS", "maybe", ["SHUNT_STATS", "maybe"]),
    ("SHUNT_SCRATCH_SIZE", "many", ["SHUNT_SCRATCH_SIZE", "many"]),
    ("SHUNT_DEBUG", "loud", ["loud", "warn", "info", "trace"]),
    ("SHUNT_ALREDUCE", "oneshot", ["SHUNT_ALREDUCE", "SHUNT_ALLREDUCE"]),
])
def test_wrong_setting_is_refused(name, value, words):
    """Said once with what is allowed, and the program runs on with the default."""
    result = check("openmpi", 2, "--count", "100", settings={name: value}, stats=False)
    result.checked()
    lines = [line for line in result.err.splitlines() if words[0] in line]
    assert lines and all(word in "\n".join(lines) for word in words), str(result)


def test_algorithm_by_size(family):
    result = check(family, 2, "--type", "SIGNED_CHAR", "--count", "100,4096,20000",
                   settings={"SHUNT_ALLREDUCE": "oneshot:0-8k,twoshot:8k-16k,staged:16k-"})
    result.checked()
    assert result.stats.paths["oneshot"] == 4 and result.stats.paths["staged"] == 2, str(result)


def test_silent_by_default(family):
    result = check(family, 2, "--count", "1,1000", "--send", "D,H", stats=False)
    result.checked()
    assert "shunt" not in result.err.replace("--", "") and "shunt" not in result.out, str(result)


@pytest.mark.parametrize("name, value", [("SHUNT_ARENA_SIZE", "4k"), ("SHUNT_SCRATCH_SIZE", "4k"),
                                         ("SHUNT_STAGE_SIZE", "4k")])
def test_too_little_of_something(name, value):
    """Refused or done without: the results are right."""
    check("openmpi", 3, *SMALL, settings={name: value}).ran("any")


@pytest.mark.parametrize("ranks, kinds", [(2, "HD"), (2, "DH"), (3, "DDH")])
def test_rank_without_shunt(family, ranks, kinds):
    """It can only bring host memory; the others stage, and nobody waits for it."""
    words = ["check_allreduce", "--send", kinds, "--recv", kinds, "--count", "1,1000", "--place", "in,out", "--comm",
             "world,dup"]
    result = mpirun(family, blocks=[Block(1, words, preload=kind == "D") for kind in kinds])
    result.checked()
    assert result.stats.gpu == 0 and result.stats.paths["staged"] > 0, str(result)


@pytest.mark.parametrize("child, library", [("H", ()), ("D", (LIBRARY,))], ids=["without", "with"])
def test_spawned_process(child, library):
    """It runs without shunt, or with it: its calls with the others go by the host MPI, and theirs are as before."""
    # Debian's MPICH 4.0.2 starts none, with shunt or without
    result = mpirun("openmpi", 2, "check_spawn", "D", child, *library, gpus=3)
    result.checked()
    assert result.stats.gpu == 20, str(result)
    assert set(result.stats.reasons) == {"an inter-communicator", "a rank of the communicator runs without shunt or on another node"}


def test_more_ranks_than_a_kernel_serves():
    """They arrive by a tree, and stage. Smaller communicators are as ever."""
    check("openmpi", 18, "--count", "1,5000", "--place", "in", "--comm", "world,dup", gpus=2, limit=120).ran(
        "staged", reason="more than 16 ranks of the communicator on one node")


@pytest.mark.parametrize("what, ranks", [("count", 2), ("op", 2), ("type", 2), ("coll", 2), ("root", 2), ("rows", 2),
                                         ("count", 18)])
def test_mismatch_is_named(family, what, ranks):
    """What then happens is the host MPI's affair: an error, an end of the job, or a result. It does not hang unless the
    collective, the root or the rows differ; the program ends itself then."""
    result = mpirun(family, ranks, "check_errors", f"mismatch-{what}", gpus=2, limit=60)
    assert result.rc is not None, str(result)
    lines = [line for line in result.err.splitlines() if "shunt" in line and "statistics" not in line and
             "staged:" not in line]
    values = {"count": ["100", "200"], "op": ["sum", "max"], "type": ["I32", "F32"], "coll": ["bcast", "allreduce"],
              "root": ["root is 1", "0 on rank 1"], "rows": ["400", "600"]}[what]
    named = [line for line in lines if all(value.lower() in line.lower() for value in values)]
    assert len(named) == 1 and "0" in named[0], str(result)


def test_every_mismatch_is_named(family):
    """Of each collective: which ranks, and how much each of them has or expects."""
    result = mpirun(family, 2, "check_mismatch", gpus=2, limit=60)
    lines = [line for line in result.err.splitlines() if "do not match" in line]
    for call in COLLECTIVES:
        named = [line for line in lines if f" {call}: " in line]
        assert len(named) == 1 and re.search(r"\brank 0\b.*\brank 1\b|\brank 1\b.*\brank 0\b", named[0]), f"{call}: {result}"
        values = set(re.findall(r"\d+", named[0].split("do not match")[1]))
        assert {"100", "120"} <= values or {"400", "480"} <= values, named[0]


def test_wrong_arguments_are_the_hosts_affair(family):
    result = mpirun(family, 2, "check_errors", "wrong")
    summary = result.checked()
    assert summary["cases"] >= 10, str(result)
    assert result.stats.gpu == 6, str(result)  # the three sums after the handler that jumped, on two ranks


def test_rank_whose_call_is_refused_stays_in_step(family):
    """What the host MPI does not take is no operation: neither for later ones of this rank nor for the others."""
    result = mpirun(family, 2, "check_errors", "alone")
    assert result.checked()["cases"] == 36, str(result)
    assert result.stats.gpu >= 48, str(result)  # two of three after each; the one that waits for a rank just refused is staged


def test_ranks_that_see_one_gpu_each():
    """Each calls its GPU number 0."""
    words = ["check_allreduce", *SMALL]
    mpirun("openmpi", blocks=[Block(1, words, settings={"CUDA_VISIBLE_DEVICES": gpu}) for gpu in "01"],
           gpus=2).ran("gpu")


@pytest.mark.skipif(REAL_GPUS, reason="there are GPUs here")
def test_without_a_gpu(family):
    """No GPU and no simulation: the program runs as if nothing were there."""
    result = check(family, 2, "--send", "H", "--recv", "H", simulate=False)
    result.checked()
    assert "libcuda" not in result.err, str(result)
