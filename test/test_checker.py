# SPDX-License-Identifier: BSD-3-Clause
"""The checker itself, under the bare host MPI: it passes there, and it sees each way of being wrong."""
import os
import pathlib
import shutil
import subprocess

import pytest

from harness import MARK, PROGRAMS, mpirun, run, wait_for

HOST = ["--send", "H", "--recv", "H"]
MIXED = ["--type", "FLOAT,SHORT_INT,INT", "--op", "SUM,MINLOC", "--count", "1,9", "--data", "rough"]
LIES = {
    "element": "element 8 is",
    "first": "element 0 is",
    "silent": "element 0 is 0xc3c3c3c3, expected",
    "before": "receive buffer: byte -1 of the guard",
    "after": "receive buffer: byte 136 of the guard",
    "send": "byte 4 of the send buffer has changed",
    "bits": "the ranks hold different bits",
    "class": "error class",
    "errno": "errno has changed",
}


def bare(family, ranks, *words, **more):
    return mpirun(family, ranks, "check_allreduce", *HOST, *words, preload=False, simulate=False, stats=False, **more)


def test_all_types_and_operations(family):
    summary = bare(family, 2, "--type", "all", "--op", "all", "--count", "0,1,2,3,7,17,1025", "--data", "exact,rough",
                   "--place", "in,out", "--roff", "0,1e").checked()
    assert summary["cases"] > 5000


def test_all_communicators(family):
    bare(family, 2 if family == "mpich" else 5, "--comm",
         "world,dup,idup,split,reverse,undefined,group,create,merge,cart,self,inter", "--count", "0,1,100",
         "--place", "in,out", "--null").checked()


@pytest.mark.parametrize("words", [["--fresh"], ["--pmpi"], ["--thread"], ["--skew", "3", "--soff", "5"]])
def test_options(words):
    bare("openmpi", 2, "--count", "5", "--type", "all", "--op", "all", *words).checked()


def test_order_of_operands(family):
    """Two operands have one order; with three of wild magnitudes the host MPI's own differs from that of the ranks."""
    words = ["--ordered", "--type", "FLOAT,DOUBLE,C_FLOAT_COMPLEX", "--op", "SUM,PROD", "--count", "1000"]
    bare(family, 2, *words, "--data", "exact,rough").checked()
    if family == "openmpi":
        bare(family, 4, *words, "--data", "exact").checked()
        assert bare(family, 4, *words, "--data", "rough").rc == 1


def test_large_count_form():
    bare("mpich", 2, "--large", "--count", "5").checked()


@pytest.mark.parametrize("lie", LIES)
def test_lie_is_seen(lie):
    result = bare("openmpi", 2, *MIXED, "--errno" if lie == "errno" else "--fresh",
                  settings={"CHECK_LIAR": lie, "LD_PRELOAD": PROGRAMS / "openmpi/liar.so"})
    assert result.rc not in (0, None), str(result)
    assert LIES[lie] in result.out, str(result)
    assert "failures 0 " not in result.out, str(result)


def test_truth_is_believed(family):
    bare(family, 2, *MIXED, settings={"LD_PRELOAD": PROGRAMS / family / "liar.so"}).checked()


@pytest.mark.parametrize("words", [["--type", "FLOTE"], ["--op", "SUN"], ["--send", "Q"], ["--comm", "word"],
                                   ["--place", "on"], ["--no-such"], ["stray"]])
def test_misspelt_words_are_refused(words):
    result = run([PROGRAMS / "openmpi/check_allreduce", *words], 20)
    assert result.rc == 2 and result.err, str(result)


def test_random_cases_repeat():
    first, second = (bare("openmpi", 3, "--random", "300", "--seed", "5", "--type", "all", "--op", "all", "--comm",
                          "world,split,reverse", "--data", "exact,rough") for _ in range(2))
    assert first.checked() == second.checked()
    assert first.checked()["cases"] > 250


def test_failure_is_printed_so_that_it_can_be_repeated():
    lie = {"CHECK_LIAR": "element", "LD_PRELOAD": PROGRAMS / "openmpi/liar.so"}
    first = bare("openmpi", 2, "--random", "40", "--seed", "9", "--comm", "dup,reverse", "--type", "DOUBLE",
                 settings=lie)
    line = next(line for line in first.out.splitlines() if "FAIL rank 1" in line and "element" in line)
    again = mpirun("openmpi", 2, "check_allreduce", *line.split(": ")[1].split(), preload=False, simulate=False,
                   stats=False, settings=lie)
    assert line in again.out, f"{line}\n{again}"


def test_file_that_is_left_is_seen():
    with pytest.raises(AssertionError, match="left: files \\['left-by-a-test'\\]"):
        run(["sh", "-c", "echo something >/dev/shm/left-by-a-test"], 20)
    pathlib.Path("/dev/shm/left-by-a-test").unlink(missing_ok=True)


def test_process_that_is_left_is_seen():
    with pytest.raises(AssertionError, match="processes \\{\\d+: 'sleep 1234'\\}"):
        run(["sh", "-c", "setsid sleep 1234 >/dev/null 2>&1 & sleep 0.2"], 20)


def test_limit_ends_everything():
    result = run(["sh", "-c", "setsid sleep 1235 & echo started; trap '' TERM; sleep 1236; sleep 1237"], 1)
    assert result.rc is None and "started" in result.out and result.seconds < 10
    commands = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if command.startswith(b"sleep\x00123")]


@pytest.mark.parametrize("line, said", [
    ("shunt: allreduce: the ranks do not match", True),
    ("shunt [host:7 rank 0] cuda: something", True),
    ("shunt [host] statistics of 2 processes:", False),
    ("shunt [host]   allreduce host       12 calls     4096 bytes", False),
    ("shunt-sim: something", False),
])
def test_words_of_shunt_are_heard(line, said):
    result = run(["sh", "-c", f"echo '{line}' >&2"], 20)
    if said:
        with pytest.raises(AssertionError, match="something|match"):
            result.silent()
    else:
        assert result.silent().rc == 0


@pytest.mark.parametrize("ranks", [True, False])
def test_launcher_that_hangs_alone_is_seen(ranks, tmp_path):
    """And not taken for that while one of its ranks is there."""
    mark = f"launcher-{os.getpid()}-{ranks}"
    launcher = shutil.copy("/bin/sh", tmp_path / "orterun")
    script = "sleep 20 & wait" if ranks else "while read line; do :; done"
    process = subprocess.Popen([launcher, "-c", script], env={**os.environ, MARK: mark}, stdin=subprocess.PIPE)
    try:
        assert wait_for(process, 2, mark, look=0.1) == (None, not ranks)
    finally:
        subprocess.run(["pkill", "-P", str(process.pid)], check=False)
        process.kill()
        process.wait()
        process.stdin.close()
