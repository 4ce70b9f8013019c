# SPDX-License-Identifier: BSD-3-Clause
"""Start MPI programs under shunt on simulated or real GPUs, with a time limit, and see what they leave behind.

mpirun() runs a program of build/test/FAMILY or any path and answers a Result; Result.checked() reads the summary of a
checker (case.c), Result.stats what SHUNT_STATS printed (base/stats.h). Every run is ended at its limit with all of its
processes, and fails if it leaves a process or a file in /dev/shm.
"""
import collections
import functools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time
import typing
import uuid
import warnings

import pytest

BUILD = json.loads((pathlib.Path(os.environ.get("builddir", "build")) / "test/build.json").read_text())
BUILDDIR = pathlib.Path(BUILD["builddir"])
PREFIX = pathlib.Path(BUILD["prefix"])
PROGRAMS = BUILDDIR / "test"
LIBRARY = PREFIX / "lib/libshunt.so"
FAMILIES = ["openmpi", "mpich"]
REAL_GPUS = os.environ.get("SHUNT_TEST_GPU") == "1"
SANITIZE = BUILD["sanitize"] == "yes"
# The simulated GPUs are mean: SHUNT_SIM_SEED=N repeats their choices, SHUNT_SIM_MEAN=0 makes them kind
MEAN = {"SHUNT_SIM_MEAN": os.environ.get("SHUNT_SIM_MEAN", "1"),
        "SHUNT_SIM_SEED": os.environ.get("SHUNT_SIM_SEED", str(random.randrange(1 << 30)))}
# NAME=VALUE ...: of every run that does not say otherwise
MORE = dict(word.split("=", 1) for word in os.environ.get("CHECK_SETTINGS", "").split())
HUNG_LAUNCHERS = 3  # so often in a row is more than the host's flaw
MARK = "CHECK_RUN"  # in the environment of every process of a run, so that it can be found again
HOST_FILES = ("vader_segment", "sm_segment", "mpich", "osc_", "pmix", "ompi", "sem.", "psm")  # of the host MPIs


def need(family, ranks=1, gpus=0):
    """Skips what this machine lacks: an MPI, a GPU of any kind, that many GPUs."""
    if not BUILD["mpi"][family]["mpirun"] or not (PROGRAMS / family).is_dir():
        pytest.skip(f"{family} is not installed")
    if REAL_GPUS and gpus > real_gpu_count():
        pytest.skip(f"{gpus} GPUs are needed, {real_gpu_count()} are here")
    if not REAL_GPUS and BUILD["sim"] != "yes":
        pytest.skip("the simulated GPU is not built")
    if family == "mpich" and ranks > 2 and not REAL_GPUS:
        pytest.skip("more than 2 ranks of MPICH spin for too long on few cores")


def real_gpu_count():
    return len([name for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name)])


class Result:
    """What a run did: rc (None: over its limit), out, err, seconds, stats, launcher_hung."""

    def __init__(self, command, rc, out, err, seconds, launcher_hung=False):
        self.command, self.rc, self.out, self.err, self.seconds = command, rc, out, err, seconds
        self.launcher_hung = launcher_hung
        self.stats = read_stats(err + out)

    def __str__(self):
        end = "over its time limit" if self.rc is None else f"exit code {self.rc}"
        mean = " ".join(f"{name}={value}" for name, value in MEAN.items())
        return f"{' '.join(map(str, self.command))}\n{end} after {self.seconds:.1f} s, {mean}\n{self.out}\n{self.err}"

    def good(self):
        assert self.rc == 0, str(self)
        return self

    def silent(self):
        """shunt has said nothing but its statistics."""
        said = [line for line in self.err.splitlines() if re.search(r"\bshunt(:| \[)", line)]
        assert not [line for line in said if not re.search(r"statistics of|\]  ", line)], str(self)
        return self

    def checked(self):
        """The summary line of a checker, as a dict; fails if the run did, or if nothing was checked."""
        self.good()
        found = re.findall(r"^\w+: (ranks \d+ cases .*)$", self.out, re.M)
        assert len(found) == 1, str(self)
        words = found[0].split()
        summary = dict(zip(words[::2], map(int, words[1::2])))
        assert summary["failures"] == 0 and summary["cases"] > 0, str(self)
        return summary

    def ran(self, where, reason=None, local=False, hosted=None):
        """Every call on device memory of a checker is in the statistics, and ran `where`: gpu, staged, any, or the name
        of an algorithm. local: some were on communicators of one rank. reason: the only one of all staged. hosted: all or
        none of those on the GPUs went by host memory between some."""
        summary, stats = self.checked(), self.stats
        device = stats.gpu + stats.paths["staged"] + stats.paths["local"]
        assert device == summary["device"], str(self)
        assert stats.paths["host"] >= summary["host"], str(self)
        if where == "staged":
            assert stats.gpu == 0 and stats.paths["staged"] > 0, str(self)
        elif where != "any":
            assert stats.paths["staged"] == 0 and stats.gpu > 0, str(self)
        if where not in ("gpu", "staged", "any"):
            assert stats.paths[where] == stats.gpu, str(self)
        if not local:
            assert stats.paths["local"] == 0, str(self)
        if hosted is not None:
            assert stats.hosted == (stats.gpu if hosted else 0), str(self)
        if reason:
            assert set(stats.reasons) == {reason}, str(self)
        return self


