#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""All OSU benchmarks, unchanged, under shunt on simulated GPUs: what passes on host memory without shunt passes with it.

    builddir=BUILD osu.py FAMILY FOLDER [--ranks N] [--sizes MIN:MAX] [--limit SECONDS] [--osc COMPONENTS] [NAME ...]

FOLDER is osu-FAMILY as clients.sh has built it; a NAME is a part of a program's path; --osc: as in mpi4py_suite.py. Each program is asked what it can do, and
run in each of these forms that it has, with its own check of the data if it has one:

    cuda       device memory, point to point and one-sided on both sides
    managed    what they allocate for host memory is managed (heap.c), windows too: they ask for such memory themselves only
               where OSU is built with kernels, which simulated GPUs cannot run
    in place   on device memory
    vector     derived types of device memory, which OSU cannot check

Windows in device memory are refused, in words; that is counted apart.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import typing

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import harness  # noqa: E402
from suite import REFUSED, list_parser  # noqa: E402

VECTOR = ["-D", "vect:8:4"]
FEW = ["-i", "2", "-x", "1"]


class Form(typing.NamedTuple):
    name: str
    device: bool = False
    heap: bool = False  # what the program allocates is managed
    words: tuple = ()


def options_of(family, program):
    """The long options that it knows. (Some say so to two ranks only.)"""
    done = harness.mpirun(family, 2, program, "--help", preload=False)
    return set(re.findall(r"--([a-z-]+)", done.out + done.err))


def has_sides(program):
    return program.parent.parent.name == "pt2pt" or program.parent.name == "one-sided"


def words_of(program, options, form, sizes, graph):
    words = [*FEW, *form.words]
    words += ["-m", sizes] if "message-size" in options else []
    words += ["-c", "-u", "1"] if checks(options, form) else []
    words += ["-T", "mpi_float"] if "type" in options and "reduce" in program.name else []
    words += ["-N", f"graph:{graph}"] if "nhbr" in options else []
    words += ["-w", "create"] if form.heap and "win-options" in options else []
    words += ["-d", "cuda"] if form.device else []
    return words + (["D", "D"] if form.device and has_sides(program) else [])


def checks(options, form):
    return "validation-warmup" in options and form.name != "vector"  # one-sided ones know -c, and check nothing


def forms_of(options):
    if not options & {"accelerator", "validation", "ddt", "win-options"}:
        return []
    forms = [Form("managed", heap=True)]
    if "accelerator" in options:
        forms += [Form("cuda", True)]
        forms += [Form("in place", True, words=("-l",))] if "in-place" in options else []
        forms += [Form("vector", True, words=tuple(VECTOR))] if "ddt" in options else []
    return forms


def verdict(result, validates):
    """Nothing if it is good."""
    if REFUSED in str(result) and result.rc not in (0, None):
        return "refused"
    words = re.findall(r"\b(Pass|Fail)\b", result.out)
    if result.rc is None:
        return "over its time"
    return "" if result.rc == 0 and "Fail" not in words and (words or not validates) else "FAILED"


def run_form(family, program, options, form, args):
    """(what happened without shunt on host memory, what with it, the run)."""
    validates = checks(options, form) and "barrier" not in program.name
    words = ["--mca", "osc", args.osc] if args.osc else []
    host = words_of(program, options, form._replace(device=False), args.sizes, args.graph)
    without = harness.mpirun(family, args.ranks, program, *host, preload=False, limit=args.limit, launcher_words=words)
    more = {"preload": False, "settings": harness.over_heap()} if form.heap else {}
    result = harness.mpirun(family, args.ranks, program, *words_of(program, options, form, args.sizes, args.graph),
                            limit=args.limit + 5 * without.seconds, launcher_words=words, **more)
    return verdict(without, validates), verdict(result, validates), result


def where(result):
    staged, ran = harness.by_name(result)
    return (f"{sum(ran.values()) + result.stats.gpu} calls on the GPUs, "
            f"{sum(staged.values()) + result.stats.paths['staged']} staged")


def main():
    parser = list_parser(2)
    parser.add_argument("--sizes", default="16:1024")
    parser.add_argument("--osc", default="")
    args = parser.parse_intermixed_args()
    with tempfile.NamedTemporaryFile("w", suffix=".adj") as file:  # each rank's neighbour is the next
        file.writelines(f"{rank}, {(rank + 1) % args.ranks}\n" for rank in range(args.ranks))
        file.flush()
        args.graph = file.name
        return run_all(args)


def run_all(args):
    bad, rows = 0, []
    for program in sorted((args.folder / "c/mpi").resolve().rglob("osu_*")):
        if program.suffix or not program.is_file() or program.parent.name in (".libs", "startup") or (
                args.names and not any(name in str(program) for name in args.names)):
            continue
        options, cells = options_of(args.family, program), []
        for form in forms_of(options):
            without, found, result = run_form(args.family, program, options, form, args)
            failed = found not in ("", "refused") and not without
            bad += failed
            cells.append(f"{form.name}: " + (f"(without shunt {without}) " if without else "") + (found or where(result)))
            if failed:
                print(result)
        rows.append(f"| {program.parent.name}/{program.name} | {'; '.join(cells) or 'nothing to choose'} |")
        print(rows[-1], flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
