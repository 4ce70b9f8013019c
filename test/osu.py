#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""All OSU benchmarks, unchanged, under shunt on simulated GPUs: what passes on host memory without shunt passes with it.

    builddir=BUILD osu.py FAMILY FOLDER [--ranks N] [--sizes MIN:MAX] [--limit SECONDS] [NAME ...]

FOLDER is osu-FAMILY as clients.sh has built it; a NAME is a part of a program's path. Each program is asked what it can do, and
run in each of these forms that it has, with its own check of the data if it has one:

    cuda, managed      on that memory, point to point and one-sided on both sides
    in place           on device memory
    vector             derived types of device memory
    heap               those that take no device memory: what they allocate themselves is managed memory (heap.c)

Windows in device memory are refused, in words; that is counted apart.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import typing

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import harness  # noqa: E402
from suite import REFUSED  # noqa: E402

VECTOR = ["-D", "vect:8:4"]
FEW = ["-i", "2", "-x", "1"]


class Form(typing.NamedTuple):
    name: str
    memory: str  # cuda, managed, or nothing
    words: tuple = ()


def options_of(program):
    """The long options that it knows."""
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30)
    return set(re.findall(r"--([a-z-]+)", done.stdout + done.stderr))


def has_sides(program):
    return program.parent.parent.name == "pt2pt" or program.parent.name == "one-sided"


def words_of(program, options, form, sizes):
    words = [*FEW, *form.words]
    words += ["-m", sizes] if "message-size" in options else []
    words += ["-c", "-u", "1"] if "validation" in options else []
    words += ["-T", "mpi_float"] if "type" in options and "reduce" in program.name else []
    words += ["-d", form.memory] if form.memory else []
    if form.memory and has_sides(program) and program.name not in ("osu_mbw_mr", "osu_multi_lat"):
        words += ["D", "D"] if form.memory == "cuda" else ["M", "M"]
    return words


def forms_of(options):
    if "accelerator" not in options:
        return [Form("heap", "")] if options & {"validation", "ddt"} else []
    forms = [Form("cuda", "cuda"), Form("managed", "managed")]
    forms += [Form("in place", "cuda", ("-l",))] if "in-place" in options else []
    return forms + ([Form("vector", "cuda", tuple(VECTOR))] if "ddt" in options else [])


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
    host = words_of(program, options, form._replace(memory=""), args.sizes)
    words = words_of(program, options, form, args.sizes)
    checks = "validation" in options and "barrier" not in program.name
    without = harness.mpirun(family, args.ranks, program, *host, preload=False, limit=args.limit)
    if verdict(without, checks):
        return verdict(without, checks), "", without
    more = {"preload": False, "settings": harness.over_heap()} if form.name == "heap" else {}
    result = harness.mpirun(family, args.ranks, program, *words, limit=args.limit + 5 * without.seconds, **more)
    return "", verdict(result, checks), result


def where(result):
    staged, ran = harness.by_name(result)
    return (f"{sum(ran.values()) + result.stats.gpu} calls on the GPUs, "
            f"{sum(staged.values()) + result.stats.paths['staged']} staged")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=harness.FAMILIES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="4:1024")
    parser.add_argument("--limit", type=float, default=60)
    args = parser.parse_args()
    bad, rows = 0, []
    for program in sorted((args.folder / "c/mpi").resolve().rglob("osu_*")):
        if program.suffix or not program.is_file() or program.parent.name in (".libs", "startup") or (
                args.names and not any(name in str(program) for name in args.names)):
            continue
        options, cells = options_of(program), []
        for form in forms_of(options):
            without, found, result = run_form(args.family, program, options, form, args)
            bad += bool(found) and found != "refused"
            cells.append(f"{form.name}: " + (f"without shunt {without}" if without else found or where(result)))
            if found and found != "refused":
                print(result)
        rows.append(f"| {program.parent.name}/{program.name} | {'; '.join(cells) or 'nothing to choose'} |")
        print(rows[-1], flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