class Stats:
    """paths: calls by path; reasons: staged calls by reason; processes: how many the sums are over; lingered: calls
    without a launch; hosted: calls by host memory between GPUs."""

    def __init__(self):
        self.paths, self.reasons, self.processes = collections.Counter(), collections.Counter(), 0
        self.lingered = self.hosted = 0

    @property
    def gpu(self):
        return sum(n for path, n in self.paths.items() if path not in ("host", "staged", "local"))


def read_stats(text):
    stats = Stats()
    for line in text.splitlines():
        if found := re.search(r"shunt \[.*\] statistics of (\d+) process", line):
            stats.processes += int(found[1])
        elif found := re.search(r"shunt \[.*\]\s+allreduce (\w+)\s+(\d+) calls?\s+\d+ bytes", line):
            stats.paths[found[1]] += int(found[2])
        elif found := re.search(r"shunt \[.*\]\s+allreduce: (\d+) staged: (.*)$", line):
            stats.reasons[found[2].strip()] += int(found[1])
        elif found := re.search(r"shunt \[.*\]\s+allreduce: (\d+) without a launch$", line):
            stats.lingered += int(found[1])
        elif found := re.search(r"shunt \[.*\]\s+allreduce: (\d+) by host memory between GPUs", line):
            stats.hosted += int(found[1])
    return stats


def by_name(result):
    """Calls on device memory without Allreduce, by name: (staged, on the GPUs). Each staged one must have its reason."""
    staged, reasons, ran = collections.Counter(), collections.Counter(), collections.Counter()
    for line in result.err.splitlines():
        if words := re.search(r"shunt \[.*\]\s+(\w+)\s+(\w+)\s+(\d+) calls", line):
            if words[1] != "allreduce" and words[2] != "host":
                (staged if words[2] == "staged" else ran)[words[1]] += int(words[3])
        elif words := re.search(r"shunt \[.*\]\s+(\w+): (\d+) staged: ", line):
            if words[1] != "allreduce":
                reasons[words[1]] += int(words[2])
    assert staged == reasons, str(result)
    return staged, ran


def lines_apart(start, settings):
    """Each process's lines go to a file of its own: launchers mix those of several, sometimes in the middle of a line."""
    with tempfile.TemporaryDirectory() as folder:
        result = start({**(settings or {}), "SHUNT_DEBUG_FILE": f"{folder}/%p"})
        result.err += "".join(path.read_text() for path in sorted(pathlib.Path(folder).iterdir()))
    result.stats = read_stats(result.err + result.out)
    return result


def staged(result):
    """Staged calls by name, where nothing but Allreduce runs on the GPUs."""
    found, ran = by_name(result)
    assert not ran, str(result)
    return found


# ---- starting ----

def preload_words():
    if not SANITIZE:
        return str(LIBRARY)
    asan = subprocess.run([*BUILD["cc"].split(), "-print-file-name=libasan.so"], capture_output=True, text=True,
                          check=True).stdout.strip()
    return f"{asan} {LIBRARY}"


def over_heap():
    """Settings, in place of a preload: what the program allocates is managed memory (heap.c), with shunt."""
    return {"LD_PRELOAD": f"{PROGRAMS / 'heap.so'} {preload_words()}"}


def program_path(family, program):
    return program if os.path.isabs(str(program)) else str(PROGRAMS / family / program)


class Block(typing.NamedTuple):
    """One block of `mpirun ... : ...`; settings: of its ranks alone."""
    ranks: int
    words: list  # program and arguments
    preload: bool = True
    settings: dict = {}

    def command(self, family, settings):
        """env sets what differs between blocks, and is not preloaded itself."""
        changes = [f"{name}={value}" for name, value in {**settings, **self.settings}.items()]
        if self.preload:
            changes.append(f"LD_PRELOAD={preload_words()}")
        program = program_path(family, self.words[0])
        return ["-n", str(self.ranks), "env", *changes, program, *map(str, self.words[1:])]


