#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPICH's test suite, unchanged, under shunt on simulated GPUs: no test that passes without shunt may fail with it.

    builddir=BUILD suite.py FAMILY SUITE [--ranks N] [--limit SECONDS] [--forms FORM,...] [--report FILE] [TEST ...]

SUITE is what clients.sh has built; a TEST is a folder or a program (coll, coll/allred). Each line of the suite's lists is run
on host memory without shunt, and, if it passes, with shunt in each FORM:

    plain    on host memory as it is
    managed  what the program itself allocates is managed memory (heap.c)
    memory   tests that can ask for kinds of memory: on several mixtures of device, managed, pinned and host memory
    two      on two of these
"""
import argparse
import collections
import pathlib
import re
import sys
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import harness  # noqa: E402

FOLDERS = ["coll", "pt2pt", "datatype", "rma", "topo", "io", "errors/coll", "errors/pt2pt", "errors/datatype", "errors/rma",
           "errors/topo", "errors/io"]
FORMS = ["plain", "managed", "memory"]
# Two sides of a call: the kinds of memory of each mixture
MIXTURES = [("device", "host"), ("shared", "device"), ("device", "device"), ("reg_host", "device"), ("shared", "shared")]

# Tests of random datatypes: fewer and smaller ones, and in buffers of less than 256 MB, which are copied as a whole
FEWER = [(r"^-testsize(s?)=.*", r"-testsize\1=4"), (r"^-counts=.*", "-counts=1,17,512")]
ROOM = {"MPITEST_MAXBUFFER": str(4 << 20)}


class Test(typing.NamedTuple):
    folder: str
    program: str
    ranks: int
    words: tuple
    skipped: str  # why it is not run, or nothing

    @property
    def name(self):
        return f"{self.folder}/{self.program}"

    def __str__(self):
        return " ".join([self.name, str(self.ranks), *self.words])


def read_line(folder, line, most):
    """A line is PROGRAM RANKS KEY=VALUE..., of which arg= comes several times."""
    program, ranks, *pairs = line.split()
    pairs = [pair.partition("=")[::2] for pair in pairs]
    keys = {key for key, _ in pairs}
    skipped = ("more than a GB of memory" if "mem" in keys else
               "known to fail in MPICH" if "xfail" in keys else
               "judged by more than its exit" if "resultTest" in keys else
               "settings of MPICH" if "env" in keys else "")
    return Test(folder, program, min(int(ranks), most), tuple(value for key, value in pairs if key == "arg"), skipped)


def without_kinds(test):
    """Kinds of memory are ours to choose."""
    if "-memtype=all" in test.words:  # of lists for GPUs, for their settings; elsewhere such a test is listed with its counts
        return test._replace(words=(), skipped="" if test.program.endswith("_gpu") else "listed twice")
    words = [word for word in test.words if not re.match(r"-\w*mem(type)?=", word)]
    for pattern, by in FEWER:
        words = [re.sub(pattern, by, word) for word in words]
    return test._replace(words=tuple(words))


def read_tests(suite, most):
    tests = []
    for folder in FOLDERS:
        for name in ["testlist", "testlist.gpu"]:
            path = suite / folder / name
            lines = path.read_text().splitlines() if path.exists() else []
            for line in lines:
                if line.strip() and not line.startswith("#") and line.split()[1].isdigit():
                    tests.append(without_kinds(read_line(folder, line, most)))
    return list(dict.fromkeys(tests))


def mixtures(suite, test):
    """The words that ask for kinds of memory, for each mixture; nothing where the test has none."""
    folder = suite / test.folder
    other = re.search(rf"^{test.program}_SOURCES *= *(\w+\.c)$", (folder / "Makefile.am").read_text(), re.M)
    source = folder / (other[1] if other else f"{test.program}.c")
    text = source.read_text(errors="replace") if source.exists() else ""
    if "MTEST_DTP_PT2PT" in text:
        return [(f"-sendmem={a}", f"-recvmem={b}") for a, b in MIXTURES]
    if "MTEST_DTP_COLL" in text or "MTEST_COLL_" in text:
        return [(f"-evenmemtype={a}", f"-oddmemtype={b}") for a, b in MIXTURES]
    if "MTEST_DTP_RMA" in text:  # windows are in host memory
        return [(f"-origmem={a}",) for a in ("device", "shared", "reg_host")]
    if "MTEST_DTP_GACC" in text:
        return [(f"-origmem={a}", f"-resultmem={b}") for a, b in MIXTURES[:4]]
    return []


def runs(suite, test, forms):
    """What is run with shunt: (form, more words of the program, more settings)."""
    for form in forms:
        if form in ("memory", "two"):
            yield from ((" ".join(words), words, {}) for words in mixtures(suite, test)[:2 if form == "two" else None])
        else:
            yield form, (), harness.over_heap() if form == "managed" else {}


def run(family, suite, test, words, settings, limit, preload=True):
    """Did it pass? And what it did."""
    preload = preload and "LD_PRELOAD" not in settings
    line = harness.command(family, test.ranks, suite / test.folder / test.program, *test.words, *words, preload=preload,
                           settings={**ROOM, **settings})
    # The programs of a folder read files there
    try:
        result = harness.run(["env", "-C", suite / test.folder, *line], limit)
    except AssertionError as left:  # processes or files
        return False, left
    return result.rc == 0 and bool(re.search(r"No [Ee]rrors", result.out)), result


REFUSED = "windows in device memory are not supported"
SLOW = "over its time limit"  # some make 100,000 calls, each of which takes simulated GPUs milliseconds: see what it does


class Row:
    """Of one line of a list: without shunt, and by form what became of it with shunt: nothing, REFUSED or the failure."""

    def __init__(self, test, without):
        self.test, self.without, self.found, self.results = test, without, {}, {}

    def failed(self):
        return {form: text for form, text in self.found.items() if text not in ("", REFUSED)}


def run_test(family, suite, test, forms, limit):
    if test.skipped:
        return Row(test, test.skipped)
    if not (suite / test.folder / test.program).exists():
        return Row(test, "not built")
    passed, result = run(family, suite, test, (), {}, limit / 2, preload=False)
    seconds = getattr(result, "seconds", 0)
    row = Row(test, "passed" if passed else "over its time" if getattr(result, "rc", 0) is None else "failed")
    if passed:
        for form, words, settings in runs(suite, test, forms):
            good, result = run(family, suite, test, words, settings, limit + 3 * seconds)
            refused = REFUSED in str(result) and getattr(result, "rc", None) is not None
            row.found[form] = "" if good else REFUSED if refused else str(result)
            row.results[form] = result
    return row


def table(rows):
    """By folder: lines, why they were not run, runs and failures by form."""
    lines = ["| folder | lines | not run with shunt | plain | managed | kinds of memory |", "|---|---|---|---|---|---|"]
    for folder in dict.fromkeys(row.test.folder for row in rows):
        here = [row for row in rows if row.test.folder == folder]
        without = collections.Counter(row.without for row in here if row.without != "passed")
        cells = []
        for form in FORMS:
            found = [text for row in here for name, text in row.found.items()
                     if name == form or (form == "memory" and name.startswith("-"))]
            refused, slow = found.count(REFUSED), sum(SLOW in text for text in found)
            bad = sum(map(bool, found)) - refused - slow
            cells.append(f"{len(found) - refused} runs, {bad} failed" + (f", {slow} over their time" if slow else "")
                         + (f"; {refused} refused" if refused else "") if found else "")
        why = ", ".join(f"{n} {word}" for word, n in sorted(without.items()))
        lines.append(f"| {folder} | {len(here)} | {why} | {' | '.join(cells)} |")
    return lines


def list_parser(ranks):
    """Of programs that run lists: the MPI, the folder of what is built, names of which to run, how."""
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=harness.FAMILIES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ranks", type=int, default=ranks)
    parser.add_argument("--limit", type=float, default=60)
    return parser


def main():
    parser = list_parser(0)
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    suite, most = options.folder.resolve(), options.ranks or (4 if options.family == "openmpi" else 2)
    rows, start = [], time.monotonic()
    for test in read_tests(suite, most):
        if options.names and not {test.folder, test.name} & set(options.names):
            continue
        row = run_test(options.family, suite, test, options.forms.split(","), options.limit)
        rows.append(row)
        print(f"{time.monotonic() - start:6.0f} s  {test}: {row.without}, {list(row.found.values()).count('')} good"
              + "".join(f", FAILED {form}" for form in row.failed()), flush=True)
        if options.report:
            options.report.write_text("\n".join(table(rows) + ["", *report_failures(rows)]) + "\n")
    print("\n".join(table(rows)))
    return any(row.failed() for row in rows)


def report_failures(rows):
    for row in rows:
        for form, text in row.failed().items():
            yield f"{row.test} {form}\n{text}\n"


if __name__ == "__main__":
    sys.exit(main())
