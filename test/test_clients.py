# SPDX-License-Identifier: BSD-3-Clause
"""Programs that were not written for shunt, unchanged: the OSU benchmarks and the Intel MPI Benchmarks (built by clients.sh)."""
import os
import pathlib
import re
import subprocess

import pytest

from harness import BUILD, PREFIX, by_name, mpirun, over_heap, preload_words

CLIENTS = os.environ.get("CLIENTS_BUILD", "")


def osu(family, program="collective/blocking/osu_allreduce"):
    path = pathlib.Path(CLIENTS) / f"osu-{family}/c/mpi/{program}"
    if not CLIENTS or not path.exists():
        pytest.skip("the OSU benchmarks are not built (CLIENTS is not set)")
    return str(path)


def good_sizes(result):
    """Sizes in bytes with a time and the word Pass, as osu_allreduce -c prints them."""
    result.good()
    rows = re.findall(r"^(\d+)\s+[\d.]+\s+(Pass|Fail)", result.out, re.M)
    assert rows and all(verdict == "Pass" for _, verdict in rows), str(result)
    return [int(size) for size, _ in rows]


@pytest.mark.parametrize("ranks, settings", [
    (2, {}), (4, {}), (2, {"SHUNT_ALLREDUCE": "oneshot"}), (2, {"SHUNT_ALLREDUCE": "twoshot"}),
    (2, {"SHUNT_ALLREDUCE": "staged"}),
], ids=["two", "four", "oneshot", "twoshot", "staged"])
def test_osu_allreduce(family, ranks, settings):
    result = mpirun(family, ranks, osu(family), "-d", "cuda", "-c", "-T", "mpi_float", "-i", "2", "-x", "1", "-m",
                    "4:262144", settings=settings, limit=120)
    assert good_sizes(result)[-1] == 262144
    path = settings.get("SHUNT_ALLREDUCE")
    if path:
        assert set(result.stats.paths) == {path, "host"}, str(result)
    else:
        assert result.stats.gpu > 0 and result.stats.paths["staged"] == 0, str(result)


def test_osu_allreduce_in_place(family):
    result = mpirun(family, 2, osu(family), "-d", "cuda", "-c", "-l", "-T", "mpi_float", "-i", "2", "-x", "1", "-m",
                    "4:65536", limit=60)
    assert good_sizes(result)
    assert result.stats.gpu > 0 and result.stats.paths["staged"] == 0, str(result)


def test_osu_allreduce_on_host_memory(family):
    result = mpirun(family, 2, osu(family), "-c", "-T", "mpi_float", "-i", "5", "-x", "1", "-m", "4:65536")
    assert good_sizes(result)
    assert set(result.stats.paths) == {"host"}, str(result)


# Every program that takes device memory and can check what it gets, but for those on Allreduce above. (OSU's neighborhood
# collectives take none; its one-sided programs check nothing, and want windows in device memory.)
COLLECTIVES = ["allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "bcast", "gather", "gatherv", "reduce",
               "reduce_scatter", "reduce_scatter_block", "scatter", "scatterv"]
MESSAGES = ["standard/osu_latency", "standard/osu_bw", "standard/osu_bibw", "persistent/osu_latency_persistent",
            "persistent/osu_bw_persistent", "persistent/osu_bibw_persistent"]
EVERY = ([f"collective/blocking/osu_{name}" for name in COLLECTIVES] +
         [f"collective/non_blocking/osu_i{name}" for name in [*COLLECTIVES, "allreduce"]] +
         [f"pt2pt/{name}" for name in MESSAGES])
FEW = {*EVERY[:len(COLLECTIVES)], "collective/non_blocking/osu_iallreduce", "collective/non_blocking/osu_ialltoallv",
       "pt2pt/standard/osu_latency", "pt2pt/standard/osu_bibw", "pt2pt/persistent/osu_latency_persistent"}


# Not Allreduce: OSU 7.4 has one buffer written and looks into another, so that its check fails on host memory too.
PERSISTENT = ["allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "bcast", "gather", "gatherv", "reduce",
              "reduce_scatter", "scatter", "scatterv"]
FEW_PERSISTENT = ["allgather", "alltoallw", "bcast", "reduce_scatter"]


def run_osu(program, memory, sizes, ranks=2, family="openmpi"):
    words = ["-d", memory, "-c", "-i", "2", "-x", "1", "-u", "1", "-m", sizes]
    words += ["-T", "mpi_float"] if "reduce" in program else []
    words += ["D", "D"] if program.startswith("pt2pt") and memory == "cuda" else []
    words += ["M", "M"] if program.startswith("pt2pt") and memory == "managed" else []
    result = mpirun(family, ranks, osu(family, program), *words, limit=120).good()
    verdicts = re.findall(r"\b(Pass|Fail)\b", result.out)
    assert len(verdicts) > 2 and set(verdicts) == {"Pass"}, str(result)
    return result


@pytest.mark.parametrize("program", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in EVERY])
def test_osu(program):
    run_osu(program, "cuda", "64:1024")


@pytest.mark.parametrize("name", [name if name in FEW_PERSISTENT else pytest.param(name, marks=pytest.mark.slow)
                                  for name in PERSISTENT])
def test_osu_persistent(name):
    """Those with one count for all run on the GPUs, every time they are started."""
    result = run_osu(f"collective/persistent/osu_{name}_persistent", "cuda", "64:1024", family="mpich")
    found, ran = by_name(result)
    assert set(ran or found) == {name} and not (ran and found) and (ran or name[-1] in "vw"), str(result)