def launcher(family, words=()):
    command = [os.environ.get(f"CHECK_MPIRUN_{family}", BUILD["mpi"][family]["mpirun"])]
    if family == "openmpi":
        # Of Open MPI 5 the component for one-sided calls over UCX complains where there is no UCX
        command += ["--oversubscribe", "--bind-to", "none", *([] if "osc" in words else ["--mca", "osc", "^ucx"])]
        command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return command + list(words)


def simulation(preset, gpus, faults):
    if REAL_GPUS:
        if faults:
            pytest.skip("faults are injected by the simulated GPU alone")
        return []
    command = [str(PREFIX / "bin/shunt-sim"), "--preset", preset]
    if gpus:
        command += ["--gpus", str(gpus)]
    for fault in faults:
        command += ["--fault", fault]
    return command + ["--"]


def command(family, ranks=0, *words, preload=True, settings=None, gpus=None, preset=None, faults=(),
            launcher_words=(), blocks=None, stats=True, simulate=True):
    """The words that run `words` (program and arguments) on `ranks` ranks and as many GPUs, or on `gpus`.

    settings: environment of the ranks. blocks: instead of ranks and words, the blocks of one job, each as Block has it.
    """
    blocks = [Block(*block) for block in blocks or [(ranks, words, preload)]]
    ranks = sum(block.ranks for block in blocks)
    gpus = ranks if gpus is None else gpus
    need(family, ranks, gpus if REAL_GPUS else 0)
    # Simulated kernels begin late on a busy machine
    settings = {**({"SHUNT_STATS": "1"} if stats else {}), "SHUNT_ROOM_MS": "20000", "SHUNT_PROBE_MS": "20000", **MORE,
                **(settings or {})}
    if REAL_GPUS:
        settings.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    line = simulation(preset or ("h200x2" if gpus <= 2 else "dgx-h100"), gpus, faults) if simulate else []
    line += launcher(family, launcher_words)
    for i, block in enumerate(blocks):
        line += ([":"] if i else []) + block.command(family, settings)
    return list(map(str, line))  # for shells, too


def mpirun(*words, limit=60, shm="", **more):
    """Run command(...) within the limit. shm: options of the mount of /dev/shm, such as its size."""
    return run(command(*words, **more), limit, shm)


def environment(mark):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("SHUNT_", "OMPI_", "PMIX_", "PMI_", "LD_PRELOAD"))
           or (REAL_GPUS and name.startswith("OMPI_MCA_"))}  # how that machine starts processes
    env.update(MEAN)
    env[MARK] = mark
    if SANITIZE:
        env["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0:abort_on_error=0:exitcode=99"
        env["UBSAN_OPTIONS"] = "print_stacktrace=1"
    return env


def run(line, limit, shm=""):
    """Run to the end or to the limit, then see that nothing is left."""
    if shm and not may_unshare():
        pytest.skip("/dev/shm cannot be mounted here")
    line = [str(word) for word in line]
    for _ in range(HUNG_LAUNCHERS):
        result = run_once(line, limit, shm)
        if not result.launcher_hung:
            break
        warnings.warn(f"the launcher hung after its ranks had ended: {' '.join(line)}")
    return result


def run_once(line, limit, shm_options):
    mark, before, start = uuid.uuid4().hex, set(os.listdir("/dev/shm")), time.monotonic()
    words = ["unshare", "-m", "sh", "-c", PRIVATE_SHM, "sh"] if may_unshare() else []
    with temporary() as out, temporary() as err, temporary() as shm:
        process = subprocess.Popen(words + line, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**environment(mark), "SHM_OPTIONS": shm_options},
                                   start_new_session=True, pass_fds=(3,),
                                   preexec_fn=lambda: os.dup2(shm.fileno(), 3))
        rc = hung = None
        try:
            rc, hung = wait_for(process, limit, mark)
        finally:
            seconds = time.monotonic() - start
            stacks = describe(mark) if process.poll() is None else ""
            left = end_all(process, mark)
        out.seek(0), err.seek(0), shm.seek(0)
        result = Result(line, rc, out.read(), err.read() + stacks, seconds, hung)
        leaked = sorted(ours(shm.read().split())) if may_unshare() else leaked_files(before)
    assert not leaked and (not left or rc is None), f"left: files {leaked}, processes {left}\n{result}"
    return result


