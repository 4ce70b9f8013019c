#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own tests under shunt, all of them: on host memory each module ends as without shunt, and on arrays in device
memory it passes.

    builddir=BUILD mpi4py_suite.py FAMILY KIND [--limit SECONDS] [--osc COMPONENTS] [MODULE ...]

KIND is host, or a kind of array that device_arrays.py knows: interface, dlpack, cupy.

--osc: Open MPI's components for one-sided calls; where osc/rdma emulates atomics over shared memory, Open MPI 4.1.4 crashes.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from device_arrays import KINDS  # noqa: E402
from harness import BUILDDIR, FAMILIES, PREFIX, PROGRAMS, by_name, mpirun, read_stats  # noqa: E402

HERE = pathlib.Path(__file__).parent
NEVER = ["test_spawn", "test_dynproc", "test_util_pool", "test_doc"]  # processes, which one machine of few cores refuses
DEVICE = ["test_cco_buf", "test_cco_buf_inter", "test_cco_nb_buf", "test_cco_nb_vec", "test_cco_ngh_buf", "test_cco_pr_buf",  # all that use arrays
          "test_cco_pr_ngh_buf", "test_cco_pr_vec", "test_cco_vec", "test_cco_vec_inter", "test_io", "test_p2p_buf",
          "test_p2p_buf_matched", "test_p2p_buf_part", "test_pack", "test_rma", "test_rma_nb"]


class Absent(Exception):
    """What cannot be fetched."""


def pip(*words):
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        raise Absent("absent archive: mpi4py cannot be fetched: " + done.stderr.strip().splitlines()[-1])


def fetch(builddir=BUILDDIR, python=None):
    """The folder of the tests, of the release that is installed in build/mpi4py, which comes without them. python: the
    version for which it is installed, if not this one."""
    wheel, source = builddir / "mpi4py", builddir / "mpi4py-source"
    if not (wheel / "mpi4py").is_dir():
        pip("install", "-q", "--only-binary", ":all:", *(["--python-version", python] if python else []), "--target", wheel,
            "mpi4py>=4.1")
    version = re.search(r"mpi4py-([\d.]+)\.dist-info", " ".join(os.listdir(wheel)))[1]
    folder = source / f"mpi4py-{version}/test"
    if not folder.is_dir():
        shutil.rmtree(source, ignore_errors=True)
        pip("download", "-q", "--no-deps", "--no-binary", "mpi4py", "-d", source, f"mpi4py=={version}")
        with tarfile.open(next(source.glob("*.tar.gz"))) as archive:
            archive.extractall(source)
    return folder


def library_of(family, folder):
    """Settings with which mpi4py takes this MPI: its library by the name that mpi4py asks for, in `folder`."""
    ldd = subprocess.run(["ldd", PROGRAMS / family / "check_errors"], capture_output=True, text=True, check=True, timeout=30)
    name, path = re.search(r"(libmpi(?:ch)?\.so\.\d+) => (\S+)", ldd.stdout).groups()
    if "mpich" in name:
        (folder / name.replace("mpich", "mpi")).symlink_to(path)
    else:  # with the libraries that it finds beside itself
        folder = pathlib.Path(path).parent
    folders = [folder, PREFIX / "lib/shunt/sim", *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {"PYTHONPATH": BUILDDIR / "mpi4py", "MPI4PY_MPIABI": family, "LD_LIBRARY_PATH": ":".join(map(str, folders))}


def run_tests(family, library, program, names, preload=True, limit=170, settings=None, launcher_words=()):
    """What the tests of one rank have come to: words like "Ran 70 tests", "OK (skipped=3)"; all ranks alike."""
    words = ["-q", "--no-threads", *(word for name in names for word in ("-i", name)),
             *(word for name in NEVER for word in ("-e", name))]
    with tempfile.TemporaryDirectory() as folder:  # a launcher may mix what two ranks say in the middle of a line
        result = mpirun(family, 2, "/bin/sh", "-c", f'exec "$@" 2>{folder}/$$', "sh", sys.executable, *program, *words,
                        preload=preload, settings={**library, **(settings or {})}, limit=limit, launcher_words=launcher_words)
        result.err += "".join(path.read_text() for path in sorted(pathlib.Path(folder).iterdir()))
    result.stats = read_stats(result.err + result.out)
    ends = re.findall(r"^(Ran \d+ tests?) in \S+\n\n((?:OK|FAILED|NO TESTS RAN).*)$", result.err, re.M)
    return set(ends), result


def on_device(family, library, tests, names, kind="interface", **more):
    """(what they have come to, the run, whether that is good). Tests that find no kind of array pass without a call."""
    ends, result = run_tests(family, library, [HERE / "device_arrays.py", kind, tests], names, **more)
    passed = result.rc == 0 and ends and all(end.startswith("OK") for _, end in ends)
    return ends, result, passed and (calls_of(result) != (0, 0) or all(is_skipped(*end) for end in ends))


def calls_of(result):
    """(on the GPUs, staged)"""
    staged, ran = by_name(result)
    return sum(ran.values()) + result.stats.gpu, sum(staged.values()) + result.stats.paths["staged"]


def is_skipped(ran, end):
    """All of them: this MPI lacks what they test."""
    return re.findall(r"skipped=(\d+)", end) == re.findall(r"Ran (\d+)", ran)


def words_of(ends, result):
    return "; ".join(sorted(f"{ran}: {end}" for ran, end in ends)) or ("over its time" if result.rc is None else f"exit code {result.rc}")


def run_module(args, library, tests, name):
    """Its row, and the run where it is not good."""
    more = {"limit": args.limit, "launcher_words": ["--mca", "osc", args.osc] if args.osc else []}
    if args.kind != "host":
        ends, result, good = on_device(args.family, library, tests, [f"{name}.py"], args.kind, **more)
        return f"{words_of(ends, result)} | {' | '.join(map(str, calls_of(result)))}", None if good else result
    without, alone = run_tests(args.family, library, [tests / "main.py"], [f"{name}.py"], preload=False, **more)
    ends, result = run_tests(args.family, library, [tests / "main.py"], [f"{name}.py"], **more)
    if not without:
        return f"without shunt {words_of(without, alone)} | {words_of(ends, result)}", None
    same = ends == without
    return words_of(without, alone) + " | " + ("the same" if same else words_of(ends, result)), None if same else result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("kind", choices=["host", *KINDS])
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--osc", default="")
    args = parser.parse_intermixed_args()
    tests, bad = fetch(), 0
    every = DEVICE if args.kind != "host" else sorted(path.stem for path in tests.glob("test_*.py"))
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(args.family, pathlib.Path(folder))
        for name in args.modules or [name for name in every if name not in NEVER]:
            row, result = run_module(args, library, tests, name)
            print(f"| {name} | {row} |" + (f"\nNOT GOOD\n{result}" if result else ""), flush=True)
            bad += result is not None
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