@pytest.mark.slow
@pytest.mark.parametrize("memory, ranks", [("cuda", 2), ("cuda", 4), ("managed", 2)])
@pytest.mark.parametrize("program", EVERY)
def test_osu_of_every_size(program, memory, ranks):
    if program.startswith("pt2pt") and ranks > 2:
        pytest.skip("between two ranks")
    run_osu(program, memory, "4:1048576", ranks)


def imb(folder, program):
    path = pathlib.Path(CLIENTS) / f"imb-{folder}/{program}"
    if not CLIENTS or not path.exists():
        pytest.skip("the Intel MPI Benchmarks are not built (CLIENTS is not set)")
    return str(path)


IMB = ["PingPong", "PingPing", "Sendrecv", "Exchange", "Allreduce", "Reduce", "Reduce_local", "Reduce_scatter",
       "Reduce_scatter_block", "Allgather", "Allgatherv", "Scatter", "Scatterv", "Gather", "Gatherv", "Alltoall", "Alltoallv",
       "Bcast"]
IMB_WORDS = ["-msglog", "4:10", "-iter", "1", "-iter_policy", "off"]


def tables(result):
    """By benchmark: its rows, without sizes and repetitions."""
    result.good()
    found = re.findall(r"^# Benchmarking (\w+)(.*?)(?=^# Benchmarking|\Z)", result.out, re.M | re.S)
    return {name: re.findall(r"^ +\d+ +\d+ +(.*)$", text, re.M) for name, text in found}


def test_imb_checked(family):
    """What they allocate is managed memory, so that they can look at what comes."""
    result = mpirun(family, 2, imb(family, "IMB-MPI1"), *IMB_WORDS, preload=False,
                    settings={"HEAP_OF_MPI": "1", **over_heap()}, limit=120)
    found = tables(result)
    assert set(IMB) <= set(found) and "Error" not in result.out, str(result)
    assert all(rows and {row.split()[-1] for row in rows} == {"0.00"} for name, rows in found.items() if name in IMB), str(result)
    staged, ran = by_name(result)
    assert "send" in staged and {"gatherv", "alltoallv"} <= set(ran) and result.stats.gpu > 0, str(result)


def run_imb(folder, program, memory, **more):
    """Those for GPUs, which never choose one."""
    words = [imb(folder, program), "-mem_alloc_type", memory, *IMB_WORDS]
    blocks = [(1, words, True, {"CUDA_VISIBLE_DEVICES": str(i)}) for i in range(2)]
    return mpirun("openmpi", blocks=blocks, limit=120, **more)


def test_imb_on_device_memory():
    result = run_imb("device-openmpi", "IMB-MPI1-GPU", "device")
    found = tables(result)
    assert set(IMB) <= set(found) and all(found[name] for name in IMB), str(result)
    staged, ran = by_name(result)
    assert "send" in staged and {"gatherv", "alltoallv"} <= set(ran) and result.stats.gpu > 0, str(result)


IMB_ONE_SIDED = ["Unidir_put", "Bidir_put", "Unidir_get", "Bidir_get", "Put_local", "Put_all_local", "One_put_all", "All_put_all",
                 "One_get_all", "All_get_all", "Exchange_put", "Exchange_get", "Accumulate", "Get_accumulate", "Truly_passive_put"]


@pytest.mark.parametrize("memory", ["shared", "device"])
def test_imb_one_sided(memory):
    """Windows lie where the origins do: managed memory is the host's, too, and device memory is refused in words."""
    # Open MPI 4.1.4 ends in osc/rdma's Compare_and_swap over shared memory by itself
    result = run_imb("rma-openmpi", "IMB-RMA-GPU", memory, launcher_words=["--mca", "osc", "^ucx,rdma"])
    if memory == "device":
        assert result.rc != 0 and "windows in device memory are not supported" in result.err, str(result)
        return
    found = tables(result)
    assert set(IMB_ONE_SIDED) <= set(found) and all(found[name] for name in IMB_ONE_SIDED), str(result)
    assert set(by_name(result)[0]) == {"put", "get", "accumulate"}, str(result)


def test_preload_by_the_launcher(family):
    """As the manual says: LD_PRELOAD handed on by mpirun itself."""
    words = {"openmpi": ["-x", f"LD_PRELOAD={preload_words()}"], "mpich": ["-genv", "LD_PRELOAD", preload_words()]}
    mpirun(family, 2, "check_allreduce", "--count", "1,1000", preload=False, launcher_words=words[family]).ran("gpu")


def test_linked_instead_of_preloaded(family, tmp_path):
    """A program linked with -lshunt, and not changed otherwise."""
    source = pathlib.Path(BUILD["srcdir"]) / "test"
    sources = [str(source / f"{name}.c") for name in ("check_allreduce", "by_driver", "case", "comms", "gpu", "refer")]
    program = tmp_path / "linked"
    subprocess.run([BUILD["mpi"][family]["mpicc"], "-std=gnu11", "-ffp-contract=off", "-pthread",
                    f"-I{BUILD['srcdir']}", *sources, "-o", program, "-Wl,--no-as-needed", f"-L{PREFIX}/lib", "-lshunt",
                    f"-Wl,-rpath,{PREFIX}/lib", "-ldl", "-lm"], check=True, timeout=60)
    mpirun(family, 2, program, "--count", "1,1000", preload=False).ran("gpu")