def wait_for(process, limit, mark, look=4):
    """(exit code, launcher hung?); the code is None at the limit, or when the launcher hangs.

    Open MPI's mpirun, which is never preloaded here, now and then waits for itself in PMIx_server_finalize once its
    ranks have ended, mostly after MPI_Abort. No rank is left then that could be to blame. look: seconds between looks.
    """
    end, alone = time.monotonic() + limit, 0
    while (left := end - time.monotonic()) > 0:
        try:
            return process.wait(min(left, look)), False
        except subprocess.TimeoutExpired:
            alone = alone + 1 if launcher_alone(mark) else 0
        if alone == 3:
            return None, True
    return None, False


def launcher_alone(mark):
    """Of a run, Open MPI's launcher is there, and nothing but its daemons and what it was started through."""
    names = set()
    for pid in marked(mark):
        try:
            names.add(os.path.basename(os.readlink(f"/proc/{pid}/exe")))
        except OSError:
            pass
    return "orterun" in names and names <= {"orterun", "orted", "dash", "bash", "unshare"}


def temporary():
    return tempfile.TemporaryFile("w+", errors="replace")


# ---- what is left ----

def marked(mark, name=MARK):
    """Processes of a run, wherever they have gone: {pid: command line}; or those with another name=mark in their environment."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"{name}={mark}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(pid)] = line.strip()
        except OSError:
            pass
    return {pid: line for pid, line in found.items() if line}  # a zombie has no command line


def describe(mark):
    """Where the threads of a run that is over its limit are, as far as the kernel tells."""
    lines = ["\nat the time limit:"]
    for pid, line in marked(mark).items():
        for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
            try:
                name, wchan = (task / "comm").read_text().strip(), (task / "wchan").read_text()
                state = (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
                lines.append(f"  {pid}/{task.name} {name} {state} {wchan}  {line[:100]}")
            except OSError:
                pass
    return "\n".join(lines) + backtraces(mark)


def backtraces(mark):
    text = ""
    for pid in list(marked(mark))[:12] if pathlib.Path("/usr/bin/gdb").exists() else []:
        done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)
        text += f"\n{pid}:\n" + done.stdout[-6000:]
    return text


def end_all(process, mark):
    """Ends what is still there; answers what was left after the process that was started had ended by itself."""
    ended_itself = process.poll() is not None
    left = wait_until_gone(mark, 3) if ended_itself else {}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in marked(mark):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        if process.poll() is None:
            process.send_signal(number)
        if not wait_until_gone(mark, 2):
            break
    process.wait()
    return left


def wait_until_gone(mark, seconds):
    end = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def leaked_files(before):
    """New files in /dev/shm that no process has mapped or open for a while; those of the host MPIs are left out."""
    leaked = ours(set(os.listdir("/dev/shm")) - before)
    for _ in range(8):
        if leaked:
            leaked -= in_use(leaked)
            time.sleep(0.25)
            leaked &= set(os.listdir("/dev/shm"))
    return sorted(leaked)


def ours(names):
    return {name for name in names if not name.startswith(HOST_FILES)}


# Run a command with a /dev/shm of its own, mounted with SHM_OPTIONS, then list to descriptor 3 what it has left there for 2 seconds
PRIVATE_SHM = """
mount -t tmpfs -o "mode=1777${SHM_OPTIONS:+,$SHM_OPTIONS}" none /dev/shm || exit 98
"$@" 3>&-
rc=$?
for i in 1 2 3 4 5 6 7 8; do [ -z "$(ls -A /dev/shm)" ] && break; sleep 0.25; done
ls -A /dev/shm >&3
exit $rc
"""


@functools.lru_cache
def may_unshare():
    """With a /dev/shm for each run, other jobs of this machine do not show in it."""
    words = ["unshare", "-m", "sh", "-c", PRIVATE_SHM, "sh", "true"]
    try:
        with tempfile.TemporaryFile() as shm:
            return subprocess.run(words, preexec_fn=lambda: os.dup2(shm.fileno(), 3), pass_fds=(3,), timeout=20,
                                  capture_output=True).returncode == 0
    except OSError:
        return False


def in_use(names):
    used = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "maps").read_text(errors="replace")
            text += "".join(os.readlink(fd) + "\n" for fd in (process / "fd").iterdir())
            used |= {name for name in names if f"/dev/shm/{name}" in text}
        except OSError:
            pass
    return used
